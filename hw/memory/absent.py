"""The tiles of a scratchpad's buffer that lie off-chip."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_BITS, Tile
from ...machine.limits import ABSENT
from ..beat import beat_layout
from ..units.fifo import Fifo


class Spill(NamedTuple):
    """Place of a buffer's tiles."""

    on_chip: int  # the first ones, in pages
    tiles: int  # those behind them, off-chip, at most
    block: int  # tiles of a block, a power of two


def about_layout(tile: Tile) -> data.StructLayout:
    """A tile's beat without its elements, which a scratchpad keeps of a tile off-chip."""
    rows = range(tile.t + 1)
    return data.StructLayout({"rows": rows, "cols": rows, "stop": STOP_BITS, "data": 1})


class Absent(wiring.Component):
    """Tiles that a reader has asked for, in order, and what has come of their blocks.

    Parameters
    ----------
    tile : Tile
        Payload.
    block : int
        Tiles of a block, a power of two.

    Members
    -------
    asked : In(1)
        A tile is asked for in this cycle; ``i`` follows in the next one.
    i : In(StructLayout)
        ``valid``; ``about``: the tile's beat without elements; ``at``: its place in its block;
        ``last``: no other tile of that block is wanted.
    count : Out(range(ABSENT + 1))
        Tiles asked for that have not left.
    fetched : In(stream.Signature(beat_layout(tile)))
        Tiles of the blocks.
    rest : Out(1)
        What is left of a block is dropped.
    first : In(1)
        Nothing older waits elsewhere.
    o : Out(stream.Signature(beat_layout(tile)))

    Timing
    ------
    A tile leaves in the cycle in which it is visible, its entry is, and ``first`` is high; one that
    nobody wants is dropped in a cycle. Source: docs/timing.md section 4, rule 11.
    """

    def __init__(self, *, tile: Tile, block: int):
        self._block = block
        self._about = about_layout(tile)
        self._entry = data.StructLayout({"about": self._about, "at": range(block), "last": 1})
        beat = stream.Signature(beat_layout(tile))
        super().__init__(
            {
                "asked": In(1),
                "i": In(data.StructLayout({"valid": 1, "entry": self._entry})),
                "count": Out(range(ABSENT + 1)),
                "rest": Out(1),
                "fetched": In(beat),
                "first": In(1),
                "o": Out(beat),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Fifo(shape=self._entry, depth=ABSENT)
        entry = queue.o.payload
        place = Signal(range(self._block))  # in its block, of the next tile that comes
        wanted = Signal()
        given = Signal()
        taken = Signal()
        came = self.fetched.payload
        m.d.comb += [
            queue.i.payload.eq(self.i.entry),
            queue.i.valid.eq(self.i.valid),
            queue.o.ready.eq(given),
            wanted.eq(~self.rest & queue.o.valid & (entry.at == place)),
            self.o.valid.eq(self.fetched.valid & wanted & self.first),
            self.o.payload.elements.eq(came.elements),
            given.eq(self.o.valid & self.o.ready),
            taken.eq(self.fetched.valid & self.fetched.ready),
            self.fetched.ready.eq(given | self.rest | (queue.o.valid & (entry.at != place))),
        ]
        m.d.comb += [self.o.payload[name].eq(entry.about[name]) for name in self._about.members]
        m.d.sync += self.count.eq(self.count + self.asked - given)
        with m.If(taken):
            m.d.sync += [
                place.eq(place + 1),
                self.rest.eq(Mux(place == self._block - 1, 0, self.rest | (given & entry.last))),
            ]
        return m
