"""Stages R and G of a dynamic PE: the tokens of a node, one after the other."""

from collections.abc import Mapping

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....machine.overlay import Memory as Spec
from ....machine.overlay import Overlay, Sizes, packet
from ...noc.token import ram_attributes, struct
from ...ram import write_port
from .layouts import due_layout, put_layout

__all__ = ["Generate"]


class Generate(wiring.Component):
    """Takes a node that is ready, and sends its tokens.

    Parameters
    ----------
    overlay : Overlay
    sizes : Sizes
    specs : mapping of str to Memory
        The PE's memories.
    sender : Shape
        Of an address of a node that sends.

    Members
    -------
    put_first, put_rest : In(put_layout(...))
        Load where the first token of a node goes, and the others.
    running : In(1)
        High during a run.
    i : In(stream.Signature(sender))
        The node that is next.
    send : Out(due_layout(sender))
        The node that was taken: its value is ``value`` from the next
        cycle on.
    value : In(width)
        Its value.
    o : Out(stream.Signature(token))
        A token of it.

    Timing
    ------
    One token a cycle, the first in the cycle after the node is taken;
    the next node is taken in the cycle in which the last one leaves.
    Source: docs/overlay.md section 3, R and G.

    """

    def __init__(self, *, overlay: Overlay, sizes: Sizes, specs: Mapping[str, Spec], sender: Shape):
        self.token = struct(packet(overlay, sizes))
        self._first = _destinations(specs["first"])
        self._rest = _destinations(specs["rest"])
        super().__init__(
            {
                "put_first": In(put_layout(specs["first"])),
                "put_rest": In(put_layout(specs["rest"])),
                "running": In(1),
                "i": In(stream.Signature(sender)),
                "send": Out(due_layout(sender)),
                "value": In(overlay.width),
                "o": Out(stream.Signature(self.token)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = self._first
        m.submodules.rest = self._rest
        first = self._first.read_port()
        rest = self._rest.read_port()
        for memory, put, name in (
            (self._first, self.put_first, "write_first"),
            (self._rest, self.put_rest, "write_rest"),
        ):
            port = write_port(memory, name)
            m.d.comb += [port.en.eq(put.valid), port.addr.eq(put.address), port.data.eq(put.data)]

        busy = Signal()  # a token stands here
        further = Signal()  # it comes from `rest`
        follow = Signal.like(first.data.rest)  # where in `rest` the next but one is
        last = Signal()
        leaves = Signal()
        m.d.comb += [
            last.eq(Mux(further, rest.data.last, first.data.last)),
            leaves.eq(busy & self.o.ready),
            self.i.ready.eq(self.running & (~busy | (leaves & last))),
            self.send.valid.eq(self.i.ready & self.i.valid),
            self.send.node.eq(self.i.payload),
            first.addr.eq(self.i.payload),
            first.en.eq(self.send.valid),
            rest.addr.eq(Mux(further, follow, first.data.rest)),
            rest.en.eq(leaves & ~last),
            self.o.valid.eq(busy),
            self.o.payload.value.eq(self.value),
        ]
        for name, _ in self.token:
            if name != "value":
                m.d.comb += self.o.payload[name].eq(Mux(further, rest.data[name], first.data[name]))
        with m.If(self.send.valid):
            m.d.sync += [busy.eq(1), further.eq(0)]
        with m.Elif(rest.en):
            m.d.sync += [further.eq(1), follow.eq(rest.addr + 1)]
        with m.Elif(leaves):
            m.d.sync += busy.eq(0)
        return m


def _destinations(spec: Spec) -> Memory:
    """A memory of where tokens go."""
    return Memory(shape=struct(spec.layout), depth=spec.depth, init=[], attrs=ram_attributes(None))
