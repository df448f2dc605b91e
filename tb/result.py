"""The result of a run on the RTL: its faults, and its numbers as the model gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .. import model
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.faults import Fault
from ..machine.image import unpack
from ..machine.stimulus import Point
from ..machine.trace import POST, ChannelTrace, Run
from ..machine.unitgraph import UnitGraph
from .exported import Design
from .native import FAULTS, HALT, STATUS
from .recorded import Recorded

IDLE_CYCLES = 10_000
"""A run in which no beat and no line moves for so long, and no memory response is due, is
deadlocked.
"""


def run_of(
    p: Point,
    design: Design,
    out: Mapping[str, np.ndarray],
    trace: bool,
    recorded: Sequence[int],
    max_cycles: int | None,
    config: Config | None,
) -> Run:
    """The run of a point from the arrays of the bench; ``recorded``: channels whose whole beats are
    kept.
    """
    graph = p.graph
    status: dict[str, int] = dict(zip(STATUS, map(int, out["status"]), strict=True))
    status["error_unit"] = design.unit_of(p, status["error_unit"])
    seen = Recorded(out)
    _check(p, status, seen, max_cycles, config)
    cycles = status["done_cycle"] + 1
    channels = [seen.channel(c.id) for c in graph.channels]
    if not p.whole:
        _check_quiet(graph, channels, cycles)
    if not p.whole:  # traces cover the cycles below `cycles`
        for c in channels:
            c.take = np.where(c.take < cycles, c.take, -1)
    ports = [seen.port(i) for i in range(len(graph.ports))]
    kept = {int(k.removeprefix("kept")): out[k] for k in out if k.startswith("kept")}
    design.against_kept(p, kept, channels)
    r = Run("rtl", cycles, status["first_request"])
    r.outputs = unpack(graph, out["image"]) if p.tensors is not None else None
    r.counted = design.counted
    if r.counted:
        stats = design.counters(p, out["stats"], channels, cycles)
        r.busy, r.blocked, r.starved = (stats[:, k].copy() for k in range(3))
        r.peak_pages = {u: int(stats[u, 3]) for u in graph.memories()}
    r.lines_read = status["lines_read"]
    r.lines_written = status["lines_written"]
    r.port_lines = np.array([len(p.accept) for p in ports], np.int64)
    counted = {k.removeprefix("dram_"): out[k].tolist() for k in out if k.startswith("dram_")}
    r.dram = counted or None
    r.occupancy = np.array([_occupancy(c, cycles) for c in channels])
    r.events = sum(int((c.take >= 0).sum()) for c in channels) + r.lines_read + r.lines_written
    if trace:
        r.channels = channels
        r.ports = ports
        r.posts = _posts(out["posts"], cycles)
        r.posts["unit"] = [design.unit_of(p, k) for k in r.posts["unit"]]
    if recorded:
        kept = {c: seen.words(c) for c in recorded}
        r.extra["payloads"] = {c: words for c, words in kept.items() if words is not None}
    return r


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


def _told(p: Point, config: Config | None, cycle: int) -> str:
    """The model's message for a fault of the RTL."""
    if config is None:
        return ""
    try:
        model.run(
            p.graph, config, p.tensors, sources=p.sources, sinks=p.sinks, max_cycles=cycle + 2
        )
    except RunError as e:
        return f"; the model: {e}"
    return "; the model has no fault"


def _check(
    p: Point,
    status: Mapping[str, int],
    seen: Recorded,
    max_cycles: int | None,
    config: Config | None,
) -> None:
    """Check that a run came to its end, without a fault and drained."""
    graph = p.graph
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
            told = "places" if status["fault"] == 10 else "beat"
            place = f"{graph.channels[status['fault_index']].name}, {told} {status['fault_value']}"
        raise RunError(f"{what} (cycle {at}, {place})", where)
    if error := status["error"]:
        flags = "; ".join(f"a unit's fault: {fault.what}" for fault in Fault if error >> fault & 1)
        raise RunError(
            f"{flags} (cycle {status['cycles_seen'] - 1})"
            + _told(p, config, status["cycles_seen"]),
            f"{where}, {_faulty(graph, status['error_unit'])}",
        )
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
