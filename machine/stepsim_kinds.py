"""Unit kinds of the `stepsim` timing: the operators of the STeP simulator on logical tiles, one
unit per operator.

A stream carries one token per logical tile, number, selector or buffer. A tile's token knows its
tile's rows, columns and valid rows, and whether the tile lies in an on-chip memory unit (then its
first consumer pays for reading it), so units take shapes from their inputs: only loads and sources
state them. There are no bare stops: a dimension without an element ends the run with an error, an
empty stream just ends. The bytes of an element are `config.stepsim.element_bytes` throughout. A
parameter that says "0: the configuration's" is taken from `config.stepsim`; so is a channel depth
of 0. There is nothing on a wire: channels carry the payload `TOKEN`. The rules of timing are in
`penstock.model.stepsim`.

The graph's ``ports`` list every off-chip unit once, in the order in which the HBM node takes their
requests (published: loads in node order, then stores).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from . import unitgraph
from .beat import Tuple
from .errors import LoweringError
from .kinds import In, Kind, Out, Stream, param
from .unitgraph import UnitGraph

TOKEN = Tuple(())
"""Payload of every channel in this timing: no bits."""

RULES = {
    "elementwise": "result: the broadcast of the operands, R x C; FLOPs: `flops` x R x C",
    "matmul": "M x K by K x N to M x N; FLOPs: `flops` (2) x M x K x N",
    "matmul_t": "M x K by N x K to M x N; FLOPs: `flops` (2) x M x K x N",
    "row_reduce": "R x C to R x 1; FLOPs: `flops` x R x C",
    "retile_row": "rows of all tiles of a group one below the other; no cycle",
    "retile_col": "columns of all tiles of a group side by side; no cycle",
    "fixed": "shape of the first operand; one cycle, or the load where that is longer",
    "row_offset": "as fixed, with as many valid rows as the second operand says",
    "row_append": "as fixed, with one more valid row",
    "address": "`stride` times the first number plus the second, or `constant`; one cycle",
    "number": "`op` of a number and `constant`; one cycle",
}
"""How a function's result shape and FLOPs follow from its operands: parameter `rule` of map,
map_accum and accum.
"""

STEPSIM_KINDS: dict[str, type[Kind]] = {}
"""All kinds of this timing by name."""


def _kind(
    name: str,
    doc: str,
    params: dict[str, str],
    *,
    inputs: str | Mapping[str, Stream] = "data",
    outputs: str = "result",
    optional: dict[str, str] | None = None,
    **more: object,
) -> None:
    """A kind whose parameters are checked by :func:`validate`; ports are names with blanks between,
    ``name[n]`` for as many as the parameter ``n`` says.
    """
    fields = {k: param(x) for k, x in params.items()}
    fields |= {k: param(x, default=None) for k, x in (optional or {}).items()}
    taken = _ports(In, inputs) if isinstance(inputs, str) else inputs
    ports = {**taken, **_ports(Out, outputs)}
    given = {"name": name, "__doc__": doc, **more, **fields, **ports}
    STEPSIM_KINDS[name] = type(name, (Kind,), given)


def _ports(way: type[Stream], names: str) -> dict[str, Stream]:
    parts = [name.rstrip("]").partition("[") for name in names.split()]
    return {name: way("tokens", many) for name, _, many in parts}


_FUNCTION = {
    "fn": "function's name, for messages",
    "rule": f"one of {', '.join(RULES)}",
    "flops": "FLOPs per application as the rule counts them",
    "compute_bw": "FLOP a cycle (0: the configuration's)",
    "write_back_mu": "whether the result is put into an on-chip memory unit",
}
_OPERANDS = {
    "tiles": "operands that are tiles, the first ones (default: all); "
    "others are numbers or selectors"
}
_ACCUM = _FUNCTION | {
    "rank": "innermost dimensions reduced",
    "init_rows": "rows of the initial accumulator tile",
    "init_cols": "its columns",
}

_TURNED = {"transposed": "whether each tile that leaves is transposed (default: no)"}
NUMBERS = ("min", "max", "less", "equal", "one_hot")
"""Functions of the rule `number`, by their place."""

_kind(
    "load",
    "linear off-chip load, one logical tile at a time",
    {
        "rows": "rows of a tile",
        "cols": "columns of a tile",
        "shape": "trip counts, outermost first",
        "par_dispatch": "64-B requests a cycle (0: the configuration's)",
    },
    optional=_TURNED,
    offchip="read",
    inputs="",
    outputs="data",
)
_kind(
    "store",
    "linear off-chip store, one logical tile at a time",
    {"par_dispatch": "64-B requests a cycle (0: the configuration's)"},
    offchip="write",
    ends_run=True,
    outputs="",
)
_kind(
    "load_ref",
    "off-chip load, `shape` tiles for each token of its input, one at a time; [] for one",
    {
        "rows": "rows of a tile",
        "cols": "columns of a tile",
        "shape": "trip counts, outermost first",
        "par_dispatch": "64-B requests a cycle (0: the configuration's)",
    },
    optional=_TURNED,
    offchip="read",
    inputs="start",
    outputs="data",
)
_kind(
    "store_at",
    "off-chip store of tiles at addresses, acknowledged one by one",
    {"par_dispatch": "64-B requests a cycle (0: the configuration's)"},
    offchip="write",
    ends_run=True,
    inputs="address data",
    outputs="ack",
)
_OF_MAP = {
    "operands": In("pairs", when=lambda kind: kind.tuple_in),
    "a": In("tokens", when=lambda kind: not kind.tuple_in),
    "b": In("tokens", when=lambda kind: kind.arity > 1 and not kind.tuple_in),
}
_kind(
    "map",
    "function of one or two streams of equal shape",
    _FUNCTION
    | {"arity": "operands, 1 or 2", "tuple_in": "whether two operands come as one stream of pairs"},
    optional={
        "stride": "of rule address",
        "constant": "of rules address and number",
        "op": f"of rule number: place in {', '.join(NUMBERS)}",
        **_OPERANDS,
    },
    inputs=_OF_MAP,
)
_kind(
    "map_accum",
    "function of two streams, summed over the innermost dimensions",
    _ACCUM,
    inputs="a b",
)
_kind("accum", "one stream reduced over the innermost dimensions", _ACCUM, optional=_OPERANDS)
_kind("scan", "accum that sends its state after every token", _ACCUM)
_kind("broadcast", "copies each token to n outputs", {"n": "outputs"}, outputs="copies[n]")
_kind(
    "flatten",
    "merges dimensions lo..hi",
    {"lo": "innermost dimension merged", "hi": "outermost dimension merged"},
)
_kind(
    "promote",
    "raises stops of at least `level` by one; level 0 also makes a plain value a stop 1. "
    "(A new outermost dimension on a stream that ends without a stop: reshape with chunk 1 and "
    "add_outer, then flatten(0, 1))",
    {"level": "dimension inserted"},
)
_kind(
    "reshape",
    "splits a dimension into chunks",
    {
        "dim": "dimension split",
        "chunk": "size of a chunk",
        "pad": (
            "dim 0: whether a partial chunk is filled with tiles of the same shape without valid "
            "rows"
        ),
        "add_outer": (
            "dim 0 of a stream that ends without a stop: whether the end gets stop 2, a new "
            "outermost dimension"
        ),
    },
)
_kind("repeat", "repeats each token", {"count": "copies"}, outputs="copies")
_kind(
    "expand",
    "repeats each token as often as a reference has tokens in its place",
    {"rank": "dimensions of the reference that take a token"},
    inputs="data reference",
)
_kind(
    "bufferize",
    "collects the innermost dimensions into a buffer",
    {"rank": "dimensions of a buffer"},
    outputs="buffer",
)
_AFFINE = {
    "shape": "trip counts of an affine read, outermost first (default: as stored)",
    "stride": "distance in tokens of each",
}
_kind(
    "streamify",
    "reads buffers out, repeatedly",
    {
        "rank": "dimensions of a buffer as it is read",
        "repeat": (
            "trip counts of the new dimensions between stream and buffer, outermost first; [] "
            "for none"
        ),
    },
    optional=_AFFINE,
    inputs="buffer",
)
_kind(
    "streamify_ref",
    "reads buffers out, once for each token of a reference",
    {
        "rank": "dimensions of a buffer as it is read",
        "level": "stop of the reference that takes the buffer",
    },
    optional=_AFFINE,
    inputs="buffer reference",
)
_ROUTE = {
    "n": "streams that are chosen from",
    "rank": "dimensions of a unit",
    "tiles": "tiles of a token: 0, 1, or 2 for a pair",
    "write_back_mu": "whether the tiles are put into an on-chip memory unit",
}
_kind(
    "partition",
    "sends each unit to the outputs that its selector names",
    _ROUTE,
    inputs="data selector",
    outputs="parts[n]",
)
_kind(
    "parallelize",
    "sends units to its outputs in turn, and leaves tiles where they lie",
    {k: _ROUTE[k] for k in ("n", "rank")},
    outputs="parts[n]",
)
_kind(
    "reassemble",
    "per selector, one unit of each input that it names, by arrival",
    _ROUTE,
    any_input=True,
    inputs="parts[n] selector",
)
_kind(
    "eager_merge",
    "units by arrival and which input each came from",
    {"n": "inputs", "rank": "dimensions of a unit"},
    any_input=True,
    inputs="parts[n]",
    outputs="result selector",
)
_NEW = {"new": "whether the parts of a token are a dimension of their own"}
_kind(
    "split",
    "cuts tiles into rows or columns",
    {
        "along": "rows or cols",
        "size": "of a part",
        "mask": "whether rows that are not valid are left out",
    }
    | _NEW,
)
_kind(
    "address_range", "for a and n: a x step + i, i < n", {"step": "multiplier"} | _NEW, inputs="a n"
)
_kind(
    "expert_addresses",
    "for a selector of one target e: e x step + i, i < step",
    {"step": "addresses of a target"} | _NEW,
    inputs="selector",
)
_kind("last_filter", "for n: n selectors, target 1, the last one target 0", _NEW, inputs="n")
_kind("zip", "joins two streams of tiles into a stream of pairs", {}, inputs="a b", outputs="pair")
_kind(
    "source",
    "stream from outside, token by token",
    {
        "stamp": "list: earliest cycle in which token i is visible",
        "stop": "list: its stop level",
        "rows": "rows of a tile",
        "cols": "columns of a tile",
    },
    inputs="",
    outputs="data",
)
_kind(
    "stream",
    "stream from outside whose tokens the run is given, one a cycle",
    {"first": "cycle from which the first one can be visible"},
    inputs="",
    outputs="data",
)
_kind("sink", "stream to outside: takes one token a cycle", {}, ends_run=True, outputs="")


_AT_LEAST = {  # constraint of integer parameters
    "rows": 0,
    "cols": 1,
    "par_dispatch": 0,
    "flops": 0,
    "compute_bw": 0,
    "rank": 0,
    "init_rows": 0,
    "init_cols": 0,
    "n": 1,
    "lo": 0,
    "hi": 0,
    "level": 0,
    "dim": 0,
    "chunk": 1,
    "count": 1,
    "tiles": 0,
    "size": 1,
    "step": 0,
    "first": 0,
}
MAX_EDGE = (1 << 20) - 1
"""Most rows or columns of a logical tile."""


def validate(graph: UnitGraph) -> None:
    """The checks of :func:`penstock.machine.unitgraph.validate` for these kinds, and the values of
    their parameters.

    A channel of depth 0 has the configuration's ``fifo_depth``.
    """
    unitgraph.validate(graph, STEPSIM_KINDS, least_depth=0)
    for u in graph.units:
        _check_values(u.kind.stated, f"unit {u.name}")


def _check_values(p: dict[str, Any], where: str) -> None:
    for name, value in p.items():
        low = _AT_LEAST.get(name)
        if low is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < low
        ):
            raise LoweringError(
                f"{name} must be an integer of at least {low}, not {value!r}", where
            )
        if name in ("rows", "cols") and value > MAX_EDGE:
            raise LoweringError(f"{name} must be at most {MAX_EDGE}, not {value!r}", where)
        dims = p[name]
        if name in ("shape", "repeat") and (
            any(not isinstance(d, int) or d < 1 for d in dims) or prod(dims) >= 1 << 62
        ):
            raise LoweringError(f"{name} must be a list of positive integers, not {value!r}", where)
    if "rule" in p and p["rule"] not in RULES:
        raise LoweringError(f"rule must be one of {', '.join(RULES)}, not {p['rule']!r}", where)
    if p.get("along", "rows") not in ("rows", "cols"):
        raise LoweringError(f"along must be rows or cols, not {p['along']!r}", where)
    if "shape" in p and len(p["shape"]) != len(p.get("stride", p["shape"])):
        raise LoweringError(
            f"{len(p['shape'])} trip counts and {len(p['stride'])} strides",
            where,
            "one stride for each trip count",
        )
    if "arity" in p and p["arity"] not in (1, 2):
        raise LoweringError(f"arity must be 1 or 2, not {p['arity']!r}", where)
    if p.get("rule") in ("matmul", "matmul_t") and p.get("arity", 2) != 2:
        raise LoweringError(f"arity must be 2 for rule {p['rule']}, not {p['arity']!r}", where)
    if p.get("tuple_in") and p["arity"] != 2:
        raise LoweringError(f"arity must be 2 for a stream of pairs, not {p['arity']!r}", where)
    if "lo" in p and p["lo"] > p["hi"]:
        raise LoweringError(f"lo must be at most hi = {p['hi']}, not {p['lo']}", where)
    if "dim" in p and p["dim"] > 0 and (p["pad"] or p["add_outer"]):
        raise LoweringError(f"pad and add_outer need dim 0, not {p['dim']}", where)
    if "stamp" in p and len(p["stamp"]) != len(p["stop"]):
        raise LoweringError(
            f"{len(p['stamp'])} stamps and {len(p['stop'])} stops", where, "one of each per token"
        )
