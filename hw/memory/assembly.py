"""Assembly of a load's lines into blocks of whole rows of a line's width."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_BITS
from ..stream import connect
from ..units.fifo import Fifo
from .columns import SLOTS, Columns
from .nest import Nest, set_walk
from .rotate import rotate
from .walk import Walk

QUEUE = 2  # blocks, docs/timing.md section 5, ``load``, rule 4


def block_layout(t: int, elements: int) -> data.StructLayout:
    """Layout of a block's description: valid ``rows`` and ``cols``, its tiles less one, the
    ``stop`` of the last of them (0 within a row of tiles), whether it is the ``last`` block of all,
    and whether it has no tile and stands for a bare stop (``hollow``).
    """
    return data.StructLayout(
        {
            "rows": range(t + 1),
            "cols": range(elements + 1),
            "tiles": range(max(2, elements // t)),
            "stop": STOP_BITS,
            "last": 1,
            "hollow": 1,
        }
    )


def trigger_layout(nest: Nest) -> data.StructLayout:
    """A walk to be assembled: where it begins, its trigger's ``stop``, and whether there is none
    (``hollow``).
    """
    return data.StructLayout({"start": nest.start, "stop": STOP_BITS, "hollow": 1})


class Assembly(wiring.Component):
    """Takes groups of lines in the order of the walk and queues blocks of t rows by E elements,
    aligned to the logical tile.

    Parameters
    ----------
    nest : Nest
        The load's; t rows of a block, E elements a line.
    element_bits : int
        Bits of an element.

    Members
    -------
    cfg, how, listed
        Those of the walk.
    starts : In(stream.Signature(trigger_layout(nest)))
        The walks to assemble, each taken with its last step; only where it is triggered.
    coming, takes : In(nest.start), In(1)
        ``start`` and ``takes`` of the walk; only where staged.
    group : In(stream.Signature(data.ArrayLayout(widths.line, lanes)))
    block : Out(stream.Signature(block_layout(t, E)))
        The head block, oldest first.
    elements : Out(data.ArrayLayout(data.ArrayLayout(element_bits, t), E))
        Its elements, ``[column][row]``; undefined where not valid.

    Timing
    ------
    One complete group a cycle; a step without chunk takes one cycle. The last cycle of a step that
    completes a block pushes it if fewer than two are queued at the start of the cycle, and waits
    otherwise; it is visible from the next cycle. A misaligned line ends one block and begins the
    next, so a block's columns are written to the slots where they belong and nothing is carried.
    Source: docs/timing.md section 5, ``load``, rule 4.
    """

    def __init__(self, nest: Nest, *, element_bits: int):
        self._nest = nest
        self.t = nest.t
        self.element_bits = element_bits
        self.lanes = nest.lanes
        self.columns = columns = nest.elements
        starts = {}
        if nest.trigger:
            starts["starts"] = In(stream.Signature(trigger_layout(nest)))
        if nest.trigger and nest.staged:
            starts |= {"coming": In(nest.start), "takes": In(1)}
        super().__init__(
            {
                **starts,
                **nest.members,
                "group": In(stream.Signature(data.ArrayLayout(nest.widths.line, nest.lanes))),
                "block": Out(stream.Signature(block_layout(nest.t, columns))),
                "elements": Out(data.ArrayLayout(data.ArrayLayout(element_bits, nest.t), columns)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        t = self.t
        columns = self.columns
        m.submodules.walk = walk = Walk(self._nest, requests=False)
        m.submodules.queue = queue = Fifo(shape=block_layout(t, columns), depth=QUEUE)
        m.submodules.store = store = Columns(t=t, columns=columns, element_bits=self.element_bits)

        completes = Signal()  # this cycle, if it goes on, pushes a block
        go = Signal()
        misaligned = Signal()
        set_walk(m, walk, self)
        m.d.comb += walk.how.eq(self.how)
        if hasattr(self, "listed"):
            m.d.comb += walk.listed.eq(self.listed)
        m.d.comb += [
            misaligned.eq(walk.k != 0),
            completes.eq(walk.last_chunk & ~(misaligned & (walk.step == 0))),
            go.eq(walk.active & (~walk.chunk | self.group.valid) & (~completes | queue.i.ready)),
            self.group.ready.eq(go & walk.chunk),
            walk.advance.eq(go),
            queue.i.valid.eq(go & completes),
        ]

        self._describe(m, walk, queue.i.payload, misaligned)
        if self._nest.trigger:
            self._follow_triggers(m, walk, queue, go)
        head = Signal(range(SLOTS))
        tail = Signal(range(SLOTS))
        with m.If(queue.i.valid & queue.i.ready):
            m.d.sync += tail.eq(tail + 1)
        with m.If(queue.o.valid & queue.o.ready):
            m.d.sync += head.eq(head + 1)
        connect(m, queue.o, wiring.flipped(self.block))
        m.d.comb += self.elements.eq(store.read_data)
        self._store(m, walk, store, go, misaligned, head, tail)
        return m

    def _follow_triggers(self, m: Module, walk: Walk, queue: Fifo, go: Signal) -> None:
        """A walk for each trigger; one that begins none is a block of its own."""
        trigger = self.starts.payload
        how = self.how
        m.d.comb += [
            walk.go.eq(self.starts.valid & ~trigger.hollow),
            self.starts.ready.eq(go & walk.last),
        ]
        if self._nest.staged:
            m.d.comb += [walk.start.eq(self.coming), walk.takes.eq(self.takes)]
        else:
            m.d.comb += walk.start.eq(trigger.start)
        with m.If(self.starts.valid & trigger.hollow):
            m.d.comb += [
                queue.i.valid.eq(1),
                queue.i.payload.hollow.eq(1),
                queue.i.payload.tiles.eq(0),
                queue.i.payload.stop.eq(2 + how.rank + trigger.stop),
                self.starts.ready.eq(queue.i.ready),
            ]
        with m.Elif(walk.last):
            outer = Mux(how.triggered, trigger.stop, 0)
            m.d.comb += queue.i.payload.stop.eq(2 + how.rank + outer)

    def _store(
        self,
        m: Module,
        walk: Walk,
        store: Columns,
        go: Signal,
        misaligned: Signal,
        head: Signal,
        tail: Signal,
    ) -> None:
        """Column p of a line turned by k: p < E - k begins (or is) block i, the others end block i
        - 1.
        """
        t = self.t
        columns = self.columns
        lanes = self.lanes
        lines = [
            rotate(
                m,
                [
                    self.group.payload[lane].word_select(p, self.element_bits)
                    for p in range(columns)
                ],
                walk.k,
                name=f"lane{lane}",
            )
            for lane in range(lanes)
        ]
        rows = Signal(t)
        for row in range(t):
            m.d.comb += rows[row].eq(go & walk.chunk & (walk.row == row - row % lanes))
        begun = Signal(range(SLOTS))
        m.d.comb += begun.eq(tail + (misaligned & (walk.step != 0)))
        for p in range(columns):
            ends = Signal(name=f"ends{p}")
            m.d.comb += [
                ends.eq(walk.k + p >= columns),
                store.read_slot[p].eq(head),
                store.write_slot[p].eq(Mux(ends, tail, begun)),
                store.write_rows[p].eq(Mux(ends & (walk.step == 0), 0, rows)),
                store.write_data[p].eq(Cat(lines[row % lanes][p] for row in range(t))),
            ]

    def _describe(self, m: Module, walk: Walk, block, misaligned) -> None:
        """Description of the block that the current step completes."""
        t = self.t
        columns = self.columns
        line_log = (columns - 1).bit_length()
        first_col = Signal.like(walk.cols)
        tiles = Signal.like(walk.cols)
        first_tile = Signal.like(walk.cols)
        last = Signal()
        m.d.comb += [
            first_col.eq((walk.step - misaligned) << line_log),
            tiles.eq((self.cfg.cols + t - 1) >> (t - 1).bit_length()),
            first_tile.eq(first_col >> (t - 1).bit_length()),
            last.eq(walk.last_step),
            block.rows.eq(walk.rows),
            block.cols.eq(
                Mux(
                    walk.cols <= first_col,
                    0,
                    Mux(walk.cols - first_col < columns, walk.cols - first_col, columns),
                )
            ),
            block.tiles.eq(Mux(last, tiles - first_tile - 1, columns // t - 1)),
            block.stop.eq(Mux(last, walk.stop, 0)),
            block.last.eq(walk.last),
        ]
