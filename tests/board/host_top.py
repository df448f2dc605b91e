"""Design for the bus models of the tests: registers behind AXI4-Lite and behind Wishbone, and a
memory port in front of AXI4, of the same clock and of another.
"""

from amaranth.hdl import Array, Cat, DomainRenamer, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from penstock.hw.host.axi import Axi, AxiMemory
from penstock.hw.host.axi_lite import AxiLite, AxiLiteBridge
from penstock.hw.host.block_ram import LinePort
from penstock.hw.host.crossing import Crossing
from penstock.hw.host.guard import Guard
from penstock.hw.host.registers import Registers
from penstock.hw.host.wishbone import Wishbone

DESIGN = 0x1234ABCD
MEMORY_BYTES = 4096
OUTSTANDING = 4


def memory_members(bits, line_bytes):
    """Members of a top with a memory port in front of AXI4."""
    return {"held": In(1), "line": In(LinePort(line_bytes)), "axi": Out(Axi(bits)), "error": Out(1)}


def join_memory(m, top, guard, memory):
    """These members, with the ends of what is between them."""
    wiring.connect(m, wiring.flipped(top.line), guard.design)
    wiring.connect(m, memory.axi, wiring.flipped(top.axi))
    m.d.comb += [guard.held.eq(top.held), top.error.eq(memory.error)]


class HostTop(wiring.Component):
    """The design of the registers is done 20 cycles after its reset, and its counters are their
    addresses + 7. The memory has ``bits`` of data and lines of ``line_bytes``.
    """

    def __init__(self, *, bits=128, line_bytes=64):
        self.bits = bits
        self.line_bytes = line_bytes
        hosts = {"axil": In(AxiLite()), "wb": In(Wishbone())}
        super().__init__(hosts | memory_members(bits, line_bytes))

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
        join_memory(m, self, guard, memory)
        return m


class CrossingTop(wiring.Component):
    """A memory port in front of AXI4 that has a clock of its own, ``memory``; ``axi`` and ``error``
    are of that one.
    """

    def __init__(self, *, bits, line_bytes):
        self.bits = bits
        self.line_bytes = line_bytes
        super().__init__(memory_members(bits, line_bytes))

    def elaborate(self, platform):
        m = Module()
        size = self.line_bytes
        m.submodules.guard = guard = Guard(outstanding=2 * OUTSTANDING, line_bytes=size)
        m.submodules.crossing = crossing = Crossing(depth=2 * OUTSTANDING, line_bytes=size)
        memory = AxiMemory(bits=self.bits, outstanding=OUTSTANDING, line_bytes=size)
        m.submodules.memory = DomainRenamer("memory")(memory)
        wiring.connect(m, guard.memory, crossing.design)
        wiring.connect(m, crossing.memory, memory.design)
        join_memory(m, self, guard, memory)
        return m


class FabricTop(wiring.Component):
    """A fabric before AXI4, with lines of its configuration; ``beats`` by source unit, each as one
    number. Of each sink unit, which are always ready, ``sunk<unit>`` is the beat that it takes, and
    ``taken`` has a bit, in the order of ``sinks``.
    """

    def __init__(self, fabric, beats):
        self.fabric = fabric
        self.beats = beats
        self.line_bytes = fabric.config.machine.dram.line_bytes
        self.sinks = [unit.id for unit in fabric.graph.units if unit.kind.name == "sink"]
        super().__init__(
            {
                "axi": Out(Axi(64)),
                "done": Out(1),
                "error": Out(8),
                "wrong": Out(1),
                "taken": Out(len(self.sinks)),
                **{f"sunk{unit}": Out(self._bits(unit)) for unit in self.sinks},
            }
        )

    def _bits(self, unit):
        return len(Value.cast(getattr(self.fabric, f"snk{unit}").payload))

    def elaborate(self, platform):
        m = Module()
        size = self.line_bytes
        m.submodules.fabric = fabric = self.fabric
        m.submodules.guard = guard = Guard(outstanding=2 * OUTSTANDING, line_bytes=size)
        m.submodules.memory = memory = AxiMemory(bits=64, outstanding=OUTSTANDING, line_bytes=size)
        for name, member in LinePort(size).members.items():
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
        for unit in self.sinks:
            sink = getattr(fabric, f"snk{unit}")
            m.d.comb += [
                sink.ready.eq(1),
                getattr(self, f"sunk{unit}").eq(Value.cast(sink.payload)),
            ]
        m.d.comb += [
            guard.held.eq(ResetSignal()),
            self.done.eq(fabric.done),
            self.error.eq(fabric.error),
            self.wrong.eq(memory.error),
            self.taken.eq(Cat(getattr(fabric, f"snk{unit}").valid for unit in self.sinks)),
        ]
        return m
