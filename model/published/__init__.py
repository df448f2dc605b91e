"""The `published` timing: the STeP simulator's rules, token by token, without values.

Every operator is a unit with a clock of its own, and clocks meet at channels (`channels`): an operator on logical tiles takes
its roofline interval (`compute_units`), holds its inputs until its output is accepted, and off-chip units share a
banked pipe (`hbm`). The units are those of `penstock.machine.published_kinds`. It exists to reproduce the paper's figures
and counts cycles as the published tools do: the latest final clock of all units, the HBM node included.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from penstock.machine.config import Config
from penstock.machine.trace import ChannelTrace, Run
from penstock.machine.unitgraph import UnitGraph

from . import report
from .build import build
from .engine import simulate
from .state import (
    BLOCKED, GROW, G_FAULT, G_FIRST, G_LOGGED, G_READ, G_STORED, G_TOKENS, G_WRITTEN, OK, OWN, STARVED, U_FINISH, Net,
    plain, tile_cols, tile_rows, tile_valid,
)
from .tokens import Tokens, selector_words, tile_word, tokens

__all__ = ["run", "Tokens", "tokens", "tile_word", "selector_words"]

DRAIN = 2
"""Cycles from the end of the last off-chip unit to that of the HBM node: it sees the end, then drains its channels."""


def run(graph: UnitGraph, config: Config, trace: bool = False, sources: Mapping[int, Tokens] | None = None) -> Run:
    """Run a graph of `published` units.

    Parameters
    ----------
    graph
        Units of `penstock.machine.published_kinds`.
    config
        Its `published` table is the machine; the other one has no influence.
    trace
        Whether to keep every token: `Run.channels` (accept and take cycles, stops; no digests), and the tiles' shapes in
        ``Run.extra["tiles"]`` (by channel, an int64 array [tokens, 3] of rows, columns, valid rows) and all words in
        ``Run.extra["words"]`` (int64 [tokens, 2]).
    sources
        The tokens of each `stream` unit, by its id.

    Returns
    -------
    Run
        `cycles` as the published tools count them. `busy`, `blocked` and `starved` are the cycles a unit's clock advanced
        by its own rule (roofline, memory transfer, a token of a buffer), waiting for room, and waiting for a token, up to
        its own end. ``extra["finish"]`` has the final clock of every unit.

    Raises
    ------
    RunError
        A deadlock, or streams that do not fit together.
    """
    start = perf_counter()
    net = build(graph, config.published, trace, sources or {})
    setup = perf_counter()
    simulate(net)
    while net.g[G_FAULT] == GROW:
        net = _grown(net)
        simulate(net)
    if net.g[G_FAULT] != OK:
        raise report.fault(graph, net)
    finish = net.unit[: len(graph.units), U_FINISH].copy()
    if (finish < 0).any():
        raise report.deadlock(graph, net)
    end = perf_counter()
    off_chip = max((int(finish[u]) for u in graph.ports), default=-DRAIN)
    result = Run(
        backend="model", cycles=max(int(finish.max(initial=0)), off_chip + DRAIN), first_request=int(net.g[G_FIRST]),
        busy=net.spent[:, OWN].copy(), blocked=net.spent[:, BLOCKED].copy(), starved=net.spent[:, STARVED].copy(),
        lines_read=int(net.g[G_READ]), lines_written=int(net.g[G_WRITTEN]),
        events=int(net.g[G_TOKENS] + net.g[G_READ] + net.g[G_WRITTEN]), wall_s=end - setup, setup_s=setup - start,
        extra={"finish": finish},
    )
    if trace:
        _add_trace(result, net, len(graph.channels))
    return result


def _grown(net: Net) -> Net:
    """The same run with more room for buffers or for the log."""
    def doubled(a: np.ndarray, used: int) -> np.ndarray:
        return np.concatenate((a, np.zeros_like(a))) if used > len(a) // 2 else a

    return net._replace(store=doubled(net.store, net.g[G_STORED]), log=doubled(net.log, net.g[G_LOGGED]))


def _add_trace(result: Run, net: Net, channels: int) -> None:
    log = net.log[: net.g[G_LOGGED]]
    log = log[np.argsort(log[:, 0], kind="stable")]
    tiles, words = [], []
    for part in np.split(log, np.searchsorted(log[:, 0], np.arange(1, channels))):
        stop, word = part[:, 3].astype(np.uint8), part[:, 4]
        result.channels.append(ChannelTrace(part[:, 1].copy(), part[:, 2].copy(), stop, np.ones_like(stop), np.empty(0, np.uint64)))
        words.append(part[:, 4:6].copy())
        tiles.append(np.stack([plain(f)(word) for f in (tile_rows, tile_cols, tile_valid)], axis=1))
    result.extra["tiles"], result.extra["words"] = tiles, words
