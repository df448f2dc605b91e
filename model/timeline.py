"""Writes a run as trace-event JSON, which ui.perfetto.dev and chrome://tracing open: one
microsecond is one cycle.

Every unit has a track with one slice per stretch of consecutive cycles in which it moves beats,
every channel a counter with its beats held, and every off-chip port a counter with its lines in
flight. An `hbm2` memory has a track with the open rows of each bank, and for each channel counters
of row hits, misses and conflicts. On an array every track of a link has one too, with slices while
beats cross it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..system.output import write_text

# process ids
UNITS = 1
CHANNELS = 2
PORTS = 3
DRAM = 4
LINKS = 5
BANKS = 1000
"""Tracks of a channel."""


def stretches(cycles: np.ndarray) -> list[tuple[int, int]]:
    """(first cycle, length) of each run of consecutive numbers in a set of cycles."""
    cycles = np.unique(cycles)
    if not len(cycles):
        return []
    starts = np.flatnonzero(np.diff(cycles, prepend=cycles[0] - 2) != 1)
    lengths = np.diff(np.append(starts, len(cycles)))
    return list(zip(cycles[starts].tolist(), lengths.tolist(), strict=True))


def level_changes(up: np.ndarray, down: np.ndarray) -> list[tuple[int, int]]:
    """(cycle, level from that cycle on) of a counter that `up` raises and `down` lowers."""
    down = down[down >= 0]
    at = np.concatenate([up, down]) + 1
    step = np.concatenate([np.ones(len(up), np.int64), -np.ones(len(down), np.int64)])
    cycles, where = np.unique(at, return_inverse=True)
    change = np.zeros(len(cycles), np.int64)
    np.add.at(change, where, step)
    keep = change != 0
    return list(zip(cycles[keep].tolist(), np.cumsum(change)[keep].tolist(), strict=True))


def events(graph: UnitGraph, run: Run, tracks: Mapping[int, str] | None = None) -> list[dict]:
    """The trace events of a run recorded with ``timeline=True`` (or ``trace=True``); ``tracks``:
    names of the channels that are tracks of an array's links.
    """
    if len(run.channels) != len(graph.channels):
        raise ValueError("the run has no trace; run with timeline=True")
    out = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        for pid, name in ((UNITS, "units"), (CHANNELS, "channels"), (PORTS, "off-chip"))
    ]
    for u in graph.units:
        out.append(
            {"ph": "M", "pid": UNITS, "tid": u.id, "name": "thread_name", "args": {"name": u.name}}
        )
        moved = [run.channels[c.id].accept for c in graph.outputs(u.id)] + [
            run.channels[c.id].take for c in graph.inputs(u.id)
        ]
        if u.id in graph.ports and run.ports:
            moved.append(run.ports[graph.ports.index(u.id)].accept)
        cycles = np.concatenate(moved) if moved else np.zeros(0, np.int64)
        out += [
            {
                "ph": "X",
                "pid": UNITS,
                "tid": u.id,
                "ts": at,
                "dur": n,
                "name": u.kind.name,
                "args": {"node": u.node},
            }
            for at, n in stretches(cycles[cycles >= 0])
        ]
    names = [u.name for u in graph.units]
    for c in graph.channels:
        trace = run.channels[c.id]
        label = f"{c.name}: {names[c.src[0]]} to {names[c.dst[0]]}"
        out += [
            {"ph": "C", "pid": CHANNELS, "name": label, "ts": at, "args": {"beats": n}}
            for at, n in [(0, 0), *level_changes(trace.accept, trace.take)]
        ]
    for unit, port in zip(graph.ports, run.ports, strict=True):
        label = f"{names[unit]}: lines in flight"
        out += [
            {"ph": "C", "pid": PORTS, "name": label, "ts": at, "args": {"lines": n}}
            for at, n in [(0, 0), *level_changes(port.accept, port.deliver)]
        ]
    return out + link_events(graph, run, tracks or {}) + memory_events(run)


def link_events(graph: UnitGraph, run: Run, tracks: Mapping[int, str]) -> list[dict]:
    """A track for each of an array's tracks in use: slices while beats cross it, named by where
    they come from.
    """
    if not tracks:
        return []
    out: list[dict] = [{"ph": "M", "pid": LINKS, "name": "process_name", "args": {"name": "links"}}]
    for tid, (channel, name) in enumerate(sorted(tracks.items(), key=lambda pair: pair[1])):
        at: dict[str, Any] = {"pid": LINKS, "tid": tid}
        out.append({"ph": "M", **at, "name": "thread_name", "args": {"name": name}})
        source = graph.channels[channel].name.partition("@")[0]
        out += [
            {"ph": "X", **at, "ts": cycle, "dur": n, "name": source}
            for cycle, n in stretches(run.channels[channel].accept)
        ]
    return out


def memory_events(run: Run) -> list[dict]:
    """Open rows of banks, and how requests found their rows."""
    commands = run.commands
    if commands is None:
        return []
    out = [{"ph": "M", "pid": DRAM, "name": "process_name", "args": {"name": "memory"}}]
    for channel in np.unique(commands["channel"]).tolist():
        own = commands[commands["channel"] == channel]
        out += _rows(channel, own, run.cycles)
        out += _found(channel, own)
    return out


def _rows(channel: int, commands: np.ndarray, end: int) -> list[dict]:
    """A track for each bank, a slice for each row that is open, a mark for each refresh."""
    out = []
    for bank in np.unique(commands["bank"]).tolist():
        at: dict[str, Any] = {"pid": DRAM, "tid": channel * BANKS + bank}
        name = f"channel {channel}, bank {bank}"
        out.append({"ph": "M", **at, "name": "thread_name", "args": {"name": name}})
        own = commands[commands["bank"] == bank]
        changes = own[(own["what"] == "activate") | (own["what"] == "precharge")]
        ends = [*changes["cycle"][1:].tolist(), end]
        for change, until in zip(changes, ends, strict=False):
            if change["what"] == "activate":
                begin = int(change["cycle"])
                row = f"row {change['row']}"
                out.append({"ph": "X", **at, "ts": begin, "dur": until - begin, "name": row})
        out += [
            {"ph": "i", "s": "t", **at, "ts": cycle, "name": "refresh"}
            for cycle in own["cycle"][own["what"] == "refresh"].tolist()
        ]
    return out


FOUND = {"column": "hits", "activate": "misses", "precharge": "conflicts"}
"""State of a request's row, by the first command that it needs."""


def _found(channel: int, commands: np.ndarray) -> list[dict]:
    """Counters, over time, of the requests that found their row open, none open, or another one."""
    counts = dict.fromkeys(FOUND.values(), 0)
    name = f"channel {channel}: rows"
    out = [{"ph": "C", "pid": DRAM, "name": name, "ts": 0, "args": dict(counts)}]
    for command in commands[commands["first"]]:
        counts[FOUND[str(command["what"])]] += 1
        at = int(command["cycle"])
        out.append({"ph": "C", "pid": DRAM, "name": name, "ts": at, "args": dict(counts)})
    return out


def write(
    path: str | Path, graph: UnitGraph, run: Run, tracks: Mapping[int, str] | None = None
) -> None:
    """Write the timeline file; ``tracks`` as of :func:`events`."""
    write_text(
        path,
        json.dumps(
            {
                "traceEvents": events(graph, run, tracks),
                "otherData": {"graph": graph.name, "cycles": run.cycles, "unit": "1 us = 1 cycle"},
            }
        ),
    )
