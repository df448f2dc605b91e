"""A unit's parameters as the columns of `par` that its module names, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...machine.config import Stepsim
from ...machine.unitgraph import Unit
from . import buffer_units, compute_units, flatmap_units, memory_units, routing_units, shape_units
from .state import PARAMS, plain, tile
from .tokens import Tokens

RULES = {
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
MODES = {
    "address_range": flatmap_units.RANGE,
    "expert_addresses": flatmap_units.EXPERT,
    "last_filter": flatmap_units.LAST,
}
PLAIN: dict[str, dict[str, int]] = {
    "flatten": {"lo": shape_units.LO, "hi": shape_units.HI},
    "promote": {"level": shape_units.LEVEL},
    "reshape": {
        "dim": shape_units.DIM,
        "chunk": shape_units.CHUNK,
        "pad": shape_units.PAD,
        "add_outer": shape_units.ADD_OUTER,
    },
    "repeat": {"count": shape_units.COUNT},
    "expand": {"rank": shape_units.RANK},
    "bufferize": {"rank": buffer_units.RANK},
}
"""By kind, the columns of parameters that are taken as they are."""
SPLIT = {"new": flatmap_units.NEW, "size": flatmap_units.SIZE, "mask": flatmap_units.MASK}


class Lists:
    """Lists that parameters point to, end to end."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, values) -> int:
        """Append values; the index of the first of them."""
        self.values.extend(values)
        return len(self.values) - len(values)


@dataclass
class Given:
    """Inputs of a unit's parameters besides its own."""

    config: Stepsim  # the machine
    port: int = -1  # off-chip units: their index among the graph's ports; -1 for others
    tokens: Tokens | None = None  # streams from outside: what they send
    lists: Lists = field(default_factory=Lists)  # where lists go


Fill = Callable[[np.ndarray, Unit, Given], None]
FILLS: dict[str, Fill] = {}
"""By kind, what writes a unit's further parameters into a row."""


def fills(*kinds: str) -> Callable[[Fill], Fill]:
    """Register what writes the parameters of units of these kinds."""

    def register(function: Fill) -> Fill:
        FILLS.update(dict.fromkeys(kinds, function))
        return function

    return register


def table(units: Iterable[tuple[Unit, Given]]) -> np.ndarray:
    """The parameters of all units, a row each."""
    rows = []
    for unit, given in units:
        row = np.zeros(PARAMS, np.int64)
        _copy(row, unit, PLAIN.get(unit.kind.name, {}))
        if fill := FILLS.get(unit.kind.name):
            fill(row, unit, given)
        rows.append(row)
    return np.array(rows, np.int64).reshape(-1, PARAMS)


def _copy(row: np.ndarray, unit: Unit, columns: dict[str, int]) -> None:
    for name, column in columns.items():
        row[column] = getattr(unit.kind, name)


@fills("load", "load_ref")
def _load(row: np.ndarray, unit: Unit, given: Given) -> None:
    m = memory_units
    p = unit.kind
    row[m.ROWS] = p.rows
    row[m.COLS] = p.cols
    row[m.PORT] = given.port
    row[m.SHAPE] = given.lists.add(p.shape)
    row[m.DIMS] = len(p.shape)
    row[m.TILES] = prod(p.shape)


@fills("store", "store_at")
def _store(row: np.ndarray, unit: Unit, given: Given) -> None:
    row[memory_units.PORT] = given.port


@fills("source")
def _source(row: np.ndarray, unit: Unit, given: Given) -> None:
    p = unit.kind
    n = len(p.stop)
    word = plain(tile)(p.rows, p.cols, p.rows, 0)
    listed = Tokens(np.array(p.stop, np.int64), np.full(n, word), np.zeros(n, np.int64))
    _tokens(row, given.lists, listed, p.stamp)


@fills("stream")
def _stream(row: np.ndarray, unit: Unit, given: Given) -> None:
    if given.tokens is not None:
        first = unit.kind.first
        stamps = range(first, first + len(given.tokens.stop))
        _tokens(row, given.lists, given.tokens, stamps)


def _tokens(row: np.ndarray, lists: Lists, given: Tokens, stamps: Sequence[int]) -> None:
    """Parameters of what offers listed tokens."""
    m = memory_units
    row[m.TOKENS] = len(given.stop)
    row[m.STAMPS] = lists.add(stamps)
    row[m.STOPS] = lists.add(given.stop)
    row[m.WORDS] = lists.add(given.word)
    row[m.WORDS2] = lists.add(given.word2)


@fills("map", "map_accum", "accum", "scan")
def _compute(row: np.ndarray, unit: Unit, given: Given) -> None:
    p = unit.kind
    m = compute_units
    row[m.RULE] = RULES[p.rule]
    row[m.FLOPS] = p.flops
    row[m.WRITE_BACK] = p.write_back_mu
    row[m.BW] = p.compute_bw or given.config.compute_bw
    row[m.TILES] = 2 if getattr(p, "tiles", None) is None else p.tiles
    if unit.kind.name == "map":
        row[m.PAIRED] = p.tuple_in
        row[m.STRIDE] = p.stride or 0
    else:
        row[m.RANK] = p.rank
        row[m.INIT] = plain(tile)(p.init_rows, p.init_cols, 0, 0)


@fills("streamify", "streamify_ref")
def _streamify(row: np.ndarray, unit: Unit, given: Given) -> None:
    m = buffer_units
    p = unit.kind
    repeat = getattr(p, "repeat", [])
    shape = p.shape or []
    row[m.RANK] = p.rank
    row[m.REPEAT] = given.lists.add(repeat)
    row[m.DIMS] = len(repeat)
    row[m.TIMES] = prod(repeat)
    row[m.LEVEL] = getattr(p, "level", 0)
    row[m.SHAPE] = given.lists.add(shape)
    row[m.STRIDE] = given.lists.add(p.stride or [])
    row[m.NEST] = len(shape)
    row[m.SIZE] = prod(shape) if shape else 0


@fills("partition", "parallelize", "reassemble", "eager_merge")
def _route(row: np.ndarray, unit: Unit, given: Given) -> None:
    m = routing_units
    p = unit.kind
    row[m.PORTS] = p.n
    row[m.RANK] = p.rank
    row[m.TILES] = getattr(p, "tiles", 0)
    row[m.WRITE_BACK] = getattr(p, "write_back_mu", False)
    row[m.ORDER] = given.lists.add([0] * p.n)
    row[m.MISSES] = given.lists.add([0] * p.n)


@fills("split")
def _split(row: np.ndarray, unit: Unit, given: Given) -> None:
    _copy(row, unit, SPLIT)
    row[flatmap_units.ALONG] = unit.kind.along == "cols"


@fills("address_range", "expert_addresses", "last_filter")
def _generate(row: np.ndarray, unit: Unit, given: Given) -> None:
    m = flatmap_units
    row[m.NEW] = unit.kind.new
    row[m.STEP] = getattr(unit.kind, "step", 0)
    row[m.MODE] = MODES[unit.kind.name]
