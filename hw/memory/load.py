"""Linear loads from off-chip memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Out

from penstock.machine.beat import STOP_DONE, Tile

from ..units.unit import Unit
from .assembly import Assembly
from .port import LINE_BITS, ReadPort
from .walk import Walk, walk_layout


__all__ = ["Load"]


class Load(Unit):
    """Reads logical tiles of a row-major tensor, in the order of a loop nest, as a stream of physical tiles.

    Parameters
    ----------
    params : dict
        ``rank``: loop dimensions; ``order``, where given: the place of each logical tile; the others are run-time (``cfg``).
    t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`; one output of tiles, whose ``dtype`` is the tensor's. ``config.port_lanes`` is W.

    Members
    -------
    cfg : In(StructLayout)
        ``base``, ``pitch`` (bytes, 32 bits), ``tensor_rows``, ``tensor_cols``, ``rows``, ``cols`` (elements, 20 bits) and, for each loop
        dimension d, outermost first, ``shape_d`` (trips), ``row_step_d``, ``col_step_d`` (elements, 20 bits).
    port : Out(ReadPort(W))
        The off-chip port.

    Others: see :class:`~penstock.hw.units.unit.Unit`.

    Timing
    ------
    From the first cycle on a chunk of up to W lines is requested each cycle while the port's ring has a free group; a complete
    group is assembled each cycle; a block of G = E / t tiles leaves at one tile a cycle. Each line of a logical tile's band is asked for
    once. Runs once per reset. Source: docs/timing.md section 5.
    """

    def __init__(self, *, params, t, config, payloads):
        (tile,) = payloads.outputs
        if not isinstance(tile, Tile):
            raise ValueError(f"Payload of a load must be a Tile, not {tile!r}")
        self.element_bits = tile.element_bits
        super().__init__(params=params, t=t, config=config, payloads=payloads, members={"port": Out(ReadPort(config.port_lanes))})
        self.expect(0, 1)

    @classmethod
    def cfg_layout(cls, params: dict) -> dict[str, int]:
        return walk_layout(params["rank"])

    def elaborate(self, platform):
        m = Module()
        t, rank, lanes = self.t, self.params["rank"], self.config.port_lanes
        columns = LINE_BITS // self.element_bits
        m.submodules.walk = walk = Walk(rank=rank, t=t, elements=columns, lanes=lanes, requests=True, order=self.params.get("order"))
        m.submodules.assembly = assembly = Assembly(rank=rank, t=t, element_bits=self.element_bits, lanes=lanes, order=self.params.get("order"))

        request = self.port.request
        m.d.comb += [
            walk.cfg.eq(self.cfg),
            request.payload.address.eq(walk.address),
            request.payload.pitch.eq(self.cfg.pitch),
            request.payload.mask.eq(walk.mask),
            request.valid.eq(walk.chunk & self.port.free),
            walk.advance.eq(walk.active & (~walk.chunk | (request.valid & request.ready))),
            assembly.cfg.eq(self.cfg),
            assembly.group.payload.eq(self.port.group.payload),
            assembly.group.valid.eq(self.port.group.valid),
            self.port.group.ready.eq(assembly.group.ready),
        ]

        # Emission: the tiles of the head block, then Done.
        emitted, finished = Signal(), Signal()
        block = assembly.block
        tile = Signal(range(max(2, columns // t)))
        first_col = Signal(range(columns))
        beat = self.o0.payload
        last_tile = Signal()
        m.d.comb += [
            last_tile.eq(tile == block.payload.tiles),
            first_col.eq(tile * t),
            self.o0.valid.eq(Mux(emitted, ~finished, block.valid)),
            block.ready.eq(self.o0.ready & last_tile & ~emitted),
        ]
        with m.If(walk.empty):
            m.d.comb += emitted.eq(1)
        with m.If(self.o0.valid & self.o0.ready):
            with m.If(emitted):
                m.d.sync += finished.eq(1)
            with m.Elif(last_tile):
                m.d.sync += tile.eq(0)
            with m.Else():
                m.d.sync += tile.eq(tile + 1)
        through = Signal()
        with m.If(block.valid & block.ready & block.payload.last):
            m.d.sync += through.eq(1)
        with m.If(through):
            m.d.comb += emitted.eq(1)

        with m.If(emitted):
            m.d.comb += beat.stop.eq(STOP_DONE)
        with m.Else():
            left = Signal(range(columns + 1))
            m.d.comb += [
                left.eq(Mux(block.payload.cols <= first_col, 0, block.payload.cols - first_col)),
                beat.rows.eq(block.payload.rows),
                beat.cols.eq(Mux(left < t, left, t)),
                beat.stop.eq(Mux(last_tile, block.payload.stop, 0)),
                beat.data.eq(1),
            ]
            tiles = data.View(
                data.ArrayLayout(data.ArrayLayout(data.ArrayLayout(self.element_bits, t), t), columns // t), assembly.elements.as_value())
            chosen = Signal(data.ArrayLayout(data.ArrayLayout(self.element_bits, t), t))  # [column][row]
            m.d.comb += chosen.eq(tiles[tile])
            for r in range(t):
                for c in range(t):
                    m.d.comb += beat.elements[r][c].eq(Mux((r < beat.rows) & (c < beat.cols), chosen[c][r], 0))

        self.report(m, offers=self.o0.valid | request.valid)
        granted = request.valid & request.ready
        with m.If(granted):
            m.d.comb += [self.busy.eq(1), self.blocked.eq(0)]
        return m
