"""Linear stores to off-chip memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Out

from ...machine.beat import Tile
from ...machine.faults import Fault
from ...machine.limits import FLIGHT_BITS
from ..beat import is_done
from ..units.unit import Unit
from .order import FIELDS, order_of, set_order
from .packing import Packing, ask_lines, offsets, tensor_layout
from .port import WritePort
from .table import table_of


class Store(Unit):
    """Writes a stream of physical tiles to a row-major tensor, one logical tile beside the other,
    row by row.

    Members
    -------
    cfg : In(StructLayout)
        ``base``, ``pitch`` (bytes, 32 bits), ``tensor_rows``, ``tensor_cols``, ``rows``, ``cols``
        (elements, 20 bits).
    port : Out(WritePort(W, N))
        The off-chip port.
    done : Out(1)
        Done has been taken and every line acknowledged; low again once a second run's first tile is
        taken.
    error : Out(8)
        Bit ``Fault.STRAY``: more acknowledgements than lines in flight; ``Fault.ROWS``: tiles that
        do not lie side by side; ``Fault.STOP``: Done within a row of tiles.

    Timing
    ------
    A tile is taken while fewer than two blocks of G = E / t tiles are queued; a step of one line a
    row moves a chunk of up to W rows a cycle, from the cycle after the block's last tile. With deep
    pipelines a queue of two chunks is before the port. Source: docs/timing.md section 5, ``store``.
    """

    implements = "store"

    def __init__(self, *, config, payloads, **built):
        (tile,) = payloads.inputs
        if not isinstance(tile, Tile):
            raise ValueError(f"Payload of a store must be a Tile, not {tile!r}")
        self.tile = tile
        self._widths = config.widths
        port = WritePort(config.port_lanes, self._widths, config.response_lanes)
        super().__init__(config=config, payloads=payloads, members={"port": Out(port)}, **built)

    def cfg_layout(self) -> dict[str, int]:
        return tensor_layout(self._widths)

    def elaborate(self, platform):
        m = Module()
        request = self.port.request
        m.submodules.packing = packing = Packing(tile=self.tile, config=self.config)
        place = packing.place
        column = Signal(self._widths.size)  # of the logical tile

        end = Signal()
        line = self._address(m, packing, column)
        asked, granted = ask_lines(m, self, packing, place.present, line)
        m.d.comb += [
            end.eq(is_done(self.data.payload)),
            packing.k.eq(column),
            packing.i.payload.eq(self.data.payload),
            packing.i.valid.eq(self.data.valid & self.data.payload.data),
            self.data.ready.eq(packing.i.ready),
            packing.advance.eq(place.open & (~place.present | asked)),
        ]
        with m.If(end):
            m.d.comb += self.data.ready.eq(packing.idle)
        with m.Elif(~self.data.payload.data):  # an empty tensor has nothing to store
            m.d.comb += self.data.ready.eq(1)

        taken = self.data.valid & self.data.ready
        ended = Signal()
        flight = Signal(FLIGHT_BITS)
        lines = Signal(range(self.config.port_lanes + 1))
        with m.If(taken):
            m.d.sync += ended.eq(end)
        with m.If(asked):
            m.d.comb += lines.eq(sum(packing.chunk.mask))
        m.d.sync += flight.eq(flight + lines - self.port.acks[0])

        self.report(m, offers=request.valid)
        m.d.comb += [
            self.done.eq(ended & (flight == 0)),
            self.error[Fault.ROWS].eq(packing.ragged),
            self.error[Fault.STOP].eq(self.data.valid & end & packing.partial),
            self.error[Fault.STRAY].eq(self.port.acks[0] > flight),
        ]
        with m.If(granted):
            m.d.comb += [self.busy.eq(1), self.blocked.eq(0)]
        return m

    def _address(self, m: Module, packing: Packing, column: Signal):
        """Byte address of the current chunk's first line; keeps the offset of the logical tile."""
        cfg = self.cfg
        place = packing.place
        element_log = (self.tile.element_bits // 8 - 1).bit_length()
        tile_row_bytes = Signal(self._widths.address, reset_less=True)
        m.d.sync += tile_row_bytes.eq(cfg.rows * cfg.pitch)
        tile_row = Signal(self._widths.address)
        tile = Signal(self._widths.address)
        column_next = Signal(self._widths.size + 1)
        tile_next = Signal(self._widths.address)
        tile_row_next = Signal(self._widths.address)
        wraps = Signal()
        goes_on = packing.advance & place.last_chunk & place.last_step & place.ends_tile
        ended = self.data.valid & self.data.ready & is_done(self.data.payload)
        in_row = Signal.like(column)  # of a store that lists no places
        listed, listed_column, listed_offset = self._listed(m, goes_on, ended, element_log)
        m.d.comb += [
            column.eq(Mux(listed, listed_column, in_row)),
            column_next.eq(in_row + cfg.cols),
            wraps.eq(~listed & (column_next >= cfg.tensor_cols)),
            tile_row_next.eq(tile_row + tile_row_bytes),
            tile_next.eq(Mux(listed, 0, tile + (cfg.cols << element_log))),
        ]
        with m.If(wraps):
            m.d.comb += tile_next.eq(tile_row_next)

        band, step, chunk = offsets(
            m, packing, cfg.pitch, self.t, self.config.port_lanes, tile_next
        )
        with m.If(goes_on):
            m.d.sync += [tile.eq(tile_next), in_row.eq(column_next)]
            with m.If(wraps):
                m.d.sync += [tile_row.eq(tile_row_next), in_row.eq(0)]
        with m.If(ended):
            m.d.sync += [x.eq(0) for x in (tile_row, tile, band, step, chunk, in_row)]
        line = Signal(self._widths.address)
        m.d.comb += line.eq(cfg.base + listed_offset + chunk)
        within = self._widths.within
        return Cat(Const(0, within), line[within:])

    def _listed(
        self, m: Module, goes_on: Value, ended: Value, element_log: int
    ) -> tuple[Value, Value, Value]:
        """True if the places of the tiles are listed, and the column and the byte offset of this
        one.
        """
        listed = self.settings.order_given
        table = table_of(order_of(self), FIELDS)
        if table is None:
            return listed, Const(0), Const(0)
        m.submodules.order = table
        m.d.comb += [table.advance.eq(goes_on), table.clear.eq(ended)]
        following = table.following
        offset = Signal(self._widths.address, reset_less=True)
        m.d.sync += offset.eq(following.row * self.cfg.pitch + (following.col << element_log))
        if self.configured:
            set_order(m, self, table)
        return listed, table.entry.col, Mux(listed, offset, 0)
