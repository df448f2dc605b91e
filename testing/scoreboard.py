"""The fast model beside a design in a cocotb test: each beat is compared in its cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import model
from ..hw.fabric import fifo_name
from ..machine.beat import Payload, beat_number
from ..machine.config import Config
from ..machine.errors import FaultError
from ..machine.faults import Fault
from ..machine.stimulus import Point
from ..machine.trace import PortTrace, Run
from ..machine.unitgraph import Channel
from .agents import Bench, StreamBus, StreamDriver, StreamMonitor, bits
from .decoding import payload_differences
from .memory_agent import Line, MemoryAgent

AFTER = 40
"""Cycles in which nothing may follow the last beat."""
Agent = StreamDriver | StreamMonitor | MemoryAgent
Callback = Callable[[int, list[Line], list[Line]], None]
MOST_BEATS = 5000
"""Beats that a test compares through the GPI; longer runs take the compiled probe."""


class ModelScoreboard:
    """Scoreboard of a fabric: beats in its channels and lines at its memory ports are the model's.

    Parameters
    ----------
    bench
        Of a design with the ports of docs/top.md.
    point
        Unit graph with run-time parameters, tensors, streams of its sources, waits of its sinks and
        of its memory.
    config
        Its machine.
    units
        Units whose channels and memory ports are compared; all, if not given. Without memory, no
        others are driven: a unit depends on no other where each stands between sources and sinks of
        its own.
    expected
        The model's run, with payloads recorded; run here if not given.
    memory
        Class of the agent behind the memory ports.

    Raises
    ------
    ValueError
        The run has more than `MOST_BEATS` beats, or a channel is none of the design's.
    RunError
        As of :func:`penstock.model.run`.
    """

    def __init__(
        self,
        bench: Bench,
        point: Point,
        config: Config,
        units: Collection[int] = (),
        expected: Run | None = None,
        memory: type[MemoryAgent] = MemoryAgent,
    ):
        graph = point.graph
        self.bench = bench
        self.point = point
        self.config = config
        self.memory = memory
        chosen = set(units) or {u.id for u in graph.units}
        self.channels = [c for c in graph.channels if chosen & {c.src[0], c.dst[0]}]
        self.driven = graph.channels if graph.ports else self.channels
        self.fault: FaultError | None = None
        try:
            self.expected = expected or model.run(
                graph,
                config,
                dict(point.tensors) if point.tensors else None,
                sources=dict(point.sources),
                sinks=dict(point.sinks),
                record=[c.id for c in self.channels],
            )
        except FaultError as e:
            self.fault = e
        else:
            beats = sum(len(self.expected.channels[c.id].accept) for c in self.channels)
            if not 0 < beats <= MOST_BEATS:
                raise ValueError(f"{beats} beats to compare: 1 to {MOST_BEATS} are")
        for u in graph.units:  # those that are not driven are idle, not X
            if u.kind.name == "source":
                getattr(bench.dut, f"src{u.id}_valid").value = 0
            if u.kind.name == "sink":
                getattr(bench.dut, f"snk{u.id}_ready").value = 0
        if graph.ports:
            bench.dut.mem_rsp_valid.value = 0
        self.ports = {p: graph.units[u].name for p, u in enumerate(graph.ports) if u in chosen}

    def _ends_of(self, channel: Channel) -> Iterator[_End]:
        """Both ends of a channel: where it accepts beats, and where they are taken."""
        name = fifo_name(channel)
        fifo = getattr(self.bench.dut, name, None)
        if fifo is None:
            raise ValueError(f"{self.bench.dut._path} has no FIFO {name}")
        trace = self.expected.channels[channel.id]
        words = self.expected.extra["payloads"][channel.id]
        beats = [beat_number(row) for row in words]
        for port, what, cycles in (("i", "accepted", trace.accept), ("o", "taken", trace.take)):
            bus = StreamBus.of(fifo, port, channel.payload)
            yield _End(
                f"channel {channel.name}", what, bus, channel.payload, cycles.tolist(), beats
            )

    async def run(self, cycles: int | None = None) -> None:
        """Drive sources, sinks and memory, and compare every beat and line until all has passed and
        nothing followed for `AFTER` cycles, or for some cycles; stored tensors at the end. Where
        the model's run ends with a fault, that is compared instead.

        Raises
        ------
        AssertionError
            The first beat or line that differs: its channel or port, number, cycle, what was
            expected and found. A fault that a unit shows.
        """
        if self.fault:
            await self._show(self.fault)
            return
        dut = self.bench.dut
        ends = [end for c in self.channels for end in self._ends_of(c)]
        ports = [_Port(p, name, self.expected.ports[p]) for p, name in self.ports.items()]

        def compare(cycle: int, taken: list[Line], due: list[Line]) -> None:
            for port in ports:
                port.check(cycle, taken, due)

        agents = self.drive(compare)
        last = max(max(end.cycles, default=0) for end in ends)
        if self.point.graph.ports:
            last = max(last, self.expected.cycles)
        fresh = not bits(self.bench, dut.done)
        for cycle in range(last + AFTER if cycles is None else cycles):
            await self.bench.edge
            for end in ends:
                end.check(self.bench, cycle)
            error = bits(self.bench, dut.error)
            faults = [fault.name for fault in Fault if error >> fault & 1]
            assert not faults, f"faults {', '.join(faults)} are shown in cycle {cycle}"
            if fresh and self.driven is self.point.graph.channels:
                done = bool(bits(self.bench, dut.done))
                first = self.expected.cycles - 1
                assert done == (cycle >= first), f"done is {done} in cycle {cycle}, model's {first}"
        await self._stop(agents)
        if cycles is None and isinstance(agents[-1], MemoryAgent):
            self._check_outputs(agents[-1])

    async def _show(self, error: FaultError) -> None:
        """Drive sources, sinks and memory until a fault is shown, and on."""
        agents = self.drive()
        for cycle in range(error.cycle + AFTER):
            await self.bench.edge
            found = bits(self.bench, self.bench.dut.error)
            due = cycle > error.cycle
            first = f"model {error.fault.name} from cycle {error.cycle + 1}"
            assert bool(found) == due, f"faults {found:#x} in cycle {cycle}: {first}"
            assert not due or found >> error.fault & 1, f"faults {found:#x}: {first}"
        await self._stop(agents)

    async def _stop(self, agents: Sequence[Agent]) -> None:
        for agent in agents:
            agent.stop()
        await self.bench.edge  # Icarus ends in a fault where a write is left for after the test

    def drive(self, callback: Callback | None = None) -> list[Agent]:
        """Start the drivers of sources and sinks, and last the memory, with its callback."""
        point = self.point
        agents: list[Agent] = [agent for c in self.driven for agent in self._agents_of(c)]
        if point.graph.ports:
            given = point.tensors, point.memory_waits
            memory = self.memory(self.bench, point.graph, self.config, *given, callback=callback)
            agents.append(memory)
        return agents

    def _check_outputs(self, memory: MemoryAgent) -> None:
        for name, found in memory.outputs().items():
            expected = (self.expected.outputs or {})[name]
            differ = np.argwhere(found.view(np.uint8) != expected.view(np.uint8))
            if len(differ):
                row, col = differ[0] // [1, found.itemsize]
                raise AssertionError(
                    f"tensor {name}: element [{row}, {col}] is {found[row, col]}, the model's "
                    f"{expected[row, col]}"
                )

    def _agents_of(self, channel: Channel) -> Iterator[StreamDriver | StreamMonitor]:
        """Agents of the ports at the ends of a channel."""
        units = self.point.graph.units
        dut = self.bench.dut
        u = channel.src[0]
        if units[u].kind.name == "source":
            driver = StreamDriver(self.bench, StreamBus.of(dut, f"src{u}", channel.payload))
            driver.send_beats(channel.payload, self.point.sources[u])
            yield driver
        u = channel.dst[0]
        if units[u].kind.name == "sink":
            bus = StreamBus.of(dut, f"snk{u}", channel.payload)
            yield StreamMonitor(self.bench, bus, list(self.point.sinks.get(u, ())))

    async def check_counters(self) -> None:
        """Compare busy, blocked and starved cycles and peak pages of all units after a run; there
        is nothing behind the last one's.

        Raises AssertionError with the first that differs.
        """
        dut = self.bench.dut
        units = [(u.name, self.expected.counters(u.id)) for u in self.point.graph.units]
        for n, (name, counters) in enumerate([*units, ("none", {"counter": 0})]):
            for k, (what, expected) in enumerate(counters.items()):
                dut.stat_addr.value = 4 * n + k
                for _ in range(2):  # it stands
                    await self.bench.edge
                    found = dut.stat_data.value.to_unsigned()
                    place = f"unit {name}, cycle {self.bench.cycle - 1}: {what}"
                    assert found == expected, f"{place}: model {expected}, RTL {found}"


@dataclass
class _End:
    """One end of a channel: beats that move there, and their cycles."""

    channel: str
    what: str
    bus: StreamBus
    payload: Payload
    cycles: list[int]  # -1: not before the run's end
    beats: list[int]
    passed: int = 0

    def check(self, bench: Bench, cycle: int) -> None:
        """Compare a cycle that ends."""
        k = self.passed
        due = _due(self.cycles, k)
        moved = self.bus.moves(bench)
        if not moved and due != cycle:
            return
        place = f"{self.channel} beat {k}"
        found = self.bus.beat(bench) if moved else 0
        self.passed += 1
        if due == -1:
            return
        assert moved and due == cycle, f"{place}: {_times(self.what, cycle, moved, due)}"
        if found != self.beats[k]:
            differing = payload_differences(self.payload, self.beats[k], found)
            raise AssertionError(f"{place}, {self.what} in cycle {cycle}: {differing}")


@dataclass
class _Port:
    """A memory port, and the model's lines."""

    number: int
    unit: str
    expected: PortTrace
    passed: int = 0

    def check(self, cycle: int, taken: list[Line], due: list[Line]) -> None:
        """Compare the lines that the memory takes in a cycle, and those that it delivers in the
        next.
        """
        for line in (x for x in taken if x.port == self.number):
            self._same("granted", line.cycle, self.expected.accept, self.passed)
            for what, expected, found in (
                ("address", self.expected.address[self.passed], line.address),
                ("digest of written data", self.expected.digest[self.passed], line.digest),
            ):
                place = f"{self._place(self.passed)}, granted in cycle {line.cycle}: {what}"
                assert expected == found, f"{place} model {expected:#x}, RTL {found:#x}"
            self.passed += 1
        late = _due(self.expected.accept, self.passed) == cycle - 1
        assert not late, f"{self._place(self.passed)}: {_times('granted', cycle - 1, False, None)}"
        for line in (x for x in due if x.port == self.number):
            self._same("delivered", cycle + 1, self.expected.deliver, line.number)

    def _same(self, what: str, cycle: int, expected: np.ndarray, k: int) -> None:
        due = _due(expected, k)
        assert due == cycle, f"{self._place(k)}: {_times(what, cycle, True, due)}"

    def _place(self, k: int) -> str:
        return f"port {self.number} of {self.unit} line {k}"


def _due(cycles: Sequence[int] | np.ndarray, k: int) -> int | None:
    return int(cycles[k]) if k < len(cycles) else None


def _times(what: str, cycle: int, moved: bool, due: int | None) -> str:
    """Message on a move of one side alone in a cycle."""
    if not moved:
        return f"model {what} in cycle {cycle}, RTL not"
    return f"RTL {what} in cycle {cycle}, model {'never' if due is None else f'in cycle {due}'}"
