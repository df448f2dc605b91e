"""The reading side of a scratchpad port."""

from collections.abc import Sequence
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_BITS, STOP_DONE, BufferRef, Payload, Scalar, Tile
from ...machine.limits import ABSENT
from ...machine.limits import SIZE_BITS as REPEAT_BITS
from ..beat import beat_layout, is_done, with_stop
from ..stream import connect
from ..units.fifo import Fifo
from .absent import Absent, Spill, about_layout
from .table import Table, table_layout, table_of

QUEUE = 4  # tiles, docs/timing.md section 4 rule 3
TURN = {"repeat": REPEAT_BITS}
"""An entry of the turns: field -> bits."""


class Order(NamedTuple):
    """The passes of a reader: registers in a slot, constants in a dedicated fabric."""

    rank: Value  # b, stop level of a buffer's end
    # whether repeats are a dimension of the stream, ``repeat`` of them; otherwise a buffer is read
    # once, or as ``turns`` say
    repeat_dim: Value
    # level of the stream that drives the reads: one pass a beat, the buffer's last with a stop of
    # at least ``ref``
    ref: Value
    driven: Value  # whether that stream drives them, where there is one
    listed: Value  # whether ``turns`` are given
    # loop dimensions of the order in which a pass reads the buffer's tiles; 0: as they were written
    loops: Value


class _Walk(NamedTuple):
    """Place of the next tile of a pass."""

    last: Value  # it is the pass's last
    page: Value
    frame: Value
    ends: Value  # loop dimensions that end with it
    tile: Value  # its number in the buffer


class _Pass(NamedTuple):
    """Begin and end of passes over a buffer."""

    nothing: Value  # no tile is read
    last: Value  # it is the buffer's last
    level: Value  # the stop at its end
    request: Value
    ready: Value  # for a reference


class Reader(wiring.Component):
    """Walks the buffers of one reader of a scratchpad, each as often as asked.

    Parameters
    ----------
    order : Order
        What a unit's parameters say of its passes.
    turns : list of int, int or None
        Repeats of each buffer in turn, instead of ``repeat``; the most entries of a slot.
    token : Payload, or None
        Payload of that stream; None without one.
    frames : int
        F, tiles of a page, a power of two.
    tile, reference : Tile, BufferRef
        Payloads.
    affine : int
        Loop dimensions of an order, at most.
    places : list of (tile, stop), or None
        The order of a pass, beat by beat, instead of a loop nest.
    pages : int
        P, the most pages of a buffer (only used with such an order).
    spill : Spill, or None
        Where a buffer's tiles lie; None: all in pages.

    Members
    -------
    shape_0, ..., stride_0, ... : In(20)
        Trips of each loop, at least 1, outermost first; tiles that a step of it advances (only with
        ``affine``).
    turn : In(StructLayout)
        ``last``, ``write``: see :class:`Table`; only in a slot with ``turns``.
    link : Out(page)
        The page whose follower is looked up.
    outside : Out(1)
        A tile of the order lies outside the buffer.
    ended : Out(1)
        A Done is taken in this cycle.
    i, o : In, Out(stream.Signature(beat_layout(...)))
        References of buffers, and their tiles.
    tokens : In(stream.Signature(beat_layout(token)))
        The stream that drives the reads (only with ``ref``).
    repeat : In(20)
        R, at least 1; only used with ``repeat_dim``.
    request : Out(1), grant : In(1)
        A tile is wanted; it is read in this cycle.
    page, frame : Out
        Where it is.
    follower : In(page)
        The page after ``link`` in its buffer.
    stored : In(beat_layout(tile))
        The tile granted in the cycle before.
    releases : Out(1)
        With ``grant``: the buffer is read for the last time.
    first : Out(page), tiles : Out(16)
        Of the buffer held.
    fetch, fetched : Out(stream), In(stream)
        Numbers of blocks off-chip, and their tiles; with ``spill``, as are the following.
    number, about : Out, In(about_layout(tile))
        Which tile off-chip is granted; what is known of the one of the cycle before.
    settled : In(1)
        All blocks that were written are in memory.
    mismatch : Out(1)
        A token ends the buffer with another stop than the buffer's reference has.

    Timing
    ------
    One tile a cycle, no bubble between buffers: the next reference is taken in the cycle in which
    the last tile is granted. A tile granted in c is offered from c + 2. A reader with an order of
    its own spends a grant on each page of a buffer after the first, before it reads. A bare stop,
    of a reference or of a token, is granted like a tile. Source: docs/timing.md sections 3.4 and 4,
    rules 3 to 5, 7, 8 and 10.
    """

    def __init__(
        self,
        *,
        order: Order,
        frames: int,
        tile: Tile,
        reference: BufferRef,
        turns: Sequence[int] | int | None = None,
        token: Payload | None = None,
        affine: int = 0,
        places: Sequence[tuple[int, int]] | None = None,
        pages: int = 1,
        spill: Spill | None = None,
    ):
        self._spill = spill
        self._payload = tile
        entries = [(n,) for n in turns] if isinstance(turns, Sequence) else turns
        self._turns = table_of(entries, TURN)
        self.listed = order.listed
        self.loops = order.loops
        self.rank = order.rank
        self.repeat_dim = order.repeat_dim
        self.frames = frames
        self._tile = beat_layout(tile)
        self.ref = order.ref
        self.driven = order.driven
        self.affine = affine
        page = reference.page_bits
        self._most_pages = pages
        self._places = _list(places, reference.bits - page) if places else None
        super().__init__(
            {
                **({"turn": In(table_layout(TURN, turns))} if isinstance(turns, int) else {}),
                **({"tokens": In(stream.Signature(beat_layout(token)))} if token else {}),
                **{
                    f"{name}_{d}": In(REPEAT_BITS)
                    for name in ("shape", "stride")
                    for d in range(affine)
                },
                "mismatch": Out(1),
                "outside": Out(1),
                "ended": Out(1),
                "link": Out(page),
                "i": In(stream.Signature(beat_layout(reference))),
                "o": Out(stream.Signature(self._tile)),
                "repeat": In(REPEAT_BITS),
                "request": Out(1),
                "grant": In(1),
                "page": Out(page),
                "frame": Out(range(max(2, frames))),
                "follower": In(page),
                "stored": In(self._tile),
                "releases": Out(1),
                "first": Out(page),
                "tiles": Out(reference.bits - page),
                **(_off_chip(spill, tile) if spill else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Fifo(shape=self._tile, depth=QUEUE)
        holding = Signal()
        above = Signal(STOP_BITS)  # stop of the reference
        passes = Signal(REPEAT_BITS)
        final = Signal()  # the pass is the last one of the repeats
        last_tile = Signal()
        last_pass = Signal()
        finishes = Signal()
        filling = Signal()
        serve = Signal()
        page = Signal.like(self.page)
        # held: groups without a buffer; nothing is read, a bare stop leaves
        hollow = Signal()
        nothing = Signal()
        credit = Signal(range(QUEUE + 1))
        end = Signal()
        delivered = Signal()
        repeat = self._repeats(m, finishes & ~hollow)
        m.d.comb += [
            serve.eq(self.grant & ~filling),
            self.link.eq(page),
            self.releases.eq(last_tile & last_pass & ~hollow & ~filling),
            finishes.eq(serve & last_tile & last_pass),
            self.ended.eq(self.i.valid & self.i.ready & end),
            delivered.eq(self.o.valid & self.o.ready),
        ]
        level = Signal(STOP_BITS)  # with which a pass ends
        m.d.comb += end.eq(is_done(self.i.payload))
        now = self._alone(holding, credit, finishes, hollow, above, final, last_pass)
        if hasattr(self, "tokens"):
            ends = serve & last_tile
            tokens = self._follow_tokens(m, holding, credit, finishes, hollow, ends, above)
            pairs = zip(tokens, now, strict=True)
            now = _Pass(*(Mux(self.driven, token, own) for token, own in pairs))
        m.d.comb += [
            nothing.eq(now.nothing),
            last_pass.eq(now.last),
            level.eq(now.level),
            self.request.eq(now.request),
            self.i.ready.eq(now.ready),
        ]

        take = self.i.valid & self.i.ready & ~end
        inner, tile = self._walk(m, serve, nothing, last_tile, filling, page, take)
        ends = Mux(self._reordered, Mux(last_tile, level, inner), level)
        self._hold(m, take, serve & last_tile, finishes, holding, hollow, above, page, passes)
        with m.If(serve & last_tile):
            m.d.sync += final.eq(passes + 2 >= repeat)
        with m.If(take):
            m.d.sync += final.eq(repeat <= 1)
        m.d.sync += credit.eq(credit + (serve | self.ended) - delivered)
        if self._spill is None:
            self._leave(m, queue, serve, nothing, last_tile, ends)
            return m

        drains = Signal()  # all is asked for of the last pass over a buffer partly off-chip
        away = Signal()
        own = Signal()  # a service from pages, or of a bare stop
        m.d.comb += [
            away.eq(~nothing & ~filling & ~drains & (tile >= self._spill.on_chip)),
            own.eq(serve & ~away),
            serve.eq(self.grant & ~filling & ~drains),
            delivered.eq(queue.o.valid & self.o.ready),
        ]
        m.d.sync += credit.eq(credit + (own | self.ended) - delivered)
        stop = self._leave(m, queue, own, nothing, last_tile, ends)
        over = serve & last_tile & last_pass
        absent = self._fetch(m, self._spill, queue, serve & away, tile, last_tile, stop)
        beyond = Signal()  # the buffer is partly off-chip
        gone = absent.count == 0
        asks = self.settled & self.fetch.ready & (absent.count != ABSENT)
        m.d.comb += [
            self.request.eq(Mux(drains, gone & ~absent.rest, now.request & Mux(away, asks, gone))),
            self.releases.eq(drains | (last_tile & last_pass & ~hollow & ~filling & ~beyond)),
            finishes.eq(Mux(drains, self.grant, over & ~beyond)),
        ]
        if hasattr(self, "tokens"):
            wrong = self.tokens.payload.stop != self.ref + above
            m.d.comb += self.mismatch.eq(self.driven & over & wrong)
        with m.If(take):
            m.d.sync += beyond.eq(
                self.i.payload.data & (self.i.payload.tiles > self._spill.on_chip)
            )
        with m.If(over & beyond):
            m.d.sync += drains.eq(1)
        with m.Elif(self.grant):
            m.d.sync += drains.eq(0)
        return m

    def _fetch(
        self,
        m: Module,
        spill: Spill,
        queue: Fifo,
        asked: Value,
        tile: Value,
        last_tile: Signal,
        stop: tuple[Value, Value],
    ) -> Absent:
        """Requests tiles off-chip by their blocks; they leave when nothing older waits."""
        m.submodules.absent = absent = Absent(tile=self._payload, block=spill.block)
        replaces, level = stop
        at = Signal(range(spill.block))
        place = Signal.like(at)
        last = Signal()
        coming = Signal()
        reordered = self._reordered
        m.d.comb += [
            self.number.eq(tile - spill.on_chip),
            at.eq(self.number),
            self.fetch.valid.eq(asked & (reordered | (at == 0))),
            self.fetch.payload.value.eq(self.number >> (spill.block - 1).bit_length()),
            self.fetch.payload.data.eq(1),
            absent.asked.eq(asked),
            absent.i.valid.eq(coming),
            absent.i.entry.about.eq(self.about),
            absent.i.entry.at.eq(place),
            absent.i.entry.last.eq(last),
            absent.first.eq(~queue.o.valid),
            absent.o.ready.eq(self.o.ready),
        ]
        connect(m, wiring.flipped(self.fetched), absent.fetched)
        m.d.sync += [
            coming.eq(asked),
            place.eq(at),
            last.eq(reordered | last_tile | (at == spill.block - 1)),
        ]
        with m.If(replaces):
            m.d.comb += absent.i.entry.about.stop.eq(level)
        with m.If(~queue.o.valid):
            m.d.comb += [self.o.payload.eq(absent.o.payload), self.o.valid.eq(absent.o.valid)]
        return absent

    def _repeats(self, m: Module, advance: Value) -> Value:
        """Number of reads of the buffer that is held in the next cycle."""
        turns = self._turns
        if turns is None:
            return self.repeat
        m.submodules.turns = turns
        m.d.comb += [turns.advance.eq(advance), turns.clear.eq(self.ended)]
        if hasattr(self, "turn"):
            m.d.comb += [turns.last.eq(self.turn.last), turns.write.eq(self.turn.write)]
        return Mux(self.listed, turns.following.repeat, self.repeat)

    @property
    def _reordered(self) -> Value:
        """True if a pass has an order of its own."""
        return Const(1) if self._places else self.loops != 0

    def _walk(
        self,
        m: Module,
        serve: Signal,
        nothing: Signal,
        last_tile: Signal,
        filling: Signal,
        page: Signal,
        take: Value,
    ) -> tuple[Value, Value]:
        """The place of the next tile, in the order written or as loops or a list give it; returns
        the number of loops that end with it, and its own in the buffer.
        """
        reordered = self._reordered
        walk = self._sequence(m, serve & ~reordered, nothing, last_tile, page, take)
        if self.affine or self._places:
            reads = serve & ~nothing & reordered
            points = self._points(m, reads, nothing, filling, page, take)
            pairs = zip(points, walk, strict=True)
            walk = _Walk(*(Mux(reordered, point, own) for point, own in pairs))
        m.d.comb += [last_tile.eq(walk.last), self.page.eq(walk.page), self.frame.eq(walk.frame)]
        return walk.ends, walk.tile

    def _hold(
        self,
        m: Module,
        take: Value,
        ends_pass: Value,
        finishes: Signal,
        holding: Signal,
        hollow: Signal,
        above: Signal,
        page: Signal,
        passes: Signal,
    ) -> None:
        """The reference that is held, from its arrival to the end of its last pass."""
        with m.If(ends_pass):
            m.d.sync += passes.eq(passes + 1)
        with m.If(finishes):
            m.d.sync += holding.eq(0)
        with m.If(take):
            m.d.sync += [
                holding.eq(1),
                hollow.eq(~self.i.payload.data),
                self.first.eq(self.i.payload.page),
                self.tiles.eq(self.i.payload.tiles),
                above.eq(self.i.payload.stop),
                page.eq(self.i.payload.page),
                passes.eq(0),
            ]

    def _alone(
        self,
        holding: Signal,
        credit: Signal,
        finishes: Signal,
        hollow: Signal,
        above: Signal,
        final: Signal,
        last_pass: Signal,
    ) -> _Pass:
        """Passes that nothing drives."""
        end = is_done(self.i.payload)
        return _Pass(
            hollow,
            hollow | final | ~(self.listed | self.repeat_dim),
            Mux(last_pass, self.rank + self.repeat_dim + above, self.rank),
            holding & (credit != QUEUE),
            Mux(end, ~holding & (credit == 0), ~holding | finishes),
        )

    def _follow_tokens(
        self,
        m: Module,
        holding: Signal,
        credit: Signal,
        finishes: Signal,
        hollow: Signal,
        ends_pass: Value,
        above: Signal,
    ) -> _Pass:
        """A pass for each token; the stop of the last says that the buffer has been read."""
        token = self.tokens.payload
        end = is_done(self.i.payload)
        finished = Signal()
        idle = Signal()
        wrong = token.stop != self.ref + above
        m.d.comb += [
            finished.eq(self.tokens.valid & is_done(token)),
            idle.eq(~holding & (credit == 0)),
            self.tokens.ready.eq(Mux(finished, idle & self.i.valid & end, ends_pass)),
            self.mismatch.eq(self.driven & finishes & wrong),
        ]
        return _Pass(
            hollow | ~token.data,
            token.stop >= self.ref,
            self.rank + token.stop,
            holding & (credit != QUEUE) & self.tokens.valid & ~is_done(token),
            Mux(end, idle & finished, ~holding | finishes),
        )

    def _sequence(
        self, m: Module, serve: Value, nothing: Signal, last_tile: Signal, page: Signal, take: Value
    ) -> _Walk:
        """Tile after tile, page after page."""
        index = Signal.like(self.tiles)
        frame = Signal.like(self.frame)
        single = Signal()  # the buffer has one tile
        last = Signal()
        with m.If(serve):
            m.d.sync += [index.eq(index + 1), frame.eq(frame + 1), last.eq(index + 2 == self.tiles)]
            with m.If(frame == self.frames - 1):
                m.d.sync += [frame.eq(0), page.eq(self.follower)]
            with m.If(last_tile):
                m.d.sync += [index.eq(0), frame.eq(0), page.eq(self.first), last.eq(single)]
        with m.If(take):
            m.d.sync += [
                frame.eq(0),
                index.eq(0),
                single.eq(self.i.payload.tiles == 1),
                last.eq(self.i.payload.tiles == 1),
            ]
        return _Walk(nothing | last, page, frame, Const(0), index)

    def _leave(
        self, m: Module, queue: Fifo, serve: Signal, nothing: Signal, last_tile: Signal, ends: Value
    ) -> tuple[Value, Value]:
        """The tile comes one cycle after its grant; its stop is settled at the grant. Returns
        whether another stop takes the place of its own, and that one.
        """
        replaced = self._reordered | last_tile
        coming = Signal()
        replaces = Signal()
        blank = Signal()
        stop = Signal(STOP_BITS)
        m.d.sync += [coming.eq(serve), replaces.eq(replaced), blank.eq(nothing), stop.eq(ends)]
        beat = data.View(self._tile, with_stop(self.stored, Mux(replaces, stop, self.stored.stop)))
        m.d.comb += [queue.i.payload.eq(beat), queue.i.valid.eq(coming)]
        with m.If(blank):
            m.d.comb += queue.i.payload.eq(
                Cat(Const(0, len(beat.as_value()) - STOP_BITS - 1), stop, 0)
            )
        with m.If(self.ended):
            m.d.comb += [
                queue.i.payload.eq(self._tile.const({"stop": STOP_DONE})),
                queue.i.valid.eq(1),
            ]
        connect(m, queue.o, wiring.flipped(self.o))
        return replaces, stop

    def _points(
        self, m: Module, read: Value, nothing: Signal, filling: Signal, page: Signal, take: Value
    ) -> _Walk:
        """A pass in an order of its own, and the table of the held buffer's pages."""
        buffer = self.i.payload
        m.submodules.pages = table = Memory(
            shape=unsigned(len(self.page)), depth=self._most_pages, init=[]
        )
        write = table.write_port()
        look = table.read_port(domain="comb")
        frame_bits = (self.frames - 1).bit_length()
        known = Signal(range(table.depth + 1))
        needed = Signal(range(table.depth + 1))
        m.d.comb += [
            needed.eq(self._pages_of(self.tiles, frame_bits)),
            write.en.eq(take | (self.grant & filling)),
            write.addr.eq(Mux(filling, known, 0)),
            write.data.eq(Mux(filling, self.follower, buffer.page)),
        ]
        with m.If(self.grant & filling):
            m.d.sync += [
                page.eq(self.follower),
                known.eq(known + 1),
                filling.eq(known + 1 != needed),
            ]
        with m.If(take):
            several = buffer.data & (buffer.tiles > self.frames)
            m.d.sync += [known.eq(1), filling.eq(self._reordered & several)]

        order = self._listing if self._places else self._loops
        at, last, ends = order(m, read)
        m.d.comb += [look.addr.eq(at >> frame_bits), self.outside.eq(read & (at >= self.tiles))]
        return _Walk(nothing | last, look.data, at & (self.frames - 1), ends, at)

    def _pages_of(self, tiles: Value, frame_bits: int) -> Value:
        """Pages of a buffer of so many tiles."""
        pages = (tiles + self.frames - 1) >> frame_bits
        if self._spill is None:
            return pages
        return Mux(tiles > self._spill.on_chip, self._most_pages, pages)

    def _listing(self, m: Module, read: Value) -> tuple[Value, Value, Value]:
        """A list: the tile, whether it is the last, its stop."""
        places = self._places
        assert places is not None
        m.submodules.places = places
        m.d.comb += places.advance.eq(read)
        return places.entry.tile, places.entry.last, places.entry.stop

    def _loops(self, m: Module, read: Value) -> tuple[Value, Value, Value]:
        """A loop nest: the tile, whether it is the last, the loops that end."""
        n = self.affine
        counts = [Signal(REPEAT_BITS, name=f"count{d}") for d in range(n)]
        places = [Signal.like(self.tiles, name=f"place{d}") for d in range(n)]
        last_trip = Signal(n, reset_less=True)
        ends = Signal(STOP_BITS)
        following = Signal.like(self.tiles)
        at = Signal.like(self.tiles)
        for d in range(n):
            with m.If(~last_trip[d]):
                m.d.comb += [
                    following.eq(places[d] + getattr(self, f"stride_{d}")),
                    ends.eq(n - 1 - d),
                ]
        with m.If(last_trip.all()):
            m.d.comb += ends.eq(n)
        with m.If(read):
            m.d.sync += at.eq(following)
        for d in range(n):
            inner = last_trip[d + 1 :].all() if d + 1 < n else Const(1, 1)
            shape = getattr(self, f"shape_{d}")
            with m.If(ResetSignal(allow_reset_less=True)):
                m.d.sync += last_trip[d].eq(shape == 1)
            # dimension d goes on, or begins again; it keeps its place while an inner one does
            with m.Elif(read & inner):
                m.d.sync += [
                    places[d].eq(following),
                    counts[d].eq(Mux(last_trip[d], 0, counts[d] + 1)),
                    last_trip[d].eq(Mux(last_trip[d], shape == 1, counts[d] + 2 == shape)),
                ]
        return at, last_trip.all(), ends


def _off_chip(spill: Spill, tile: Tile) -> dict[str, wiring.Member]:
    """Members of a reader whose buffers may be partly off-chip."""
    blocks = Scalar(max(1, (spill.tiles // spill.block - 1).bit_length()))
    return {
        "fetch": Out(stream.Signature(beat_layout(blocks))),
        "fetched": In(stream.Signature(beat_layout(tile))),
        "number": Out(range(spill.tiles)),
        "about": In(about_layout(tile)),
        "settled": In(1),
    }


def _list(entries: Sequence[tuple[int, int]], tile_bits: int) -> Table:
    """The order of a pass as a table."""
    last = len(entries) - 1
    return Table(
        entries=[(tile, stop, i == last) for i, (tile, stop) in enumerate(entries)],
        fields={"tile": tile_bits, "stop": STOP_BITS, "last": 1},
    )
