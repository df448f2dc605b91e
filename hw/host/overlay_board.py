"""An overlay with what it needs on a board: registers, windows to its image and its values, a
serial line.
"""

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ...machine.host_map import REGISTERS_BITS, window
from ...overlay.core.config import bits_for, memories
from ..overlay import Overlay
from .registers import Registers
from .serial import SerialBus
from .streams import stride
from .wishbone import Decoder, Wishbone


class ImageWindow(wiring.Component):
    """Words of an overlay's ``load`` port, in parts of 32 bits, as many as a power of two.

    Parameters
    ----------
    shape : ShapeLike
        Shape of such a word.

    Members
    -------
    bus : In(Wishbone())
        A write of part k of a word, the lowest bits first; the last part loads the word. Which part
        it is, the lowest bits of the address say. ``err`` for a read, for part of a part, and where
        ``load`` is not ready.
    load : Out(stream.Signature(shape))

    Timing
    ------
    A transfer is answered in the cycle after it is asked for; a word is
    loaded in the cycle of the answer.
    """

    def __init__(self, *, shape):
        self.shape = shape
        self.parts = stride(Shape.cast(shape).width)
        super().__init__({"bus": In(Wishbone()), "load": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        bits = Shape.cast(self.shape).width
        held = Signal(32 * self.parts)
        last = Signal()
        asked = Signal()
        allowed = Signal()
        part = Signal(range(self.parts))
        m.d.comb += [
            part.eq(bus.adr if self.parts > 1 else 0),
            asked.eq(bus.cyc & bus.stb & ~bus.ack & ~bus.err),
            allowed.eq(bus.we & bus.sel.all() & self.load.ready),
            Value.cast(self.load.payload).eq(held[:bits]),
            self.load.valid.eq(last),
        ]
        m.d.sync += [
            bus.ack.eq(asked & allowed),
            bus.err.eq(asked & ~allowed),
            last.eq(asked & allowed & (part == self.parts - 1)),
        ]
        with m.If(asked & allowed):
            m.d.sync += held.word_select(part, 32).eq(bus.dat_w)
        return m


class ValuesWindow(wiring.Component):
    """The values of an overlay, in parts of 32 bits.

    Parameters
    ----------
    shape : ShapeLike
        Shape of what ``look`` takes: ``pe`` and ``address``.
    width : int
        Bits of a value: 32 or 64.

    Members
    -------
    bus : In(Wishbone())
        From the lowest bits of the address on: part, the value's address, PE. ``err`` for a write,
        and where ``look`` is not ready.
    look : Out(stream.Signature(shape))
    valid : In(1)
        A value that was asked for is there.
    data : In(width)

    Timing
    ------
    A transfer is answered in the cycle after its value is there.
    """

    def __init__(self, *, shape, width: int):
        self.parts = width // 32
        super().__init__(
            {
                "bus": In(Wishbone()),
                "look": Out(stream.Signature(shape)),
                "valid": In(1),
                "data": In(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        low = ceil_log2(self.parts)
        part = Signal(range(self.parts))
        asked = Signal()
        waits = Signal()
        m.d.comb += [
            part.eq(bus.adr if self.parts > 1 else 0),
            asked.eq(bus.cyc & bus.stb & ~waits & ~bus.ack & ~bus.err),
            self.look.payload.address.eq(bus.adr[low:]),
            self.look.payload.pe.eq(bus.adr[low + len(self.look.payload.address) :]),
            self.look.valid.eq(asked & ~bus.we & self.look.ready),
        ]
        m.d.sync += [
            bus.ack.eq(waits & self.valid),
            bus.err.eq(asked & ~self.look.valid),
            bus.dat_r.eq(self.data.word_select(part, 32)),
        ]
        with m.If(self.look.valid):
            m.d.sync += waits.eq(1)
        with m.Elif(self.valid):
            m.d.sync += waits.eq(0)
        return m


class RunControl(wiring.Component):
    """One run of an overlay for each time that it is let go.

    Members
    -------
    held : In(1)
        A host holds it: it does not start.
    idle : In(1)
        Of the overlay.
    start : Out(1)
        To the overlay.
    done : Out(1)
        The run has ended, until it is held.

    Timing
    ------
    ``start`` is high in the first cycle in which the overlay is not held
    and idle. A run that is held goes on to its end.
    """

    def __init__(self):
        super().__init__({"held": In(1), "idle": In(1), "start": Out(1), "done": Out(1)})

    def elaborate(self, platform):
        m = Module()
        with m.FSM(name="run"):
            with m.State("HELD"):
                m.d.comb += self.start.eq(~self.held & self.idle)
                with m.If(self.start):
                    m.next = "BEGUN"
            with m.State("BEGUN"):
                m.next = "RUNNING"
            with m.State("RUNNING"):
                with m.If(self.idle):
                    m.next = "ENDED"
            with m.State("ENDED"):
                m.d.comb += self.done.eq(~self.held)
                with m.If(self.held):
                    m.next = "HELD"
        return m


class OverlayBoard(wiring.Component):
    """An overlay, its host, and the serial line that leads there.

    Parameters
    ----------
    design : Overlay
        Without probes.
    digest : int
        What the register ``DESIGN`` holds.
    divisor : int
        Clock cycles of a bit.

    Members
    -------
    rx, tx : In(1), Out(1)
        The serial line.
    busy : Out(1)
        A request is being done, or the overlay runs.
    """

    def __init__(self, design: Overlay, *, digest: int, divisor: int):
        overlay = design.overlay
        sizes = design.sizes
        if values_bits(overlay, sizes) > window("VALUES").bits:
            raise ValueError(f"Values must fit in {window('VALUES').bits} bits of address")
        self._design = design
        self._line = SerialBus(divisor=divisor)
        self._registers = Registers(design=digest, memory_bytes=0)
        self._image = ImageWindow(shape=design.load.payload.shape())
        self._values = ValuesWindow(shape=design.look.payload.shape(), width=overlay.width)
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.design = design = self._design
        m.submodules.line = line = self._line
        m.submodules.registers = registers = self._registers
        m.submodules.image = image = self._image
        m.submodules.values = values = self._values
        m.submodules.control = control = RunControl()
        windows = [window(name) for name in ("IMAGE", "VALUES")]
        ranges = [(0, REGISTERS_BITS), *((w.base, w.bits) for w in windows)]
        m.submodules.decoder = decoder = Decoder(ranges)
        wiring.connect(m, line.bus, decoder.bus)
        for k, target in enumerate((registers, image, values)):
            wiring.connect(m, getattr(decoder, f"target{k}"), target.bus)
        wiring.connect(m, image.load, design.load)
        wiring.connect(m, values.look, design.look)
        m.d.comb += [
            line.rx.eq(self.rx),
            self.tx.eq(line.tx),
            values.valid.eq(design.value.valid),
            values.data.eq(design.value.data),
            control.held.eq(registers.design.rst),
            control.idle.eq(design.idle),
            design.start.eq(control.start),
            registers.design.done.eq(control.done),
            registers.design.cycle.eq(design.cycles - 1),
            self.busy.eq(line.busy | ~design.idle | (~registers.design.rst & ~control.done)),
        ]
        return m


def values_bits(overlay, sizes) -> int:
    """Bits of an address, in bytes, of all values."""
    depth = bits_for(memories(overlay, sizes)["value"].depth)
    return bits_for(overlay.pes) + depth + ceil_log2(overlay.width // 8)
