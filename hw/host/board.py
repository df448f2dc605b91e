"""A design with what it needs on a board: registers, memory, streams, a serial line."""

import re

from amaranth.hdl import ClockSignal, Instance, Module, ResetInserter, ResetSignal, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import LINE_BYTES
from ...machine.host_map import REGISTERS_BITS, STREAM_BITS, window
from ..place import ports_of, silence
from .block_ram import BlockRam, LinePort
from .registers import Control, Registers
from .serial import SerialBus
from .streams import Player, Recorder
from .wishbone import Decoder, Wishbone

__all__ = ["Board", "Host"]


class Host(wiring.Component):
    """What a bus reaches of a design: registers, memory, streams.

    Parameters
    ----------
    design : int
        What the register ``DESIGN`` holds.
    lines : int
        That the memory has: a power of two.
    line_bytes : int
        Of each of them.
    sources, sinks : sequence of ShapeLike
        Shape of the beats of each stream from and to outside.
    stream_beats : int
        Beats that the memory of each holds: a power of two.

    Members
    -------
    bus : In(Wishbone())
        Addresses are those of :mod:`penstock.machine.host_map`.
    control : Out(Control())
    memory : In(LinePort())
    source0, source1, ... : Out(stream.Signature(shape))
    sink0, sink1, ... : In(stream.Signature(shape))

    Timing
    ------
    That of its parts; a design runs with the cycles of `ideal` memory of
    latency :data:`~penstock.hw.host.block_ram.LATENCY`.

    """

    def __init__(
        self,
        *,
        design: int,
        lines: int,
        line_bytes: int = LINE_BYTES,
        sources=(),
        sinks=(),
        stream_beats: int = 256,
    ):
        self._players = [Player(shape=shape, beats=stream_beats) for shape in sources]
        self._recorders = [Recorder(shape=shape, beats=stream_beats) for shape in sinks]
        self._memory = BlockRam(lines=lines, line_bytes=line_bytes)
        self._registers = Registers(
            design=design, memory_bytes=lines * line_bytes, stream_beats=stream_beats
        )
        super().__init__(
            {
                "bus": In(Wishbone()),
                "control": Out(Control()),
                "memory": In(LinePort(line_bytes)),
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
        ]
        m.submodules.decoder = decoder = Decoder(ranges)
        wiring.connect(m, wiring.flipped(self.bus), decoder.bus)
        for k, target in enumerate([self._registers, self._memory, *streams]):
            wiring.connect(m, getattr(decoder, f"target{k}"), target.bus)
        wiring.connect(m, self._registers.design, wiring.flipped(self.control))
        wiring.connect(m, wiring.flipped(self.memory), self._memory.design)
        m.d.comb += self._memory.held.eq(held)
        for k, player in enumerate(self._players):
            m.submodules[f"source{k}"] = player
            m.d.comb += player.held.eq(held)
            wiring.connect(m, player.beats, wiring.flipped(getattr(self, f"source{k}")))
        for k, recorder in enumerate(self._recorders):
            m.submodules[f"sink{k}"] = recorder
            m.d.comb += recorder.held.eq(held)
            wiring.connect(m, wiring.flipped(getattr(self, f"sink{k}")), recorder.beats)
        return m


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
    lines, stream_beats : int
        As of :class:`Host`.
    divisor : int
        Clock cycles of a bit on the serial line.

    Members
    -------
    rx, tx : In(1), Out(1)
        The serial line.
    busy : Out(1)
        A request is being done, or the design runs.

    """

    def __init__(
        self,
        design: wiring.Component,
        module: str = "",
        *,
        digest: int,
        lines: int,
        divisor: int,
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
        self.host = Host(
            design=digest,
            lines=lines,
            line_bytes=_line_bytes(design),
            sources=[members[name].signature.members["payload"].shape for name in self.sources],
            sinks=[members[name].signature.members["payload"].shape for name in self.sinks],
            stream_beats=stream_beats,
        )
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "busy": Out(1)})

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
        """What of the host a port of the design leads to."""
        host = self.host
        if name.startswith("mem_"):
            return getattr(host.memory, name.removeprefix("mem_"))
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
