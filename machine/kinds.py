"""Unit kinds of the `machine` timing: parameters, ports, latency and initiation interval
(docs/timing.md section 3).

One declaration per kind feeds the model, the RTL's parameters, validation and the generated
reference. ``runtime`` names the parameters that are configuration registers in the RTL, so that one
simulator build serves many values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from . import limits
from .beat import TILES_BITS, BufferRef, Payload, Scalar, Selector, Tile, Tuple
from .functions import lookup


def log2(n: int) -> int:
    return n.bit_length() - 1


@dataclass(frozen=True)
class Port:
    """A port of a unit, named by what it carries; ``index`` where there are several of one name."""

    name: str
    index: int | None = None

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name}[{self.index}]"

    @property
    def member(self) -> str:
        """The port's name in Python and Verilog."""
        return self.name if self.index is None else f"{self.name}_{self.index}"


def _numbered(names: str, count: int) -> list[Port]:
    """``count`` ports: names with blanks between, ``name[]`` for as many as are left, ``name[n]``
    for n of them.
    """
    words = names.split()
    out: list[Port] = []
    for word in words:
        name, _, many = word.removesuffix("]").partition("[")
        if word.endswith("]"):
            n = int(many) if many else count - len(words) + 1
            out += [Port(name, k) for k in range(n)]
        else:
            out.append(Port(name))
    return out


@dataclass(frozen=True)
class Kind:
    """A unit kind.

    Attributes
    ----------
    params
        Parameter name -> one line of meaning (with unit).
    runtime
        Names among ``params`` held in run-time registers.
    arity
        params -> (number of inputs, number of outputs).
    latency, interval
        (t, params) -> L and II in cycles; None where the kind's own section of docs/timing.md gives
        the rule.
    optional
        Parameters that a unit may have besides, with their meaning; they shape the hardware.
    values
        For a pipelined unit of one tile out that is added from outside (docs/timing.md section 2):
        the name under which ``model.functions`` holds its tile kernel. The valid rows and columns
        are those of the first operand.
    offchip
        ``read`` or ``write`` for a unit with an off-chip port; empty for all others.
    ends_run
        Whether the run lasts until this unit has its Done (docs/timing.md section 5, `cycles`).
    memory
        Whether the unit holds buffers, and so has pages and reference counts.
    posts
        The parameter with the id of the `memory` unit whose reference counts the unit changes (None
        there, or no parameter: it changes none).
    any_input
        Whether the unit can give a beat before every input has had one, so that a feedback loop may
        go through it.
    drops
        Whether those changes may lower a count.
    ranges
        Values that a parameter may have (each of them, if it is a list).
    payloads
        (params, payloads of the inputs) -> payloads of the outputs, None for one that the inputs do
        not determine. Raises ValueError with the rule that the inputs break.
    stop
        (params, highest stop level of each input) -> highest stop level of each output. None: that
        of the inputs.

    """

    name: str
    doc: str
    params: dict[str, str]
    arity: Callable[[dict], tuple[int, int]]
    runtime: tuple[str, ...] = ()
    latency: Callable[[int, dict], int] | None = None
    interval: Callable[[int, dict], int] | None = None
    values: str = ""
    optional: dict[str, str] = field(default_factory=dict)
    offchip: str = ""
    ends_run: bool = False
    memory: bool = False
    posts: str = ""
    any_input: bool = False
    drops: bool = False
    ranges: dict[str, range] = field(default_factory=dict)
    payloads: Callable[[dict, tuple[Payload, ...]], tuple[Payload | None, ...]] | None = None
    stop: Callable[[dict, tuple[int, ...]], tuple[int, ...]] | None = None

    def stops(self, params: dict, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """Highest stop level of each output, given those of the inputs."""
        return (
            (max(inputs, default=0),) * self.arity(params)[1]
            if self.stop is None
            else self.stop(params, inputs)
        )

    def ports(self, params: dict) -> tuple[list[Port], list[Port]]:
        """Names of the input ports and of the output ports, by number."""
        n_in, n_out = self.arity(params)
        names = PORTS.get(self.name)
        if names is None:
            names = ("data" if n_in == 1 else "data[]"), ("result" if n_out == 1 else "result[]")
        elif callable(names):
            names = names(params)
        return _numbered(names[0], n_in), _numbered(names[1], n_out)

    def posts_to(self, params: dict) -> int | None:
        """Id of the memory unit whose reference counts a unit of these parameters changes."""
        return params.get(self.posts) if self.posts else None


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Add a unit kind (also from outside the tree)."""
    KINDS[kind.name] = kind
    return kind


def kind_of(name: str) -> Kind:
    return KINDS[name]


def queue_entries(latency: int, interval: int) -> int:
    """Entries of a pipelined unit's output queue (docs/timing.md section 2)."""
    return latency + interval + 1


def _one(_t: int, _p: dict) -> int:
    return 1


def _zero(_t: int, _p: dict) -> int:
    return 0


def _lane_interval(t: int, p: dict) -> int:
    return t * t // p["lanes"]


def need(holds: bool, rule: str) -> None:
    """For ``Kind.payloads``: the rule that the inputs break."""
    if not holds:
        raise ValueError(rule)


def _same(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(len(set(inputs)) == 1, "its inputs have one payload")
    return inputs[:1]


def _copies(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    return inputs * p["n"]


def _tiles(*outputs: Payload | None):
    """Of units on tiles: what leaves, None for a tile of either element type."""

    def rule(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload | None, ...]:
        for x in inputs:
            need(
                all(isinstance(m, Tile) for m in (x.members if isinstance(x, Tuple) else (x,))),
                "its inputs are tiles",
            )
        return outputs

    return rule


def _product(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(
        isinstance(inputs[0], Tile) and inputs[0] == inputs[1],
        "A and B are tiles of one element type",
    )
    return (Tile(inputs[0].t, "fp32"),)


def _sum(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(isinstance(inputs[0], Tile), "its input is a tile")
    return (Tile(inputs[0].t, "fp32"),)


def _rows(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(
        all(isinstance(x, Tile) for x in inputs) and len(set(inputs)) == 1,
        "its inputs are tiles of one element type",
    )
    return inputs[:1]


def _counted(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(
        isinstance(inputs[0], Tile) and isinstance(inputs[1], Scalar),
        "its inputs are tiles and counts",
    )
    return inputs[:1]


def _selected(n: int, selector: Payload) -> None:
    need(selector == Selector(n), f"the selector has one bit for each of {n} streams")


def _partition(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    _selected(p["n"], inputs[1])
    return inputs[:1] * p["n"]


def _reassemble(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    _selected(p["n"], inputs[-1])
    return _same(p, inputs[:-1])


ADDRESS_BITS = 32
"""Bits of a generated address."""


def _numbers(inputs: tuple[Payload, ...]) -> None:
    need(
        all(isinstance(x, Scalar) and x.width <= ADDRESS_BITS for x in inputs),
        f"its inputs are scalars of at most {ADDRESS_BITS} bits",
    )


def _generate(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(p["fn"] in GENERATORS, f"fn is one of {', '.join(GENERATORS)}")
    if p["fn"] == "expert":
        need(isinstance(inputs[0], Selector), "its input is a selector")
        return (Scalar(ADDRESS_BITS),)
    _numbers(inputs)
    return (Selector(2) if p["fn"] == "last" else Scalar(ADDRESS_BITS),)


def _address(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    _numbers(inputs)
    return (Scalar(ADDRESS_BITS),)


def accum_levels(reduce: int) -> tuple[int, int]:
    """Lowest dimension that an `accum` reduces, and the lowest one with only reduced dimensions
    from it to the highest.
    """
    kept = ~reduce & (1 << reduce.bit_length()) - 1
    return (reduce & -reduce).bit_length() - 1, kept.bit_length()


def _reduced(p: dict, stops: tuple[int, ...]) -> tuple[int, ...]:
    return stops if "scan" in p else (sum(not p["reduce"] >> d & 1 for d in range(stops[0])),)


def _buffered(p: dict, stops: tuple[int, ...]) -> tuple[int, ...]:
    """References of each writer, tiles of each reader (docs/timing.md section 4, rules 2, 4, 7 and
    8).
    """
    n = len(p["writers"])
    out = [max(stops[i] - w["rank"], 0) for i, w in enumerate(p["writers"])]
    given = iter(stops[n + len(p["readers"]) :])
    for r, q in zip(p["readers"], stops[n:], strict=False):
        buffer = r["affine"] if r.get("affine") else r["rank"]
        out.append(buffer + (next(given) if "ref" in r else q + bool(r["repeat_dim"])))
    return tuple(out)


def _padded(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    return (*inputs, Scalar(1))[: 1 + ("flags" in p)]


def _chunked(p: dict, stops: tuple[int, ...]) -> tuple[int, ...]:
    top = max(stops[0], p["dim"]) + 1
    return (top, max(top - p["flags"], 0)) if "flags" in p else (top,)


def _shape(
    name: str,
    doc: str,
    params: dict[str, str],
    arity=lambda p: (1, 1),
    runtime=(),
    payloads=_same,
    **more,
) -> None:
    register(Kind(name, doc, params, arity, runtime, _zero, _one, payloads=payloads, **more))


_shape(
    "broadcast",
    "copies each beat to n outputs",
    {"n": "outputs", "scratchpad": "unit id that a reference belongs to, or None"},
    lambda p: (1, p["n"]),
    payloads=_copies,
    posts="scratchpad",
)
_shape(
    "flatten",
    "merges dimensions lo..hi",
    {"lo": "innermost dimension merged", "hi": "outermost dimension merged"},
    stop=lambda p, s: (s[0] if s[0] <= p["lo"] else max(p["lo"], s[0] - (p["hi"] - p["lo"])),),
)
_shape(
    "promote",
    "inserts a dimension of size 1 at a level",
    {
        "level": "stop level inserted",
        "outermost": "whether it is the stream's new outermost dimension",
    },
    stop=lambda p, s: (
        max(s[0], p["level"]) if p["outermost"] else s[0] + 1 if s[0] >= p["level"] else s[0],
    ),
)
_shape(
    "reshape",
    "splits a dimension into chunks",
    {
        "dim": "dimension split",
        "chunk": "size of a chunk",
        "pad": "whether a partial chunk is padded",
        "pad_rows": "physical tile rows of a pad unit",
        "pad_cols": "physical tile columns of a pad unit",
    },
    lambda p: (1, 1 + ("flags" in p)),
    ("chunk", "pad_rows", "pad_cols"),
    payloads=_padded,
    ranges={"chunk": range(1, 1 << 32)},
    stop=_chunked,
    optional={
        "flags": (
            "there is a second output, the padding stream: dimensions of an element, which one "
            "flag stands for"
        )
    },
)
_shape(
    "repeat",
    "repeats each beat",
    {"count": "copies"},
    runtime=("count",),
    ranges={"count": range(1, 1 << 32)},
    stop=lambda p, s: (s[0] + 1,),
)
_shape(
    "pace",
    "lets a beat pass at most every so often",
    {"interval": "sixteenths of a cycle between beats, at least 16"},
    runtime=("interval",),
    ranges={"interval": range(16, 1 << 24)},
)
_shape(
    "zip",
    "joins two streams into tuples",
    {},
    lambda p: (2, 1),
    payloads=lambda p, inputs: (Tuple(inputs),),
)
_shape(
    "split", "deals beats round robin", {"n": "outputs"}, lambda p: (1, p["n"]), payloads=_copies
)
_shape(
    "merge", "collects beats round robin", {"n": "inputs"}, lambda p: (p["n"], 1), any_input=True
)

_POSTS = {"scratchpad": "unit id that the references in the data belong to, or None"}
_shape(
    "partition",
    "sends units of the data to the outputs that a selector names",
    {"n": "outputs", "rank": "dimensions of a unit", **_POSTS},
    lambda p: (2, p["n"]),
    payloads=_partition,
    posts="scratchpad",
    drops=True,
    stop=lambda p, s: (min(s[0], p["rank"]),) * p["n"],
)
_shape(
    "reassemble",
    "collects units from the inputs that a selector names, as they arrive",
    {"n": "data inputs", "rank": "dimensions of a unit"},
    lambda p: (p["n"] + 1, 1),
    any_input=True,
    payloads=_reassemble,
    stop=lambda p, s: (p["rank"] + 1 + s[-1],),
)
_shape(
    "eager_merge",
    "passes units on as they arrive and says whence",
    {"n": "inputs", "rank": "dimensions of a unit"},
    lambda p: (p["n"], 2),
    any_input=True,
    payloads=lambda p, inputs: (*_same(p, inputs), Selector(p["n"])),
    stop=lambda p, s: (max(s), 0),
)
_shape(
    "expand",
    "copies each element along the reference stream's inner dimensions",
    {"level": "dimensions that are expanded", **_POSTS},
    lambda p: (2, 1),
    payloads=lambda p, inputs: inputs[:1],
    posts="scratchpad",
    drops=True,
    stop=lambda p, s: s[1:],
)
_shape(
    "signal",
    "one token for each element of some inner dimensions",
    {"level": "dimensions of an element"},
    payloads=lambda p, inputs: (Scalar(1),),
    stop=lambda p, s: (max(s[0] - p["level"], 0),),
)
GENERATORS = {
    "address": "inputs a, n: a * stride + i for i < n",
    "expert": "input one-hot selector: index * count + i for i < count",
    "last": "input n: selectors of 2 bits, 0b10 n - 1 times, then 0b01",
}
_shape(
    "generate",
    "a new inner dimension for each element",
    {
        "fn": f"one of {', '.join(GENERATORS)}",
        "stride": "factor of `address`",
        "count": "elements of `expert`",
    },
    lambda p: (2 if p["fn"] == "address" else 1, 1),
    runtime=("stride", "count"),
    payloads=_generate,
    stop=lambda p, s: (max(s) + 1,),
)
_shape(
    "address",
    "a * stride + b",
    {"stride": "factor of a"},
    lambda p: (2, 1),
    runtime=("stride",),
    payloads=_address,
)

register(
    Kind(
        "map",
        "element-wise function on tiles",
        {
            "fn": "name in machine/functions.py",
            "arity": "operands",
            "lanes": "elements a cycle",
            "tuple_in": "whether the operands come as one tuple stream",
        },
        lambda p: (1 if p["tuple_in"] or "constant" in p else p["arity"], 1),
        latency=lambda t, p: lookup(p["fn"]).stages + _lane_interval(t, p) - 1,
        interval=_lane_interval,
        payloads=_tiles(None),
        optional={
            "spread": (
                "how the second operand's tile is repeated over the first's: 'cols' (of its "
                "first column), 'rows' (of its first row) or 'both'"
            ),
            "constant": "fp32 bits of a second operand that is the same everywhere",
        },
    )
)
register(
    Kind(
        "row_reduce",
        "reduction of each row of a tile to one column",
        {"fn": "function with an identity: add, max"},
        lambda p: (1, 1),
        latency=lambda t, p: log2(t),
        interval=_one,
        payloads=_sum,
    )
)
register(
    Kind(
        "matmul",
        "product of two physical tiles, fp32 out",
        {"rows_per_cycle": "rows of the product a cycle", "transposed": "whether B is transposed"},
        lambda p: (2, 1),
        latency=lambda t, p: 1 + log2(t) + t // p["rows_per_cycle"] - 1,
        interval=lambda t, p: t // p["rows_per_cycle"],
        payloads=_product,
    )
)
register(
    Kind(
        "accum",
        "reduction over some dimensions into a memory of accumulators",
        {
            "fn": "function with an identity: add, max",
            "reduce": "bit mask of reduced dimensions",
            "depth": "accumulator tiles",
            "lanes": "elements a cycle",
            "init_rows": "rows of an empty group's result in elements, 0: of run-time size",
            "init_cols": "its columns",
        },
        lambda p: (1, 1),
        runtime=("init_rows", "init_cols"),
        ranges=dict.fromkeys(("init_rows", "init_cols"), limits.SIZES),
        latency=_lane_interval,
        interval=_lane_interval,
        payloads=_sum,
        optional={"scan": "the state leaves after every beat, instead of the groups' results"},
        stop=_reduced,
    )
)


def _along(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(p.get("along", "rows") in ("rows", "cols"), "along is 'rows' or 'cols'")
    return _rows(p, inputs)


register(
    Kind(
        "row_pack",
        "concatenates the valid rows of one-band tiles (docs/timing.md section 3.3)",
        {
            "depth": "tiles of a band, at most",
            "level": "stop level that ends a group",
            "bands": "bands of the result, 0: of run-time size",
            "cols": "columns of the result in elements",
        },
        lambda p: (1, 1),
        runtime=("bands", "cols"),
        payloads=_along,
        stop=lambda p, s: (max(1, 2 + s[0] - p["level"]),),
        optional={
            "along": "'cols': columns are packed instead of rows, and a band is a column of tiles"
        },
    )
)
register(
    Kind(
        "row_unpack",
        "streams the rows, or the columns, of tiles one by one (docs/timing.md section 3.3)",
        {
            "depth": "tiles of a band, at most",
            "mask": "whether only valid rows leave",
            "rows": "rows of a logical tile (used without mask)",
        },
        lambda p: (1, 1),
        runtime=("rows",),
        payloads=_along,
        stop=lambda p, s: (max(s[0] + 1, 2),),
        optional={
            "along": "'cols': columns leave instead of rows, and a band is a column of tiles"
        },
    )
)
_shape("row_append", "puts a row below a tile's valid rows", {}, lambda p: (2, 1), payloads=_rows)
_shape(
    "row_offset", "sets how many rows of a tile are valid", {}, lambda p: (2, 1), payloads=_counted
)


def _buffers(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload | None, ...]:
    writers = len(p["writers"])
    readers = p["readers"]
    need(writers and readers, "a scratchpad has at least one writer and one reader")
    need(not p["frames"] & (p["frames"] - 1), "tiles a page are a power of two")
    need(
        len(p["limit"]) == writers and max(p["limit"]) <= p["pages"],
        "each writer may hold a number of buffers, of at most as many as there are pages",
    )
    need(len(p["repeat"]) == len(readers), "each reader has its repeats")
    loops = [r.get("affine", 0) for r in readers]
    need(
        len(p.get("shape", ())) == len(p.get("stride", ())) == sum(loops),
        "each loop of an affine reader has its trips and its stride",
    )
    at = 0
    for r, n in zip(readers, loops, strict=False):
        need(not n or r["rank"] == n, "an affine reader's rank is the number of its loops")
        last = sum(
            (trips - 1) * stride
            for trips, stride in zip(
                p.get("shape", ())[at : at + n], p.get("stride", ())[at : at + n], strict=False
            )
        )
        need(last < 1 << TILES_BITS, f"a buffer has at most {1 << TILES_BITS} tiles")
        at += n
    tiles = set(inputs[:writers])
    references = set(inputs[writers : writers + len(readers)])
    need(
        len(tiles) == 1 and isinstance(inputs[0], Tile),
        "its writers take tiles of one element type",
    )
    need(references == {BufferRef(p["pages"])}, "its readers take references to its pages")
    return (BufferRef(p["pages"]),) * writers + inputs[:1] * len(readers)


_LINES = (
    dict.fromkeys(("base", "pitch"), limits.ADDRESSES)
    | dict.fromkeys(("tensor_rows", "tensor_cols"), limits.SIZES)
    | dict.fromkeys(("rows", "cols"), limits.COUNTS)
    | dict.fromkeys(("shape", "row_step", "col_step"), limits.SIZES)
    | {"shift": limits.SHIFTS}
)
register(
    Kind(
        "scratchpad",
        "paged memory of buffers (docs/timing.md section 4)",
        {
            "pages": "pages",
            "frames": "tiles a page",
            "writers": "list of {rank}",
            "limit": "list: buffers that each writer may hold at a time (run time)",
            "readers": (
                "list of {rank, repeat_dim}, with turns (repeats of each buffer, in turn, a "
                "dimension or not) where they differ, with ref (the level of a stream that "
                "drives the reads), or with affine (loop dimensions of the order in which the "
                "tiles of a buffer are read: its rank)"
            ),
            "repeat": "list: repeats per reader (run time)",
        },
        lambda p: (
            len(p["writers"]) + len(p["readers"]) + sum("ref" in r for r in p["readers"]),
            len(p["writers"]) + len(p["readers"]),
        ),
        runtime=("limit", "repeat", "shape", "stride"),
        memory=True,
        payloads=_buffers,
        ranges={
            "pages": limits.PAGES,
            "frames": limits.FRAMES,
            "limit": limits.PAGES,
            "repeat": limits.SIZES,
            "shape": limits.COUNTS,
            "stride": limits.SIZES,
        },
        stop=_buffered,
        optional={
            "shape": (
                "trips of the loops of the affine readers, one after the other, each outermost "
                "first (run time)"
            ),
            "stride": "likewise, in tiles, what a step of each loop advances (run time)",
        },
    )
)
_ORDER = {
    "order": (
        "list of [row, col], in elements: where each logical tile lies, in stream order (instead "
        "of the affine walk)"
    )
}


def _triggers(p: dict, inputs: tuple[Payload, ...]) -> tuple[None]:
    for steps in (p["row_step"], p["col_step"]):
        need(
            sum(max(n - 1, 0) * step for n, step in zip(p["shape"], steps, strict=False))
            < 1 << limits.POSITION_BITS,
            f"positions in a tensor have {limits.POSITION_BITS} bits",
        )
    need(p.get("trigger") in (None, "ref", "address"), "trigger is 'ref' or 'address'")
    need(
        p.get("trigger") != "address" or (isinstance(inputs[0], Scalar) and inputs[0].width <= 32),
        "its triggers are scalars of at most 32 bits",
    )
    need(
        p.get("trigger") != "address" or (p["rank"] == 0 and "shift" in p and "order" not in p),
        "a load by address has rank 0, a shift and no order",
    )
    return (None,)


register(
    Kind(
        "load",
        "off-chip load of a loop nest of tiles, once or once a trigger (docs/timing.md section 5)",
        {
            "tensor": "tensor name",
            "base": "byte address",
            "pitch": "bytes a tensor row",
            "tensor_rows": "elements",
            "tensor_cols": "elements",
            "rows": "rows of a logical tile",
            "cols": "columns of a logical tile",
            "rank": "loop dimensions",
            "shape": "trip counts, outermost first",
            "row_step": "rows advanced by each loop dimension",
            "col_step": "columns advanced by each loop dimension",
        },
        lambda p: (1 if p.get("trigger") else 0, 1),
        (
            "tensor",
            "base",
            "pitch",
            "tensor_rows",
            "tensor_cols",
            "rows",
            "cols",
            "shape",
            "row_step",
            "col_step",
            "shift",
        ),
        optional=_ORDER
        | {
            "trigger": (
                "what starts a walk: 'ref' (each beat of its input) or 'address' (each scalar, "
                "the number of a logical tile)"
            ),
            "shift": "for 'address': log2 of the logical tiles in a row of the tensor",
        },
        offchip="read",
        payloads=_triggers,
        ranges=_LINES,
        stop=lambda p, s: (2 + p["rank"] + max(s, default=0),),
    )
)
register(
    Kind(
        "store",
        "linear off-chip store (docs/timing.md section 5)",
        {
            "tensor": "tensor name",
            "base": "byte address",
            "pitch": "bytes a tensor row",
            "tensor_rows": "elements",
            "tensor_cols": "elements",
            "rows": "rows of a logical tile",
            "cols": "columns of a logical tile",
        },
        lambda p: (1, 0),
        ("tensor", "base", "pitch", "tensor_rows", "tensor_cols", "rows", "cols"),
        optional=_ORDER,
        offchip="write",
        ends_run=True,
        payloads=_tiles(),
        ranges=_LINES,
    )
)


def _random_store(p: dict, inputs: tuple[Payload, ...]) -> tuple[Payload, ...]:
    need(
        isinstance(inputs[0], Scalar) and inputs[0].width <= 32,
        "its addresses are scalars of at most 32 bits",
    )
    need(isinstance(inputs[1], Tile), "what it stores are tiles")
    return (Scalar(1),)


register(
    Kind(
        "random_store",
        "off-chip store of tiles at the places that numbers name, with acknowledgements "
        "(docs/timing.md section 5)",
        {
            "tensor": "tensor name",
            "base": "byte address",
            "pitch": "bytes a tensor row",
            "tensor_rows": "elements",
            "tensor_cols": "elements",
            "rows": "rows of a logical tile",
            "cols": "columns of a logical tile",
            "shift": "log2 of the logical tiles in a row of the tensor",
        },
        lambda p: (2, 1),
        ("tensor", "base", "pitch", "tensor_rows", "tensor_cols", "rows", "cols", "shift"),
        offchip="write",
        ends_run=True,
        payloads=_random_store,
        ranges=_LINES,
        stop=lambda p, s: s[:1],
    )
)
register(Kind("source", "stream from outside the fabric", {}, lambda p: (0, 1)))
register(
    Kind(
        "sink",
        "stream to outside the fabric",
        {},
        lambda p: (1, 0),
        ends_run=True,
        posts="scratchpad",
        drops=True,
        optional={
            "scratchpad": "unit id that a reference belongs to: what is taken is a reference less"
        },
    )
)


def _scratchpad_ports(p: dict) -> tuple[str, str]:
    n = len(p["writers"])
    readers = len(p["readers"])
    driven = sum("ref" in r for r in p["readers"])
    return f"write[{n}] read[{readers}] drive[{driven}]", f"buffer[{n}] data[{readers}]"


_GENERATED = {"address": "a n", "expert": "selector", "last": "n"}
PORTS: dict[str, tuple[str, str] | Callable[[dict], tuple[str, str]]] = {
    "broadcast": ("data", "copies[]"),
    "flatten": ("data", "result"),
    "promote": ("data", "result"),
    "reshape": lambda p: ("data", "result padding" if "flags" in p else "result"),
    "repeat": ("data", "copies"),
    "pace": ("data", "result"),
    "zip": ("a b", "pair"),
    "split": ("data", "parts[]"),
    "merge": ("parts[]", "result"),
    "partition": ("data selector", "parts[]"),
    "reassemble": ("parts[] selector", "result"),
    "eager_merge": ("parts[]", "result selector"),
    "expand": ("data reference", "result"),
    "signal": ("data", "tokens"),
    "generate": lambda p: (_GENERATED.get(p["fn"], "data"), "result"),
    "address": ("a b", "result"),
    "map": lambda p: (
        ("operands" if p.get("tuple_in") else "a" if "constant" in p else "a b"[: 2 * p["arity"]]),
        "result",
    ),
    "row_reduce": ("tile", "column"),
    "matmul": ("a b", "product"),
    "accum": ("data", "result"),
    "row_pack": ("data", "result"),
    "row_unpack": ("data", "result"),
    "row_append": ("tile row", "result"),
    "row_offset": ("tile count", "result"),
    "scratchpad": _scratchpad_ports,
    "load": lambda p: ("start" if p.get("trigger") else "", "data"),
    "store": ("data", ""),
    "random_store": ("address data", "ack"),
    "source": ("", "data"),
    "sink": ("data", ""),
}
"""Names of the input and of the output ports of each kind, in the order of their numbers."""
