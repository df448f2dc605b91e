"""The statically scheduled PE: a memory of contexts says what it does in every cycle."""

from collections.abc import Iterable

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....machine.overlay import (
    MEMORIES,
    OP_BITS,
    WRITE_NET,
    WRITE_NONE,
    Overlay,
    Sizes,
    bits_for,
    memories,
)
from ...arith.format import FP32, FP64
from ...noc.token import ram_attributes, struct
from .alu import Alu
from .host import host_layout, probe_layout

__all__ = ["StaticPE"]


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
    probe : Out(probe_layout(overlay, sizes))
        Only if ``probed``: the write port of the value memory, in the cycle of the write.

    Timing
    ------
    A context is fetched two cycles before it holds and its operands are
    read one cycle before; nothing stalls. Source: docs/overlay.md
    section 6 (DFM 2014, figure 2a).

    """

    RESTART_CYCLES = 2

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
                **({"probe": Out(probe_layout(overlay, sizes))} if probed else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.contexts = self._contexts
        m.submodules.values = self._values
        host = self.host
        numbers = {name: k for k, name in enumerate(MEMORIES["static"])}
        length = Signal(range(self.specs["context"].depth + 1))
        with m.If(host.valid & (host.memory == numbers["control"])):
            m.d.sync += length.eq(host.data)

        active = self._count(m, length)
        put = self._contexts.write_port()
        fetched = self._contexts.read_port()
        m.d.comb += [
            put.en.eq(host.valid & (host.memory == numbers["context"])),
            put.addr.eq(host.address),
            put.data.eq(host.data),
            fetched.addr.eq(self.fetch),
        ]
        context = Signal(struct(self.specs["context"].layout))
        m.d.sync += context.eq(fetched.data)

        write = self._values.write_port()
        a = self._values.read_port(transparent_for=[write])
        b = self._values.read_port(transparent_for=[write])
        sent = self._values.read_port(transparent_for=[write])
        m.d.comb += [
            a.addr.eq(fetched.data.a),
            b.addr.eq(fetched.data.b),
            sent.addr.eq(Mux(self.running | self.restart, fetched.data.send, self.look)),
            self.o.eq(sent.data),
            self.value.eq(sent.data),
        ]

        result = Signal(self.overlay.width)
        self._operate(m, active & (context.op != 0), context.op, a.data, b.data, result)
        with m.If(active):
            m.d.comb += [
                write.en.eq(context.write != WRITE_NONE),
                write.addr.eq(context.address),
                write.data.eq(Mux(context.write == WRITE_NET, self.i, result)),
            ]
        with m.Else():
            # The host is silent while a run lasts.
            m.d.comb += [
                write.en.eq(host.valid & (host.memory == numbers["value"])),
                write.addr.eq(host.address),
                write.data.eq(host.data),
            ]
        if self.probed:
            m.d.comb += [
                self.probe.valid.eq(write.en),
                self.probe.address.eq(write.addr),
                self.probe.data.eq(write.data),
            ]
        return m

    def _count(self, m: Module, length: Signal) -> Signal:
        """The cycle counter: what is fetched, how many contexts are left; whether one holds."""
        left = Signal.like(length)
        active = Signal()
        m.d.comb += [self.done.eq(left == 0), active.eq(self.running & ~self.done)]
        with m.If(self.restart | self.running):
            m.d.sync += self.fetch.eq(self.fetch + 1)
        with m.Else():
            m.d.sync += self.fetch.eq(0)
        with m.If(self.restart):
            m.d.sync += left.eq(length)
        with m.Elif(active):
            m.d.sync += left.eq(left - 1)
        return active

    def _operate(self, m: Module, issue: Value, op: Value, a: Value, b: Value, result: Signal):
        """The ALU, inside or at the ports."""
        if self.with_alu:
            m.submodules.alu = alu = Alu(
                form=self.form, latencies=self.latencies, deep=self.overlay.alu == "deep"
            )
            m.d.comb += [
                alu.en.eq(issue),
                alu.op.eq(op),
                alu.a.eq(a.as_value()),
                alu.b.eq(b.as_value()),
                result.eq(alu.o),
            ]
        else:
            m.d.comb += [
                self.alu_op.eq(Mux(issue, op, 0)),
                self.alu_a.eq(a),
                self.alu_b.eq(b),
                result.eq(self.alu_o),
            ]
