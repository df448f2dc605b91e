"""From a unit graph to the arrays of a run."""

from __future__ import annotations

from math import prod

import numpy as np

from penstock.machine import published_kinds
from penstock.machine.config import Published
from penstock.machine.errors import ConfigError
from penstock.machine.unitgraph import Unit, UnitGraph

from . import buffer_units, compute_units, memory_units, shape_units
from .calendar import BUCKETS
from .engine import KIND_CODES
from .state import (
    C_BASE, C_CLOSED, C_DEPTH, C_DST, C_SRC, CHANNEL_COLUMNS, G_ELEMENT, G_FAR_MIN, G_FIRST, G_INTERVAL, G_LATENCY, G_LOGGING, G_NEAR,
    G_ONCHIP, G_SLACK_LOG, G_SLACK_STORE, IDLE, P_PAR, P_UNIT, PARAMS, PORT_COLUMNS, REGS, SCALARS, SLOT_COLUMNS, STARVED, U_AFTER,
    U_FINISH, U_IN_AT, U_KIND, U_ON, U_OUT_AT, U_WHY, UNIT_COLUMNS, Net, plain, tile,
)

_RULE_CODES = {
    "elementwise": compute_units.ELEMENTWISE, "matmul": compute_units.MATMUL, "matmul_t": compute_units.MATMUL_T,
    "row_reduce": compute_units.ROW_REDUCE, "retile_row": compute_units.RETILE_ROW, "retile_col": compute_units.RETILE_COL,
    "fixed": compute_units.FIXED,
}
LOG_COLUMNS = 6


class _Aux:
    """Lists that parameters point to, end to end."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, values) -> int:
        self.values.extend(values)
        return len(self.values) - len(values)


def _fill_params(row: np.ndarray, unit: Unit, config: Published, port: int, aux: _Aux) -> None:
    """Write a unit's parameters into the columns its module names."""
    p = unit.params
    match unit.kind:
        case "load":
            m = memory_units
            row[m.ROWS], row[m.COLS], row[m.PORT] = p["rows"], p["cols"], port
            row[m.SHAPE], row[m.DIMS], row[m.TILES] = aux.add(p["shape"]), len(p["shape"]), prod(p["shape"])
        case "store":
            row[memory_units.PORT] = port
        case "source":
            m = memory_units
            row[m.ROWS], row[m.COLS], row[m.TOKENS] = p["rows"], p["cols"], len(p["stop"])
            row[m.STAMPS], row[m.STOPS] = aux.add(p["stamp"]), aux.add(p["stop"])
        case "map" | "map_accum" | "accum":
            m = compute_units
            row[m.RULE], row[m.FLOPS], row[m.WRITE_BACK] = _RULE_CODES[p["rule"]], p["flops"], p["write_back_mu"]
            row[m.BW] = p["compute_bw"] or config.compute_bw
            if unit.kind == "map":
                row[m.PAIRED] = p["tuple_in"]
            else:
                row[m.RANK] = p["rank"]
                row[m.INIT] = plain(tile)(p["init_rows"], p["init_cols"], 0, 0)
        case "flatten":
            row[shape_units.LO], row[shape_units.HI] = p["lo"], p["hi"]
        case "promote":
            row[shape_units.LEVEL] = p["level"]
        case "reshape":
            m = shape_units
            row[m.DIM], row[m.CHUNK], row[m.PAD], row[m.ADD_OUTER] = p["dim"], p["chunk"], p["pad"], p["add_outer"]
        case "repeat":
            row[shape_units.COUNT] = p["count"]
        case "bufferize":
            row[buffer_units.RANK] = p["rank"]
        case "streamify":
            m = buffer_units
            row[m.RANK], row[m.REPEAT], row[m.DIMS], row[m.TIMES] = p["rank"], aux.add(p["repeat"]), len(p["repeat"]), prod(p["repeat"])


def _ports_by_unit(pairs: list[tuple[int, int, int]], units: int) -> tuple[np.ndarray, np.ndarray]:
    """(unit, port, channel) triples to a table of channels by unit and port."""
    pairs = sorted(pairs)
    at = np.searchsorted([u for u, _, _ in pairs], np.arange(units + 1)).astype(np.int64)
    return at, np.array([c for _, _, c in pairs], np.int64)


def build(graph: UnitGraph, config: Published, log: bool) -> Net:
    """Arrays of a run at its start: every unit about to step in cycle 0."""
    published_kinds.validate(graph)
    dram = config.dram
    if dram.kind != "pipe":
        raise ConfigError(f"kind must be 'pipe' in the published timing, not {dram.kind!r}", "published.dram")
    n, m = len(graph.units), len(graph.channels)
    i64 = np.int64
    port_of = {u: i for i, u in enumerate(graph.ports)}
    aux = _Aux()
    par = np.zeros((n, PARAMS), i64)
    reg = np.zeros((n, REGS), i64)
    for u in graph.units:
        _fill_params(par[u.id], u, config, port_of.get(u.id, -1), aux)
        if u.kind in ("map", "map_accum", "accum"):
            reg[u.id, [compute_units.LAST_A, compute_units.LAST_B, compute_units.GROUP]] = -1, -2, -1
    depth = np.array([c.depth or config.fifo_depth for c in graph.channels], i64)
    slots = int(depth.sum())
    in_at, ins = _ports_by_unit([(*c.dst, c.id) for c in graph.channels], n)
    out_at, outs = _ports_by_unit([(*c.src, c.id) for c in graph.channels], n)

    g = np.zeros(SCALARS, i64)
    g[G_FAR_MIN], g[G_FIRST] = IDLE, -1
    g[G_ELEMENT], g[G_ONCHIP] = config.element_bytes, config.onchip_bw
    g[G_INTERVAL], g[G_LATENCY] = dram.interval, dram.start_up + dram.latency
    g[G_LOGGING], g[G_SLACK_LOG] = log, slots
    g[G_SLACK_STORE] = sum(int(depth[c.id]) for c in graph.channels if graph.units[c.dst[0]].kind == "bufferize")

    bucket = np.full(BUCKETS + 1, -1, i64)
    bucket[0], g[G_NEAR] = (0 if n else -1), n

    unit = np.zeros((n + 1, UNIT_COLUMNS), i64)
    unit[:n, U_KIND] = [KIND_CODES[u.kind] for u in graph.units]
    unit[:, U_WHY], unit[:, U_ON], unit[:, U_FINISH] = STARVED, -1, -1
    unit[:, U_IN_AT], unit[:, U_OUT_AT] = in_at, out_at
    unit[:n, U_AFTER] = [*range(1, n), -1][:n]

    chan = np.zeros((m, CHANNEL_COLUMNS), i64)
    chan[:, C_SRC], chan[:, C_DST] = [c.src[0] for c in graph.channels], [c.dst[0] for c in graph.channels]
    chan[:, C_BASE], chan[:, C_DEPTH], chan[:, C_CLOSED] = np.cumsum(depth) - depth, depth, -1

    port = np.zeros((len(graph.ports), PORT_COLUMNS), i64)
    port[:, P_UNIT] = graph.ports
    port[:, P_PAR] = [graph.units[u].params["par_dispatch"] or config.par_dispatch for u in graph.ports]

    return Net(
        g=g, unit=unit, par=par, reg=reg, spent=np.zeros((n, 3), i64), ins=ins, outs=outs, aux=np.array(aux.values, i64), bucket=bucket,
        chan=chan, slot=np.zeros((slots, SLOT_COLUMNS), i64), port=port, active=np.zeros(len(graph.ports), i64),
        served=np.full(dram.channels, -dram.interval, i64),
        store=np.zeros((max(1024, 2 * int(g[G_SLACK_STORE])) if g[G_SLACK_STORE] else 1, 4), i64),
        log=np.zeros((max(4096, 2 * slots) if log else 1, LOG_COLUMNS), i64),
    )
