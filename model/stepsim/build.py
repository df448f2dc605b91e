"""From a unit graph to the arrays of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ...machine import stepsim_kinds
from ...machine.config import Stepsim
from ...machine.errors import ConfigError, RunError
from ...machine.unitgraph import Unit, UnitGraph
from . import buffer_units, compute_units, flatmap_units, memory_units, routing_units, shape_units
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
    PARAMS,
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
    plain,
    tile,
)
from .tokens import Tokens

_RULE_CODES = {
    "elementwise": compute_units.ELEMENTWISE,
    "matmul": compute_units.MATMUL,
    "matmul_t": compute_units.MATMUL_T,
    "row_reduce": compute_units.ROW_REDUCE,
    "retile_row": compute_units.RETILE_ROW,
    "retile_col": compute_units.RETILE_COL,
    "fixed": compute_units.FIXED,
    "row_offset": compute_units.ROW_OFFSET,
    "row_append": compute_units.ROW_APPEND,
    "address": compute_units.ADDRESS,
}
_MODES = {
    "address_range": flatmap_units.RANGE,
    "expert_addresses": flatmap_units.EXPERT,
    "last_filter": flatmap_units.LAST,
}
LOG_COLUMNS = 6


class _Aux:
    """Lists that parameters point to, end to end."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, values) -> int:
        self.values.extend(values)
        return len(self.values) - len(values)


def _fill_params(
    row: np.ndarray, unit: Unit, config: Stepsim, port: int, aux: _Aux, given: Tokens | None
) -> None:
    """Write a unit's parameters into the columns its module names; ``given``: the tokens of a
    stream from outside.
    """
    p = unit.params
    match unit.kind:
        case "load" | "load_ref":
            m = memory_units
            row[m.ROWS] = p["rows"]
            row[m.COLS] = p["cols"]
            row[m.PORT] = port
            row[m.SHAPE] = aux.add(p["shape"])
            row[m.DIMS] = len(p["shape"])
            row[m.TILES] = prod(p["shape"])
        case "store" | "store_at":
            row[memory_units.PORT] = port
        case "source":
            n = len(p["stop"])
            word = plain(tile)(p["rows"], p["cols"], p["rows"], 0)
            listed = Tokens(np.array(p["stop"], np.int64), np.full(n, word), np.zeros(n, np.int64))
            _fill_tokens(row, aux, listed, p["stamp"])
        case "stream" if given is not None:
            _fill_tokens(row, aux, given, range(p["first"], p["first"] + len(given.stop)))
        case "map" | "map_accum" | "accum" | "scan":
            _fill_compute(row, unit, config)
        case "flatten":
            row[shape_units.LO] = p["lo"]
            row[shape_units.HI] = p["hi"]
        case "promote":
            row[shape_units.LEVEL] = p["level"]
        case "reshape":
            m = shape_units
            row[m.DIM] = p["dim"]
            row[m.CHUNK] = p["chunk"]
            row[m.PAD] = p["pad"]
            row[m.ADD_OUTER] = p["add_outer"]
        case "repeat":
            row[shape_units.COUNT] = p["count"]
        case "expand":
            row[shape_units.RANK] = p["rank"]
        case "bufferize":
            row[buffer_units.RANK] = p["rank"]
        case "streamify" | "streamify_ref":
            m = buffer_units
            repeat = p.get("repeat", [])
            shape = p.get("shape", [])
            row[m.RANK] = p["rank"]
            row[m.REPEAT] = aux.add(repeat)
            row[m.DIMS] = len(repeat)
            row[m.TIMES] = prod(repeat)
            row[m.LEVEL] = p.get("level", 0)
            row[m.SHAPE] = aux.add(shape)
            row[m.STRIDE] = aux.add(p.get("stride", []))
            row[m.NEST] = len(shape)
            row[m.SIZE] = prod(shape) if shape else 0
        case "partition" | "reassemble" | "eager_merge":
            m = routing_units
            row[m.PORTS] = p["n"]
            row[m.RANK] = p["rank"]
            row[m.TILES] = p.get("tiles", 0)
            row[m.WRITE_BACK] = p.get("write_back_mu", False)
            row[m.ORDER] = aux.add([0] * p["n"])
        case "split" | "address_range" | "expert_addresses" | "last_filter":
            _fill_flatmap(row, unit)


def _fill_tokens(row: np.ndarray, aux: _Aux, given: Tokens, stamps: Sequence[int]) -> None:
    """Parameters of what offers listed tokens."""
    m = memory_units
    row[m.TOKENS] = len(given.stop)
    row[m.STAMPS] = aux.add(stamps)
    row[m.STOPS] = aux.add(given.stop)
    row[m.WORDS] = aux.add(given.word)
    row[m.WORDS2] = aux.add(given.word2)


def _fill_compute(row: np.ndarray, unit: Unit, config: Stepsim) -> None:
    """Parameters of what computes."""
    p = unit.params
    m = compute_units
    row[m.RULE] = _RULE_CODES[p["rule"]]
    row[m.FLOPS] = p["flops"]
    row[m.WRITE_BACK] = p["write_back_mu"]
    row[m.BW] = p["compute_bw"] or config.compute_bw
    row[m.TILES] = p.get("tiles", 2)
    if unit.kind == "map":
        row[m.PAIRED] = p["tuple_in"]
        row[m.STRIDE] = p.get("stride", 0)
    else:
        row[m.RANK] = p["rank"]
        row[m.INIT] = plain(tile)(p["init_rows"], p["init_cols"], 0, 0)


def _fill_flatmap(row: np.ndarray, unit: Unit) -> None:
    """Parameters of what gives several tokens for one."""
    p = unit.params
    m = flatmap_units
    row[m.NEW] = p["new"]
    if unit.kind == "split":
        row[m.ALONG] = p["along"] == "cols"
        row[m.SIZE] = p["size"]
        row[m.MASK] = p["mask"]
    else:
        row[m.STEP] = p.get("step", 0)
        row[m.MODE] = _MODES[unit.kind]


def _ports_by_unit(pairs: list[tuple[int, int, int]], units: int) -> tuple[np.ndarray, np.ndarray]:
    """(unit, port, channel) triples to a table of channels by unit and port."""
    pairs = sorted(pairs)
    at = np.searchsorted([u for u, _, _ in pairs], np.arange(units + 1)).astype(np.int64)
    return at, np.array([c for _, _, c in pairs], np.int64)


def build(graph: UnitGraph, config: Stepsim, log: bool, sources: Mapping[int, Tokens]) -> Net:
    """Arrays of a run at its start: every unit about to step in cycle 0."""
    stepsim_kinds.validate(graph)
    for u in graph.units:
        if u.kind == "stream" and u.id not in sources:
            raise RunError(
                "no tokens given",
                f"unit {u.name}",
                remedy="give them by unit id: run(..., sources={id: Tokens(...)})",
            )
    dram = config.dram
    if dram.kind != "pipe":
        raise ConfigError(
            f"kind must be 'pipe' in the timing `stepsim`, not {dram.kind!r}", "stepsim.dram"
        )
    n = len(graph.units)
    m = len(graph.channels)
    i64 = np.int64
    port_of = {u: i for i, u in enumerate(graph.ports)}
    aux = _Aux()
    par = np.zeros((n, PARAMS), i64)
    reg = np.zeros((n, REGS), i64)
    for u in graph.units:
        _fill_params(par[u.id], u, config, port_of.get(u.id, -1), aux, sources.get(u.id))
        if u.kind in ("map", "map_accum", "accum", "scan"):
            reg[u.id, [compute_units.LAST_A, compute_units.LAST_B, compute_units.GROUP]] = (
                -1,
                -2,
                -1,
            )
    depth = np.array([c.depth or config.fifo_depth for c in graph.channels], i64)
    slots = int(depth.sum())
    in_at, ins = _ports_by_unit([(*c.dst, c.id) for c in graph.channels], n)
    out_at, outs = _ports_by_unit([(*c.src, c.id) for c in graph.channels], n)

    g = np.zeros(SCALARS, i64)
    g[G_FAR_MIN] = IDLE
    g[G_FIRST] = -1
    g[G_ELEMENT] = config.element_bytes
    g[G_ONCHIP] = config.onchip_bw
    g[G_INTERVAL] = dram.interval
    g[G_LATENCY] = dram.start_up + dram.latency
    g[G_LOGGING] = log
    g[G_SLACK_LOG] = slots
    g[G_SLACK_STORE] = sum(
        int(depth[c.id]) for c in graph.channels if graph.units[c.dst[0]].kind == "bufferize"
    )

    bucket = np.full(BUCKETS + 1, -1, i64)
    bucket[0] = 0 if n else -1
    g[G_NEAR] = n

    unit = np.zeros((n + 1, UNIT_COLUMNS), i64)
    unit[:n, U_KIND] = [KIND_CODES[u.kind] for u in graph.units]
    unit[:, U_WHY] = STARVED
    unit[:, U_ON] = -1
    unit[:, U_FINISH] = -1
    unit[:, U_IN_AT] = in_at
    unit[:, U_OUT_AT] = out_at
    unit[:n, U_AFTER] = [*range(1, n), -1][:n]

    chan = np.zeros((m, CHANNEL_COLUMNS), i64)
    chan[:, C_SRC] = [c.src[0] for c in graph.channels]
    chan[:, C_DST] = [c.dst[0] for c in graph.channels]
    chan[:, C_BASE] = np.cumsum(depth) - depth
    chan[:, C_DEPTH] = depth
    chan[:, C_CLOSED] = -1

    port = np.zeros((len(graph.ports), PORT_COLUMNS), i64)
    port[:, P_UNIT] = graph.ports
    port[:, P_PAR] = [
        graph.units[u].params["par_dispatch"] or config.par_dispatch for u in graph.ports
    ]

    return Net(
        g=g,
        unit=unit,
        par=par,
        reg=reg,
        spent=np.zeros((n, 3), i64),
        ins=ins,
        outs=outs,
        aux=np.array(aux.values, i64),
        bucket=bucket,
        chan=chan,
        slot=np.zeros((slots, SLOT_COLUMNS), i64),
        port=port,
        active=np.zeros(len(graph.ports), i64),
        served=np.full(dram.channels, -dram.interval, i64),
        store=np.zeros((max(1024, 2 * int(g[G_SLACK_STORE])) if g[G_SLACK_STORE] else 1, 4), i64),
        log=np.zeros((max(4096, 2 * slots) if log else 1, LOG_COLUMNS), i64),
    )


def idle(net: Net) -> Net:
    """A net with nothing to do."""
    g = np.zeros_like(net.g)
    g[G_FAR_MIN] = IDLE
    return net._replace(g=g, bucket=np.full_like(net.bucket, -1))
