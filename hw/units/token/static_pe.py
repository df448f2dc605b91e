"""The statically scheduled PE: a memory of contexts says what it does in every cycle."""

from collections.abc import Iterable, Mapping

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Member, Out

from ....overlay.core.config import (
    MEMORIES,
    OP_BITS,
    WRITE_NET,
    WRITE_NONE,
    Overlay,
    Sizes,
    bits_for,
    memories,
    registers,
)
from ...arith.format import FP32, FP64
from ...noc.token import ram_attributes, struct
from ...ram import read_port
from .alu import Alu
from .layouts import host_layout, put_layout


class StaticPE(wiring.Component):
    """A PE that follows a schedule: no tokens, no presence, no addresses on the network.

    Parameters
    ----------
    overlay : Overlay
        Format and latencies.
    sizes : Sizes
        With ``overlay``, the depths of the memories.
    classes : iterable of str
        Classes of operations that the ALU does.
    with_alu : bool
        Without it, operands and results are ports: the PE's own logic, to be counted apart.
    probed : bool
        With it, the port ``probe`` shows every write to the value memory.
    context_ram : str
        Kind of memory for the contexts: see
        :class:`~penstock.hw.noc.tm_switch.TimeMultiplexedSwitch`.

    Members
    -------
    host : In(host_layout(overlay, sizes))
        Loads memories and registers, while idle.
    look : In
        Address of ``value`` to be read, while idle.
    value : Out(width)
        What was read, a cycle later.
    restart : In(1)
        High for ``RESTART_CYCLES`` before a run.
    running : In(1)
        High during a run.
    done : Out(1)
        All contexts have passed; nothing is written any more.
    fetch : Out
        Address of the context that holds two cycles later, for the switch.
    i : In(width)
        What the switch delivers.
    o : Out(width)
        The value sent.
    alu_op, alu_a, alu_b : Out; alu_o : In
        Only without ALU.
    probe : Out(put_layout(specs["value"]))
        Only if ``probed``: the write port of the value memory, in the cycle of the write.

    Timing
    ------
    A context is fetched four cycles before it holds. Its values are read two cycles before, and a
    memory's output goes to a register. A result stands in a register before it is written to
    memory. What memory does not have yet is seen, by comparisons made before. Nothing stalls.
    Source: docs/overlay.md section 6 (DFM 2014, figure 2a).
    """

    RESTART_CYCLES = 4

    def __init__(
        self,
        *,
        overlay: Overlay,
        sizes: Sizes,
        classes: Iterable[str],
        with_alu: bool = True,
        context_ram: str | None = None,
        probed: bool = False,
    ):
        self.overlay = overlay
        self.with_alu = with_alu
        self.probed = probed
        self.latencies = {name: overlay.latency(name) for name in classes}
        self.specs = specs = memories(overlay, sizes)
        self.form = {"fp32": FP32, "fp64": FP64}[overlay.format]
        self._contexts, self._values = (
            Memory(
                shape=struct(specs[name].layout),
                depth=specs[name].depth,
                init=[],
                attrs=ram_attributes(style),
            )
            for name, style in (("context", context_ram), ("value", None))
        )
        width = overlay.width
        self._written = [Signal(width, name=f"written{k}") for k in (1, 2, 3)]  # so many cycles ago
        alu = (
            {}
            if with_alu
            else {
                "alu_op": Out(OP_BITS),
                "alu_a": Out(width),
                "alu_b": Out(width),
                "alu_o": In(width),
            }
        )
        super().__init__(
            {
                "host": In(host_layout(overlay, sizes)),
                "look": In(bits_for(specs["value"].depth)),
                "value": Out(width),
                "restart": In(1),
                "running": In(1),
                "done": Out(1),
                "fetch": Out(bits_for(specs["context"].depth)),
                "i": In(width),
                "o": Out(width),
                **alu,
                **({"probe": Out(put_layout(specs["value"]))} if probed else {}),
                **self._further(),
            }
        )

    def _further(self) -> dict[str, Member]:
        """Ports of a PE that is more than this."""
        return {}

    def elaborate(self, platform):
        m = Module()
        m.submodules.contexts = self._contexts
        m.submodules.values = self._values
        host = self.host
        numbers = {name: k for k, name in enumerate(MEMORIES[self.overlay.pe])}
        later, coming, context, active = self._follow(m, numbers)
        write = Signal(put_layout(self.specs["value"]))
        self._write = write
        self._put = put_value = self._values.write_port()
        written = self._written
        m.d.sync += [
            put_value.en.eq(write.valid),
            put_value.addr.eq(write.address),
            written[0].eq(write.data),
            written[1].eq(written[0]),
            written[2].eq(written[1]),
        ]
        m.d.comb += put_value.data.eq(written[0])
        a = self._read(m, write, "a", later.a, coming)
        b = self._read(m, write, "b", later.b, coming)
        at = Signal.like(self.look)
        m.d.comb += [
            at.eq(Mux(self.running | self.restart, later.send, self.look)),
            self.o.eq(self._read(m, write, "send", at, coming)),
        ]

        result = Signal(self.overlay.width)
        self._operate(m, active & (context.op != 0), context.op, a, b, result)
        self._active = active
        other = Signal(self.overlay.width)  # what is written but is no result
        # The host is silent while a run lasts.
        with m.If(self.running):
            m.d.comb += [
                write.valid.eq(active & (context.write != WRITE_NONE)),
                write.address.eq(context.address),
                other.eq(self.i),
            ]
        with m.Else():
            m.d.comb += [
                write.valid.eq(host.valid & (host.memory == numbers["value"])),
                write.address.eq(host.address),
                other.eq(host.data),
            ]
        results = self.running & (context.write != WRITE_NET)
        m.d.comb += write.data.eq(Mux(results, result, other))
        if self.probed:
            m.d.comb += self.probe.eq(write)
        return m

    def _follow(self, m: Module, numbers: Mapping[str, int]):
        """The contexts that hold in two cycles, in the next one and now; and whether one holds."""
        host = self.host
        length = Signal(range(self.specs["context"].depth + 1))
        if "length" in registers(self.overlay):
            with m.If(host.valid & (host.memory == numbers["control"])):
                m.d.sync += length.eq(host.data)

        layout = struct(self.specs["context"].layout)
        later = Signal(layout)  # holds in two cycles
        coming = Signal(layout)  # in the next one
        context = Signal(layout)
        self._context = context
        ahead, standing, active = self._count(m, length)
        put = self._contexts.write_port()
        fetched = self._contexts.read_port()
        m.d.comb += [
            put.en.eq(host.valid & (host.memory == numbers["context"])),
            put.addr.eq(host.address),
            put.data.eq(host.data),
            fetched.addr.eq(ahead),
        ]
        m.d.sync += [later.eq(fetched.data), coming.eq(later), context.eq(coming)]
        with m.If(~standing):
            m.d.sync += coming.write.eq(WRITE_NONE)
        return later, coming, context, active

    def _read(self, m: Module, write, name: str, address: Value, coming) -> Signal:
        """The value at ``address`` of the last cycle but one, or what was written there since. The
        port of ``send`` is the host's, too.
        """
        port = read_port(self._values, f"{name}_port")
        written = self._written
        just = Signal(name=f"just_{name}")  # was written in the cycle before it was read
        same = Signal(name=f"same_{name}")  # was written as it was read
        newest = Signal(2, name=f"newest_{name}")  # 3 minus its age; 0: it is in memory
        follows = Signal(name=f"follows_{name}")
        same_now = Signal(name=f"same_now_{name}")
        read = Signal(self.overlay.width, name=f"read_{name}")
        value = Signal(self.overlay.width, name=f"value_{name}")
        m.d.comb += [
            port.addr.eq(address),
            same_now.eq(write.valid & (write.address == address)),
            value.eq(Array([read, written[2], written[1], written[0]])[newest]),
        ]
        m.d.sync += [
            just.eq(self._put.en & (self._put.addr == address)),
            same.eq(same_now),
            follows.eq((coming.write != WRITE_NONE) & (coming.address == address)),
            newest.eq(Mux(follows, 3, Mux(same, 2, just))),
            read.eq(port.data),
        ]
        if name == "send":
            kept = Signal.like(self.value)  # what the memory does not have yet
            m.d.sync += kept.eq(Mux(same_now, write.data, written[0]))
            m.d.comb += self.value.eq(Mux(same | just, kept, port.data))
        return value

    def _count(self, m: Module, length: Signal) -> tuple[Signal, Signal, Signal]:
        """Count of fetches, whether that of two cycles ago was a context of this run, and whether
        one holds.
        """
        left = Signal.like(length)
        ahead = Signal.like(self.fetch)
        moving = Signal(2)
        standing = Signal()
        active = Signal()
        m.d.comb += [
            self.done.eq(left == 0),
            active.eq(self.running & ~self.done),
            standing.eq(moving[-1]),
        ]
        m.d.sync += [moving.eq(Cat(self.restart | self.running, moving)), ahead.eq(0)]
        with m.If(self.restart | self.running):
            m.d.sync += ahead.eq(ahead + 1)
        m.d.sync += self.fetch.eq(0)
        with m.If(standing):
            m.d.sync += self.fetch.eq(self.fetch + 1)
        with m.If(self.restart):
            m.d.sync += left.eq(length)
        with m.Elif(active):
            m.d.sync += left.eq(left - 1)
        return ahead, standing, active

    def _operate(self, m: Module, issue: Value, op: Value, a: Value, b: Value, result: Signal):
        """The ALU, inside or at the ports."""
        if self.with_alu:
            m.submodules.alu = alu = Alu(
                form=self.form,
                latencies=self.latencies,
                deep=self.overlay.deep,
                registered=self.overlay.alu == "registered",
            )
            m.d.comb += [
                alu.en.eq(issue),
                alu.op.eq(op),
                alu.a.eq(a),
                alu.b.eq(b),
                result.eq(alu.o),
            ]
        else:
            m.d.comb += [
                self.alu_op.eq(Mux(issue, op, 0)),
                self.alu_a.eq(a),
                self.alu_b.eq(b),
                result.eq(self.alu_o),
            ]
