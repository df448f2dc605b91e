"""What the bus models of the tests are joined to: registers behind
AXI4-Lite and behind Wishbone, and a memory port in front of AXI4.
"""

from amaranth.hdl import Array, Module, ResetSignal, Signal, Value
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
BITS = 128


class HostTop(wiring.Component):
    """The design of the registers is done 20 cycles after its reset,
    and its counters are their addresses + 7.
    """

    def __init__(self):
        super().__init__(
            {
                "axil": In(AxiLite()),
                "wb": In(Wishbone()),
                "held": In(1),
                "line": In(LinePort()),
                "axi": Out(Axi(BITS)),
                "error": Out(1),
            }
        )

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
        m.submodules.guard = guard = Guard(outstanding=2 * OUTSTANDING)
        m.submodules.memory = memory = AxiMemory(bits=BITS, outstanding=OUTSTANDING)
        wiring.connect(m, wiring.flipped(self.line), guard.design)
        wiring.connect(m, guard.memory, memory.design)
        wiring.connect(m, memory.axi, wiring.flipped(self.axi))
        m.d.comb += [guard.held.eq(self.held), self.error.eq(memory.error)]
        return m


class FabricTop(wiring.Component):
    """A fabric before AXI4; ``beats`` by source unit, each as one number."""

    def __init__(self, fabric, beats):
        self.fabric = fabric
        self.beats = beats
        super().__init__({"axi": Out(Axi(64)), "done": Out(1), "error": Out(8), "wrong": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fabric = fabric = self.fabric
        m.submodules.guard = guard = Guard(outstanding=2 * OUTSTANDING)
        m.submodules.memory = memory = AxiMemory(bits=64, outstanding=OUTSTANDING)
        for name, member in LinePort().members.items():
            there = Value.cast(getattr(fabric, f"mem_{name}"))
            here = getattr(guard.design, name)
            m.d.comb += here.eq(there) if member.flow == Out else there.eq(here)
        wiring.connect(m, guard.memory, memory.design)
        wiring.connect(m, memory.axi, wiring.flipped(self.axi))
        for unit, beats in self.beats.items():
            source = getattr(fabric, f"src{unit}")
            at = Signal(range(len(beats) + 1), name=f"at{unit}")
            m.d.comb += [
                source.valid.eq(at != len(beats)),
                Value.cast(source.payload).eq(Array([*beats, 0])[at]),
            ]
            m.d.sync += at.eq(at + (source.valid & source.ready))
        m.d.comb += [
            guard.held.eq(ResetSignal()),
            self.done.eq(fabric.done),
            self.error.eq(fabric.error),
            self.wrong.eq(memory.error),
        ]
        return m
