"""Stores to off-chip memory at places that a stream names."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import Out

from ...machine.beat import STOP_BITS, STOP_DONE, Scalar, Tile
from ...machine.faults import Fault
from ...machine.limits import FLIGHT_BITS, STORE_ADDRESSES, STORE_TILES
from ..beat import is_done
from ..units.fifo import Fifo
from ..units.unit import Unit
from .locate import Located, locate
from .nest import SHIFT_BITS
from .packing import Packing, ask_lines, offsets, tensor_layout
from .port import WritePort


class RandomStore(Unit):
    """Writes logical tiles of a row-major tensor where their addresses say, and acknowledges each
    once it is in memory.

    Members
    -------
    cfg : In(StructLayout)
        ``base``, ``pitch`` (bytes, 32 bits), ``tensor_rows``, ``tensor_cols``, ``rows``, ``cols``
        (elements, 20 bits), ``shift`` (5 bits): logarithm of the logical tiles in a row of the
        tensor.
    port : Out(WritePort(W, N, 8))
        The off-chip port; a chunk's tag is its tile's number modulo 8.
    done : Out(1)
        Done has been taken from both inputs; low again once a second run's first beat is taken.
    error : Out(8)
        Bits ``Fault.STRAY``: more acknowledgements than lines in flight; ``Fault.ADDRESS``: an
        address names a tile outside the tensor.

    Timing
    ------
    As a :class:`~penstock.hw.memory.store.Store`, with the addresses two ahead. Up to 8 tiles wait
    for their acknowledgement: with r cycles from a tile's last grant to its acknowledgement's turn
    and n cycles of grants a tile, a tile takes max(n, (n + r) / 8) cycles. Source: docs/timing.md
    section 5, random stores.
    """

    implements = "random_store"

    def __init__(self, *, config, payloads, **built):
        self._widths = widths = config.widths
        port = WritePort(config.port_lanes, widths, config.response_lanes, STORE_TILES)
        super().__init__(config=config, payloads=payloads, members={"port": Out(port)}, **built)
        number, self.tile = payloads.inputs
        if not isinstance(number, Scalar) or not isinstance(self.tile, Tile):
            raise ValueError(
                f"Payloads of a random store must be a Scalar and a Tile, not {number!r} and "
                f"{self.tile!r}"
            )
        self._size = self.tile.element_bits // 8

    def cfg_layout(self) -> dict[str, int]:
        tensor = tensor_layout(self._widths)
        first = {name: tensor.pop(name) for name in ("base", "pitch")}
        return first | {"shift": SHIFT_BITS} | tensor

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        request = self.port.request
        number = self.address.payload
        m.submodules.packing = packing = Packing(tile=self.tile, config=self.config)
        m.submodules.addresses = addresses = Fifo(
            shape=self._listed_layout(), depth=STORE_ADDRESSES
        )
        m.submodules.due = due = Fifo(
            shape=data.StructLayout({"stop": STOP_BITS, "data": 1}), depth=STORE_TILES
        )
        walk = packing.place
        address = addresses.o.payload

        place = locate(m, cfg, number.value, self._size, self._widths)
        tail = Signal(range(STORE_TILES))  # tag of the tile that is written
        goes_on = Signal()
        line = self._address(m, packing, address)
        asked, granted = ask_lines(m, self, packing, walk.present & goes_on, line, tag=tail)
        hollow = Signal()
        finishes = Signal()
        ends = Signal()
        data_ends = self.data.valid & is_done(self.data.payload)
        m.d.comb += [
            goes_on.eq(addresses.o.valid & address.data & due.i.ready),
            hollow.eq(addresses.o.valid & ~address.data & due.i.ready),
            packing.advance.eq(walk.open & goes_on & (~walk.present | asked)),
            finishes.eq(packing.advance & walk.last_chunk & walk.last_step & walk.ends_tile),
            ends.eq(
                self.address.valid
                & is_done(number)
                & data_ends
                & packing.idle
                & (addresses.level == 0)
                & (due.level == 0)
            ),
            # Acknowledgements.
            due.i.valid.eq(finishes | hollow | ends),
            due.i.payload.stop.eq(Mux(ends, STOP_DONE, address.stop)),
            due.i.payload.data.eq(finishes),
        ]
        self._take(m, packing, addresses, place, ends, finishes | hollow)
        stray = self._acknowledge(m, due, tail, Mux(asked, sum(packing.chunk.mask), 0))
        ended = Signal()
        with m.If(Cat(s.valid & s.ready for s in self.inputs).any()):
            m.d.sync += ended.eq(ends)
        self.report(m, offers=request.valid | self.ack.valid)
        m.d.comb += [
            self.done.eq(ended),
            self.error[Fault.ROWS].eq(packing.ragged),
            self.error[Fault.STOP].eq(data_ends & packing.partial),
            self.error[Fault.STRAY].eq(stray),
            self.error[Fault.ADDRESS].eq(self._checked(m, place)),
        ]
        with m.If(granted):
            m.d.comb += [self.busy.eq(1), self.blocked.eq(0)]
        return m

    def _listed_layout(self) -> data.StructLayout:
        """Layout of an address that waits for its tile."""
        widths = self._widths
        return data.StructLayout(
            {
                "col": widths.position,
                "first": widths.address,
                "second": widths.address,
                "stop": STOP_BITS,
                "data": 1,
            }
        )

    def _checked(self, m: Module, place: Located) -> Signal:
        """True if the address that was taken in the cycle before names a tile outside the
        tensor.
        """
        taken = Signal()
        outside = Signal()
        named = self.address.payload.data
        m.d.sync += taken.eq(self.address.valid & self.address.ready & named)
        m.d.comb += outside.eq(taken & place.outside(m, self.cfg))
        return outside

    def _take(
        self,
        m: Module,
        packing: Packing,
        addresses: Fifo,
        place: Located,
        ends: Signal,
        leaves: Value,
    ) -> None:
        """Addresses wait for their tiles; both streams end together."""
        number = self.address.payload
        m.d.comb += [
            # Addresses.
            self.address.ready.eq(Mux(is_done(number), ends, addresses.i.ready)),
            addresses.i.valid.eq(self.address.valid & ~is_done(number)),
            addresses.i.payload.col.eq(place.col),
            addresses.i.payload.first.eq(place.first),
            addresses.i.payload.second.eq(place.second),
            addresses.i.payload.stop.eq(number.stop),
            addresses.i.payload.data.eq(number.data),
            addresses.o.ready.eq(leaves),
            # Tiles.
            packing.i.payload.eq(self.data.payload),
            packing.i.valid.eq(self.data.valid & self.data.payload.data),
            packing.k.eq(addresses.o.payload.col),
            self.data.ready.eq(
                Mux(self.data.payload.data, packing.i.ready, ~is_done(self.data.payload) | ends)
            ),
        ]

    def _acknowledge(self, m: Module, due: Fifo, tail: Signal, lines: Value) -> Value:
        """Counts the lines in flight of each tile, of which ``lines`` more of ``tail``; the oldest
        leaves when it has none.

        Returns whether a line was acknowledged that was not written.
        """
        head = Signal(range(STORE_TILES))  # tag of the oldest due
        flights = [Signal(FLIGHT_BITS, name=f"flight{k}") for k in range(STORE_TILES)]
        counts = data.View(data.ArrayLayout(FLIGHT_BITS, STORE_TILES), Cat(flights))
        m.d.comb += [
            self.ack.valid.eq(due.o.valid & (counts[head] == 0)),
            self.ack.payload.value.eq(due.o.payload.data),
            self.ack.payload.stop.eq(due.o.payload.stop),
            self.ack.payload.data.eq(due.o.payload.data),
            due.o.ready.eq(self.ack.ready & self.ack.valid),
        ]
        with m.If(due.i.valid & due.i.ready):
            m.d.sync += tail.eq(tail + 1)
        with m.If(due.o.valid & due.o.ready):
            m.d.sync += head.eq(head + 1)
        strays = []
        for k, flight in enumerate(flights):
            m.d.sync += flight.eq(flight + Mux(tail == k, lines, 0) - self.port.acks[k])
            strays.append(self.port.acks[k] > flight)
        return Cat(strays).any()

    def _address(self, m: Module, packing: Packing, place: data.View):
        """Byte address of the current chunk's first line, in a tile at ``place``."""
        _, _, chunk = offsets(
            m, packing, self.cfg.pitch, self.t, self.config.port_lanes, next_tile=0
        )
        line = Signal(self._widths.address)
        m.d.comb += line.eq((self.cfg.base + chunk) + (place.first + place.second))
        within = self._widths.within
        return Cat(Const(0, within), line[within:])
