"""The writing side of a scratchpad port."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_DONE, TILES_BITS, BufferRef, Tile
from ..beat import beat_layout, is_bare, is_done
from ..stream import connect
from ..units.fifo import Fifo
from .absent import Spill

QUEUE = 2  # references, docs/timing.md section 4 rule 2


class Writer(wiring.Component):
    """Keeps the open buffer of one writer of a scratchpad and the references of those it has
    closed.

    Parameters
    ----------
    rank : int
        Stop level that ends a buffer.
    frames : int
        F, tiles of a page, a power of two.
    tile, reference : Tile, BufferRef
        Payloads.
    spill : Spill, or None
        Where a buffer's tiles lie; None: all in pages.

    Members
    -------
    i : In(stream.Signature(beat_layout(tile))), o : Out(stream.Signature(beat_layout(reference)))
    any_free : In(1)
        A page is free at the start of the cycle.
    head : In(page)
        That page.
    may_begin : In(1)
        The writer may hold one more buffer.
    request : Out(1), grant : In(1)
        A tile can be stored; it is, in this cycle.
    begins, takes_page, extends : Out(1)
        With ``grant``: a buffer is begun; the free page is taken; it follows ``last`` in the
        buffer.
    page, frame : Out
        Where the tile goes.
    last : Out(page)
        The open buffer's last page before this cycle.
    closes, first, tiles : Out
        With ``grant``: the buffer is complete; its first page and its tiles.
    ended : Out(1)
        A Done is taken in this cycle.
    overflow : Out(1)
        A buffer has more tiles than a reference counts.
    away, number, room : Out(1), Out, In(1)
        The tile goes off-chip, as the number-th of its buffer that does; it may. Only with
        ``spill``.

    Timing
    ------
    One tile a cycle. The reference of a buffer whose last tile is stored in c is offered from c +
    1. A Done, and a bare stop of groups without a buffer, is taken when the reference queue is
    empty and is offered from the next cycle; other bare stops are stored like tiles. Source:
    docs/timing.md sections 3.4 and 4, rules 2 and 6.
    """

    def __init__(
        self,
        *,
        rank: Value,
        frames: int,
        tile: Tile,
        reference: BufferRef,
        spill: Spill | None = None,
    ):
        self.rank = rank
        self._spill = spill
        self.frames = frames
        self._reference = beat_layout(reference)
        page = reference.page_bits
        frame = range(max(2, frames))
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(tile))),
                "o": Out(stream.Signature(self._reference)),
                "any_free": In(1),
                "may_begin": In(1),
                "head": In(page),
                "request": Out(1),
                "grant": In(1),
                "begins": Out(1),
                "takes_page": Out(1),
                "extends": Out(1),
                "page": Out(page),
                "frame": Out(frame),
                "last": Out(page),
                "closes": Out(1),
                "tiles": Out(TILES_BITS),
                "ended": Out(1),
                "overflow": Out(1),
                "first": Out(page),
            }
            | ({"away": Out(1), "number": Out(range(spill.tiles)), "room": In(1)} if spill else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Fifo(shape=self._reference, depth=QUEUE)
        opened = Signal.like(self.first)
        filled = Signal(range(self.frames + 1))
        counted = Signal.like(queue.i.payload.tiles)
        is_open = Signal()
        end = Signal()
        passes = Signal()
        before = Signal(4, init=STOP_DONE)  # stop of the beat before
        beat = self.i.payload
        m.d.comb += [
            end.eq(is_done(beat)),
            passes.eq(end | (is_bare(beat) & (beat.stop > self.rank) & (before > self.rank))),
            self.begins.eq(~is_open),
            self.takes_page.eq(~is_open | (filled == self.frames)),
            self.extends.eq(is_open & (filled == self.frames)),
            self.closes.eq(beat.stop >= self.rank),
            self.request.eq(
                self.i.valid
                & ~passes
                & (~self.takes_page | self.any_free)
                & (~self.begins | self.may_begin)
                & (~self.closes | queue.i.ready)
            ),
            self.page.eq(Mux(self.takes_page, self.head, self.last)),
            self.frame.eq(Mux(self.takes_page, 0, filled)),
            self.first.eq(Mux(is_open, opened, self.head)),
            self.tiles.eq(counted + 1),
            self.overflow.eq(self.grant & counted.all()),
            self.i.ready.eq(Mux(passes, queue.level == 0, self.grant)),
            self.ended.eq(self.i.valid & self.i.ready & end),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += before.eq(beat.stop)
        with m.If(self.grant):
            m.d.sync += [
                is_open.eq(~self.closes),
                opened.eq(self.first),
                self.last.eq(self.page),
                filled.eq(self.frame + 1),
                counted.eq(Mux(self.closes, 0, counted + 1)),
            ]

        self._push(m, queue, passes, end)
        if self._spill:
            self._go_off_chip(m, self._spill, queue, counted, filled, passes, end)
        return m

    def _go_off_chip(
        self,
        m: Module,
        spill: Spill,
        queue: Fifo,
        counted: Signal,
        filled: Signal,
        passes: Signal,
        end: Signal,
    ) -> None:
        """Rule 11: the tiles of a buffer that has all pages."""
        full = counted == spill.on_chip + spill.tiles
        m.d.comb += [
            self.away.eq(counted >= spill.on_chip),
            self.number.eq(counted - spill.on_chip),
        ]
        with m.If(self.away):
            m.d.comb += [
                self.takes_page.eq(0),
                self.extends.eq(0),
                self.page.eq(self.last),
                self.request.eq(
                    self.i.valid & ~passes & ~full & self.room & (~self.closes | queue.i.ready)
                ),
            ]
        with m.If(end):
            m.d.comb += self.i.ready.eq((queue.level == 0) & self.room)
        with m.If(self.grant & self.away):
            m.d.sync += filled.eq(filled)

    def _push(self, m: Module, queue: Fifo, passes: Signal, end: Signal) -> None:
        """References, and the beats without data that pass."""
        beat = self.i.payload
        push = queue.i.payload
        with m.If(passes):
            m.d.comb += [
                push.stop.eq(Mux(end, STOP_DONE, beat.stop - self.rank)),
                queue.i.valid.eq(self.i.valid & self.i.ready),
            ]
        with m.Else():
            m.d.comb += [
                push.page.eq(self.first),
                push.tiles.eq(self.tiles),
                push.stop.eq(beat.stop - self.rank),
                push.data.eq(1),
                queue.i.valid.eq(self.grant & self.closes),
            ]
        connect(m, queue.o, wiring.flipped(self.o))
