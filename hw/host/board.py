"""A design with what it needs on a board: registers, memory, streams, a serial line."""

import re

from amaranth.hdl import ClockSignal, Instance, Module, ResetInserter, ResetSignal, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import LINE_BYTES
from ...machine.host_map import DELIVERY_BITS, REGISTERS_BITS, STREAM_BITS, window
from ..export.place import ports_of, silence
from .block_ram import BlockRam, LinePort
from .registers import Control, Registers
from .sdram.memory import SdramMemory
from .sdram.pins import Pins
from .serial import SerialBus
from .streams import Player, Recorder
from .wishbone import Decoder, Wishbone


class Host(wiring.Component):
    """Bus access to a design: registers, memory, streams.

    Parameters
    ----------
    design : int
        What the register ``DESIGN`` holds.
    memory : BlockRam or SdramMemory
        Of the tensors.
    recorded_lines : int
        Lines of a run whose deliveries an SDRAM's record has room for: a power of two.
    sources, sinks : sequence of ShapeLike
        Shape of the beats of each stream from and to outside.
    stream_beats : int
        Beats that the memory of each holds: a power of two.

    Members
    -------
    bus : In(Wishbone())
        Addresses are those of :mod:`penstock.machine.host_map`.
    control : Out(Control())
    line : In(LinePort())
    pins : Out(Pins())
        With an SDRAM.
    source0, source1, ... : Out(stream.Signature(shape))
    sink0, sink1, ... : In(stream.Signature(shape))

    Timing
    ------
    That of its parts. With block RAM a design runs with the cycles of `ideal` memory of
    latency :data:`~penstock.hw.host.block_ram.LATENCY`; with an SDRAM with those of `trace`, of
    what was recorded.
    """

    def __init__(
        self,
        *,
        design: int,
        memory: BlockRam | SdramMemory,
        recorded_lines: int = 0,
        sources=(),
        sinks=(),
        stream_beats: int = 256,
    ):
        self._players = [Player(shape=shape, beats=stream_beats) for shape in sources]
        self._recorders = [Recorder(shape=shape, beats=stream_beats) for shape in sinks]
        self._memory = memory
        self._is_sdram = isinstance(memory, SdramMemory)
        lines = recorded_lines if self._is_sdram else 0
        self._deliveries = [
            Recorder(shape=bits, beats=lines, bits=DELIVERY_BITS)
            for bits in (64, 32)
            if self._is_sdram
        ]
        self._registers = Registers(
            design=design,
            memory_bytes=memory.lines * memory.line_bytes,
            stream_beats=stream_beats,
            recorded_lines=lines,
        )
        super().__init__(
            {
                "bus": In(Wishbone()),
                "control": Out(Control()),
                "line": In(LinePort(memory.line_bytes)),
                **({"pins": Out(Pins(memory.chip))} if self._is_sdram else {}),
                **{f"source{k}": Out(stream.Signature(x)) for k, x in enumerate(sources)},
                **{f"sink{k}": In(stream.Signature(x)) for k, x in enumerate(sinks)},
            }
        )

    def elaborate(self, platform):
        m = Module()
        held = self.control.rst
        m.submodules.registers = self._registers
        m.submodules.memory = self._memory
        streams = [*self._players, *self._recorders]
        ranges = [
            (0, REGISTERS_BITS),
            (window("MEMORY").base, window("MEMORY").bits),
            *(
                (window("STREAMS").base + (k << STREAM_BITS), STREAM_BITS)
                for k in range(len(streams))
            ),
            *(
                (window("DELIVERIES").base + (k << DELIVERY_BITS), DELIVERY_BITS)
                for k in range(len(self._deliveries))
            ),
        ]
        m.submodules.decoder = decoder = Decoder(ranges)
        wiring.connect(m, wiring.flipped(self.bus), decoder.bus)
        targets = [self._registers, self._memory, *streams, *self._deliveries]
        for k, target in enumerate(targets):
            wiring.connect(m, getattr(decoder, f"target{k}"), target.bus)
        wiring.connect(m, self._registers.design, wiring.flipped(self.control))
        wiring.connect(m, wiring.flipped(self.line), self._memory.design)
        m.d.comb += self._memory.held.eq(held)
        if self._is_sdram:
            self._record(m)
        for k, player in enumerate(self._players):
            m.submodules[f"source{k}"] = player
            m.d.comb += player.held.eq(held)
            wiring.connect(m, player.beats, wiring.flipped(getattr(self, f"source{k}")))
        for k, recorder in enumerate(self._recorders):
            m.submodules[f"sink{k}"] = recorder
            m.d.comb += recorder.held.eq(held)
            wiring.connect(m, wiring.flipped(getattr(self, f"sink{k}")), recorder.beats)
        return m

    def _record(self, m: Module) -> None:
        """The pins of the SDRAM, and what it does in a run."""
        memory = self._memory
        wiring.connect(m, memory.pins, wiring.flipped(self.pins))
        m.d.comb += memory.cycle.eq(self.control.cycle)
        for name, recorder in zip(("requests", "deliveries"), self._deliveries, strict=True):
            m.submodules[name] = recorder
            m.d.comb += recorder.held.eq(self.control.rst)
            wiring.connect(m, getattr(memory, name), recorder.beats)


class Board(wiring.Component):
    """A design, its host, and the serial line that leads there.

    Parameters
    ----------
    design : wiring.Component
        With the ports of docs/top.md, of one lane and one response a cycle; not elaborated where
        there is a ``module``.
    module : str
        Name of its exported module, which then is instantiated; none: the design itself.
    digest : int
        What the register ``DESIGN`` holds.
    lines : int
        That the memory has: a power of two.
    sdram : float or None
        The memory is a synchronous DRAM, at a clock of so many MHz; none: block RAM.
    recorded_lines, stream_beats : int
        As of :class:`Host`.
    divisor : int
        Clock cycles of a bit on the serial line.

    Members
    -------
    rx, tx : In(1), Out(1)
        The serial line.
    busy : Out(1)
        A request is being done, or the design runs.
    sdram : Out(Pins())
        With an SDRAM.
    """

    def __init__(
        self,
        design: wiring.Component,
        module: str = "",
        *,
        digest: int,
        lines: int,
        divisor: int,
        sdram: float | None = None,
        recorded_lines: int = 0,
        stream_beats: int = 256,
    ):
        self._design = design
        self._module = module
        if module:
            silence(design)
        self._divisor = divisor
        members = design.signature.members
        self.sources = _streams(members, "src")
        self.sinks = _streams(members, "snk")
        line_bytes = _line_bytes(design)
        if sdram is None:
            memory = BlockRam(lines=lines, line_bytes=line_bytes)
        else:
            memory = SdramMemory(lines=lines, line_bytes=line_bytes, clock_mhz=sdram)
        self.host = Host(
            design=digest,
            memory=memory,
            recorded_lines=recorded_lines,
            sources=[members[name].signature.members["payload"].shape for name in self.sources],
            sinks=[members[name].signature.members["payload"].shape for name in self.sinks],
            stream_beats=stream_beats,
        )
        pins = {} if sdram is None else {"sdram": Out(Pins())}
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "busy": Out(1), **pins})

    def elaborate(self, platform):
        m = Module()
        m.submodules.line = line = SerialBus(divisor=self._divisor)
        m.submodules.host = host = self.host
        wiring.connect(m, line.bus, host.bus)
        m.d.comb += [
            line.rx.eq(self.rx),
            self.tx.eq(line.tx),
            self.busy.eq(line.busy | (~host.control.rst & ~host.control.done)),
        ]
        if "sdram" in self.signature.members:
            wiring.connect(m, host.pins, wiring.flipped(self.sdram))
        self._place(m)
        return m

    def _place(self, m: Module) -> None:
        """The design, and a net on each of its ports."""
        control = self.host.control
        ports = {}
        for name, (value, flow) in ports_of(self._design).items():
            if not len(value):
                continue
            net = Signal(len(value), name=f"design_{name}") if self._module else value
            ports[("i_" if flow == wiring.In else "o_") + name] = net
            there = self._other_end(name)
            m.d.comb += net.eq(there) if flow == wiring.In else there.eq(net)
        if self._module:
            reset = ResetSignal() | control.rst
            m.submodules.design = Instance(self._module, i_clk=ClockSignal(), i_rst=reset, **ports)
        else:
            m.submodules.design = ResetInserter(control.rst)(self._design)

    def _other_end(self, name: str) -> Value:
        """Part of the host at the other end of a port of the design."""
        host = self.host
        if name.startswith("mem_"):
            return getattr(host.line, name.removeprefix("mem_"))
        if found := re.fullmatch(r"(src\d+)_(\w+)", name):
            port = getattr(host, f"source{self.sources.index(found[1])}")
            return Value.cast(getattr(port, found[2]))
        if found := re.fullmatch(r"(snk\d+)_(\w+)", name):
            port = getattr(host, f"sink{self.sinks.index(found[1])}")
            return Value.cast(getattr(port, found[2]))
        return getattr(host.control, name)


def _line_bytes(design: wiring.Component) -> int:
    """Bytes of a line; of a design without a memory port any will do."""
    mask = getattr(design, "mem_req_mask", None)
    return LINE_BYTES if mask is None else len(Value.cast(mask))


def _streams(members, prefix: str) -> list[str]:
    """Streams by the number of their unit."""
    names = [name for name in members if re.fullmatch(rf"{prefix}\d+", name)]
    return sorted(names, key=lambda name: int(name[len(prefix) :]))
