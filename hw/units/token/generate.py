"""Stages R and G of a dynamic PE: the tokens of a node, one after the other."""

from collections.abc import Mapping

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import Memory as Spec
from ....overlay.core.config import Overlay, Sizes, packet
from ...noc.token import ram_attributes, struct
from ...ram import write_port
from .layouts import due_layout, put_layout


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
        The node that is taken, if there is one: its value is ``value`` from the next cycle on.
    value, shut : In(width), In(1)
        Its value; with ``shut`` no token has it, and the node leaves in this cycle.
    x, y : In
        This PE's place; constant from the first load on.
    local, o : Out(stream.Signature(token))
        A token of it, for this PE or for another.

    Timing
    ------
    One token a cycle, the first in the cycle after the node is taken; the next node is taken in the
    cycle in which the last one leaves. Whether a token is for this PE is found as it is loaded, and
    kept beside it. Source: docs/overlay.md section 3, R and G.
    """

    def __init__(self, *, overlay: Overlay, sizes: Sizes, specs: Mapping[str, Spec], sender: Shape):
        self.token = struct(packet(overlay, sizes))
        self._first = _destinations(specs["first"])
        self._rest = _destinations(specs["rest"])
        self._given = {name: struct(specs[name].layout) for name in ("first", "rest")}
        place = {name: In(self.token[name].shape) for name in ("x", "y")}
        super().__init__(
            {
                "put_first": In(put_layout(specs["first"])),
                "put_rest": In(put_layout(specs["rest"])),
                "running": In(1),
                "i": In(stream.Signature(sender)),
                "send": Out(due_layout(sender)),
                "value": In(overlay.width),
                "shut": In(1),
                **place,
                "local": Out(stream.Signature(self.token)),
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
            (self._first, self.put_first, "first"),
            (self._rest, self.put_rest, "rest"),
        ):
            self._load(m, put, write_port(memory, f"write_{name}"), self._given[name])

        busy = Signal()  # a token stands here
        further = Signal()  # it comes from `rest`
        follow = Signal.like(first.data.rest)  # where in `rest` the next but one is
        here = Signal()
        leaves = Signal()
        leaves_last = Signal()
        ends_here, ends_there = (
            Mux(further, rest.data[name], first.data[name]) for name in ("last_here", "last_there")
        )
        m.d.comb += [
            here.eq(Mux(further, rest.data.here, first.data.here)),
            leaves.eq(busy & Mux(here, self.local.ready, self.o.ready)),
            leaves_last.eq((ends_here & self.local.ready) | (ends_there & self.o.ready)),
            self.i.ready.eq(self.running & (~busy | leaves_last | self.shut)),
            self.send.valid.eq(self.i.ready),
            self.send.node.eq(self.i.payload),
            first.addr.eq(self.i.payload),
            first.en.eq(self.send.valid),
            rest.addr.eq(Mux(further, follow, first.data.rest)),
            rest.en.eq(leaves),
            self.local.valid.eq(busy & here & ~self.shut),
            self.o.valid.eq(busy & ~here & ~self.shut),
            self.o.payload.value.eq(self.value),
            self.local.payload.eq(self.o.payload),
        ]
        for name, _ in self.token:
            if name != "value":
                m.d.comb += self.o.payload[name].eq(Mux(further, rest.data[name], first.data[name]))
        with m.If(leaves):
            m.d.sync += [further.eq(1), follow.eq(rest.addr + 1)]
        with m.If(self.i.ready):
            m.d.sync += [further.eq(0), busy.eq(self.i.valid)]
        return m

    def _load(self, m: Module, put, port: WritePort, layout: data.StructLayout) -> None:
        """A word of the host, with what is found of it."""
        given = data.View(layout, put.data)
        here = (given.x == self.x) & (given.y == self.y)
        m.d.comb += [
            port.en.eq(put.valid),
            port.addr.eq(put.address),
            port.data.here.eq(here),
            port.data.last_here.eq(given.last & here),
            port.data.last_there.eq(given.last & ~here),
        ]
        m.d.comb += [port.data[name].eq(given[name]) for name, _ in layout if name != "last"]


def _destinations(spec: Spec) -> Memory:
    """A memory of where tokens go: of its words, with ``last`` by whether the token is for this
    PE.
    """
    fields = {name: width for name, width in spec.layout.fields if name != "last"}
    shape = data.StructLayout(fields | dict.fromkeys(("here", "last_here", "last_there"), 1))
    return Memory(shape=shape, depth=spec.depth, init=[], attrs=ram_attributes(None))
