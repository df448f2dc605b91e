"""Packing of blocks of tiles into the lines of a store."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import Tile
from ...machine.config import Machine
from ...machine.widths import Widths
from ..beat import beat_layout
from ..units.fifo import Fifo
from ..units.unit import Unit
from .chunk_queue import ask
from .columns import SLOTS, Columns
from .rotate import rotate

QUEUE = 2  # blocks, docs/timing.md section 5


def chunk_layout(lanes: int, line: int) -> data.StructLayout:
    """W rows of a line: which of them have a valid element, the lines, the masks of their bytes."""
    return data.StructLayout(
        {
            "mask": lanes,
            "data": data.ArrayLayout(line, lanes),
            "bytes": data.ArrayLayout(line // 8, lanes),
        }
    )


def tensor_layout(widths: Widths) -> dict[str, int]:
    """Run-time parameters of what stores a tensor: field -> bits."""
    fields = {"base": widths.address, "pitch": widths.address}
    return fields | dict.fromkeys(("tensor_rows", "tensor_cols", "rows", "cols"), widths.size)


def offsets(
    m: Module, packing: "Packing", pitch, t: int, lanes: int, next_tile
) -> tuple[Signal, Signal, Signal]:
    """Offsets in bytes at which the current band, step and chunk of ``packing`` begin, from the
    first tile's place.

    Chunks of W = ``lanes`` rows follow each other down a step, steps of one line along a band,
    bands of t rows down a logical tile, one tile the next at ``next_tile``; ``pitch`` is the bytes
    from row to row.
    """
    place = packing.place
    band = Signal(packing.widths.address)
    step = Signal(packing.widths.address)
    chunk = Signal(packing.widths.address)
    after = Signal(packing.widths.address)
    with m.If(place.last_step & place.ends_tile):
        m.d.comb += after.eq(next_tile)
    with m.Elif(place.last_step):
        m.d.comb += after.eq(band + pitch * t)
    with m.Else():
        m.d.comb += after.eq(step + packing.widths.line // 8)
    with m.If(packing.advance):
        m.d.sync += chunk.eq(chunk + pitch * lanes)
        with m.If(place.last_chunk):
            m.d.sync += [chunk.eq(after), step.eq(after)]
            with m.If(place.last_step):
                m.d.sync += band.eq(after)
    return band, step, chunk


def ask_lines(
    m: Module, store: Unit, packing: "Packing", valid: Value, address: Value, **more: Value
) -> tuple[Signal, Signal]:
    """The current chunk of ``packing`` at the port of its store, as by :func:`ask`."""
    m.d.comb += store.port.request.payload.pitch.eq(store.cfg.pitch)
    chunk = {name: packing.chunk[name] for name in ("mask", "data", "bytes")}
    return ask(m, store.port, store.config, valid, address=address, **chunk, **more)


class Packing(wiring.Component):
    """Collects tiles into blocks of t rows by E elements and cuts them into the lines of a row at
    misalignment k.

    Parameters
    ----------
    tile : Tile
        Payload of the stream.
    config : Machine
        ``port_lanes`` is W, the rows of a chunk.

    Members
    -------
    i : In(stream.Signature(beat_layout(tile)))
        Data beats only.
    k : In(range(E))
        Misalignment of the logical tile in elements; 0 or constant until ``ends_tile``.
    place : Out(StructLayout)
        The current place of the walk: ``open`` (there is one), ``present`` (it has a chunk),
        ``last_chunk`` (of its step), ``last_step`` (of its row of tiles), ``ends_tile`` (with
        ``last_step``: and of the logical tile).
    chunk : Out(chunk_layout(lanes, widths.line))
    advance : In(1)
        Go on; only while ``place.open``.
    idle : Out(1)
        No block is queued or begun and no step is open.
    partial : Out(1)
        A block is begun.
    ragged : Out(1)
        The tile taken does not lie beside those before it: it has other rows, or they are not full.

    Timing
    ------
    A tile is taken while fewer than two blocks are queued at the start of the cycle. A block is
    visible from the cycle after its last tile, and leaves the queue with the last chunk of its
    step; the elements that belong to the next line stay in their slot for one more step. Source:
    docs/timing.md section 5, ``store``.
    """

    def __init__(self, *, tile: Tile, config: Machine):
        self.tile = tile
        self.lanes = lanes = config.port_lanes
        self.widths = widths = config.widths
        self.columns = widths.line // tile.element_bits
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(tile))),
                "k": In(range(self.columns)),
                "place": Out(
                    data.StructLayout(
                        {"open": 1, "present": 1, "last_chunk": 1, "last_step": 1, "ends_tile": 1}
                    )
                ),
                "chunk": Out(chunk_layout(lanes, widths.line)),
                "advance": In(1),
                "idle": Out(1),
                "partial": Out(1),
                "ragged": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        t = self.tile.t
        columns = self.columns
        m.submodules.store = store = Columns(
            t=t, columns=columns, element_bits=self.tile.element_bits
        )
        shape = {"ends_row": 1, "ends_tile": 1, "rows": range(t + 1), "cols": range(columns + 1)}
        m.submodules.queue = queue = Fifo(shape=data.StructLayout(shape), depth=QUEUE)
        head = Signal(range(SLOTS))
        tail = Signal(range(SLOTS))

        # Taking tiles: column c of tile g is column g * t + c of the block.
        beat = self.i.payload
        tile = Signal(range(max(2, columns // t)))
        take = Signal()
        ends_block = Signal()
        m.d.comb += [
            self.i.ready.eq(queue.i.ready),
            take.eq(self.i.valid & self.i.ready),
            ends_block.eq((tile == columns // t - 1) | (beat.stop != 0)),
            queue.i.valid.eq(take & ends_block),
            queue.i.payload.ends_row.eq(beat.stop >= 1),
            queue.i.payload.ends_tile.eq(beat.stop >= 2),
        ]
        with m.If(take):
            m.d.sync += tile.eq(Mux(ends_block, 0, tile + 1))
            with m.If(ends_block):
                m.d.sync += tail.eq(tail + 1)
        self._gather(m, take, ends_block, tile, queue.i.payload)

        carrying = Signal()
        carried = Signal.like(queue.o.payload.cols)  # columns of the block before, on this line
        self._write(m, store, take, tile, tail)
        for p in range(columns):
            before = self.k + p >= columns
            m.d.comb += store.read_slot[p].eq(Mux(before, head - 1, head))
        row = self._step(m, queue, carrying, carried)
        self._chunk(m, store, row, self._valid(m, queue.o.payload, carrying, carried))
        m.d.comb += [self.idle.eq(~self.place.open & (tile == 0)), self.partial.eq(tile != 0)]
        with m.If(queue.o.valid & queue.o.ready):
            m.d.sync += head.eq(head + 1)
        return m

    def _step(self, m: Module, queue: Fifo, carrying: Signal, carried: Signal) -> Signal:
        """Steps and chunks; returns the first row of this one. A misaligned row of tiles ends with
        a carry step.
        """
        place = self.place
        block = queue.o.payload
        row = Signal(range(self.tile.t))
        rows = Signal.like(block.rows)
        carried_rows = Signal.like(block.rows)
        some = Signal()
        ended_tile = Signal()
        over = Signal(range(2 * self.columns))
        m.d.comb += [
            rows.eq(Mux(carrying, carried_rows, block.rows)),
            some.eq((carried != 0) | (~carrying & (block.cols != 0))),
            place.open.eq(carrying | queue.o.valid),
            self.chunk.mask.eq(Cat(some & (row + lane < rows) for lane in range(self.lanes))),
            place.present.eq(place.open & self.chunk.mask.any()),
            place.last_chunk.eq(~some | (row + self.lanes >= rows)),
            place.last_step.eq(carrying | (block.ends_row & (self.k == 0))),
            place.ends_tile.eq(Mux(carrying, ended_tile, block.ends_tile)),
            queue.o.ready.eq(self.advance & place.last_chunk & ~carrying),
            over.eq(block.cols + self.k),
        ]
        with m.If(self.advance):
            m.d.sync += row.eq(row + self.lanes)
            with m.If(place.last_chunk):
                m.d.sync += [row.eq(0), carried_rows.eq(block.rows)]
                m.d.sync += carried.eq(Mux(over > self.columns, over - self.columns, 0))
                with m.If(place.last_step):
                    m.d.sync += [carried.eq(0), carrying.eq(0)]
                with m.Elif(block.ends_row):
                    m.d.sync += [carrying.eq(1), ended_tile.eq(block.ends_tile)]
        return row

    def _gather(
        self, m: Module, take: Signal, ends_block: Signal, tile: Signal, block: data.View
    ) -> None:
        """Valid rows and columns of a block: tiles side by side must have the same rows, and all
        but the last t columns.
        """
        beat = self.i.payload
        rows = Signal.like(beat.rows)
        cols = Signal.like(block.cols)
        full = Signal()
        m.d.comb += [
            block.rows.eq(Mux(tile == 0, beat.rows, rows)),
            block.cols.eq(cols + beat.cols),
            self.ragged.eq(take & (tile != 0) & (beat.cols != 0) & ((beat.rows != rows) | ~full)),
        ]
        with m.If(take):
            m.d.sync += [
                full.eq(beat.cols == self.tile.t),
                rows.eq(block.rows),
                cols.eq(Mux(ends_block, 0, block.cols)),
            ]

    def _valid(self, m: Module, block: data.View, carrying: Signal, carried: Signal) -> Signal:
        """Valid elements of the line in the rows that are valid: the last of the block before, and
        behind k those of this one.
        """
        end = Signal(range(2 * self.columns))
        valid = Signal(self.columns)
        m.d.comb += end.eq(Mux(carrying, 0, self.k + block.cols))
        last = self.columns - 1
        for q in range(last):
            m.d.comb += valid[q].eq(Mux(self.k > q, carried > q, end > q))
        m.d.comb += valid[last].eq(end > last)
        return valid

    def _write(self, m: Module, store: Columns, take: Signal, tile: Signal, tail: Signal) -> None:
        """The columns of a tile."""
        t = self.tile.t
        beat = self.i.payload
        for p in range(self.columns):
            g, c = divmod(p, t)
            mine = Signal(name=f"mine{p}")
            m.d.comb += [
                mine.eq(tile == g),
                store.write_slot[p].eq(tail),
                store.write_rows[p].eq((take & mine).replicate(t)),
                store.write_data[p].eq(Cat(beat.elements[r][c] for r in range(t))),
            ]

    def _chunk(self, m: Module, store: Columns, row: Signal, valid: Signal) -> None:
        """W lines; position q of a line holds column (q - k) mod E."""
        t = self.tile.t
        columns = self.columns
        element_bytes = self.tile.element_bits // 8
        turn = Signal(range(columns))
        m.d.comb += turn.eq(-self.k)
        for lane in range(self.lanes):
            # Row `row + lane` of each column: row is a multiple of W.
            cells = [Signal(self.tile.element_bits, name=f"cell{lane}_{p}") for p in range(columns)]
            for p, cell in enumerate(cells):
                choice = data.View(
                    data.ArrayLayout(self.tile.element_bits, t // self.lanes),
                    Cat(store.read_data[p][r] for r in range(lane, t, self.lanes)),
                )
                m.d.comb += cell.eq(choice[row >> (self.lanes - 1).bit_length()])
            line = rotate(m, cells, turn, name=f"lane{lane}")
            written = Signal(columns, name=f"written{lane}")
            m.d.comb += [
                written.eq(Mux(self.chunk.mask[lane], valid, 0)),
                self.chunk.data[lane].eq(Cat(line)),
                self.chunk.bytes[lane].eq(Cat(v.replicate(element_bytes) for v in written)),
            ]
