"""The fast model beside a design in a cocotb test: each beat is compared in its cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from .. import model
from ..machine.beat import Payload
from ..machine.config import Config
from ..machine.faults import Fault
from ..machine.stimulus import Point
from ..machine.trace import Run
from ..machine.unitgraph import Channel
from .agents import Bench, StreamBus, StreamDriver, StreamMonitor
from .decoding import payload_differences

AFTER = 40
"""Cycles in which nothing may follow the last beat."""
COUNTERS = ("busy cycles", "blocked cycles", "starved cycles", "peak pages")
MOST_BEATS = 5000
"""Beats that a test compares through the GPI; longer runs take the compiled probe."""


class ModelScoreboard:
    """Scoreboard of a fabric: all beats of its channels, as the fast model has them.

    Parameters
    ----------
    bench
        Of a design with the ports of docs/top.md.
    point
        Unit graph with run-time parameters, streams of its sources, waits of its sinks.
    config
        Its machine.
    units
        Units whose channels are driven and compared; all, if not given. A unit depends on no other
        where each stands between sources and sinks of its own.
    expected
        The model's run, with payloads recorded; run here if not given.

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
    ):
        graph = point.graph
        self.bench = bench
        self.point = point
        chosen = set(units) or {u.id for u in graph.units}
        self.channels = [c for c in graph.channels if chosen & {c.src[0], c.dst[0]}]
        self.expected = expected or model.run(
            graph,
            config,
            dict(point.tensors) if point.tensors else None,
            sources=dict(point.sources),
            sinks=dict(point.sinks),
            record=[c.id for c in self.channels],
        )
        beats = sum(len(self.expected.channels[c.id].accept) for c in self.channels)
        if not 0 < beats <= MOST_BEATS:
            raise ValueError(f"{beats} beats to compare: 1 to {MOST_BEATS} are")
        for u in graph.units:  # those that are not driven are idle, not X
            if u.kind.name == "source":
                getattr(bench.dut, f"src{u.id}_valid").value = 0
            if u.kind.name == "sink":
                getattr(bench.dut, f"snk{u.id}_ready").value = 0

    def _ends_of(self, channel: Channel) -> Iterator[_End]:
        """Both ends of a channel: where it accepts beats, and where they are taken."""
        fifo = fifo_of(self.bench.dut, channel.id)
        trace = self.expected.channels[channel.id]
        words = self.expected.extra["payloads"][channel.id]
        beats = [int.from_bytes(row.tobytes(), "little") for row in words]
        for port, what, cycles in (("i", "accepted", trace.accept), ("o", "taken", trace.take)):
            bus = StreamBus.of(fifo, port, channel.payload)
            yield _End(
                f"channel {channel.name}", what, bus, channel.payload, cycles.tolist(), beats
            )

    async def run(self, cycles: int | None = None) -> None:
        """Drive the sources and sinks, and compare every beat until all has passed and nothing
        followed for `AFTER` cycles, or for some cycles.

        Raises
        ------
        AssertionError
            The first beat that differs: its channel, number, cycle, what was expected and found. A
            fault that a unit shows.
        """
        ends = [end for c in self.channels for end in self._ends_of(c)]
        agents = [agent for c in self.channels for agent in self._agents_of(c)]
        last = max(max(end.cycles) for end in ends)
        for cycle in range(last + AFTER if cycles is None else cycles):
            await self.bench.edge
            for end in ends:
                end.check(self.bench, cycle)
        for agent in agents:
            agent.stop()
        await self.bench.edge  # Icarus ends in a fault where a write is left for after the test
        error = self.bench.dut.error.value.to_unsigned()
        assert not error, f"faults {Fault(error)!r} are shown"

    def _agents_of(self, channel: Channel) -> Iterator[StreamDriver | StreamMonitor]:
        """What drives the ports at the ends of a channel."""
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
        """Compare busy, blocked and starved cycles and peak pages of all units after a run.

        Raises AssertionError with the first that differs.
        """
        dut = self.bench.dut
        run = self.expected
        for u in self.point.graph.units:
            peak = run.peak_pages.get(u.id, 0)
            wanted = (run.busy[u.id], run.blocked[u.id], run.starved[u.id], peak)
            for k, (what, expected) in enumerate(zip(COUNTERS, wanted, strict=True)):
                dut.stat_addr.value = 4 * u.id + k
                await self.bench.edge
                found = dut.stat_data.value.to_unsigned()
                assert found == expected, f"unit {u.name}: {what}: model {expected}, RTL {found}"


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
        due = k < len(self.cycles) and self.cycles[k] == cycle
        moved = self.bus.moves(bench)
        if moved:
            found = self.bus.beat(bench)
            if not due and k < len(self.cycles) and self.cycles[k] < 0:
                self.passed += 1
                return
        assert moved == due, f"{self._place(k)}: {self._times(cycle, moved)}"
        if moved:
            self.passed += 1
            if found != self.beats[k]:
                told = payload_differences(self.payload, self.beats[k], found)
                raise AssertionError(f"{self._place(k)}, {self.what} in cycle {cycle}: {told}")

    def _place(self, k: int) -> str:
        return f"{self.channel} beat {k}"

    def _times(self, cycle: int, moved: bool) -> str:
        k = self.passed
        if not moved:
            return f"model {self.what} in cycle {cycle}, RTL not"
        later = f"in cycle {self.cycles[k]}" if k < len(self.cycles) else "never"
        return f"RTL {self.what} in cycle {cycle}, model {later}"


def fifo_of(dut: Any, channel: int) -> Any:
    """Handle of a channel's FIFO in a fabric."""
    for handle in dut:
        if handle._name.startswith(f"c{channel}_"):
            return handle
    raise ValueError(f"{dut._path} has no FIFO of channel {channel}")
