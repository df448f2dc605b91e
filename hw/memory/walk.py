"""The order in which a load visits lines."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value, ValueLike, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_BITS
from .nest import ANY, Nest
from .order import FIELDS
from .table import table_of


class _Rest(NamedTuple):
    """Rows and columns of the tensor from a place on, in two's complement."""

    rows: Signal
    cols: Signal


class _Valid(NamedTuple):
    """Valid part of a logical tile: valid rows, those of the first band, whether there is one,
    whether a column is valid, whether a row has at most one line.
    """

    rows: Signal
    first: Value
    some: Value
    cols: Value
    single: Value


def _clamped(rest: Value, limit: Value) -> Value:
    """clamp(rest, 0, limit), of two's complement."""
    return Mux(rest[-1], 0, Mux(rest[:-1] < limit, rest[:-1], limit))


def _all(bits):
    """True if all of some bits, possibly none, are set."""
    return bits.all() if len(bits) else Const(1, 1)


class Walk(wiring.Component):
    """Counts through logical tiles, bands of t rows, steps of one line a row, and chunks of W rows.

    Parameters
    ----------
    nest : Nest
        What it goes through.
    requests : bool
        Visit only the steps that have chunks (a band without any is visited once) and give
        addresses; otherwise visit all steps of a band, as the assembly does.

    Members
    -------
    cfg : In(nest.cfg)
    how : In(HOW)
        What of this is in use. Outer loops that are not have one trip.
    listed : In(table_layout(FIELDS, order))
        Only with the most entries of an order.
    go : In(1)
        The walk goes on, or begins if it is at its end; only where it is triggered.
    start : In(nest.start)
        Where, until its last place is left; only where it is triggered. Where staged, only in the
        cycle of ``takes``, with the first row and column as ``rows`` and ``cols``.
    takes : In(1)
        ``start`` is that of the walk from the next cycle on; only where staged.
    advance : In(1)
        Go on; only while ``active``.
    active : Out(1)
        The walk is not at its end.
    empty : Out(1)
        A loop dimension has no trip: the walk has no place at all.
    chunk : Out(1)
        Lines of the tensor belong to this place; otherwise it only costs its cycle.
    mask : Out(lanes)
        Rows of the chunk that are valid.
    address : Out(32)
        Byte address of the chunk's first line (with ``requests``).
    row : Out(range(t))
        The chunk's first row within the band.
    k : Out(range(elements))
        Misalignment of the logical tile in elements.
    step : Out(20)
        i, the line within the band.
    rows, cols : Out(range(t + 1)), Out(20)
        v and C': valid rows of the band, valid columns of the logical tile.
    last_chunk, last_step : Out(1)
        Last place of the step; last step of the band.
    stop : Out(4)
        Stop level at the end of the band.
    last : Out(1)
        Last place of all.

    Timing
    ------
    One place a cycle. The first is there in the first cycle after reset (triggered: in the cycle of
    ``go``); the products of steps and pitch are registered, so ``cfg`` must stand two cycles before
    reset ends. Source: docs/timing.md section 5, the walk.
    """

    def __init__(self, nest: Nest, *, requests: bool):
        self._nest = nest
        self._table = table_of(nest.order, FIELDS)
        self._placed = nest.trigger in ("address", ANY)
        self.requests = requests
        widths = nest.widths
        super().__init__(
            {
                **({"go": In(1), "start": In(nest.start)} if nest.trigger else {}),
                **({"takes": In(1)} if nest.staged else {}),
                **nest.members,
                "advance": In(1),
                "active": Out(1),
                "empty": Out(1),
                "chunk": Out(1),
                "mask": Out(nest.lanes),
                "address": Out(widths.address),
                "row": Out(range(nest.t)),
                "k": Out(range(nest.elements)),
                "step": Out(widths.size),
                "rows": Out(range(nest.t + 1)),
                "cols": Out(widths.size),
                "last_chunk": Out(1),
                "last_step": Out(1),
                "stop": Out(STOP_BITS),
                "last": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        t = self._nest.t
        size = self._nest.widths.size
        finished = Signal()
        band_row = Signal(size)
        step_next = Signal(size + 1)
        last_band = Signal(reset_less=True)
        next_tile = Signal()
        next_band = Signal()
        some = Signal()  # lines of the tensor belong to this step

        # Where we are: ends.
        m.d.comb += [
            self.chunk.eq(self.active & some),
            self.mask.eq(Cat(self.row + lane < self.rows for lane in range(self._nest.lanes))),
            self.last_chunk.eq(~self.chunk | (self.row + self._nest.lanes >= self.rows)),
            step_next.eq(self.step + 1),
            next_band.eq(self.advance & self.last_chunk & self.last_step),
            next_tile.eq(next_band & last_band),
        ]
        with m.If(next_tile | ResetSignal(allow_reset_less=True)):
            m.d.sync += last_band.eq(cfg.rows <= t)
        with m.Elif(next_band):
            m.d.sync += last_band.eq(band_row + 2 * t >= cfg.rows)

        last_trip = self._trips(m, next_tile)
        self._loops(m, last_trip, last_band, finished)
        self._step(m, step_next, last_band, band_row, finished)
        if self._nest.staged:
            self._valid_staged(m, band_row, step_next, some)
        elif self._nest.order or self._placed:
            rest = self._origin(m, next_tile, last_trip)
            self._valid_here(m, rest, band_row, step_next, some)
        else:
            goes = (next_tile, next_band, self.advance & self.last_chunk)
            self._valid_ahead(m, last_trip, goes, step_next, some)
        if self.requests:
            self._addresses(m, next_tile, last_trip)
        return m

    def _lines(self, columns: ValueLike) -> Value:
        """Lines that so many columns from the first of a line on lie in."""
        return (columns + self._nest.elements - 1) >> (self._nest.elements - 1).bit_length()

    def _one_line(self, k: Value, columns: Value) -> Value:
        """True if so many columns from column k of a line on lie in it."""
        bits = self._nest.elements.bit_length()
        return ~columns[bits:].any() & (k + columns[:bits] <= self._nest.elements)

    def _valid(self, m: Module, rest: _Rest, k: Value, cols: Value, lines: Value) -> _Valid:
        """Valid part of a logical tile: its misalignment, its valid columns, and the lines that
        they lie in.

        Of lines both possible numbers are made beside the comparison that chooses between them.
        """
        cfg = self.cfg
        rows = Signal(self._nest.widths.size, name="valid_rows")
        within = Signal(name="cols_within")
        none = Signal(name="no_cols")
        left = rest.cols[:-1]
        some = Signal(len(left) + 1, name="lines_left")
        most = Signal(len(cols) + 1, name="lines_most")
        m.d.comb += [
            k.eq(cfg.tensor_cols - rest.cols),
            rows.eq(_clamped(rest.rows, cfg.rows)),
            within.eq(left < cfg.cols),
            none.eq(rest.cols[-1] | (left == 0)),
            some.eq(self._lines(k + left)),
            most.eq(self._lines(k + cfg.cols)),
            cols.eq(_clamped(rest.cols, cfg.cols)),
            lines.eq(Mux(none, 0, Mux(within, some, most))),
        ]
        single = none | Mux(within, self._one_line(k, left), self._one_line(k, cfg.cols))
        below = rest.rows[:-1]
        first = _clamped(rest.rows, self._nest.t)
        tall = Signal.like(self.rows, name="rows_most")  # of the first band
        m.d.comb += tall.eq(Mux(cfg.rows < self._nest.t, cfg.rows, self._nest.t))
        return _Valid(
            rows, Mux(first < tall, first, tall), ~rest.rows[-1] & (below != 0), ~none, single
        )

    def _valid_here(
        self, m: Module, rest: _Rest, band_row: Signal, step_next: Signal, some: Signal
    ) -> None:
        """Valid counts of a place, and whether its step is the last one, from its origin."""
        t = self._nest.t
        size = self._nest.widths.size
        lines = Signal(size)  # of a row of the tile
        left = Signal(signed(len(rest.rows) + 1))  # rows of the tensor from this band on
        most = Signal(signed(size + 1))  # and of the tile
        self._valid(m, rest, self.k, self.cols, lines)
        here = _clamped(left, t)
        of_tile = _clamped(most, t)
        m.d.comb += [
            left.eq(rest.rows.as_signed() - band_row),
            most.eq(self.cfg.rows - band_row),
            self.rows.eq(Mux(here < of_tile, here, of_tile)),
        ]
        self._steps(m, lines, step_next, some)

    def _valid_staged(self, m: Module, band_row: Signal, step_next: Signal, some: Signal) -> None:
        """The same, with the terms that depend on the place alone in registers."""
        size = self._nest.widths.size
        k = Signal.like(self.k, name="next_k")
        cols = Signal.like(self.cols, name="next_cols")
        lines = Signal(size, name="next_lines")
        rest_rows = Signal(self._nest.widths.position + 1)
        rest_cols = Signal(self._nest.widths.position + 1)
        rest = _Rest(rest_rows, rest_cols)
        m.d.comb += [
            rest_rows.eq(self.cfg.tensor_rows - self.start.rows),
            rest_cols.eq(self.cfg.tensor_cols - self.start.cols),
        ]
        tile = self._valid(m, rest, k, cols, lines)
        k_now = Signal.like(k, name="k_now", reset_less=True)
        cols_now = Signal.like(cols, name="cols_now", reset_less=True)
        lines_now = Signal.like(lines, name="lines_now", reset_less=True)
        rows_now = Signal.like(tile.rows, name="tile_rows", reset_less=True)
        left = Signal(signed(size + 1))  # valid rows from this band on
        with m.If(self.takes):
            m.d.sync += [
                k_now.eq(k),
                cols_now.eq(cols),
                lines_now.eq(lines),
                rows_now.eq(tile.rows),
            ]
        m.d.comb += [
            self.k.eq(k_now),
            self.cols.eq(cols_now),
            left.eq(rows_now - band_row),
            self.rows.eq(_clamped(left, self._nest.t)),
        ]
        self._steps(m, lines_now, step_next, some)

    def _steps(self, m: Module, lines: Signal, step_next: Signal, some: Signal) -> None:
        """True if a step has lines, and is the last one, of a row of so many ``lines``."""
        m.d.comb += some.eq((self.rows != 0) & (self.step < lines))
        if self.requests:
            m.d.comb += self.last_step.eq((step_next >= lines) | ~some)
        else:
            m.d.comb += self.last_step.eq(step_next >= self._blocks(m) + (self.k != 0))

    def _blocks(self, m: Module) -> Signal:
        """Lines that a row of a logical tile takes, from the first of a line on."""
        blocks = Signal(self._nest.widths.size, reset_less=True)
        m.d.sync += blocks.eq(self._lines(self.cfg.cols))
        return blocks

    def _valid_ahead(
        self,
        m: Module,
        last_trip: Signal,
        goes: tuple[Value, Value, Value],
        step_next: Signal,
        some: Signal,
    ) -> None:
        """The same in registers: those of the next tile, band and step (``goes``: whether it is
        next) are made while this one lasts.
        """
        next_tile, next_band, next_step = goes
        t = self._nest.t
        size = self._nest.widths.size
        axes = [self._following(m, next_tile, last_trip, name) for name in ("row", "col")]
        lines = Signal(size)
        given = {"k": self.k, "cols": self.cols, "lines": lines}
        coming = {name: Signal.like(now, name=f"next_{name}") for name, now in given.items()}
        kept = {n: Signal.like(x, name=f"{n}_now", reset_less=True) for n, x in given.items()}
        tile = self._valid(m, _Rest(*axes), **coming)
        left = Signal(size, reset_less=True)
        left_next = Signal(size)
        rows = Signal.like(self.rows, name="rows_now", reset_less=True)
        here = Signal(reset_less=True)
        step_ends = Signal(reset_less=True)
        m.d.comb += [now.eq(kept[name]) for name, now in given.items()]
        m.d.comb += [
            self.rows.eq(rows),
            some.eq(here),
            self.last_step.eq(step_ends),
            left_next.eq(Mux(left < t, 0, left - t)),
        ]
        after = step_next + 1  # the steps that are over, if the next one is the last
        ends = after >= lines if self.requests else after >= self._blocks(m) + (self.k != 0)
        with m.If(next_tile | ResetSignal(allow_reset_less=True)):
            m.d.sync += [kept[name].eq(following) for name, following in coming.items()]
            m.d.sync += [
                left.eq(tile.rows),
                rows.eq(tile.first),
                here.eq(tile.some & tile.cols),
                step_ends.eq(self._single(coming["k"], tile.single, tile.some)),
            ]
        with m.Elif(next_band):
            m.d.sync += [
                left.eq(left_next),
                rows.eq(Mux(left_next < t, left_next, t)),
                here.eq((left_next != 0) & (lines != 0)),
                step_ends.eq(self._single(self.k, lines <= 1, left_next != 0)),
            ]
        with m.Elif(next_step):
            m.d.sync += [here.eq(here & (step_next < lines)), step_ends.eq(ends)]

    def _single(self, k: Value, single: Value, some: Value) -> Value:
        """True if a band, of which ``some`` rows are valid, has one step; ``single``: a row has at
        most one line.
        """
        if self.requests:
            return single | ~some
        return (self.cfg.cols <= self._nest.elements) & (k == 0)

    def _following(self, m: Module, next_tile: Signal, last_trip: Signal, axis: str) -> Signal:
        """Rows or columns of the tensor from the next tile's first on."""
        first = self.cfg[f"tensor_{axis}s"]
        steps = [self.cfg[f"{axis}_step_{d}"] for d in range(self._nest.rank)]
        name = f"rest_{axis}"
        bits = self._nest.widths.position + 1
        return self._position(m, next_tile, last_trip, name, bits, steps, first)

    def _trips(self, m: Module, next_tile: Signal) -> Signal:
        """Counts the trips of the loops; whether each is at its last one."""
        last_trip = Signal(self._nest.rank, reset_less=True)
        for d in range(self._nest.rank):
            count = Signal(self._nest.widths.size, name=f"count{d}")
            once = self.cfg[f"shape_{d}"] == 1
            with m.If(next_tile & _all(last_trip[d + 1 :])):
                m.d.sync += [
                    count.eq(Mux(last_trip[d], 0, count + 1)),
                    last_trip[d].eq(Mux(last_trip[d], once, count + 2 == self.cfg[f"shape_{d}"])),
                ]
            with m.If(ResetSignal(allow_reset_less=True)):
                m.d.sync += last_trip[d].eq(once)
        return last_trip

    def _loops(self, m: Module, last_trip: Signal, last_band: Signal, finished: Signal) -> None:
        """The loop nest; the level that goes on is the innermost that is not at its last trip."""
        cfg = self.cfg
        how = self.how
        goes = Mux(how.triggered, getattr(self, "go", Const(1)), ~finished)
        m.d.comb += self.stop.eq(Mux(last_band, 2 + how.rank, 1))
        for d in range(self._nest.rank):
            with m.If(last_band & ~last_trip[d]):
                m.d.comb += self.stop.eq(1 + self._nest.rank - d)
        m.d.comb += [
            self.active.eq(goes & ~self.empty),
            self.last.eq(self.last_chunk & self.last_step & last_band & _all(last_trip)),
        ]
        if self._nest.rank:
            empty = Signal(reset_less=True)
            m.d.sync += empty.eq(Cat(cfg[f"shape_{d}"] == 0 for d in range(self._nest.rank)).any())
            m.d.comb += self.empty.eq(empty)

    def _step(
        self, m: Module, step_next: Signal, last_band: Signal, band_row: Signal, finished: Signal
    ) -> None:
        """Row, step and band of the next place."""
        t = self._nest.t
        with m.If(self.advance):
            m.d.sync += self.row.eq(self.row + self._nest.lanes)
            with m.If(self.last_chunk):
                m.d.sync += [self.row.eq(0), self.step.eq(step_next)]
                with m.If(self.last_step):
                    m.d.sync += [self.step.eq(0), band_row.eq(Mux(last_band, 0, band_row + t))]
        with m.If(self.advance & self.last):
            m.d.sync += finished.eq(1)

    def _origin(self, m: Module, next_tile: Signal, last_trip: Signal) -> _Rest:
        """Rows and columns of the tensor from the logical tile's first on, where the loop nest is
        not all that says it.
        """
        how = self.how
        table = self._table
        if table is not None:
            m.submodules.order = table
            m.d.comb += table.advance.eq(next_tile)
            if hasattr(self, "listed"):
                m.d.comb += [table.last.eq(self.listed.last), table.write.eq(self.listed.write)]
        axes = []
        for axis in ("row", "col"):
            whole = self.cfg[f"tensor_{axis}s"]
            rest = Signal(self._nest.widths.position + 1, name=f"{axis}s_rest")
            following = self._following(m, next_tile, last_trip, axis)
            value = Signal.like(rest, name=f"{axis}s_nested", reset_less=True)
            with m.If(next_tile | ResetSignal(allow_reset_less=True)):
                m.d.sync += value.eq(following)
            if self._placed:
                value = Mux(how.placed, self.start[f"{axis}s"], value)
            if table is not None:
                value = Mux(how.listed, whole - table.entry[axis], value)
            m.d.comb += rest.eq(value)
            axes.append(rest)
        return _Rest(*axes)

    def _position(
        self,
        m: Module,
        go: Value,
        last_trip: Value,
        name: str,
        bits: int,
        steps: list,
        first: Value | None = None,
    ) -> Signal:
        """The place of the next logical tile along one axis; each loop dimension keeps that of its
        own trip. From ``first`` down, if there is one, else from 0 up.
        """
        down = first is not None
        reset = ResetSignal(allow_reset_less=True) if down else Const(0)
        place = [
            Signal(bits, name=f"{name}_place{d}", reset_less=down) for d in range(self._nest.rank)
        ]
        following = Signal(bits, name=f"{name}_next")
        m.d.comb += following.eq(Const(0) if first is None else first)
        for d in range(self._nest.rank):
            with m.If(~last_trip[d] & ~reset):
                m.d.comb += following.eq(place[d] - steps[d] if down else place[d] + steps[d])
        for d in range(self._nest.rank):
            # Dimension d keeps its place while an inner one goes on.
            with m.If((go & _all(last_trip[d + 1 :])) | reset):
                m.d.sync += place[d].eq(following)
        return following

    def _addresses(self, m: Module, next_tile: Signal, last_trip: Signal) -> None:
        """Byte offsets from ``base``: of the logical tile, band, step and chunk.

        Column offsets keep their misalignment.
        """
        cfg = self.cfg
        bits = self._nest.widths.address
        line_bytes = self._nest.widths.line // 8
        element_log = (line_bytes // self._nest.elements - 1).bit_length()
        band = Signal(bits)
        step_offset = Signal(bits)
        chunk_offset = Signal(bits)
        how = self.how
        table = self._table
        # of a listed or given place; the others count from the first tile
        tile = Signal(bits)
        listed = Signal(bits, reset_less=True)
        if table is not None:
            m.d.sync += listed.eq(
                table.following.row * cfg.pitch + (table.following.col << element_log)
            )
        jumps = []
        for d in range(self._nest.rank):
            jump = Signal(bits, name=f"jump{d}", reset_less=True)
            m.d.sync += jump.eq(
                cfg[f"row_step_{d}"] * cfg.pitch + (cfg[f"col_step_{d}"] << element_log)
            )
            jumps.append(jump)
        nested = self._position(m, next_tile, last_trip, "address", bits, jumps)
        tile_next = Mux(how.listed, 0, nested)
        band_next = Signal(bits)
        step_next = Signal(bits)
        m.d.comb += [
            band_next.eq(Mux(next_tile, tile_next, band + cfg.pitch * self._nest.t)),
            step_next.eq(step_offset + line_bytes),
        ]
        with m.If(self.advance):
            m.d.sync += chunk_offset.eq(chunk_offset + cfg.pitch * self._nest.lanes)
            with m.If(self.last_chunk):
                m.d.sync += [chunk_offset.eq(step_next), step_offset.eq(step_next)]
                with m.If(self.last_step):
                    m.d.sync += [
                        chunk_offset.eq(band_next),
                        step_offset.eq(band_next),
                        band.eq(band_next),
                    ]
        place = Signal(bits)
        given: Value = Const(0, bits)
        if self._placed:
            offset = (self.start.first + self.start.second)[:bits]
            if self._nest.staged:
                kept = Signal(bits, name="offset", reset_less=True)
                with m.If(self.takes):
                    m.d.sync += kept.eq(offset)
                offset = kept
            given = Mux(how.placed, offset, given)
        if table is not None:
            given = Mux(how.listed, listed, given)
        m.d.comb += tile.eq(given)
        m.d.comb += [
            place.eq((cfg.base + chunk_offset) + tile),
            self.address.eq(
                Cat(Const(0, self._nest.widths.within), place[self._nest.widths.within :])
            ),
        ]
