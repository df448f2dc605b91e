"""Runs a unit graph on the fast model."""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np

from ..machine import image as images
from ..machine.beat import ELEMENT_BITS
from ..machine.config import Config
from ..machine.errors import FaultError, RunError
from ..machine.faults import Fault
from ..machine.trace import POST, ChannelTrace, PortTrace, Run, SinkBeats, SourceBeats
from ..machine.unitgraph import Unit, UnitGraph
from . import deadlock, engine
from .compiling import is_cached
from .layout import Layout
from .units.state import ACCEPTED, DELIVERED, POSTED, SENT, TAKEN, Logged, Sunk

FOREVER = 1 << 62


MOST_COMMANDS = 1 << 20
"""Commands of the off-chip memory that a timeline shows at most: the first ones."""


def compiled() -> bool:
    """True if the engine's compiled code is at hand; else the first run makes it, once.

    A unit's is made when a graph first has it, in seconds.
    """
    return is_cached(engine.advance)


def run(
    graph: UnitGraph,
    config: Config,
    tensors: dict[str, np.ndarray] | None = None,
    *,
    values: bool = True,
    trace: bool | Collection[int] = False,
    sources: dict[int, SourceBeats] | None = None,
    sinks: dict[int, np.ndarray] | None = None,
    max_cycles: int | None = None,
    timeline: bool = False,
    record: Collection[int] = (),
) -> Run:
    """Run a unit graph in `machine` timing.

    Parameters
    ----------
    graph
        The units and channels.
    config
        Its ``machine`` table is the machine.
    tensors
        Input tensors by name; not needed with ``values=False``.
    values
        Compute every beat's values; otherwise only stops, valid counts and references travel.
    trace
        Record every beat of every channel and every line of every port; or, of the channels with
        these ids alone, their beats.
    sources, sinks
        By unit id: the beats a `source` offers; the release cycle of each beat a `sink` takes.
    max_cycles
        Give up after this many cycles.
    timeline
        Also record what :mod:`penstock.model.timeline` draws (implies ``trace``).
    record
        Channel ids whose whole beats are kept, in ``extra["payloads"]``: uint32 [beats, words] by
        channel id, the bits of docs/timing.md section 6 (implies ``trace``; needs values).

    Raises
    ------
    RunError
        On a deadlock, an access outside a tensor, mismatched stops, an accumulator overflow, or at
        ``max_cycles``.
    """
    start = time.perf_counter()
    record = frozenset(record)
    if record and not values:
        raise RunError(
            "payloads can be recorded only where values are computed",
            f"graph {graph.name}",
            remedy="leave out values=False, or record",
        )
    if unknown := sorted(c for c in record if not 0 <= c < len(graph.channels)):
        raise RunError(
            f"no channel {unknown[0]} to record",
            f"graph {graph.name}",
            f"channel ids are 0 to {len(graph.channels) - 1}",
        )
    only = None if isinstance(trace, bool) or timeline or record else np.array([*trace])
    trace = bool(trace) or timeline or bool(record)
    image = images.pack(graph, tensors or {}) if values else None
    commands = MOST_COMMANDS if timeline else 0
    state = Layout(graph, config, image, trace, sources or {}, sinks or {}, record, commands)
    kept = _Events(state, record, only)
    limit = FOREVER if max_cycles is None else max_cycles
    address = state.address
    engine.advance(address, -1)  # runs no cycle: loads the compiled code, which is set-up time
    ready = time.perf_counter()
    wall = 0.0
    status = engine.FULL
    while status == engine.FULL:
        began = time.perf_counter()
        status = engine.advance(address, limit)
        wall += time.perf_counter() - began
        kept.empty()
    if status == engine.FAILED:
        raise _failure(graph, state)
    if status == engine.LIMIT:
        raise RunError(
            f"not finished after {limit} cycles",
            f"graph {graph.name}",
            remedy="raise max_cycles, or look at a timeline of the run",
        )
    if status == engine.QUIET and state.net["open"]:
        raise deadlock.explain(graph, config, state, sources, sinks)
    result = _result(graph, state)
    if trace:
        _add_trace(result, graph, state, np.concatenate(kept.log))
    if timeline:
        result.commands = state.dram.commands
    _add_sinks(result, graph, state, kept)
    if image is not None:
        result.outputs = images.unpack(graph, image)
    if record:
        result.extra["payloads"] = {c: np.concatenate(x) for c, x in kept.payloads.items()}
    result.setup_s = ready - start
    result.wall_s = wall
    return result


class _Events:
    """Store of a run's events for its result, emptied whenever it is full.

    Attributes
    ----------
    log, sunk, sunk_values
        Lines of the trace, beats of sinks and their values.
    payloads
        The words of recorded channels' beats, by channel.
    """

    def __init__(self, state: Layout, record: Collection[int], only: np.ndarray | None):
        self.state = state
        self.only = only  # channels of the trace, where it has not all
        self.log: list[np.ndarray] = []
        self.sunk: list[np.ndarray] = []
        self.sunk_values: list[np.ndarray] = []
        self.payloads: dict[int, list[np.ndarray]] = {c: [] for c in record}

    def empty(self) -> None:
        net = self.state.net
        log = self._rows(self.state.S, "log", "logged", Logged.words)
        if self.only is not None:
            log = log[np.isin(log[:, 0], (ACCEPTED, TAKEN)) & np.isin(log[:, 1], self.only)]
        self.log.append(log)
        self.sunk.append(self._rows(self.state.S, "sunk", "sunk_count", net["sunk_words"]))
        if self.state.values:
            self.sunk_values.append(
                self._rows(self.state.V, "sunk_value", "sunk_count", net["sunk_values"])
            )
        for c, parts in self.payloads.items():
            channel = self.state.channel(c)
            words = channel["record_words"]
            part = self.state.S[channel["record"] :][: channel["recorded"] * words]
            parts.append(part.astype(np.uint32).reshape(-1, words))
            channel["recorded"] = 0
        net["logged"] = 0
        net["sunk_count"] = 0
        net["recorded"] = 0

    def _rows(self, words: np.ndarray, first: str, count: str, width: int) -> np.ndarray:
        net = self.state.net
        n = int(net[count])
        return words[net[first] :][: n * width].reshape(n, width).copy()


def _result(graph: UnitGraph, state: Layout) -> Run:
    net = state.net
    cycles = int(net["now"])
    result = Run("model", cycles, int(net["first_request"]))
    units = state.all_units()
    waiting = np.where(units["waits"] > 0, cycles - 1 - units["evaluated"], 0)
    result.busy = units["busy"].copy()
    result.blocked = units["blocked"] + waiting
    result.starved = cycles - result.busy - result.blocked
    held = []
    for c in graph.channels:
        channel = state.channel(c.id)
        still = [state.beat(c.id, i)["accepted"] for i in range(channel["level"])]
        held.append((int(channel["held"]) + sum(cycles - 1 - int(at) for at in still)) / cycles)
    result.occupancy = np.array(held)
    result.shapes = [state.shape(c.id) for c in graph.channels]
    result.lines_read = int(net["lines_read"])
    result.lines_written = int(net["lines_written"])
    result.port_lines = np.array([state.unit(u)["sequence"] for u in graph.ports], np.int64)
    result.peak_pages = {u: int(state.unit(u)["peak"]) for u in graph.memories()}
    if misfit := state.dram.misfit(f"graph {graph.name}", cycles):
        raise misfit
    result.dram = state.dram.counters
    result.events = int(net["events"])
    result.extra["evaluations"] = int(net["evaluations"])
    return result


def _add_trace(result: Run, graph: UnitGraph, state: Layout, log: np.ndarray) -> None:
    channels = len(graph.channels)
    ports = len(graph.ports)
    accepted = _by_place(log, ACCEPTED, channels)
    for a, x in zip(accepted, _by_place(log, TAKEN, channels), strict=True):
        take = np.full(len(a), -1, np.int64)
        take[: len(x)] = x[:, 2]
        digest = a[:, 4].view(np.uint64).copy() if state.values else np.zeros(0, np.uint64)
        result.channels.append(
            ChannelTrace(
                a[:, 2].copy(),
                take,
                (a[:, 3] & 255).astype(np.uint8),
                (a[:, 3] >> 8).astype(np.uint8),
                digest,
            )
        )
    sent = _by_place(log, SENT, ports)
    for a, d in zip(sent, _by_place(log, DELIVERED, ports), strict=True):
        deliver = np.full(len(a), -1, np.int64)
        deliver[d[:, 3]] = d[:, 2]
        digest = a[:, 4].view(np.uint64).copy()
        result.ports.append(PortTrace(a[:, 2].copy(), deliver, a[:, 3].copy(), digest))
    posted = log[log[:, 0] == POSTED]
    result.posts = np.zeros(len(posted), POST)
    for name, column in (("cycle", 2), ("unit", 1), ("page", 3), ("change", 4)):
        result.posts[name] = posted[:, column]
    result.posts.sort(order=("cycle", "unit"))


def _by_place(log: np.ndarray, what: int, places: int) -> list[np.ndarray]:
    """The lines of one sort for each channel or port, in order."""
    lines = log[log[:, 0] == what]
    lines = lines[np.argsort(lines[:, 1], kind="stable")]
    return np.split(lines, np.searchsorted(lines[:, 1], np.arange(1, places)))[:places]


def _add_sinks(result: Run, graph: UnitGraph, state: Layout, kept: _Events) -> None:
    sunk = np.concatenate(kept.sunk)
    values = np.concatenate(kept.sunk_values).view(np.float32) if state.values else None
    first = Sunk.offsets["numbers"]
    for u in graph.units:
        if u.kind.name == "sink":
            mine = sunk[:, 0] == u.id
            channel = state.channel(graph.inputs(u.id)[0].id)
            rows = sunk[mine]
            result.sink_beats[u.id] = SinkBeats(
                rows[:, 1],
                rows[:, 2].astype(np.uint8),
                rows[:, 3].astype(np.uint8),
                rows[:, first : first + channel["n_numbers"]],
                None if values is None else values[mine][:, : channel["n_values"]],
            )


_BEYOND = {
    "store": (
        "store as many tiles as the tensor has, with no more valid rows and columns than are "
        "left there"
    ),
    "random_store": (
        "check the addresses, which number the tensor's tiles, and the valid rows and columns of "
        "each tile"
    ),
    "load": "check the addresses, which number the tensor's tiles",
}
"""Remedies where an off-chip unit leaves its tensor."""


def _outside(graph: UnitGraph, unit: Unit, at: int, where: str) -> RunError:
    """An access at a byte address outside a unit's tensor, in rows and columns."""
    p = unit.kind
    dtype = next((x.dtype for x in graph.tensors if x.name == p.tensor), "fp32")
    row, byte = divmod(at - p.base, p.pitch)
    does = "writes" if unit.kind.offchip == "write" else "reads"
    return RunError(
        f"{does} row {row}, column {8 * byte // ELEMENT_BITS[dtype]}, which lies outside tensor "
        f"{p.tensor} "
        f"of {p.tensor_rows} rows and {p.tensor_cols} columns, both counted from 0",
        where,
        remedy=_BEYOND.get(unit.kind.name),
    )


def _failure(graph: UnitGraph, state: Layout) -> RunError:
    unit = graph.units[state.net["fault_unit"]]
    at = int(state.net["fault_at"])
    fault = Fault(int(state.net["fault"]) - 1)
    where = f"unit {unit.name}" + (
        f" ({unit.node})" if unit.node and unit.node != unit.name else ""
    )
    if fault is Fault.RECORDED:
        misfit = state.dram.misfit(f"{where}, cycle {at}")
        assert misfit
        return misfit
    if fault is Fault.ADDRESS and unit.kind.offchip:
        return _outside(graph, unit, at, where)
    return FaultError(fault, at, where)
