"""Match of operands: the first of two waits here for the second."""

from collections.abc import Mapping

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import ONLY, OP_BITS, RIGHT
from ....overlay.core.config import Memory as Spec
from ...noc.token import ram_attributes
from .layouts import consumer_layout, put_layout, trigger_layout

BANKS = 2
"""Banks of nodes, by the parity of their address."""


class Match(wiring.Component):
    """A consumer meets its operand: stage S of a PE of two banks, once a bank.

    Parameters
    ----------
    node : Shape
        Of a local address.
    width : int
        Bits of a value.
    specs : mapping of str to Memory
        Of ``op``, ``token`` and ``present``: depths over all banks.

    Members
    -------
    put : In(put_layout(specs["op"]))
        Loads an operation, at its address in this bank.
    i : In(consumer_layout(node, width))
        The consumer that is served.
    o : Out(trigger_layout(node, width))
        What triggers.
    arrived : Out(width)
        The value of the consumer served last.

    Timing
    ------
    A consumer served at c triggers at c + 1, if it had its other operand; ``o.fires`` and
    ``o.next_node`` say so at c. Source: docs/overlay.md section 3, S.
    """

    def __init__(self, *, node: Shape, width: int, specs: Mapping[str, Spec]):

        def memory(name, shape):
            depth = -(-specs[name].depth // BANKS)
            return Memory(shape=shape, depth=depth, init=[], attrs=ram_attributes(None))

        self._op = memory("op", OP_BITS)
        self._stored = memory("token", width)
        self._present = memory("present", 1)
        super().__init__(
            {
                "put": In(put_layout(specs["op"])),
                "i": In(consumer_layout(node, width)),
                "o": Out(trigger_layout(node, width)),
                "arrived": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.op = self._op
        m.submodules.stored = self._stored
        m.submodules.present = self._present
        op = self._op.read_port()
        put_op = self._op.write_port()
        stored = self._stored.read_port()
        put_stored = self._stored.write_port()
        present = self._present.read_port(domain="comb")
        put_present = self._present.write_port()

        consumer = self.i
        address = Signal(len(consumer.node) - 1)
        waits = Signal()  # for the other operand, or with it
        m.d.comb += [
            put_op.en.eq(self.put.valid),
            put_op.addr.eq(self.put.address),
            put_op.data.eq(self.put.data),
            address.eq(consumer.node[1:]),
            waits.eq(consumer.valid & (consumer.slot < ONLY)),
            op.addr.eq(address),
            op.en.eq(consumer.valid),
            stored.addr.eq(address),
            stored.en.eq(consumer.valid),
            put_stored.addr.eq(address),
            put_stored.data.eq(consumer.value),
            put_stored.en.eq(waits & ~present.data),
            present.addr.eq(address),
            put_present.addr.eq(address),
            put_present.data.eq(~present.data),
            put_present.en.eq(waits),
        ]

        triggers = Signal()
        node = Signal.like(consumer.node)
        slot = Signal(2)
        with m.If(consumer.valid):
            m.d.sync += [
                self.arrived.eq(consumer.value),
                node.eq(consumer.node),
                slot.eq(consumer.slot),
            ]
        m.d.sync += triggers.eq(self.o.fires)
        m.d.comb += [
            self.o.valid.eq(triggers),
            self.o.node.eq(node),
            self.o.op.eq(op.data),
            self.o.left.eq(Mux(slot == RIGHT, stored.data, self.arrived)),
            self.o.right.eq(Mux(slot == RIGHT, self.arrived, stored.data)),
            self.o.fires.eq(consumer.valid & ((consumer.slot >= ONLY) | present.data)),
            self.o.next_node.eq(consumer.node),
        ]
        return m
