"""The `stepsim` timing: the STeP simulator's rules, token by token, without values.

Every operator is a unit with a clock of its own, and clocks meet at channels (`channels`): an
operator on logical tiles takes its roofline interval (`compute_units`), holds its inputs until its
output is accepted, and off-chip units share a banked pipe (`hbm`). The units are those of
`penstock.machine.stepsim_kinds`. It exists to reproduce the paper's figures and counts cycles as
the published tools do: the latest final clock of all units, the HBM node included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from time import perf_counter

import numpy as np
from numba import types

from ...machine.config import Config
from ...machine.deadlock import Deadlock
from ...machine.trace import ChannelTrace, Run
from ...machine.unitgraph import Channel, Unit, UnitGraph
from .. import depths
from . import report
from .build import Layout
from .engine import simulate
from .state import OK, plain, tile_cols, tile_rows, tile_valid
from .tokens import Tokens, selector_words, tile_word, tokens

__all__ = ["Tokens", "relieved", "run", "scatter", "selector_words", "tile_word", "tokens"]

PATIENCE = 2.0
"""Seconds that a run may take for its deadlock's depth to be looked for unasked."""
DRAIN = 2
"""Cycles from the end of an off-chip unit to that of the HBM node: it sees the end, then drains its
channels. Behind the stores of :func:`_late` it sees the end a cycle later.
"""


def run(
    graph: UnitGraph,
    config: Config,
    trace: bool = False,
    sources: Mapping[int, Tokens] | None = None,
    search: bool = True,
) -> Run:
    """Run a graph of `stepsim` units.

    Parameters
    ----------
    graph
        Units of `penstock.machine.stepsim_kinds`.
    config
        Its `stepsim` table is the machine; the other one has no influence.
    trace
        Whether to keep every token: `Run.channels` (accept and take cycles, stops; no digests), and
        the tiles' shapes in ``Run.extra["tiles"]`` (by channel, an int64 array [tokens, 3] of rows,
        columns, valid rows) and all words in ``Run.extra["words"]`` (int64 [tokens, 2]).
    sources
        The tokens of each `stream` unit, by its id.
    search
        Whether a deadlock's error names the smallest depth of all channels that frees it (looked
        for where a trial takes less than `PATIENCE` seconds).

    Returns
    -------
    Run
        `cycles` as the published tools count them. `busy`, `blocked` and `starved` are the cycles a
        unit's clock advanced by its own rule (roofline, memory transfer, a token of a buffer),
        waiting for room, and waiting for a token, up to its own end. ``extra["finish"]`` has the
        final clock of every unit, ``extra["offchip_bytes"]`` the bytes of all tiles moved.

    Raises
    ------
    RunError
        A deadlock, or streams that do not fit together.
    """
    start = perf_counter()
    state = Layout(graph, config.stepsim, trace, sources or {})
    simulate.compile((types.int64,))
    setup = perf_counter()
    net = state.simulate().net
    if net["fault"] != OK:
        raise report.fault(graph, state)
    units = state.all_units()
    end = perf_counter()
    if not state.finished:
        found = report.stalled(graph, state)
        if search and end - setup < PATIENCE and any(s.why == "room" for s in found.circle):
            found = replace(
                found,
                uniform=depths.smallest(_channels(graph, config), _trial(graph, config, sources)),
            )
        raise report.error(graph, found)
    result = Run(
        backend="model",
        cycles=_cycles(state),
        first_request=int(net["first"]),
        busy=units["own"].copy(),
        blocked=units["blocked"].copy(),
        starved=units["starved"].copy(),
        lines_read=int(net["read"]),
        lines_written=int(net["written"]),
        events=int(net["tokens"] + net["read"] + net["written"]),
        wall_s=end - setup,
        setup_s=setup - start,
        extra={"finish": units["finish"].copy(), "offchip_bytes": int(net["moved"])},
    )
    if trace:
        _add_trace(result, state)
    return result


def scatter(
    graph: UnitGraph,
    config: Config,
    seeds: Iterable[int],
    sources: Mapping[int, Tokens] | None = None,
) -> Iterator[int]:
    """The cycles of runs in which, drawn by each seed, readers that wait for the end of a stream
    miss the last step of its sender: the published simulator leaves that to its threads.

    Arguments as of :func:`run`. A draw that deadlocks is left out.
    """
    start = Layout(graph, config.stepsim, False, sources or {})
    for seed in seeds:
        state = start.missing(seed).simulate()
        if state.finished:
            yield _cycles(state)


def _cycles(state: Layout) -> int:
    """The latest final clock, that of the HBM node included."""
    finish = state.all_units()["finish"]
    units = state.graph.units
    off_chip = (int(finish[u]) + DRAIN + _late(state.graph, units[u]) for u in state.graph.ports)
    return max(int(finish.max(initial=0)), *off_chip, 0)


def _late(graph: UnitGraph, unit: Unit) -> bool:
    """True if a unit ends after the HBM node has looked: a store that acknowledges, and one of
    tiles that come straight from a memory.
    """
    if unit.kind.name != "store":
        return unit.kind.name == "store_at"
    before = graph.units[graph.inputs(unit.id)[0].src[0]].kind
    return before.offchip == "read" or before.name.startswith("streamify")


def relieved(
    graph: UnitGraph,
    config: Config,
    found: Deadlock,
    sources: Mapping[int, Tokens] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Deadlock:
    """A deadlock's report with the depths that free it: of all channels, and of those of one name
    alone (minutes where a run takes seconds).
    """
    channels = _channels(graph, config)
    trial = _trial(graph, config, sources)
    names = [s.channel for s in found.circle if s.why == "room"]
    if not names:
        return found
    if progress:
        progress("deepening all channels")
    return replace(
        found,
        uniform=depths.smallest(channels, trial),
        reliefs=depths.reliefs(
            graph,
            channels,
            trial,
            [next(c for c in channels if c.name == n) for n in names],
            progress,
        ),
    )


def _channels(graph: UnitGraph, config: Config) -> list[Channel]:
    """The channels with the depths that they have in a run."""
    return [replace(c, depth=c.depth or config.stepsim.fifo_depth) for c in graph.channels]


def _trial(
    graph: UnitGraph, config: Config, sources: Mapping[int, Tokens] | None
) -> depths.Finishes:
    """True if a run finishes with other depths."""

    def finishes(chosen: dict[int, int]) -> bool:
        deeper = replace(
            graph,
            channels=tuple(replace(c, depth=chosen.get(c.id, c.depth)) for c in graph.channels),
        )
        return Layout(deeper, config.stepsim, False, sources or {}).simulate().finished

    return finishes


def _add_trace(result: Run, state: Layout) -> None:
    log = state.log[: state.net["logged"]]
    log = log[np.argsort(log["channel"], kind="stable")]
    later = [state.channel_at(c) for c in range(1, len(state.graph.channels))]
    tiles = []
    words = []
    for part in np.split(log, np.searchsorted(log["channel"], later)):
        stop = part["stop"].astype(np.uint8)
        word = part["word"]
        result.channels.append(
            ChannelTrace(
                part["sent"].copy(),
                part["taken"].copy(),
                stop,
                np.ones_like(stop),
                np.empty(0, np.uint64),
            )
        )
        words.append(np.stack([word, part["word2"]], axis=1))
        tiles.append(np.stack([plain(f)(word) for f in (tile_rows, tile_cols, tile_valid)], axis=1))
    result.extra["tiles"] = tiles
    result.extra["words"] = words
