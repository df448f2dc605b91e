"""Stage A of a dynamic PE: the operation, and when its result is written."""

from collections.abc import Mapping

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import OP_BITS
from ....overlay.core.ops import OP_CLASS, Op
from ...arith.format import Format
from .alu import Alu
from .layouts import due_layout, result_layout, trigger_layout


class Operate(wiring.Component):
    """Issues what triggers, and writes its result some cycles later.

    Parameters
    ----------
    node : Shape
        Of a local address.
    form : Format
        Of the values.
    latencies : mapping of str to int
        Cycles of each class of operations.
    with_alu : bool
        Without it, operands and results are ports.
    deep : bool
        Its units have their deep pipelines.
    registered : bool
        Its operands pass a register.
    timed : int
        Bits of ``i.when``; 0 if it is not told.
    shared : bool
        Contexts have the ALU and its results before it. Only without ALU.

    Members
    -------
    i : In(trigger_layout(node, width))
        What triggers.
    issue : Out(1)
        It is issued.
    coming : Out(due_layout(node))
        The node whose result is written in the next cycle.
    o : Out(result_layout(node, width))
        The result that is written.
    busy : Out(1)
        An operation has begun in an earlier cycle, and is not written yet, or is now.
    alu_op, alu_a, alu_b : Out; alu_o : In
        Only without ALU.
    free : In
        Only if ``shared``: for each latency, shortest first, whether an operation of it may begin.

    Timing
    ------
    A result is written its class's latency, less one, after its issue. What would be written in the
    same cycle as an earlier one waits. Source: docs/overlay.md section 3, A.
    """

    def __init__(
        self,
        *,
        node: Shape,
        form: Format,
        latencies: Mapping[str, int],
        with_alu: bool = True,
        deep: bool = False,
        registered: bool = False,
        timed: int = 0,
        shared: bool = False,
    ):
        self.latencies = latencies
        self.ends = sorted(set(latencies.values()))
        self.timed = timed
        self._form = form
        self._due = data.StructLayout({"valid": 1, "node": node, "shut": 1})
        width = form.width
        self._alu = None
        if with_alu:
            self._alu = Alu(form=form, latencies=latencies, deep=deep, registered=registered)
        outside = {
            "alu_op": Out(OP_BITS),
            "alu_a": Out(width),
            "alu_b": Out(width),
            "alu_o": In(width),
        }
        super().__init__(
            {
                "i": In(trigger_layout(node, width, timed=timed)),
                "issue": Out(1),
                "coming": Out(due_layout(node)),
                "o": Out(result_layout(node, width)),
                "busy": Out(1),
                **({} if with_alu else outside),
                **({"free": In(len(self.ends))} if shared else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if self._alu is not None:
            m.submodules.alu = alu = self._alu
            m.d.comb += [
                alu.en.eq(self.issue),
                alu.op.eq(self.i.op),
                alu.a.eq(self.i.left),
                alu.b.eq(self.i.right),
                self.o.value.eq(alu.o),
            ]
        else:
            m.d.comb += [
                self.alu_op.eq(Mux(self.issue, self.i.op, 0)),
                self.alu_a.eq(self.i.left),
                self.alu_b.eq(self.i.right),
                self.o.value.eq(self.alu_o),
            ]
        shut = Signal()
        if "switch" in self.latencies:
            zero = Signal()
            m.d.comb += [
                zero.eq(self._form.is_zero(self.i.left)),
                shut.eq(Mux(zero, self.i.op == Op.THEN, self.i.op == Op.ELSE)),
            ]
        if max(self.latencies.values()) == 1:
            m.d.comb += [
                self.issue.eq(self.i.valid & (self.free if hasattr(self, "free") else 1)),
                self.o.valid.eq(self.issue),
                self.o.node.eq(self.i.node),
                self.o.shut.eq(shut),
                self.coming.valid.eq(self.i.fires),
                self.coming.node.eq(self.i.next_node),
            ]
        else:
            self._queue(m, shut)
        return m

    def _queue(self, m: Module, shut: Signal) -> None:
        """Queue of the results due in each of the next cycles."""
        deepest = max(self.latencies.values())
        due = [Signal(self._due, name=f"due{k}") for k in range(deepest)]  # k cycles from now
        taken = Signal(deepest)
        lands = Signal(deepest)  # one-hot: when the result of the trigger is written
        with m.Switch(self.i.op):
            for name, latency in self.latencies.items():
                with m.Case(*(op for op in Op if OP_CLASS.get(op) == name)):
                    m.d.comb += lands.eq(1 << latency - 1)
        meets = Signal()  # an earlier result is written in the same cycle
        if self.timed:
            blocked = [taken[latency - 1] for latency in self.ends]
            if hasattr(self, "free"):
                blocked = [b | ~f for b, f in zip(blocked, self.free, strict=True)]
            m.d.comb += meets.eq(Array(blocked)[self.i.when])
        else:
            m.d.comb += meets.eq((lands & taken).any())
        m.d.comb += [
            taken.eq(Cat(entry.valid for entry in due)),
            self.issue.eq(self.i.valid & ~meets),
            self.o.valid.eq(due[0].valid),
            self.o.node.eq(due[0].node),
            self.o.shut.eq(due[0].shut),
            self.busy.eq(taken.any()),
        ]
        for k in range(deepest):
            last = k + 1 == deepest
            after = Signal(self._due, name=f"due_next{k}")
            m.d.comb += after.eq(Const(0, self._due.size) if last else due[k + 1])
            if not last:
                with m.If(self.issue & lands[k + 1]):
                    m.d.comb += [after.valid.eq(1), after.node.eq(self.i.node), after.shut.eq(shut)]
            m.d.sync += due[k].eq(after)
            if k == 0:
                m.d.comb += [self.coming.valid.eq(after.valid), self.coming.node.eq(after.node)]
