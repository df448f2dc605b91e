"""Linear loads from off-chip memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from ...machine.beat import STOP_DONE, Scalar, Tile
from ...machine.faults import Fault
from ...machine.limits import TRIGGERS_AHEAD, TRIGGERS_BEHIND
from ..beat import is_done
from ..stream import connect
from ..units.fifo import Fifo
from ..units.unit import Unit
from .assembly import Assembly, trigger_layout
from .chunk_queue import ask
from .head import Head
from .locate import locate
from .nest import ANY, HOW, Nest, set_walk, walk_layout
from .order import order_of, set_order
from .port import ReadPort
from .walk import Walk


class Load(Unit):
    """Reads logical tiles of a row-major tensor, in the order of a loop nest, as a stream of
    physical tiles: once, or for each trigger.

    Members
    -------
    cfg : In(StructLayout)
        ``base``, ``pitch`` (bytes, 32 bits), ``tensor_rows``, ``tensor_cols``, ``rows``, ``cols``
        (elements, 20 bits) and, for each loop dimension d, outermost first, ``shape_d`` (trips),
        ``row_step_d``, ``col_step_d`` (elements, 20 bits); by address ``shift`` (5 bits), the
        logarithm of the logical tiles in a row of the tensor.
    port : Out(ReadPort(W))
        The off-chip port.
    error : Out(8)
        Bit ``Fault.ADDRESS``: a number names a tile outside the tensor.

    Timing
    ------
    From the first cycle on a chunk of up to W lines is requested each cycle while the port's ring
    has a free group; with deep pipelines a queue of two is before the port. A complete group is
    assembled each cycle; a block of G = E / t tiles leaves at one tile a cycle. Each line of a
    logical tile's band is asked for once. Without triggers it runs once per reset. A trigger is
    taken while fewer than 2 wait for the requests and fewer than 16 for the assembly, and requests
    lines from the next cycle; with deep pipelines one by address from the cycle after. Triggers
    follow each other without a gap, and after Done others may come. Source: docs/timing.md section
    5.
    """

    implements = "load"

    def __init__(self, *, config, payloads, **built):
        (tile,) = payloads.outputs
        if not isinstance(tile, Tile):
            raise ValueError(f"Payload of a load must be a Tile, not {tile!r}")
        self.element_bits = tile.element_bits
        super().__init__(
            config=config,
            payloads=payloads,
            members={"port": Out(ReadPort(config.port_lanes, config.widths))},
            **built,
        )
        triggered = self.kind.trigger
        self.trigger = ANY if self.configured and triggered else triggered
        self.rank = self.kind.rank
        if self.trigger in ("address", ANY) and not isinstance(payloads.inputs[0], Scalar):
            raise ValueError(f"Payload of addresses must be a Scalar, not {payloads.inputs[0]!r}")

    def cfg_layout(self) -> dict[str, int]:
        return walk_layout(self.kind.rank, self.kind.trigger, self.config.widths)

    def elaborate(self, platform):
        m = Module()
        widths = self.config.widths
        nest = Nest(
            rank=self.rank,
            t=self.t,
            elements=widths.line // self.element_bits,
            lanes=self.config.port_lanes,
            widths=widths,
            order=order_of(self),
            trigger=self.trigger,
            staged=self._staged(),
        )
        m.submodules.walk = walk = Walk(nest, requests=True)
        m.submodules.assembly = assembly = Assembly(nest, element_bits=self.element_bits)
        self._nest = nest

        for part in (walk, assembly):
            set_walk(m, part, self)
            m.d.comb += part.how.eq(self._how())
        if hasattr(walk, "listed"):
            set_order(m, self, walk.listed)
            set_order(m, self, assembly.listed)
        request = self.port.request
        asked, granted = ask(
            m, self.port, self.config, walk.chunk, address=walk.address, mask=walk.mask
        )
        m.d.comb += [
            request.payload.pitch.eq(self.cfg.pitch),
            walk.advance.eq(walk.active & (~walk.chunk | asked)),
        ]
        connect(m, wiring.flipped(self.port.group), assembly.group)

        self._emit(m, walk, assembly)
        self.report(m, offers=self.data.valid | request.valid)
        with m.If(granted):
            m.d.comb += [self.busy.eq(1), self.blocked.eq(0)]
        return m

    def _staged(self) -> bool:
        """True if the walks have what follows from a place in registers."""
        return self.trigger == "address" and self.config.chunks_ahead > 0

    def _how(self) -> data.View:
        """Source of the walks' starts."""
        triggered = self.pick("trigger", lambda trigger: int(trigger is not None))
        placed = self.pick("trigger", lambda trigger: int(trigger == "address"))
        rank = Cat(self.settings.rank, Const(0, 4))[:4]
        return data.View(HOW, Cat(triggered, placed, self.settings.order_given, rank))

    def _emit(self, m: Module, walk: Walk, assembly: Assembly) -> None:
        """The tiles of the head block, then Done."""
        t = self.t
        columns = self.config.widths.line // self.element_bits
        block = assembly.block
        emitted = Signal()
        finished = Signal()
        tile = Signal(range(max(2, columns // t)))
        first_col = Signal(range(columns))
        last_tile = Signal()
        m.d.comb += [
            last_tile.eq(tile == block.payload.tiles),
            first_col.eq(tile * t),
            self.data.valid.eq(Mux(emitted, ~finished, block.valid)),
            block.ready.eq(self.data.ready & last_tile & ~emitted),
        ]
        with m.If(self.data.valid & self.data.ready):
            with m.If(last_tile | emitted):
                m.d.sync += tile.eq(0)
            with m.Else():
                m.d.sync += tile.eq(tile + 1)
        self._end(m, walk, assembly, emitted, finished)
        with m.If(emitted):
            m.d.comb += self.data.payload.stop.eq(STOP_DONE)
        with m.Elif(block.payload.hollow):
            m.d.comb += self.data.payload.stop.eq(block.payload.stop)
        with m.Else():
            self._tile(m, assembly, tile, first_col, last_tile)

    def _end(self, m: Module, walk: Walk, assembly: Assembly, emitted, finished) -> None:
        """True if all tiles have been ``emitted``, and the Done behind them too."""
        block = assembly.block
        leaves = emitted & self.data.valid & self.data.ready
        triggered = self._how().triggered
        once_emitted = Const(0)
        once_finished = Const(0)
        ended = Const(0)
        if self.trigger:
            ended = self._triggers(m, walk, assembly, self.trigger)
            with m.If(leaves):
                m.d.sync += ended.eq(0)
        if self.trigger in (None, ANY):
            through = Signal()
            gone = Signal()
            with m.If(block.valid & block.ready & block.payload.last):
                m.d.sync += through.eq(1)
            with m.If(leaves):
                m.d.sync += gone.eq(1)
            once_emitted = through | walk.empty
            once_finished = gone
        m.d.comb += [
            emitted.eq(Mux(triggered, ~block.valid, once_emitted)),
            finished.eq(Mux(triggered, ~ended, once_finished)),
        ]

    def _tile(self, m: Module, assembly: Assembly, tile: Value, first_col: Value, last_tile: Value):
        """Tile ``tile`` of the head block."""
        t = self.t
        columns = self.config.widths.line // self.element_bits
        block = assembly.block
        beat = self.data.payload
        left = Signal(range(columns + 1))
        m.d.comb += [
            left.eq(Mux(block.payload.cols <= first_col, 0, block.payload.cols - first_col)),
            beat.rows.eq(block.payload.rows),
            beat.cols.eq(Mux(left < t, left, t)),
            beat.stop.eq(Mux(last_tile, block.payload.stop, 0)),
            beat.data.eq(1),
        ]
        tiles = data.View(
            data.ArrayLayout(
                data.ArrayLayout(data.ArrayLayout(self.element_bits, t), t), columns // t
            ),
            assembly.elements.as_value(),
        )
        chosen = Signal(
            data.ArrayLayout(data.ArrayLayout(self.element_bits, t), t)
        )  # [column][row]
        m.d.comb += chosen.eq(tiles[tile])
        for r in range(t):
            for c in range(t):
                m.d.comb += beat.elements[r][c].eq(
                    Mux((r < beat.rows) & (c < beat.cols), chosen[c][r], 0)
                )

    def _triggers(self, m: Module, walk: Walk, assembly: Assembly, trigger: str) -> Value:
        """Takes triggers for both walks; returns the register that says that Done has been taken
        and has to leave.
        """
        begins = data.StructLayout({"start": self._nest.start, "hollow": 1})
        m.submodules.ahead = ahead = Fifo(shape=begins, depth=TRIGGERS_AHEAD)
        m.submodules.behind = behind = Fifo(shape=trigger_layout(self._nest), depth=TRIGGERS_BEHIND)
        ended = Signal()
        end = Signal()
        take = Signal()
        none = Signal()  # no trigger is queued
        first, second, idle = self._heads(m, walk, assembly, ahead.o, behind.o)
        m.d.comb += [
            end.eq(is_done(self.start.payload)),
            none.eq((ahead.level == 0) & (behind.level == 0) & idle),
            self.start.ready.eq(~ended & Mux(end, none, ahead.i.ready & behind.i.ready)),
            take.eq(self.start.valid & self.start.ready & ~end),
            ahead.i.valid.eq(take),
            ahead.i.payload.hollow.eq(behind.i.payload.hollow),
            ahead.i.payload.start.eq(behind.i.payload.start),
            behind.i.valid.eq(take),
            behind.i.payload.hollow.eq(~self.start.payload.data | walk.empty),
            behind.i.payload.stop.eq(self.start.payload.stop),
        ]
        with m.If(self.start.valid & self.start.ready & end):
            m.d.sync += ended.eq(1)
        if trigger in ("address", ANY):
            self._locate(m, take, behind.i.payload.start)
        m.d.comb += [
            walk.go.eq(first.valid & ~first.payload.hollow),
            first.ready.eq(Mux(first.payload.hollow, 1, walk.advance & walk.last)),
        ]
        connect(m, second, assembly.starts)
        return ended

    def _heads(self, m: Module, walk: Walk, assembly: Assembly, ahead, behind) -> tuple:
        """Heads of the two walks, from their queues of triggers; and whether there is none
        between.
        """
        if not (self.trigger in ("address", ANY) and self.config.chunks_ahead):
            m.d.comb += walk.start.eq(ahead.payload.start)
            return ahead, behind, Const(1)
        heads = []
        for name, queue in (("first", ahead), ("second", behind)):
            m.submodules[name] = head = Head(shape=queue.payload.shape())
            connect(m, queue, head.i)
            m.d.comb += head.use.eq(self._how().placed)
            heads.append(head)
        first, second = heads
        if self._staged():
            m.d.comb += [
                walk.start.eq(ahead.payload.start),
                walk.takes.eq(first.takes),
                assembly.coming.eq(behind.payload.start),
                assembly.takes.eq(second.takes),
            ]
        else:
            m.d.comb += walk.start.eq(first.o.payload.start)
        return first.o, second.o, first.idle & second.idle

    def _locate(self, m: Module, take: Signal, begins: data.View) -> None:
        """Begin of the walks of a trigger that is taken."""
        widths = self.config.widths
        number = self.start.payload.value
        place = locate(m, self.cfg, number, self.element_bits // 8, widths)
        taken = Signal()
        m.d.sync += taken.eq(take & self.start.payload.data & self._how().placed)
        row = place.row[: widths.position]
        col = place.col[: widths.position]
        if self._staged():
            m.d.comb += [begins.rows.eq(row), begins.cols.eq(col)]
        else:
            m.d.comb += [
                begins.rows.eq(self.cfg.tensor_rows - row),
                begins.cols.eq(self.cfg.tensor_cols - col),
            ]
        m.d.comb += [
            begins.first.eq(place.first),
            begins.second.eq(place.second),
            self.error[Fault.ADDRESS].eq(taken & place.outside(m, self.cfg)),
        ]
