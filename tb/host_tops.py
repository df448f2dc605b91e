"""Hosts to test: registers behind AXI4-Lite and behind Wishbone, memory ports in front of AXI4, an
overlay's windows, and the ends of a serial line.
"""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..hw.host.axi import Axi, AxiMemory
from ..hw.host.axi_lite import AxiLite, AxiLiteBridge
from ..hw.host.block_ram import LinePort
from ..hw.host.guard import Guard
from ..hw.host.loader import Loader
from ..hw.host.overlay_board import ImageWindow, ValuesWindow
from ..hw.host.registers import Registers
from ..hw.host.uart import UartReceiver, UartTransmitter
from ..hw.host.wishbone import Wishbone

WIDTHS = {"axi128": (128, 64), "axi512": (512, 64), "axi32": (32, 16), "axi64": (64, 16)}
"""Bits of data and bytes of a line of the memory ports."""
OUTSTANDING = 4
DIVISORS = (4, 9, 16, 25)


class Counting(wiring.Component):
    """Registers of a design that is done 20 cycles after its reset, and whose counters are their
    addresses + 7.
    """

    def __init__(self):
        super().__init__({"bus": In(Wishbone())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = Registers(design=0x1234ABCD, memory_bytes=4096)
        wiring.connect(m, wiring.flipped(self.bus), registers.bus)
        design = registers.design
        m.d.comb += [design.stat_data.eq(design.stat_addr + 7), design.done.eq(design.cycle >= 20)]
        m.d.sync += design.cycle.eq(design.cycle + 1)
        with m.If(design.rst):
            m.d.sync += design.cycle.eq(0)
        return m


class Bridged(wiring.Component):
    """The same behind AXI4-Lite."""

    def __init__(self):
        super().__init__({"axil": In(AxiLite())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bridge = bridge = AxiLiteBridge()
        m.submodules.counting = counting = Counting()
        wiring.connect(m, wiring.flipped(self.axil), bridge.axil)
        wiring.connect(m, bridge.bus, counting.bus)
        return m


class Memory(wiring.Component):
    """A guarded memory port in front of AXI4."""

    def __init__(self, bits, line_bytes):
        self.bits = bits
        self.line_bytes = line_bytes
        ports = {"line": In(LinePort(line_bytes)), "axi": Out(Axi(bits))}
        super().__init__(ports | {"held": In(1), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        size = self.line_bytes
        m.submodules.guard = guard = Guard(outstanding=2 * OUTSTANDING, line_bytes=size)
        m.submodules.memory = memory = AxiMemory(
            bits=self.bits, outstanding=OUTSTANDING, line_bytes=size
        )
        wiring.connect(m, guard.memory, memory.design)
        wiring.connect(m, wiring.flipped(self.line), guard.design)
        wiring.connect(m, memory.axi, wiring.flipped(self.axi))
        m.d.comb += [guard.held.eq(self.held), self.error.eq(memory.error)]
        return m


def components():
    image = data.StructLayout({"low": 40, "high": 30})
    value = data.StructLayout({"pe": 2, "address": 3})
    parts = {"bridged": Bridged(), "wishbone": Counting(), "loader": Loader()}
    parts |= {"image": ImageWindow(shape=image), "values": ValuesWindow(shape=value, width=64)}
    parts |= {f"receiver{n}": UartReceiver(divisor=n) for n in DIVISORS}
    parts |= {f"sender{n}": UartTransmitter(divisor=n) for n in DIVISORS}
    return parts | {name: Memory(*widths) for name, widths in WIDTHS.items()}
