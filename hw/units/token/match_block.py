"""Match of operands that wait in block RAM."""

from collections.abc import Mapping

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import ONLY, OP_BITS, RIGHT, bits_for
from ....overlay.core.config import Memory as Spec
from ....overlay.core.ops import OP_CLASS, Op
from ...noc.token import ram_attributes
from ...ram import read_port, write_port
from .layouts import consumer_layout, latency_of, put_layout, trigger_layout

BLOCK_DEPTH = 512
"""Presence bits from which a block RAM is asked for; synthesis may else take LUTs for so few bits.
"""


class MatchBlock(wiring.Component):
    """A consumer meets its operand, as in
    :class:`~penstock.hw.units.token.match.Match`, for a PE that need
    not know a cycle ahead what triggers.

    Parameters
    ----------
    node : Shape
        Of a local address.
    width : int
        Bits of a value.
    specs : mapping of str to Memory
        Of ``op``, ``token`` and ``present``.
    latencies : mapping of str to int
        Cycles of each class of operations. Which of them is an operation's is found as it is
        loaded, and kept beside it.

    Members
    -------
    put, i, o, arrived
        As there; ``o.when`` is given, too. ``o.fires`` and ``o.next_node`` are 0.
    advance : In(1)
        What triggers moves on to the next cycle. While it is low no consumer comes.

    Timing
    ------
    A consumer served at c triggers at c + 1, if it had its other operand. Presence is read at c and
    written at c + 1, so ``o.valid`` is one gate behind a memory. Of one node served twice in a row
    the first operand is taken from a register. Source: docs/overlay.md section 3, S.
    """

    def __init__(
        self, *, node: Shape, width: int, specs: Mapping[str, Spec], latencies: Mapping[str, int]
    ):
        self.latencies = dict(latencies)
        timed = bits_for(len(set(latencies.values())))

        def memory(name, shape, style=None):
            attrs = ram_attributes(style)
            return Memory(shape=shape, depth=specs[name].depth, init=[], attrs=attrs)

        large = specs["present"].depth >= BLOCK_DEPTH

        self._op = memory("op", data.StructLayout({"op": OP_BITS, "when": timed}))
        self._stored = memory("token", width)
        self._present = memory("present", 1, "block" if large else None)
        super().__init__(
            {
                "put": In(put_layout(specs["op"])),
                "advance": In(1),
                "i": In(consumer_layout(node, width)),
                "o": Out(trigger_layout(node, width, timed=timed)),
                "arrived": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        consumer = self.i
        op, put_op = self._ports(m, "op", self._op)
        stored, put_stored = self._ports(m, "stored", self._stored)
        present, put_present = self._ports(m, "present", self._present)
        self._load(m, put_op)

        served = Signal()  # a consumer was, and has not moved on
        fresh = Signal()  # it was in the last cycle
        node = Signal.like(consumer.node)
        slot = Signal(2)
        again = Signal()  # the one before was the same node's
        only = Signal()  # it has one operand
        followed = Signal()  # another was served before it
        last = Signal.like(node)  # whose that was
        before = Signal.like(self.arrived)
        waits = Signal()  # for the other operand, or with it
        there = Signal()
        m.d.sync += fresh.eq(consumer.valid)
        with m.If(self.advance):
            m.d.sync += [
                served.eq(consumer.valid),
                self.arrived.eq(consumer.value),
                before.eq(self.arrived),
                node.eq(consumer.node),
                slot.eq(consumer.slot),
                followed.eq(served),
                last.eq(node),
                only.eq(consumer.slot >= ONLY),
            ]
        m.d.comb += [
            again.eq(followed & (last == node)),
            waits.eq(fresh & ~only),
            there.eq(again | present.data),
            put_present.addr.eq(node),
            put_present.data.eq(~there),
            put_present.en.eq(waits),
            put_stored.addr.eq(node),
            put_stored.data.eq(self.arrived),
            put_stored.en.eq(waits & ~there),
        ]

        first = Signal.like(self.arrived)
        m.d.comb += [
            first.eq(Mux(again, before, stored.data)),
            self.o.valid.eq(served & (only | there)),
            self.o.node.eq(node),
            self.o.op.eq(op.data.op),
            self.o.when.eq(op.data.when),
            self.o.left.eq(Mux(slot == RIGHT, first, self.arrived)),
            self.o.right.eq(Mux(slot == RIGHT, self.arrived, first)),
        ]
        return m

    def _load(self, m: Module, put: WritePort) -> None:
        """An operation of the host, with which latency it has."""
        m.d.comb += [
            put.en.eq(self.put.valid),
            put.addr.eq(self.put.address),
            put.data.op.eq(self.put.data),
        ]
        with m.Switch(self.put.data):
            for op in Op:
                if OP_CLASS.get(op) in self.latencies:
                    with m.Case(op):
                        m.d.comb += put.data.when.eq(latency_of(self.latencies, op))

    def _ports(self, m: Module, name: str, memory: Memory) -> tuple[ReadPort, WritePort]:
        """Ports of a memory that is read for the consumer."""
        m.submodules[name] = memory
        read = read_port(memory, f"{name}_read")
        m.d.comb += [read.addr.eq(self.i.node), read.en.eq(self.advance)]
        return read, write_port(memory, f"{name}_write")
