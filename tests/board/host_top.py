"""Design for the bus models of the tests: registers behind AXI4-Lite and behind Wishbone, and a
memory port in front of AXI4.
"""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from penstock.hw.host.axi import Axi, AxiMemory
from penstock.hw.host.axi_lite import AxiLite, AxiLiteBridge
from penstock.hw.host.block_ram import LinePort
from penstock.hw.host.guard import Guard
from penstock.hw.host.registers import Registers
from penstock.hw.host.wishbone import Wishbone

DESIGN = 0x1234ABCD
MEMORY_BYTES = 4096
OUTSTANDING = 4


class HostTop(wiring.Component):
    """The design of the registers is done 20 cycles after its reset, and its counters are their
    addresses + 7. The memory has ``bits`` of data and lines of ``line_bytes``.
    """

    def __init__(self, *, bits=128, line_bytes=64):
        self.bits = bits
        self.line_bytes = line_bytes
        hosts = {"axil": In(AxiLite()), "wb": In(Wishbone())}
        memory = {"line": In(LinePort(line_bytes)), "axi": Out(Axi(bits))}
        super().__init__(hosts | memory | {"held": In(1), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bridge = bridge = AxiLiteBridge()
        wiring.connect(m, wiring.flipped(self.axil), bridge.axil)
        for name, bus in (("behind_axi", bridge.bus), ("alone", wiring.flipped(self.wb))):
            registers = Registers(design=DESIGN, memory_bytes=MEMORY_BYTES)
            m.submodules[name] = registers
            wiring.connect(m, bus, registers.bus)
            design = registers.design
            m.d.comb += [
                design.stat_data.eq(design.stat_addr + 7),
                design.done.eq(design.cycle >= 20),
            ]
            m.d.sync += design.cycle.eq(design.cycle + 1)
            with m.If(design.rst):
                m.d.sync += design.cycle.eq(0)
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
