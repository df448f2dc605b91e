"""The result of a run on the RTL, made where it ran: its numbers as the model gives them, its
faults, and its comparison with the model's run.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.beat import beat_number, fnv
from ..machine.errors import RunError
from ..machine.faults import Fault
from ..machine.image import unpack
from ..machine.kinds import Kind
from ..machine.stimulus import Point
from ..machine.trace import POST, ChannelTrace, Run
from ..machine.unitgraph import UnitGraph
from .check import compare
from .native import FAULTS, HALT, STATUS
from .recorded import Recorded

IDLE_CYCLES = 10_000
"""A run in which no beat and no line moves for so long, and no memory response is due, is
deadlocked.
"""
KNOWN = ("name", "memory", "tensor")
"""Attributes of a unit's kind that a result depends on."""


class FlagError(RunError):
    """A unit's fault that the RTL shows.

    Attributes
    ----------
    cycles
        Cycles of the run until then.
    """

    cycles = 0


@dataclass(frozen=True)
class PointGraph:
    """A point for the process of the simulator, which may have no file of a kind of a user's own.

    Attributes
    ----------
    graph
        Names, channels, ports and tensors; kinds have what is `KNOWN` alone.
    inputs
        Memory image and streams.
    expected
        The model's run, if the RTL's is compared.
    """

    graph: UnitGraph
    inputs: Mapping[str, np.ndarray]
    expected: Run | None

    @classmethod
    def of(cls, p: Point, inputs: Mapping[str, np.ndarray]) -> PointGraph:
        units = tuple(
            replace(u, kind=Kind.of({x: getattr(u.kind, x, None) for x in KNOWN}))
            for u in p.graph.units
        )
        expected = p.expected
        if expected is not None:
            payloads = {x: y for x, y in expected.extra.items() if x == "payloads"}
            expected = replace(expected, commands=None, sink_beats={}, shapes=[], extra=payloads)
        return cls(replace(p.graph, units=units, meta={}), inputs, expected)


def conclude(point: Mapping[str, Any], given: PointGraph, out: Mapping[str, np.ndarray]) -> None:
    """Leave the run of a point, or its error, for the command that waits.

    Parameters
    ----------
    point
        Its part of the job, and what all points have in common.
    given, out
        What it was given, and arrays of the bench.

    Raises
    ------
    AssertionError
        It is not the model's; the message has the first differences.
    RunError
        It has not come to its end without a fault, drained.
    """
    seconds = float(out["simulate_s"])
    try:
        run = run_of(given.graph, point, out)
    except RunError as e:
        _leave(point, e, seconds)
        raise
    report = None
    if given.expected is not None:
        report = run.extra["report"] = compare(given.expected, run, given.graph)
    if not point["trace"]:
        run = replace(run, channels=[], ports=[], posts=run.posts[:0])
    _leave(point, run, seconds)
    assert report is None or report.ok, str(report)


def _leave(point: Mapping[str, Any], found: Run | RunError, seconds: float) -> None:
    Path(point["out"]).write_bytes(pickle.dumps((found, seconds)))
    Path(point["ended"]).touch()


def run_of(graph: UnitGraph, point: Mapping[str, Any], out: Mapping[str, np.ndarray]) -> Run:
    """The run of a point from the arrays of the bench."""
    status: dict[str, int] = dict(zip(STATUS, map(int, out["status"]), strict=True))
    at = point.get("counters", range(len(graph.units)))  # of an array, the slot of each unit
    unit_in = {slot: u for u, slot in enumerate(at) if slot >= 0}

    def unit_of(number: int) -> int:
        return number if number < 0 else unit_in.get(number, len(graph.units))

    status["error_unit"] = unit_of(status["error_unit"])
    seen = Recorded(out)
    _check(graph, status, seen, point["max_cycles"])
    cycles = status["done_cycle"] + 1
    channels = [seen.channel(c.id) for c in graph.channels]
    if not point["whole"]:
        _check_quiet(graph, channels, cycles)
        for c in channels:  # traces cover the cycles below `cycles`
            c.take = np.where(c.take < cycles, c.take, -1)
    for kept in point.get("kept", ()):
        _check_kept(graph, kept, out[f"kept{kept['unit']}"], channels[kept["channel"]])
    r = Run("rtl", cycles, status["first_request"], channels=channels)
    r.ports = [seen.port(i) for i in range(len(graph.ports))]
    r.posts = _posts(out["posts"], cycles)
    r.posts["unit"] = [unit_of(k) for k in r.posts["unit"]]
    r.outputs = unpack(graph, out["image"]) if point["values"] else None
    r.counted = point["counted"]
    if r.counted:
        stats = out["stats"].copy()
        for u, slot in enumerate(at):
            if slot < 0:  # a switch has no counters: what a hop does is seen at its FIFO
                busy, blocked = hop_cycles(channels[graph.inputs(u)[0].id], cycles)
                stats[u] = (busy, blocked, cycles - busy - blocked, 0)
        r.busy, r.blocked, r.starved = (stats[:, k].copy() for k in range(3))
        r.peak_pages = {u: int(stats[u, 3]) for u in graph.memories()}
    r.lines_read = status["lines_read"]
    r.lines_written = status["lines_written"]
    r.port_lines = np.array([len(p.accept) for p in r.ports], np.int64)
    counted = {k.removeprefix("dram_"): out[k].tolist() for k in out if k.startswith("dram_")}
    r.dram = counted or None
    r.occupancy = np.array([_occupancy(c, cycles) for c in channels])
    r.events = sum(int((c.take >= 0).sum()) for c in channels) + r.lines_read + r.lines_written
    if point["keep"]:
        words = {c: seen.words(c) for c in point["keep"]}
        r.extra["payloads"] = {c: held for c, held in words.items() if held is not None}
    r.wall_s = float(out["simulate_s"])
    r.extra |= {x: float(out[x]) for x in ("simulate_s", "clocked_s", "clocked_cpu_s")}
    clocked = r.extra["clocked_s"]
    r.extra["cycles_per_s"] = status["cycles_seen"] / clocked if clocked else 0.0
    return r


def _check_kept(
    graph: UnitGraph, kept: Mapping[str, Any], words: np.ndarray, channel: ChannelTrace
) -> None:
    """Compare the memory of a sink with the beats that came to it."""
    found = [_digest(row, kept["runs"], kept["beat_words"]) for row in words]
    if found != channel.digest.tolist():
        raise RunError(
            f"its memory has {len(found)} beats, {len(channel.digest)} came to it, and they differ",
            f"RTL of {graph.name}, sink {graph.units[kept['unit']].name}",
        )


def _digest(row: np.ndarray, runs: Sequence[tuple[int, int, int]], words: int) -> int:
    """Digest of a plane's beat, as the trace has it of the channel's."""
    beat = beat_number(row)
    own = 0
    for at, to, bits in runs:
        own |= (beat >> at & (1 << bits) - 1) << to
    return fnv(own, words)


def hop_cycles(channel: ChannelTrace, cycles: int) -> tuple[int, int]:
    """Cycles in which a hop passes a beat, and in which it holds one and cannot."""
    taken = (channel.take >= 0) & (channel.take < cycles)
    left = np.where(taken, channel.take, cycles)
    before = np.concatenate(([-1], left[:-1])) if len(left) else left
    seen = np.maximum(channel.accept, before) + 1
    return int(taken.sum()), int(np.maximum(left - seen, 0).sum())


def _posts(rows: np.ndarray, cycles: int) -> np.ndarray:
    """Posts that the probes saw below ``cycles``, ordered."""
    posts = np.zeros(len(rows), POST)
    for k, name in enumerate(("unit", "cycle", "page", "change")):
        posts[name] = rows[:, k]
    posts.sort(order=("cycle", "unit"))
    return posts[posts["cycle"] < cycles]


def _check_quiet(graph: UnitGraph, channels: Sequence[ChannelTrace], cycles: int) -> None:
    """Check that nothing moves after `done` but the Done that each sink has before it."""
    extra = []
    for c in graph.channels:
        trace = channels[c.id]
        late = int((trace.accept >= cycles).sum()) or (
            graph.units[c.dst[0]].kind.name != "sink" and int((trace.take >= cycles).sum())
        )
        if late:
            extra.append(f"{c.name} ({late} beats)")
    if extra:
        raise RunError(
            f"beats move after done (cycle {cycles - 1}): {', '.join(extra)}",
            f"RTL of {graph.name}",
        )


def _occupancy(c: ChannelTrace, cycles: int) -> float:
    """Mean beats held: a beat accepted in a and taken in b is held in a+1 .. b."""
    left = np.where(c.take >= 0, np.minimum(c.take, cycles - 1), cycles - 1)
    return float(np.maximum(left - c.accept, 0).sum() / cycles)


def _faulty(graph: UnitGraph, unit: int) -> str:
    """The unit of a fault by name; the number after the last one's is the interconnect's."""
    if unit == len(graph.units):
        return "off-chip interconnect"
    return f"{graph.units[unit].kind.name} {graph.units[unit].name}"


def _check(graph: UnitGraph, status: Mapping[str, int], seen: Recorded, max_cycles: int) -> None:
    """Check that a run came to its end, without a fault and drained."""
    where = f"RTL of {graph.name}"
    halt = HALT[status["halt"]]
    if halt == "fault":
        what = FAULTS[status["fault"]]
        at = status["fault_cycle"]
        if status["fault"] == 1:
            unit = graph.units[graph.ports[status["fault_index"]]]
            raise RunError(
                f"{what}: byte address {status['fault_value']:#x} in cycle {at}",
                f"{unit.kind.name} {unit.name}",
                remedy="check the tensor's base and pitch against its allocation",
            )
        place = f"index {status['fault_index']}, value {status['fault_value']}"
        if status["fault"] in (5, 7, 10):
            kind = "places" if status["fault"] == 10 else "beat"
            place = f"{graph.channels[status['fault_index']].name}, {kind} {status['fault_value']}"
        raise RunError(f"{what} (cycle {at}, {place})", where)
    if error := status["error"]:
        flags = "; ".join(f"a unit's fault: {fault.what}" for fault in Fault if error >> fault & 1)
        shown = FlagError(
            f"{flags} (cycle {status['cycles_seen'] - 1})",
            f"{where}, {_faulty(graph, status['error_unit'])}",
        )
        shown.cycles = status["cycles_seen"]
        raise shown
    if halt in ("cycle limit", "no activity"):
        full = []
        waiting = []
        for c in graph.channels:
            held = seen.held(c.id)
            if held == c.depth:
                full.append(c.name)
            elif held:
                waiting.append(f"{c.name} ({held})")
        what = (
            f"not done at the limit of {max_cycles} cycles"
            if halt == "cycle limit"
            else f"deadlock: nothing moved for {IDLE_CYCLES} cycles (cycle {status['cycles_seen']})"
        )
        raise RunError(
            f"{what}; full channels: {', '.join(full) or 'none'}; holding beats: "
            f"{', '.join(waiting) or 'none'}",
            where,
        )
    left = [c.name for c in graph.channels if seen.held(c.id)]
    if left or status["in_flight"]:
        raise RunError(
            f"not drained {status['cycles_seen'] - status['done_cycle'] - 1} cycles after done: "
            f"channels {', '.join(left) or 'none'}, "
            f"{status['in_flight']} memory lines",
            where,
        )
