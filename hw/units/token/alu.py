"""The arithmetic of a token PE."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import OP_BITS
from ....overlay.core.ops import OP_CLASS, Op
from ...arith.add import Add
from ...arith.div import divider
from ...arith.exp import Exp
from ...arith.format import Format
from ...arith.lane import Lane
from ...arith.log import Log
from ...arith.mul import Mul
from ...arith.sqrt import Sqrt
from ..delay import delay
from .compare import COMPARE_DEEP, COMPARE_STAGES, compare_steps


class Compare(Lane):
    """LT, LE, EQ, GATE and JOIN, chosen by ``op``.

    Members
    -------
    op : In(OP_BITS)
        The operation, with the operands. Others: see
        :class:`~penstock.hw.arith.lane.Lane`.

    Timing
    ------
    Combinational (``STAGES`` = 1), or pipelined 2, deep 3.
    """

    STAGES = COMPARE_STAGES

    DEEP = COMPARE_DEEP

    def __init__(self, *, form: Format, pipelined: bool, deep: bool = False):
        self.form = form
        super().__init__(arity=2, width=form.width, pipelined=pipelined, deep=deep)
        self.op = Signal(OP_BITS)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        m.d.comb += self.o.eq(compare_steps(m, stages, self.op, self.a, self.b, self.form))
        assert stages.count == self.STAGES
        return m


class Pass(Lane):
    """THEN and ELSE, which pass ``b``, and MERGE, which passes ``a``; chosen by ``op``.

    Members
    -------
    op : In(OP_BITS)
        The operation, with the operands. Others: see
        :class:`~penstock.hw.arith.lane.Lane`.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, form: Format, pipelined: bool, deep: bool = False):
        super().__init__(arity=2, width=form.width, pipelined=False)
        self.op = Signal(OP_BITS)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(Mux(self.op == Op.MERGE, self.a, self.b))
        return m


UNITS = {
    "add": lambda form, **how: Add(form=form, **how),
    "mul": lambda form, **how: Mul(form=form, **how),
    "div": lambda form, **how: divider(form, **how),
    "sqrt": lambda form, **how: Sqrt(form=form, **how),
    "exp": lambda form, **how: Exp(**how),
    "log": lambda form, **how: Log(**how),
    "compare": lambda form, **how: Compare(form=form, **how),
    "switch": lambda form, **how: Pass(form=form, **how),
}
"""Makes the unit of each class of operations."""


class Alu(wiring.Component):
    """One unit per class of operations, side by side; results leave through one port.

    Parameters
    ----------
    form : Format
        Of operands and results.
    latencies : Mapping[str, int]
        Class of operations -> latency in cycles, for the classes this ALU has. 1 takes the unit
        without registers; else at least the unit's stages.
    deep : bool
        Units of latency above 1 have their deep pipelines.
    registered : bool
        Operands pass a register first, which is one of the latency's cycles.

    Members
    -------
    en : In(1)
        An operation enters in this cycle.
    op : In(OP_BITS)
    a, b : In(width)
        Operands; a unary operation is on ``a``.
    o : Out(width)
        The result; 0 when there is none.

    Timing
    ------
    The result of an operation of latency l that enters at c is on ``o``
    at c + l - 1. An operation may enter every cycle; two whose results
    meet are the user's mistake. Source: docs/overlay.md section 3, A.
    """

    def __init__(
        self,
        *,
        form: Format,
        latencies: Mapping[str, int],
        deep: bool = False,
        registered: bool = False,
    ):
        self.form = form
        self.registered = registered
        self.latencies = dict(latencies)
        self.units = {}
        for name, latency in self.latencies.items():
            unit = self.units[name] = UNITS[name](
                form, pipelined=latency > 1, deep=deep and latency > 1
            )
            least = unit.STAGES + registered
            if latency < least:
                unit._MustUse__silence = True
                raise ValueError(
                    f"Latency of '{name}' must be {'' if registered else '1 or '}at least {least}, "
                    f"not {latency!r}"
                )
        self._operands = data.StructLayout(
            {"en": 1, "op": OP_BITS, "a": form.width, "b": form.width}
        )
        super().__init__(
            {
                "en": In(1),
                "op": In(OP_BITS),
                "a": In(form.width),
                "b": In(form.width),
                "o": Out(form.width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given = Cat(self.en, self.op, self.a, self.b)
        taken = Signal(self._operands)
        if self.registered:
            m.d.sync += taken.eq(given)
        else:
            m.d.comb += taken.eq(given)
        results = []
        for name, unit in self.units.items():
            m.submodules[name] = unit
            mine = Signal(name=f"is_{name}")
            with m.Switch(taken.op):
                with m.Case(*(op for op in Op if OP_CLASS.get(op) == name)):
                    m.d.comb += mine.eq(taken.en)
            m.d.comb += [unit.en.eq(mine), unit.a.eq(taken.a)]
            if name == "add":
                m.d.comb += unit.b.eq(Cat(taken.b[:-1], taken.b[-1] ^ (taken.op == Op.SUB)))
            elif "b" in unit.signature.members:
                m.d.comb += unit.b.eq(taken.b)
            if name in ("compare", "switch"):
                m.d.comb += unit.op.eq(taken.op)
            wait = self.latencies[name] - 1 - self.registered
            result = delay(m, unit.o, wait + 1 - unit.STAGES, name=f"{name}_late", reset_less=True)
            results.append(Mux(delay(m, mine, wait, name=f"{name}_due"), result, 0))
        m.d.comb += self.o.eq(_any(results))
        return m


def _any(values: list[Value]) -> Value:
    """The bitwise or, as a balanced tree."""
    while len(values) > 1:
        values = [
            values[k] | values[k + 1] if k + 1 < len(values) else values[k]
            for k in range(0, len(values), 2)
        ]
    return values[0]
