"""Arrays of a run, built from a unit graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...machine import stepsim_kinds
from ...machine.config import Stepsim
from ...machine.errors import ConfigError, RunError
from ...machine.unitgraph import UnitGraph
from . import compute_units, parameters, routing_units
from .calendar import BUCKETS
from .engine import KIND_CODES
from .state import (
    C_BASE,
    C_CLOSED,
    C_DEPTH,
    C_DST,
    C_SRC,
    CHANNEL_COLUMNS,
    G_ELEMENT,
    G_FAR_MIN,
    G_FIRST,
    G_INTERVAL,
    G_LATENCY,
    G_LOGGING,
    G_NEAR,
    G_ONCHIP,
    G_SLACK_LOG,
    G_SLACK_STORE,
    IDLE,
    P_PAR,
    P_UNIT,
    PORT_COLUMNS,
    REGS,
    SCALARS,
    SLOT_COLUMNS,
    STARVED,
    U_AFTER,
    U_FINISH,
    U_IN_AT,
    U_KIND,
    U_ON,
    U_OUT_AT,
    U_WHY,
    UNIT_COLUMNS,
    Net,
)
from .tokens import Tokens

LOG_COLUMNS = 6
LEAST_STORE = 1024
LEAST_LOG = 4096
"""Entries of buffers and of the log that a run has to begin with, where it needs any."""


def build(graph: UnitGraph, config: Stepsim, log: bool, sources: Mapping[int, Tokens]) -> Net:
    """Arrays of a run at its start: every unit about to step in cycle 0."""
    _check(graph, config, sources)
    depth = np.array([c.depth or config.fifo_depth for c in graph.channels], np.int64)
    lists = parameters.Lists()
    par = _parameters(graph, config, sources, lists)
    in_at, ins = _by_unit([(*c.dst, c.id) for c in graph.channels], len(graph.units))
    out_at, outs = _by_unit([(*c.src, c.id) for c in graph.channels], len(graph.units))
    g = _scalars(graph, config, depth, log)
    buffered = int(g[G_SLACK_STORE])
    return Net(
        g=g,
        unit=_units(graph, in_at, out_at),
        par=par,
        reg=_registers(graph),
        spent=np.zeros((len(graph.units), 3), np.int64),
        ins=ins,
        outs=outs,
        aux=np.array(lists.values, np.int64),
        bucket=_calendar(len(graph.units)),
        chan=_channels(graph, depth),
        slot=np.zeros((int(depth.sum()), SLOT_COLUMNS), np.int64),
        port=_ports(graph, config),
        active=np.zeros(len(graph.ports), np.int64),
        served=np.full(config.dram.channels, -config.dram.interval, np.int64),
        store=np.zeros((max(LEAST_STORE, 2 * buffered) if buffered else 1, 4), np.int64),
        log=np.zeros((max(LEAST_LOG, 2 * int(depth.sum())) if log else 1, LOG_COLUMNS), np.int64),
    )


LAST_STEPS = 2
"""Steps of a partition's last token that a reader may miss."""


def missing(net: Net, graph: UnitGraph, seed: int) -> Net:
    """A fresh copy of a run's start, in which the reader of each output of a partition misses the
    last steps of its clock or not, as drawn by ``seed`` (docs/stepsim.md, what is a race).
    """
    copy = Net(*(array.copy() for array in net))
    rng = np.random.default_rng(seed)
    for u in graph.units:
        if u.kind.name == "partition":
            at = net.par[u.id, routing_units.MISSES]
            n = u.kind.n
            copy.aux[at : at + n] = rng.integers(0, LAST_STEPS + 1, n)
    return copy


def _check(graph: UnitGraph, config: Stepsim, sources: Mapping[int, Tokens]) -> None:
    """Refuse what cannot run."""
    stepsim_kinds.validate(graph)
    for u in graph.units:
        if u.kind.name == "stream" and u.id not in sources:
            raise RunError(
                "no tokens given",
                f"unit {u.name}",
                remedy="give them by unit id: run(..., sources={id: Tokens(...)})",
            )
    if config.dram.kind != "pipe":
        raise ConfigError(
            f"kind must be 'pipe' in the timing `stepsim`, not {config.dram.kind!r}", "stepsim.dram"
        )


def _parameters(
    graph: UnitGraph, config: Stepsim, sources: Mapping[int, Tokens], lists: parameters.Lists
) -> np.ndarray:
    port = {u: i for i, u in enumerate(graph.ports)}
    return parameters.table(
        (u, parameters.Given(config, port.get(u.id, -1), sources.get(u.id), lists))
        for u in graph.units
    )


def _registers(graph: UnitGraph) -> np.ndarray:
    reg = np.zeros((len(graph.units), REGS), np.int64)
    computing = [u.id for u in graph.units if u.kind.name in ("map", "map_accum", "accum", "scan")]
    reg[computing, compute_units.LAST_A] = -1
    reg[computing, compute_units.LAST_B] = -2
    reg[computing, compute_units.GROUP] = -1
    return reg


def _by_unit(triples: list[tuple[int, int, int]], units: int) -> tuple[np.ndarray, np.ndarray]:
    """(unit, port, channel) triples to a table of channels by unit and port."""
    ordered = sorted(triples)
    at = np.searchsorted([u for u, _, _ in ordered], np.arange(units + 1)).astype(np.int64)
    return at, np.array([c for _, _, c in ordered], np.int64)


def _scalars(graph: UnitGraph, config: Stepsim, depth: np.ndarray, log: bool) -> np.ndarray:
    g = np.zeros(SCALARS, np.int64)
    g[G_NEAR] = len(graph.units)
    g[G_FAR_MIN] = IDLE
    g[G_FIRST] = -1
    g[G_ELEMENT] = config.element_bytes
    g[G_ONCHIP] = config.onchip_bw
    g[G_INTERVAL] = config.dram.interval
    g[G_LATENCY] = config.dram.start_up + config.dram.latency
    g[G_LOGGING] = log
    g[G_SLACK_LOG] = depth.sum()
    g[G_SLACK_STORE] = sum(
        int(depth[c.id]) for c in graph.channels if graph.units[c.dst[0]].kind.name == "bufferize"
    )
    return g


def _calendar(units: int) -> np.ndarray:
    """All units are due in cycle 0, one behind the other."""
    bucket = np.full(BUCKETS + 1, -1, np.int64)
    bucket[0] = 0 if units else -1
    return bucket


def _units(graph: UnitGraph, in_at: np.ndarray, out_at: np.ndarray) -> np.ndarray:
    n = len(graph.units)
    unit = np.zeros((n + 1, UNIT_COLUMNS), np.int64)
    unit[:n, U_KIND] = [KIND_CODES[u.kind.name] for u in graph.units]
    unit[:, U_WHY] = STARVED
    unit[:, U_ON] = -1
    unit[:, U_FINISH] = -1
    unit[:, U_IN_AT] = in_at
    unit[:, U_OUT_AT] = out_at
    unit[:n, U_AFTER] = [*range(1, n), -1][:n]
    return unit


def _channels(graph: UnitGraph, depth: np.ndarray) -> np.ndarray:
    chan = np.zeros((len(graph.channels), CHANNEL_COLUMNS), np.int64)
    chan[:, C_SRC] = [c.src[0] for c in graph.channels]
    chan[:, C_DST] = [c.dst[0] for c in graph.channels]
    chan[:, C_BASE] = np.cumsum(depth) - depth
    chan[:, C_DEPTH] = depth
    chan[:, C_CLOSED] = -1
    return chan


def _ports(graph: UnitGraph, config: Stepsim) -> np.ndarray:
    port = np.zeros((len(graph.ports), PORT_COLUMNS), np.int64)
    port[:, P_UNIT] = graph.ports
    port[:, P_PAR] = [graph.units[u].kind.par_dispatch or config.par_dispatch for u in graph.ports]
    return port


def idle(net: Net) -> Net:
    """A net with nothing to do."""
    g = np.zeros_like(net.g)
    g[G_FAR_MIN] = IDLE
    return net._replace(g=g, bucket=np.full_like(net.bucket, -1))
