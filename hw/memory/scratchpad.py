"""The on-chip memory of buffers."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_DONE, BufferRef, Tile
from ...machine.faults import Fault
from ...machine.limits import PAGES_BITS, SIZE_BITS
from ..beat import beat_layout
from ..stream import connect
from ..units.unit import Unit, post_layout, widest
from .absent import Spill, about_layout
from .arbiter import Arbiter
from .counts import ReferenceCounts
from .pages import PageList
from .reader import Order, Reader
from .writer import Writer


class Scratchpad(Unit):
    """Paged memory of buffers of run-time size: written as tiles, known by references, read as
    often as referenced.

    Parameters
    ----------
    params : dict
        ``pages`` P; ``frames`` F (tiles of a page, a power of two); ``writers``: list of
        ``{rank}``; ``readers``: list of ``{rank, repeat_dim}``, where buffers are repeated
        unequally with ``turns``, the repeats of each in turn, with ``ref``, the level of a stream
        that drives the reads, or with ``affine``, the loop dimensions of the order in which tiles
        are read, or with ``listed``, tile and stop of each beat of a pass; where buffers may be
        partly off-chip, ``spill``, their tiles there, and ``block``, those of a block.
    t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`. Inputs: tiles of each writer, references of each
        reader, then the streams that drive readers with ``ref``; outputs: references of each
        writer, then tiles of each reader. All tiles are of one payload, and so are all references.
        With ``spill`` those to and from the units that move tiles off-chip and back follow.
    posts : int
        Number of post ports: units that copy or drop references.
    drops : bool
        Whether any of them drops references.

    Members
    -------
    cfg : In(StructLayout)
        ``limit_w`` (16 bits) for each writer: buffers that it may hold; ``repeat_r`` (20 bits) for
        each reader; ``shape_k``, ``stride_k`` (20 bits) for each loop of the affine readers, one
        after the other.
    post0, post1, ... : In(post_layout(page_bits))
        References added by copies, or dropped.
    peak : Out(16)
        Most pages in use in any cycle so far: from the cycle in which a page is taken to the one in
        which its buffer is freed.
    error : Out(8)
        Bits ``Fault.REFERENCES``: a reference count does not fit; ``Fault.STOP``: a stream that
        drives reads ends a buffer with a wrong stop; ``Fault.ADDRESS``: a tile of an affine or a
        listed read lies outside its buffer.

    Others: see :class:`~penstock.hw.units.unit.Unit`.

    Timing
    ------
    One tile in and one tile out a cycle, shared round robin among writers and among readers. A
    reference is offered from the cycle after its buffer's last tile, a tile from two cycles after
    it was read. A writer waits while no page is free, and before a buffer while it holds as many as
    it may. The data memory has one write and one synchronous read port (block RAM); a frame is
    never written in the cycle in which it is read. Source: docs/timing.md section 4.
    """

    implements = "scratchpad"

    def __init__(self, *, kind, payloads, posts: int = 0, drops: bool = False, **built):
        self.drops = drops
        unit = widest(kind)
        self.writers = len(unit.writers)
        self.readers = len(unit.readers)
        self.posts = posts
        if self.writers < 1 or self.readers < 1:
            raise ValueError(
                f"Writers and readers must be at least one each, not {self.writers!r} and "
                f"{self.readers!r}"
            )
        frames = unit.frames
        if not isinstance(frames, int) or frames < 1 or frames & (frames - 1):
            raise ValueError(f"Frames must be a power of two, not {frames!r}")
        self.pages = unit.pages
        self.frames = frames
        clients = self.writers + self.readers
        tiles = {*payloads.inputs[: self.writers], *payloads.outputs[self.writers : clients]}
        references = {
            *payloads.outputs[: self.writers],
            *payloads.inputs[self.writers : self.writers + self.readers],
        }
        (self.tile, *others) = tiles
        if others or not isinstance(self.tile, Tile):
            raise ValueError(f"Tiles of a scratchpad must be of one Tile payload, not {tiles!r}")
        if references != {BufferRef(self.pages)}:
            raise ValueError(
                f"References of a scratchpad of {self.pages} pages must be "
                f"{BufferRef(self.pages)!r}, not {references!r}"
            )
        self.reference = BufferRef(self.pages)
        # Last page of the buffer that begins with a page, the number of its pages, and who wrote
        # it.
        last = data.StructLayout(
            {
                "page": self.reference.page_bits,
                "count": range(self.pages + 1),
                "writer": range(self.writers),
            }
        )
        self._lasts = Memory(shape=last, depth=self.pages, init=[])
        self._memory = Memory(
            shape=beat_layout(self.tile),
            depth=self.pages * frames,
            init=[],
            attrs={"no_rw_check": True},
        )
        self._spill = Spill(unit.on_chip, unit.spill, unit.block) if unit.spill else None
        if self._spill:
            self._about = Memory(shape=about_layout(self.tile), depth=unit.spill, init=[])
        members = {f"post{k}": In(post_layout(self.reference.page_bits)) for k in range(posts)}
        super().__init__(
            kind=kind, payloads=payloads, members={**members, "peak": Out(16)}, **built
        )

    def cfg_layout(self) -> dict[str, int]:
        loops = sum(r.get("affine", 0) for r in self.kind.readers)
        limits = {f"limit_{w}": PAGES_BITS for w in range(self.writers)}
        repeats = {f"repeat_{r}": SIZE_BITS for r in range(self.readers)}
        return (
            limits
            | repeats
            | {f"{name}_{k}": SIZE_BITS for name in ("shape", "stride") for k in range(loops)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self._memory
        m.submodules.lasts = self._lasts
        m.submodules.pages = pages = PageList(pages=self.pages)
        m.submodules.counts = counts = ReferenceCounts(
            pages=self.pages,
            page_bits=self.reference.page_bits,
            posts=self.posts,
            drops=self.drops,
            releases=self.readers if self.config.deep else 1,
        )
        freed = self._lasts.read_port(domain="comb")
        m.d.comb += [
            freed.addr.eq(counts.freed.page),
            pages.give.valid.eq(counts.freed.valid),
            pages.give.first.eq(counts.freed.page),
            pages.give.last.eq(freed.data.page),
            pages.give.count.eq(freed.data.count),
        ]
        write = memory.write_port()
        read = memory.read_port()
        writers = self._write(m, write, pages, counts, freed.data.writer)
        readers = self._read(m, read, pages, counts)
        mismatch = Cat(reader.mismatch for reader in readers).any()
        if self._spill:
            self._go_off_chip(m, self._spill, writers, readers)
        for k in range(self.posts):
            m.d.comb += getattr(counts, f"post{k}").eq(getattr(self, f"post{k}"))

        used = self.pages + 1 - pages.free  # once a page is taken
        with m.If(pages.take & (used > self.peak)):
            m.d.sync += self.peak.eq(used)

        self.report(m, offers=Cat(o.valid for o in self.outputs).any())
        m.d.comb += [self.error[Fault.STOP].eq(mismatch)]
        return m

    def _write(
        self, m: Module, port, pages: PageList, counts: ReferenceCounts, owner: Value
    ) -> list[Writer]:
        """The writers; ``owner``: the writer of the buffer that is given back."""
        m.submodules.write_arbiter = arbiter = Arbiter(clients=self.writers, policy="round_robin")
        lasts = self._lasts.write_port()
        writers = []
        for w in range(self.writers):
            writer = Writer(
                rank=getattr(self.settings, f"writers_{w}_rank"),
                frames=self.frames,
                tile=self.tile,
                reference=self.reference,
                spill=self._spill,
            )
            m.submodules[f"writer{w}"] = writer
            writers.append(writer)
            held = Signal(range(self.pages + 1), name=f"held_{w}")
            m.d.sync += held.eq(
                held + (writer.grant & writer.begins) - (pages.give.valid & (owner == w))
            )
            connect(m, wiring.flipped(self.inputs[w]), writer.i)
            connect(m, writer.o, wiring.flipped(self.outputs[w]))
            m.d.comb += [
                writer.any_free.eq(pages.free != 0),
                writer.may_begin.eq(held < self.cfg[f"limit_{w}"]),
                writer.head.eq(pages.head),
                arbiter.requests[w].eq(writer.request),
                writer.grant.eq(arbiter.grant[w]),
            ]
        m.d.comb += [
            port.en.eq(arbiter.grant.any()),
            arbiter.clear.eq(Cat(writer.ended for writer in writers).any()),
            self.error[Fault.REFERENCES].eq(
                counts.overflow | Cat(writer.overflow for writer in writers).any()
            ),
        ]
        with m.Switch(arbiter.index):
            for w, writer in enumerate(writers):
                with m.Case(w):
                    m.d.comb += [
                        port.addr.eq(writer.page * self.frames + writer.frame),
                        port.data.eq(writer.i.payload),
                        pages.take.eq(writer.grant & writer.takes_page),
                        pages.chain.valid.eq(writer.grant & writer.extends),
                        pages.chain.page.eq(writer.last),
                        counts.open.valid.eq(writer.grant & writer.closes),
                        counts.open.page.eq(writer.first),
                        lasts.en.eq(writer.grant & writer.closes),
                        lasts.addr.eq(writer.first),
                        lasts.data.page.eq(writer.page),
                        lasts.data.writer.eq(w),
                        lasts.data.count.eq(
                            (writer.tiles + self.frames - 1) >> (self.frames - 1).bit_length()
                        ),
                    ]
                    if self._spill:
                        with m.If(writer.away):
                            m.d.comb += [port.en.eq(0), lasts.data.count.eq(self.pages)]
        return writers

    def _go_off_chip(
        self, m: Module, spill: Spill, writers: list[Writer], readers: list[Reader]
    ) -> None:
        """Rule 11: tiles that leave, what is known of them, and the blocks on their way."""
        m.submodules.about = self._about
        write = self._about.write_port()
        read = self._about.read_port()
        room = Signal()
        in_flight = Signal(range(spill.tiles // spill.block + 1))
        over = Signal(len(writers))  # writers whose Done was taken
        now = Signal.like(over)
        ends = Signal()
        begins = Signal()
        leaves = Signal()
        closes = Signal()
        number = Signal(range(spill.tiles))
        at = Signal(range(spill.block))
        m.d.comb += [
            room.eq(self.place.ready & self.spilled.ready),
            now.eq(over | Cat(writer.ended for writer in writers)),
            ends.eq(now.all()),
            at.eq(number),
            begins.eq(leaves & (at == 0)),
            write.en.eq(leaves),
            write.addr.eq(number),
            self.place.valid.eq(begins | ends),
            self.place.payload.value.eq(number >> (spill.block - 1).bit_length()),
            self.place.payload.data.eq(~ends),
            self.spilled.valid.eq(leaves | ends),
            self.stored.ready.eq(1),
        ]
        for writer in writers:
            beat = writer.i.payload
            m.d.comb += writer.room.eq(room)
            with m.If(writer.grant & writer.away):
                m.d.comb += [
                    leaves.eq(1),
                    number.eq(writer.number),
                    closes.eq(writer.closes),
                    self.spilled.payload.elements.eq(beat.elements),
                    self.spilled.payload.rows.eq(self.t),
                    self.spilled.payload.cols.eq(self.t),
                ]
                m.d.comb += [write.data[name].eq(beat[name]) for name in self._about.shape.members]
        m.d.comb += self.spilled.payload.data.eq(leaves)
        with m.If(closes | (at == spill.block - 1)):
            m.d.comb += self.spilled.payload.stop.eq(2)
        with m.If(ends):
            m.d.comb += [self.place.payload.stop.eq(STOP_DONE)]
            m.d.comb += [self.spilled.payload.stop.eq(STOP_DONE)]
        m.d.sync += [
            over.eq(Mux(ends, 0, now)),
            in_flight.eq(in_flight + begins - (self.stored.valid & self.stored.payload.data)),
        ]
        for r, reader in enumerate(readers):
            connect(m, reader.fetch, wiring.flipped(getattr(self, f"fetch_{r}")))
            connect(m, wiring.flipped(getattr(self, f"fetched_{r}")), reader.fetched)
            m.d.comb += [reader.about.eq(read.data), reader.settled.eq(in_flight == 0)]
            with m.If(reader.grant):
                m.d.comb += read.addr.eq(reader.number)

    def _release(self, m: Module, release: data.View, reader: Reader) -> None:
        """A reader's last read of its buffer."""
        m.d.comb += [
            release.valid.eq(reader.grant & reader.releases),
            release.page.eq(reader.first),
        ]

    def _order(self, r: int) -> Order:
        """Settings of the passes of reader ``r``."""
        names = ("rank", "repeat_dim", "ref", "driven", "turns_given", "affine")
        return Order(*(getattr(self.settings, f"readers_{r}_{name}") for name in names))

    def _read(self, m: Module, port, pages: PageList, counts: ReferenceCounts) -> list[Reader]:
        """The readers."""
        m.submodules.read_arbiter = arbiter = Arbiter(clients=self.readers, policy="round_robin")
        readers = []
        driven = 0
        loops = 0
        for r, params in enumerate(self.kind.readers):
            token = (
                self.payloads.inputs[self.writers + self.readers + driven]
                if "ref" in params
                else None
            )
            reader = Reader(
                order=self._order(r),
                frames=self.frames,
                tile=self.tile,
                reference=self.reference,
                turns=params.get("turns"),
                token=token,
                affine=params.get("affine", 0),
                places=params.get("listed"),
                pages=self.pages,
                spill=self._spill,
            )
            m.submodules[f"reader{r}"] = reader
            readers.append(reader)
            if hasattr(reader, "turn"):
                m.d.comb += [
                    reader.turn.last.eq(getattr(self.settings, f"readers_{r}_turns_last")),
                    reader.turn.write.repeat.eq(self.tables[f"readers_{r}_turns_repeat"]),
                ]
            for d in range(reader.affine):
                m.d.comb += [
                    getattr(reader, f"{name}_{d}").eq(self.cfg[f"{name}_{loops + d}"])
                    for name in ("shape", "stride")
                ]
            loops += reader.affine
            if token is not None:
                connect(
                    m,
                    wiring.flipped(self.inputs[self.writers + self.readers + driven]),
                    reader.tokens,
                )
                driven += 1
            connect(m, wiring.flipped(self.inputs[self.writers + r]), reader.i)
            connect(m, reader.o, wiring.flipped(self.outputs[self.writers + r]))
            m.d.comb += [
                reader.repeat.eq(self.cfg[f"repeat_{r}"]),
                reader.follower.eq(pages.follower),
                reader.stored.eq(port.data),
                arbiter.requests[r].eq(reader.request),
                reader.grant.eq(arbiter.grant[r]),
            ]
        with m.Switch(arbiter.index):
            for r, reader in enumerate(readers):
                with m.Case(r):
                    m.d.comb += [
                        port.addr.eq(reader.page * self.frames + reader.frame),
                        pages.page.eq(reader.link),
                    ]
                    if counts.releases == 1:
                        self._release(m, counts.release0, reader)
        if counts.releases > 1:
            for r, reader in enumerate(readers):
                self._release(m, getattr(counts, f"release{r}"), reader)
        m.d.comb += arbiter.clear.eq(Cat(reader.ended for reader in readers).any())
        m.d.comb += self.error[Fault.ADDRESS].eq(Cat(reader.outside for reader in readers).any())
        return readers
