"""A design between AXI4-Lite and AXI4, for a system of one's own."""

import re

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...machine.limits import ADDRESS_BITS
from ..export.place import ports_of, silence
from .axi import Axi, AxiMemory
from .axi_lite import AxiLite, AxiLiteBridge
from .guard import Guard
from .registers import Registers

OUTSTANDING = 8
"""Reads, and writes, that are on their way."""


class AxiHost(wiring.Component):
    """A design whose registers are on AXI4-Lite and whose memory is on AXI4, of one clock.

    Parameters
    ----------
    design : wiring.Component
        With the ports of docs/top.md, of one lane and one response a cycle; not elaborated.
    module : str
        Name of its exported module.
    digest : int
        What the register ``DESIGN`` holds.
    memory_bytes : int
        What the register ``MEMORY_BYTES`` holds.
    bits : int
        Of AXI4's data: a power of two from 32 to 512, at most a line's.

    Members
    -------
    axil : In(AxiLite())
        Registers, configuration and counters, by the addresses of
        :mod:`penstock.machine.host_map`.
    axi : Out(Axi(bits))
    memory_base : In(ADDRESS_BITS)
        Where the memory of the tensors begins: a multiple of a line, which stays as it is while the
        design runs.
    memory_error : Out(1)
        High from a response of the memory that tells an error until the design is held: such a run
        has no results.
    done : Out(1)
        The run has ended; that of docs/top.md.
    src<unit>, snk<unit>
        Streams of the design from and to outside, as they are.

    Timing
    ------
    That of its parts. The reset of all is that of this; the design's is ``CONTROL.run``, too.
    """

    def __init__(
        self, design: wiring.Component, module: str, *, digest: int, memory_bytes: int, bits: int
    ):
        silence(design)
        self._design = design
        self._module = module
        self._registers = Registers(design=digest, memory_bytes=memory_bytes)
        self._bits = bits
        self._line_bytes = len(Value.cast(design.mem_req_mask))
        members = design.signature.members
        super().__init__(
            {
                "axil": In(AxiLite()),
                "axi": Out(Axi(bits)),
                "memory_base": In(ADDRESS_BITS),
                "memory_error": Out(1),
                "done": Out(1),
                **{name: members[name] for name in members if re.fullmatch(r"(src|snk)\d+", name)},
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.bridge = bridge = AxiLiteBridge()
        m.submodules.registers = registers = self._registers
        m.submodules.guard = guard = Guard(outstanding=2 * OUTSTANDING, line_bytes=self._line_bytes)
        m.submodules.memory = memory = AxiMemory(
            bits=self._bits, outstanding=OUTSTANDING, line_bytes=self._line_bytes
        )
        wiring.connect(m, wiring.flipped(self.axil), bridge.axil)
        wiring.connect(m, bridge.bus, registers.bus)
        wiring.connect(m, memory.axi, wiring.flipped(self.axi))
        self._join_memory(m, guard, memory)
        control = registers.design
        m.d.comb += [guard.held.eq(control.rst), self.done.eq(control.done)]
        with m.If(control.rst):
            m.d.sync += self.memory_error.eq(0)
        with m.Elif(memory.error):
            m.d.sync += self.memory_error.eq(1)
        self._place(m, guard)
        return m

    def _join_memory(self, m: Module, guard: Guard, memory: AxiMemory) -> None:
        """The lines of the design, from the memory's base on."""
        for name, member in guard.memory.signature.members.items():
            near = getattr(guard.memory, name)
            far = getattr(memory.design, name)
            if name == "req_addr":
                m.d.comb += far.eq(near + self.memory_base)
            else:
                m.d.comb += far.eq(near) if member.flow == Out else near.eq(far)

    def _place(self, m: Module, guard: Guard) -> None:
        """An instance of the design, and a net on each of its ports."""
        ports = {}
        for name, (value, flow) in ports_of(self._design).items():
            if not len(value):
                continue
            net = Signal(len(value), name=f"design_{name}")
            there = self._other_end(name, guard)
            ports[("i_" if flow == wiring.In else "o_") + name] = net
            m.d.comb += net.eq(there) if flow == wiring.In else there.eq(net)
        reset = ResetSignal() | self._registers.design.rst
        m.submodules.design = Instance(self._module, i_clk=ClockSignal(), i_rst=reset, **ports)

    def _other_end(self, name: str, guard: Guard) -> Value:
        """Signal at the other end of a port of the design."""
        if name.startswith("mem_"):
            return getattr(guard.design, name.removeprefix("mem_"))
        if found := re.fullmatch(r"((?:src|snk)\d+)_(\w+)", name):
            return Value.cast(getattr(getattr(self, found[1]), found[2]))
        return getattr(self._registers.design, name)
