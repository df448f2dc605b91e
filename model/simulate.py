"""Runs a unit graph on the fast model."""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np

from ..machine import image as images
from ..machine.beat import ELEMENT_BITS
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.faults import Fault
from ..machine.kinds import kind_of
from ..machine.trace import ChannelTrace, PortTrace, Run, SinkBeats, SourceBeats
from ..machine.unitgraph import Unit, UnitGraph
from . import deadlock, engine
from . import units as k
from .layout import Layout

LOG_ROWS = 1 << 16
SUNK_ROWS = 1 << 12
FOREVER = 1 << 62


def compiled() -> bool:
    """Whether the engine's compiled code is at hand; else the first run makes it, once.

    A unit's is made when a graph first has it, in seconds.
    """
    return bool(engine.advance.signatures or engine.advance._cache._cache_file._load_index())


def run(
    graph: UnitGraph,
    config: Config,
    tensors: dict[str, np.ndarray] | None = None,
    *,
    values: bool = True,
    trace: bool = False,
    sources: dict[int, SourceBeats] | None = None,
    sinks: dict[int, np.ndarray] | None = None,
    max_cycles: int | None = None,
    timeline: bool = False,
    record: Collection[int] = (),
) -> Run:
    """Run a unit graph in `machine` timing.

    Parameters
    ----------
    tensors
        Input tensors by name; not needed with ``values=False``.
    values
        Compute every beat's values; otherwise only stops, valid counts and references travel.
    trace
        Record every beat of every channel and every line of every port.
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
    trace = trace or timeline or bool(record)
    image = images.pack(graph, tensors or {}) if values else None
    state = Layout(graph, config, image, trace, sources or {}, sinks or {}, record)
    S = state.S
    widest = max((S[state.channel_at(c.id) + k.C_META] for c in graph.channels), default=0)
    sinks_of = {u.id for u in graph.units if u.kind == "sink"}
    n_values = (
        max(
            (
                S[state.channel_at(c.id) + k.C_VALUES]
                for c in graph.channels
                if c.dst[0] in sinks_of
            ),
            default=0,
        )
        if values
        else 0
    )
    log = np.zeros(
        (max(LOG_ROWS, 2 * S[k.G_MAX_CYCLE_LOG]) if trace else S[k.G_MAX_CYCLE_LOG], 5), np.int64
    )
    sunk = np.zeros((SUNK_ROWS + len(graph.units), 4 + widest), np.int64)
    sunk_values = np.zeros((len(sunk) if n_values else 1, n_values), np.uint32)
    logs = []
    sunk_parts = []
    value_parts = []
    recorded: dict[int, list[np.ndarray]] = {c: [] for c in record}
    limit = FOREVER if max_cycles is None else max_cycles
    engine.advance(
        S, state.V, state.M, state.D, log, sunk, sunk_values, -1
    )  # runs no cycle: loads the compiled code, which is set-up time
    ready = time.perf_counter()
    wall = 0.0
    while True:
        began = time.perf_counter()
        status = engine.advance(S, state.V, state.M, state.D, log, sunk, sunk_values, limit)
        wall += time.perf_counter() - began
        logs.append(log[: S[k.G_LOGGED]].copy())
        sunk_parts.append(sunk[: S[k.G_SUNK]].copy())
        if n_values:
            value_parts.append(sunk_values[: S[k.G_SUNK]].copy())
        for c, parts in recorded.items():
            parts.append(_recorded(state, c))
        S[k.G_LOGGED] = S[k.G_SUNK] = S[k.G_RECORDED] = 0
        if status != engine.FULL:
            break
    if status == engine.FAILED:
        raise _failure(graph, state)
    if status == engine.LIMIT:
        raise RunError(
            f"not finished after {limit} cycles",
            f"graph {graph.name}",
            remedy="raise max_cycles, or look at a timeline of the run",
        )
    if status == engine.QUIET and S[k.G_OPEN]:
        raise deadlock.explain(graph, config, state, sources, sinks)
    result = _result(graph, state, np.concatenate(logs), trace)
    _sink_beats(
        graph,
        state,
        result,
        np.concatenate(sunk_parts),
        np.concatenate(value_parts).view(np.float32) if n_values else None,
    )
    if values:
        result.outputs = images.unpack(graph, image)
    if record:
        result.extra["payloads"] = {c: np.concatenate(parts) for c, parts in recorded.items()}
    result.setup_s = ready - start
    result.wall_s = wall
    return result


def _recorded(state: Layout, channel: int) -> np.ndarray:
    """Beats of a channel kept since the last call, uint32 [beats, words]."""
    S = state.S
    at = state.channel_at(channel)
    start = S[at + k.C_RECORD]
    n = S[at + k.C_RECORDED]
    words = S[at + k.C_WORDS]
    S[at + k.C_RECORDED] = 0
    return S[start : start + n * words].astype(np.uint32).reshape(n, words)


def _result(graph: UnitGraph, state: Layout, log: np.ndarray, trace: bool) -> Run:
    S = state.S
    cycles = int(S[k.G_NOW])
    result = Run("model", cycles, int(S[k.G_FIRST_REQUEST]))
    units = S[state.units : state.units + len(graph.units) * k.UNIT_WORDS].reshape(-1, k.UNIT_WORDS)
    result.busy = units[:, k.U_BUSY].copy()
    result.blocked = units[:, k.U_BLOCKED] + np.where(
        units[:, k.U_STATUS] > 0, cycles - 1 - units[:, k.U_EVAL], 0
    )
    result.starved = cycles - result.busy - result.blocked
    held = []
    for c in graph.channels:
        at = state.channel_at(c.id)
        total = int(S[at + k.C_HELD])
        for i in range(S[at + k.C_LEVEL]):
            slot = S[at + k.C_SLOTS] + (S[at + k.C_HEAD] + i) % c.depth * S[at + k.C_SLOT_WORDS]
            total += cycles - 1 - int(S[slot])
        held.append(total / cycles)
    result.occupancy = np.array(held)
    result.lines_read = int(S[k.G_READ])
    result.lines_written = int(S[k.G_WRITTEN])
    result.peak_pages = {u: int(units[u, k.M_PEAK]) for u in graph.memories()}
    result.events = int(S[k.G_EVENTS])
    result.extra["evaluations"] = int(S[k.G_EVALS])
    if trace:
        accepts, takes, sent, got = (log[log[:, 0] == kind] for kind in range(4))
        for c in graph.channels:
            a = accepts[accepts[:, 1] == c.id]
            x = takes[takes[:, 1] == c.id, 2]
            take = np.full(len(a), -1, np.int64)
            take[: len(x)] = x
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
        for p in range(len(graph.ports)):
            a = sent[sent[:, 1] == p]
            d = got[got[:, 1] == p]
            deliver = np.full(len(a), -1, np.int64)
            deliver[d[:, 3]] = d[:, 2]
            result.ports.append(PortTrace(a[:, 2].copy(), deliver, a[:, 3].copy()))
    return result


def _sink_beats(
    graph: UnitGraph, state: Layout, result: Run, sunk: np.ndarray, values: np.ndarray | None
) -> None:
    for u in graph.units:
        if u.kind == "sink":
            mine = sunk[:, 0] == u.id
            at = state.channel_at(graph.inputs(u.id)[0].id)
            rows = sunk[mine]
            result.sink_beats[u.id] = SinkBeats(
                rows[:, 1],
                rows[:, 2].astype(np.uint8),
                rows[:, 3].astype(np.uint8),
                rows[:, 4 : 4 + state.S[at + k.C_META]],
                None if values is None else values[mine][:, : state.S[at + k.C_VALUES]],
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
"""What to do where an off-chip unit leaves its tensor."""


def _outside(graph: UnitGraph, unit: Unit, at: int, where: str) -> RunError:
    """An access at a byte address outside a unit's tensor, in rows and columns."""
    p = unit.params
    dtype = next((x.dtype for x in graph.tensors if x.name == p["tensor"]), "fp32")
    row, byte = divmod(at - p["base"], p["pitch"])
    does = "writes" if kind_of(unit.kind).offchip == "write" else "reads"
    return RunError(
        f"{does} row {row}, column {8 * byte // ELEMENT_BITS[dtype]}, which lies outside tensor "
        f"{p['tensor']} "
        f"of {p['tensor_rows']} rows and {p['tensor_cols']} columns, both counted from 0",
        where,
        remedy=_BEYOND.get(unit.kind),
    )


def _failure(graph: UnitGraph, state: Layout) -> RunError:
    S = state.S
    unit = graph.units[S[k.G_ERROR_UNIT]]
    at = int(S[k.G_ERROR_AT])
    fault = Fault(int(S[k.G_ERROR]) - 1)
    where = f"unit {unit.name}" + (
        f" ({unit.node})" if unit.node and unit.node != unit.name else ""
    )
    if fault is Fault.ADDRESS and "tensor" in unit.params:
        return _outside(graph, unit, at, where)
    return RunError(f"{fault.what}, in cycle {at}", where, fault.rule, fault.remedy)
