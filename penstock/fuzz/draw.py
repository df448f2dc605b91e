"""Draws random well-typed programs: every operator, over streams of any rank, type and emptiness, with sizes that tiles do not divide.

A program is drawn forwards, and evaluated while it is drawn, so a stream that has to agree with another (an operand, a selector, a reference) is made to measure.
Streams whose order the machine's timing decides (behind a merge of several units) only meet streams that come from themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.frontend.streams import nested
from penstock.frontend.types import BufferType, ScalarType, SelectorType, TileType, TupleType
from penstock.machine.beat import MAX_STOP
from penstock.machine.errors import PenstockError, RunError

from .recipe import Built, Recipe, measure

__all__ = ["VARIANTS", "draw"]

MOST_TILES = 80  # physical tiles of one stream
MOST_STEPS = 14


@dataclass
class Live:
    """A stream that can be read: where it comes from, and whether its elements are the same in every run."""

    at: list
    fixed: bool
    readers: int = 0


class Refused(Exception):
    """A step that cannot be drawn here."""


class Drawer:
    """A program in the making."""

    def __init__(self, rng: np.random.Generator, t: int, dtype: str, seed: int):
        self.rng, self.t, self.dtype = rng, t, dtype
        self.recipe = Recipe(seed=seed)
        self.built = Built(t, dtype, seed)
        self.live: list[Live] = []
        self.hungry = False  # whether a step may make a source of its own

    # -- dice --------------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def one_of(self, *options):
        return options[int(self.rng.integers(len(options)))]

    # -- streams -----------------------------------------------------------------------------------------------

    def type(self, s: Live):
        return self.built.stream(s.at).type

    def element(self, s: Live):
        return self.type(s).element

    def rank(self, s: Live) -> int:
        return self.type(s).rank

    def items(self, s: Live) -> list:
        return self.built.items[tuple(s.at)]

    def add(self, op: str, ins: list[Live] = (), *, fixed: bool = True, **step) -> list[Live]:
        """Add a step, if its rules and the size of what it gives allow; the streams it gives."""
        step = {"op": op, **({"ins": [list(s.at) for s in ins]} if ins else {}), **step}
        at = self.built.add(step)
        for node in self.built.nodes[at]:
            for s in node:
                items = self.built.items[at, s.port]
                if sum(self.tiles_of(s.element, v) for v, _ in items) > MOST_TILES or s.rank + 3 > MAX_STOP:
                    self.drop()
                    raise Refused
        self.recipe.steps.append(step)
        sources = [*ins, *([Live(step["ref"], True)] if step.get("ref") else [])]
        for s in self.live:
            s.readers += sum(s.at == x.at for x in sources)
        new = [Live([at, s.port], fixed and all(x.fixed for x in ins)) for node in self.built.nodes[at] for s in node]
        self.live += new
        return new

    def drop(self) -> None:
        """Take back the last step by building all others again."""
        self.built = Built(self.t, self.dtype, self.recipe.seed)
        for step in self.recipe.steps:
            self.built.add(step)

    def tiles_of(self, element, value) -> int:
        """Physical tiles of an element."""
        if value is None:
            return 1
        if isinstance(element, TupleType):
            return sum(self.tiles_of(m, v) for m, v in zip(element.members, value))
        if isinstance(element, BufferType):
            return sum(self.tiles_of(element.element, v) for v, _ in value)
        if isinstance(element, TileType):
            rows, cols = (value.shape[i] if d.value is None else d.value for i, d in enumerate((element.rows, element.cols)))
            return max(1, -(-rows // self.t) * -(-cols // self.t))
        return 1

    def pick(self, suits: Callable[[Live], bool], make: Callable[[], Live]) -> Live:
        """A live stream that suits, or a source made for the purpose."""
        found = [s for s in self.live if suits(s) and (s.readers == 0 or self.chance(0.3))]
        if found and not (self.hungry and self.chance(0.5)):
            return self.one_of(*found)
        if not found and not self.hungry:
            raise Refused
        return make()

    def shape(self, rank: int, regular: bool = False) -> tuple[list, list]:
        """(size specifications, nested counts) of a new stream of ``rank`` + 1 dimensions; counts are lists of lists, [] where a dimension is empty."""
        kinds = [self.one_of("static", "static", "dynamic", "ragged", "ragged") for _ in range(rank + 1)]
        kinds[0] = self.one_of("static", "dynamic")
        if regular:
            kinds = ["static"] * (rank + 1)
        small = rank > 3
        fixed = [1 if self.chance(0.7 if small else 0.2) else self.number(1, 2 if small else (8 if rank == 0 else 4 if rank == 1 else 3)) for _ in range(rank + 1)]
        for i, kind in enumerate(kinds):
            if kind == "dynamic" and self.chance(0.3):
                fixed[i] = 0

        def counts(i: int):
            n = fixed[i] if kinds[i] != "ragged" else self.one_of(0, 1, 1, 2, 3, 4) if not small else self.one_of(0, 1, 1, 2)
            return [counts(i + 1) if i < rank else None for _ in range(n)]

        out = counts(0)
        return _told(kinds, out), out

    def source(self, rank: int | None = None, *, tile: tuple | None = None, dtype: str = "fp32", selector: int | None = None, scalar: int | None = None,
               most: int = 9, full: bool = False, one_hot: bool = False, regular: bool = False) -> Live:
        """A new source with a shape of its own; ``regular``: of static sizes."""
        rank = (self.one_of(0, 0, 1, 1, 1, 2, 2, 3) if not self.chance(0.06) else self.number(4, MAX_STOP - 4)) if rank is None else rank
        kinds, counts = self.shape(rank, regular)
        return self.filled(kinds, counts, rank, tile=tile, dtype=dtype, selector=selector, scalar=scalar, most=most, full=full, one_hot=one_hot)

    def filled(self, shape: list, counts: list, rank: int, *, tile=None, dtype="fp32", selector=None, scalar=None, most=9, full=False, one_hot=False, values=None) -> Live:
        """A source of given structure with elements of a kind."""
        if selector is not None:
            def leaf():
                if one_hot:
                    return [self.number(0, selector - 1)]
                return sorted(map(int, self.rng.permutation(selector)[: self.one_of(0, 1, 1, min(2, selector), selector)]))
            kind = {"selector": selector}
        elif scalar is not None:
            def leaf():
                return self.number(0, min(most, 2**scalar - 1))
            kind = {"scalar": scalar}
        else:
            rows, cols = tile or (self.size(), self.size())
            partly = not full and self.chance(0.2)

            def leaf():
                r, c = ((x if isinstance(x, int) else 2) for x in (rows, cols))
                return [self.number(0, r), c] if partly else [r, c]
            kind = {"tile": [rows, cols], "dtype": dtype}
        given = iter(values) if values is not None else None

        def fill(x, level):
            return [fill(y, level - 1) if level else (next(given) if given else leaf()) for y in x]

        return self.add("Source", shape=shape, elements=fill(counts, rank), **kind)[0]

    def size(self) -> int:
        """Rows or columns of a tile: up to a bit more than two physical ones, divided or not."""
        t = self.t
        return self.one_of(1, t, t, self.number(1, t), self.number(t, 2 * t + 1), 2 * t)

    def like(self, s: Live, depth: int | None = None, **kind) -> Live:
        """A source with the outer ``depth`` dimensions of a stream (all of them by default), and its empty places."""
        if not s.fixed:
            raise Refused
        rank = self.rank(s)
        depth = rank + 1 if depth is None else depth
        counts = _outer(nested([(v if v is None else 0, stop) for v, stop in self.items(s)], rank), depth)
        shape = [["of", *s.at, i] for i in range(depth)]
        values = kind.pop("values", None)
        if callable(values):
            values = values(counts)
        return self.filled(shape, counts, depth - 1, values=values, **kind)

    def tile(self, dtype: str | None = "fp32", *, fixed: bool = False, rank: int = 0, suits: Callable | None = None, **make) -> Live:
        """A stream of tiles."""
        def ok(s: Live) -> bool:
            e = self.element(s)
            return isinstance(e, TileType) and (dtype is None or e.dtype == dtype) and (s.fixed or not fixed) and self.rank(s) >= rank and (suits is None or suits(s))

        def new() -> Live:
            s = self.source(self.one_of(*[r for r in (rank, rank, rank + 1, rank + 2) if r < 4]) if rank else None, dtype=dtype or "fp32", **make)
            if not ok(s):
                raise Refused
            return s

        return self.pick(ok, new)

    def any(self, suits: Callable | None = None, rank: int = 0) -> Live:
        """A stream of anything but pairs."""
        def ok(s: Live) -> bool:
            return self.rank(s) >= rank and (suits is None or suits(s))

        def new() -> Live:
            r = self.one_of(rank, rank, rank + 1) if rank else None
            s = self.one_of(lambda: self.source(r), lambda: self.source(r, dtype="bf16"), lambda: self.source(r, selector=self.number(1, 5)), lambda: self.source(r, scalar=self.one_of(1, 8, 32)))()
            if not ok(s):
                raise Refused
            return s

        return self.pick(ok, new)

    def scalars(self, **kw) -> Live:
        return self.pick(lambda s: False, lambda: self.source(scalar=32, **kw))

    def buffers(self, suits: Callable | None = None, regular: bool = False) -> Live:
        def ok(s: Live) -> bool:
            return isinstance(self.element(s), BufferType) and (suits is None or suits(s))

        def new() -> Live:
            s = bufferize(self, regular)
            if not ok(s):
                raise Refused
            return s

        return self.pick(ok, new)


def _told(kinds: list, counts: list) -> list:
    """Kinds of dimensions that suit their sizes: what is empty somewhere, or not seen at all, is not static."""
    seen: list[set] = [set() for _ in kinds]
    measure(counts, 0, len(kinds) - 1, seen)
    return [k if k != "static" or len(n) == 1 and 0 not in n else "dynamic" if len(n) < 2 else "ragged" for k, n in zip(kinds, seen)]


def _outer(x: list, depth: int) -> list:
    """The outer dimensions of nested lists; leaves are None."""
    return [None if depth == 1 else _outer(y, depth - 1) for y in x]


def static(d: Drawer, s: Live) -> bool:
    e = d.element(s)
    return isinstance(e, TileType) and e.static


def is_tile(d: Drawer) -> Callable[[Live], bool]:
    return lambda s: isinstance(d.element(s), TileType)


def sizes(d: Drawer, s: Live) -> tuple:
    """Rows and columns of a stream's tiles as specifications for another source."""
    e = d.element(s)
    return tuple(x.value if x.value is not None else ["of", *s.at, -1 - i] for i, x in enumerate((e.rows, e.cols)))


# ---- functions -------------------------------------------------------------------------------------------------------

def unary(name: str, **args) -> Callable:
    def make(d: Drawer):
        d.add("Map", [d.tile("bf16" if name == "cast_fp32" else "fp32")], fn=[name, args])
    return make


def scaled(d: Drawer):
    d.add("Map", [d.tile()], fn=["scale", {"factor": float(d.one_of(0.5, -1.25, 0.0, 3.0))}])


def binary(name: str) -> Callable:
    def make(d: Drawer):
        a = d.tile()
        rows, cols = sizes(d, a)
        how = d.one_of("same", "same", "row", "column", "one", "self", "reduced")
        if how == "self":
            d.add("Map", [a, d.add("Map", [a], fn=[d.one_of("exp", "silu"), {}])[0]], fn=[name, {}])
        elif how == "reduced":
            d.add("Map", [a, d.add("Map", [a], fn=["row_max", {}])[0]], fn=[name, {}])
        else:
            if not isinstance(rows, int) and how in ("same", "column") or not isinstance(cols, int):
                raise Refused  # the sizes of each element would have to be repeated
            b = d.like(a, tile={"same": (rows, cols), "row": (1, cols), "column": (rows, 1), "one": (1, 1)}[how], full=how != "same")
            d.add("Map", [a, b], fn=[name, {}])
    return make


def paired(d: Drawer):
    """A function of two operands on a stream of pairs."""
    a = d.tile(suits=lambda s: static(d, s))
    b = d.like(a, tile=sizes(d, a))
    (pair,) = d.add("Zip", [a, b])
    if d.chance(0.8):
        d.add("Map", [pair], fn=[d.one_of("add", "sub", "mul", "max"), {}])


def product(rank: int) -> Callable:
    def make(d: Drawer):
        a = d.tile(d.dtype, fixed=True, rank=rank)
        k = sizes(d, a)[1]
        if not isinstance(k, int):
            raise Refused
        n, transposed = d.size(), d.chance(0.5)
        b = d.like(a, tile=(n, k) if transposed else (k, n), dtype=d.element(a).dtype, full=True)
        fn = ["matmul", {"transposed": transposed}]
        if rank:
            d.add("Accum", [a, b], fn=fn, args={"rank": d.number(1, d.rank(a))})
        else:
            d.add("Map", [a, b], fn=fn)
    return make


def row_append(d: Drawer):
    rows, cols = d.number(2, 2 * d.t), d.size()
    a = d.source(tile=(rows, cols), full=True)
    step = d.recipe.steps[-1]
    _shorten(step["elements"], d.rank(a), lambda: [d.number(0, rows - 1), cols])
    d.drop()
    d.add("Map", [a, d.like(a, tile=(1, cols), full=True)], fn=["row_append", {}])


def row_offset(d: Drawer):
    a = d.tile(None, fixed=True, suits=lambda s: static(d, s))
    rows = sizes(d, a)[0]
    d.add("Map", [a, d.like(a, scalar=8, most=(rows if isinstance(rows, int) else 4) + 2)], fn=["row_offset", {}])


def address(d: Drawer):
    a = d.scalars()
    d.add("Map", [a, d.like(a, scalar=32, most=40)], fn=["address", {"stride": d.one_of(0, 1, 7, 1 << 20)}])


def reduction(op: str, name: str) -> Callable:
    def make(d: Drawer):
        s = d.tile(rank=1)
        d.add(op, [s], fn=[name, {}], args={"rank": d.number(1, d.rank(s))})
    return make


def retile_row(d: Drawer):
    rows = d.one_of(*[r for r in (1, 2, 4, 8) if r <= d.t])
    s = d.tile(None, rank=1, suits=lambda s: sizes(d, s)[0] == rows and isinstance(sizes(d, s)[1], int) and _whole(d, s), tile=(rows, d.size()), full=True)
    d.add("Accum", [s], fn=["retile_row", {}], args={"rank": d.number(1, d.rank(s))})


def retile_col(d: Drawer):
    s = d.tile(None, rank=1, suits=lambda s: _columns(d, s), tile=(d.number(1, d.t), d.t * d.number(1, 2)), full=True)
    d.add("Accum", [s], fn=["retile_col", {}], args={"rank": d.number(1, d.rank(s))})


def _columns(d: Drawer, s: Live) -> bool:
    rows, cols = sizes(d, s)
    return isinstance(cols, int) and cols % d.t == 0 and isinstance(rows, int) and rows <= d.t and _whole(d, s)


def _whole(d: Drawer, s: Live) -> bool:
    """Whether all tiles of a stream are full."""
    e = d.element(s)
    return all(v is None or v.shape == (e.rows.value, e.cols.value) for v, _ in d.items(s))


def all_read(d: Drawer):
    s = d.any(lambda s: not isinstance(d.element(s), (BufferType, TupleType)), rank=1)
    d.add("Accum", [s], fn=["all_read", {}], args={"rank": d.number(1, d.rank(s))})


def unpack(mask: bool) -> Callable:
    def make(d: Drawer):
        s = d.tile(None, suits=lambda s: mask or static(d, s))
        d.add("FlatMap", [s], fn=["retile_streamify", {"along": "rows", "size": 1, "mask": mask}], args={"rank": d.number(0, 1)})
    return make


def bands(d: Drawer):
    k = d.t * d.number(1, 2)
    s = d.tile(None, suits=lambda s: static(d, s) and sizes(d, s)[0] % k == 0, tile=(k * d.number(1, 2), d.size()))
    d.add("FlatMap", [s], fn=["retile_streamify", {"along": "rows", "size": k, "mask": False}], args={"rank": d.number(0, 1)})


def columns(d: Drawer):
    k = d.t * d.number(1, 2)
    s = d.tile(None, suits=lambda s: _columns(d, s) and sizes(d, s)[1] % k == 0, tile=(d.number(1, d.t), k * d.number(1, 2)), full=True)
    d.add("FlatMap", [s], fn=["retile_streamify", {"along": "cols", "size": k, "mask": False}], args={"rank": d.number(0, 1)})


def address_range(d: Drawer):
    a = d.scalars(most=20)
    d.add("FlatMap", [a, d.like(a, scalar=8, most=4)], fn=["address_range", {"stride": d.number(0, 9)}], args={"rank": d.number(0, 1)})


def expert_addresses(d: Drawer):
    s = d.pick(lambda s: isinstance(d.element(s), SelectorType) and all(v is None or len(v) == 1 for v, _ in d.items(s)),
               lambda: d.source(selector=d.number(1, 6), one_hot=True))
    d.add("FlatMap", [s], fn=["expert_addresses", {"count": d.number(1, 4)}], args={"rank": d.number(0, 1)})


def last_tile_filter(d: Drawer):
    d.add("FlatMap", [d.source(scalar=d.one_of(4, 32), most=4)], fn=["last_tile_filter", {}], args={"rank": d.number(0, 1)})


# ---- memory ----------------------------------------------------------------------------------------------------------

def linear_load(by_reference: bool) -> Callable:
    def make(d: Drawer):
        tile = (d.size(), d.size())
        down, across = d.number(1, 3), d.number(1, 3)
        step = {"load_tile": list(tile), "tensor": [down * tile[0] - d.number(0, tile[0] - 1), across * tile[1] - d.number(0, tile[1] - 1)]}
        if by_reference or d.chance(0.7):
            loops = [(d.number(1, down), d.one_of(0, across)), (d.number(1, across), d.one_of(0, 1))][: d.number(1, 2)]
            if d.chance(0.3):
                loops.insert(0, (d.number(1, 2), 0))
            step["args"] = {"shape": [n for n, _ in loops], "stride": [k for _, k in loops]}
        elif d.chance(0.5):
            places = [[i * tile[0], j * tile[1]] for i in range(down + 1) for j in range(across)]
            step["args"] = {"order": [d.one_of(*places) for _ in range(d.number(1, 5))]}
        if by_reference:
            step["ref"] = list(d.any(lambda s: not isinstance(d.element(s), (BufferType, TupleType))).at)
        d.add("LinearOffChipLoad", **step)
    return make


def linear_store(d: Drawer):
    s = d.tile(d.dtype, suits=lambda s: static(d, s) and d.type(s).count.is_Integer, full=True, regular=True)
    if not d.type(s).count.is_Integer or not d.items(s):
        raise Refused
    width, more = d.one_of(1, 2, 3), {"backwards": True} if d.chance(0.3) else {}
    for trim in ([1, 1], [1, 0], [0, 1], [0, 0]):  # the tensor is as small as its last tiles allow
        try:
            return d.add("LinearOffChipStore", [s], width=width, trim=trim, **more)
        except RunError:
            continue
    raise Refused


def copied(d: Drawer):
    """A tensor loaded tile by tile and stored again: the last tiles are partial on both sides."""
    rows, cols, down, across = d.size(), d.size(), d.number(1, 3), d.number(1, 3)
    trim = [min(d.number(0, 2), rows - 1), min(d.number(0, 2), cols - 1)]
    (s,) = d.add("LinearOffChipLoad", load_tile=[rows, cols], tensor=[down * rows - trim[0], across * cols - trim[1]])
    if d.dtype == "fp32" and d.chance(0.5):
        (s,) = d.add("Map", [s], fn=["exp", {}])
    d.add("LinearOffChipStore", [s], width=across, trim=trim)


def random_load(d: Drawer):
    down, shift, tile = d.number(1, 3), d.number(0, 2), (d.size(), d.size())
    a = d.pick(lambda s: isinstance(d.element(s), ScalarType) and all(v is None or v < down << shift for v, _ in d.items(s)) and d.element(s).bits > 2,
               lambda: d.source(scalar=d.one_of(8, 32), most=(down << shift) - 1))
    tensor = [down * tile[0] - d.number(0, tile[0] - 1), (tile[1] << shift) - d.number(0, tile[1] - 1)]
    d.add("RandomOffChipLoad", [a], load_tile=list(tile), tensor=tensor)


def random_store(d: Drawer):
    s = d.tile(d.dtype, fixed=True, suits=lambda s: static(d, s), full=d.chance(0.5))
    down, shift, (rows, cols) = d.number(1, 3), d.number(0, 1), sizes(d, s)
    a = d.like(s, scalar=d.one_of(8, 32), most=(down << shift) - 1)
    d.add("RandomOffChipStore", [a, s], tensor=[down * rows, cols << shift])


# ---- buffers ---------------------------------------------------------------------------------------------------------

def bufferize(d: Drawer, regular: bool = False) -> Live:
    s = d.source(d.number(0, 2), tile=(d.size(), d.size()), regular=True) if regular else d.tile(None, suits=lambda s: static(d, s))
    memory = {"memory": d.one_of("cache", "other")} if d.chance(0.4) else {}
    return d.add("Bufferize", [s], args={"rank": d.number(0, d.rank(s)), **memory})[0]


def streamify(how: str) -> Callable:
    def make(d: Drawer):
        args, ref = {}, {}
        if how == "list":
            s = d.buffers(lambda s: d.type(s).shape[-1].value is not None, True)
            n = d.type(s).shape[-1].value
            args = {"repeat": [d.number(1, 3) for _ in range(n)]}
        elif how == "affine":
            s = d.buffers(lambda s: all(x.value is not None for x in d.element(s).shape) and d.element(s).shape, True)
            size = int(np.prod([x.value for x in d.element(s).shape]))
            n, k = d.number(1, 3), d.number(1, 2)
            step = d.number(0, max(0, (size - 1) // max(n * k - 1, 1)))
            args = {"shape": [n] if k == 1 else [n, k], "stride": [step] if k == 1 else [step, step]}
            if d.chance(0.4):
                args["repeat"] = d.number(1, 3)
        else:
            s = d.buffers(lambda s: how != "ref" or s.fixed)
            if how == "repeat":
                args = {"repeat": d.number(1, 3)}
            if how == "ref":
                ref = {"ref": list(_inner(d, s, d.number(0, 2)).at)}
        d.add("Streamify", [s], args=args, **ref)
    return make


def _inner(d: Drawer, s: Live, extra: int, depth: int | None = None) -> Live:
    """A source with the outer dimensions of a stream and ``extra`` ragged inner ones (some of them empty)."""
    if not s.fixed:
        raise Refused
    rank = d.rank(s)
    depth = rank + 1 if depth is None else depth
    counts = _outer(nested([(v if v is None else 0, stop) for v, stop in d.items(s)], rank), depth)

    def grow(x, level):
        if level:
            return [grow(y, level - 1) for y in x]
        return [more(extra) for _ in x]

    def more(k):
        return [more(k - 1) if k > 1 else None for _ in range(d.one_of(0, 1, 1, 2, 3))] if k else None

    shape = [["of", *s.at, i] for i in range(depth)] + ["ragged"] * extra
    kind = d.one_of({"scalar": 8}, {"selector": 3}, {"tile": (d.number(1, 3), d.number(1, 3))})
    return d.filled(shape, grow(counts, depth - 1), depth - 1 + extra, **kind)


# ---- routing ---------------------------------------------------------------------------------------------------------

def partition(d: Drawer):
    s = d.any(lambda s: s.fixed and not isinstance(d.element(s), TupleType))
    rank, n = d.number(0, d.rank(s)), d.one_of(1, 2, 3, 4, 4)
    sel = d.like(s, d.rank(s) + 1 - rank, selector=n)
    outs = d.add("Partition", [s, sel], args={"rank": rank, "outputs": n})
    if d.chance(0.4):  # back together, in the order of the same selector
        worked = [_work(d, x) for x in outs]
        if len({str(d.element(x)) for x in worked}) == 1:
            d.add("Reassemble", [*worked, sel], fixed=_one_each(d, sel), args={"rank": rank})


def _work(d: Drawer, s: Live) -> Live:
    e = d.element(s)
    return d.add("Map", [s], fn=["scale", {"factor": 2.0}])[0] if isinstance(e, TileType) and e.dtype == "fp32" and d.chance(0.5) else s


def _one_each(d: Drawer, sel: Live) -> bool:
    return all(v is None or len(v) < 2 for v, _ in d.items(sel))


def _units(d: Drawer, s: Live) -> int:
    """Units of a stream: elements of its outermost dimension."""
    return len(nested([(v if v is None else 0, stop) for v, stop in d.items(s)], d.rank(s)))


def _siblings(d: Drawer, n: int) -> list[Live]:
    """Streams that can be merged: a new source, and others of its shape but for the outermost dimension."""
    kind = d.one_of({"tile": (d.size(), d.size())}, {"selector": d.number(1, 4)}, {"scalar": 8})
    rank = d.one_of(0, 0, 1, 2)
    kinds = [d.one_of("static", "ragged") for _ in range(rank)]
    fixed = [d.number(1, 3) for _ in range(rank)]

    def counts(i):
        return [counts(i + 1) if i < rank - 1 else None for _ in range(fixed[i] if kinds[i] == "static" else d.one_of(0, 1, 2, 3))]

    out = []
    for _ in range(n):
        elements = [counts(0) if rank else None for _ in range(d.one_of(0, 0, 1, 2, 3, 5))]
        out.append(d.filled(_told(["dynamic", *kinds], elements), elements, rank, **kind))
    return out


def reassemble(d: Drawer):
    n = d.number(1, 4)
    data = _siblings(d, n)
    left = [_units(d, s) for s in data]
    hot = []
    while any(left):
        targets = [i for i in range(n) if left[i] and d.chance(0.5)]
        for i in targets:
            left[i] -= 1
        hot.append(targets)
    rank = d.number(0, 1)
    counts = [None] * len(hot)
    if rank:
        cut = d.number(0, len(hot))
        counts = [[None] * cut, [None] * (len(hot) - cut)]
    sel = d.filled(["dynamic", "ragged"] if rank else ["dynamic"], counts, rank, selector=n, values=hot)
    d.add("Reassemble", [*data, sel], fixed=_one_each(d, sel), args={"rank": d.rank(data[0])})


def eager_merge(d: Drawer):
    n = d.one_of(1, 2, 3, 4, 4)
    data = _siblings(d, n)
    merged = d.add("EagerMerge", data, fixed=n == 1)
    if n > 1 and d.chance(0.5):  # back to where they came from
        d.add("Partition", merged, fixed=False, args={"rank": d.rank(data[0]), "outputs": n})


def merged_references(d: Drawer):
    """References to buffers of one memory, merged, routed, dropped or read."""
    rows, cols, rank = d.number(1, d.t + 1), d.number(1, d.t), d.number(1, 2)
    refs = [d.add("Bufferize", [d.source(rank, tile=(rows, cols))], args={"rank": rank, "memory": "shared"})[0] for _ in range(2)]
    merged = d.add("EagerMerge", refs, fixed=False)
    if d.chance(0.5):
        parts = d.add("Partition", merged, fixed=False, args={"rank": 0, "outputs": 2})
        for p in parts[: d.number(0, 2)]:
            d.add("Streamify", [p], fixed=False)
    else:
        d.add("Streamify", [merged[0]], fixed=False, args=d.one_of({}, {"repeat": 2}))


def feedback(d: Drawer):
    regions = d.number(2, 3)
    n = d.number(regions + 1, 7)
    s = d.filled(["static"], [None] * n, 0, tile=(d.size(), d.size()))
    d.add("Feedback", [s], regions=regions)


# ---- shapes ----------------------------------------------------------------------------------------------------------

def flatten(d: Drawer):
    s = d.any()
    lo = d.number(0, d.rank(s))
    d.add("Flatten", [s], args={"lo": lo, "hi": d.number(lo, d.rank(s))})


def promote(outermost: bool) -> Callable:
    def make(d: Drawer):
        s = d.any(lambda s: d.rank(s) < 9)
        d.add("Promote", [s], args={} if outermost else {"level": d.number(0, d.rank(s))})
    return make


def reshape(pad: bool) -> Callable:
    def make(d: Drawer):
        if pad:
            s = d.tile(None, suits=lambda s: static(d, s))
            out = d.add("Reshape", [s], args={"dim": 0, "chunk": d.number(1, 4), "pad": 0})
            if d.chance(0.3):
                d.live.remove(out[1])  # stays unread
            return
        s = d.any(lambda s: not isinstance(d.element(s), BufferType))
        at = d.number(0, d.rank(s))
        size = d.type(s).shape[d.rank(s) - at].value
        d.add("Reshape", [s], args={"dim": at, "chunk": d.one_of(*[k for k in range(1, size + 1) if size % k == 0]) if size else 1})
    return make


def expand_count(d: Drawer):
    s = d.any(lambda s: not isinstance(d.element(s), (BufferType, TupleType)))
    d.add("Expand", [s], args={"count": d.number(1, 4)})


def expand_reference(d: Drawer):
    s = d.any(lambda s: s.fixed and not isinstance(d.element(s), TupleType) and d.rank(s) < 8)
    b = d.number(1, 2)
    ref = _inner(d, s, b)
    for _ in range(b):
        (s,) = d.add("Promote", [s], args={"level": 0})
    d.add("Expand", [s], ref=list(ref.at), args={"rank": b})


def zipped(d: Drawer):
    a = d.any(lambda s: s.fixed and not isinstance(d.element(s), (BufferType, TupleType)))
    if isinstance(d.element(a), TileType):
        if not static(d, a):
            raise Refused
        b = d.like(a, tile=sizes(d, a), dtype=d.one_of("fp32", "bf16"))
    else:
        b = d.like(a, **d.one_of({"scalar": 8}, {"selector": 3}))
    d.add("Zip", [a, b])


def fifo(d: Drawer):
    d.add("Fifo", [d.any()], args={"depth": d.number(1, 6)})


def broadcast(d: Drawer):
    d.add("Broadcast", [d.any()], args={"n": d.number(1, 3)})


def _shorten(x: list, rank: int, leaf: Callable) -> None:
    for i, y in enumerate(x):
        if rank:
            _shorten(y, rank - 1, leaf)
        else:
            x[i] = leaf()


VARIANTS: dict[str, Callable] = {
    **{f"Map {n}": unary(n) for n in ("exp", "silu", "cast_bf16", "cast_fp32", "row_sum", "row_max")}, "Map scale": scaled,
    **{f"Map {n}": binary(n) for n in ("add", "sub", "mul", "div", "max")}, "Map pairs": paired, "Map matmul": product(0),
    "Map row_append": row_append, "Map row_offset": row_offset, "Map address": address,
    "Accum add": reduction("Accum", "add"), "Accum max": reduction("Accum", "max"), "Accum matmul": product(1), "Accum retile_row": retile_row,
    "Accum retile_col": retile_col, "Accum all_read": all_read, "Scan add": reduction("Scan", "add"), "Scan max": reduction("Scan", "max"),
    "FlatMap rows": unpack(False), "FlatMap masked rows": unpack(True), "FlatMap bands": bands, "FlatMap columns": columns, "FlatMap address_range": address_range,
    "FlatMap expert_addresses": expert_addresses, "FlatMap last_tile_filter": last_tile_filter,
    "LinearOffChipLoad": linear_load(False), "LinearOffChipLoad ref": linear_load(True), "LinearOffChipStore": linear_store, "LinearOffChipStore copied": copied, "RandomOffChipLoad": random_load,
    "RandomOffChipStore": random_store, "Bufferize": bufferize, **{f"Streamify {h}": streamify(h) for h in ("once", "repeat", "list", "affine", "ref")},
    "Partition": partition, "Reassemble": reassemble, "EagerMerge": eager_merge, "EagerMerge references": merged_references, "Loop": feedback,
    "Flatten": flatten, "Promote": promote(False), "Promote outermost": promote(True), "Reshape": reshape(False), "Reshape pad": reshape(True),
    "Expand count": expand_count, "Expand ref": expand_reference, "Zip": zipped, "Fifo": fifo, "Broadcast": broadcast,
}
"""What a step can be; every program has one of them in the middle, in turn."""
RARE = ["RandomOffChipLoad", "RandomOffChipStore", "LinearOffChipLoad ref", "FlatMap expert_addresses", "Map address", "Accum retile_col", "Flatten", "Broadcast", "Fifo",
        "Map cast_fp32", "Partition", "Reassemble", "FlatMap address_range", "Accum retile_row", "Accum matmul", "Scan add", "Zip", "Streamify once"]
"""What fits few streams: tried more often."""


def draw(seed: tuple[int, ...], t: int, dtype: str, focus: str | None = None) -> Recipe:
    """A random program for tiles of t x t with tensors of ``dtype``, built around one of :data:`VARIANTS`."""
    rng = np.random.default_rng(seed)
    focus = focus or list(VARIANTS)[int(rng.integers(len(VARIANTS)))]
    for _ in range(50):
        d = Drawer(rng, t, dtype, int(rng.integers(1 << 31)))
        wanted, before = d.number(2, 6), d.number(0, 2)
        names, k = [*VARIANTS, *RARE * 3], 0
        done = False
        for _attempt in range(60):
            if len(d.recipe.steps) >= MOST_STEPS or done and k >= wanted:
                break
            name = focus if not done and k >= before else d.one_of(*names)
            d.hungry = not d.live or name == focus or d.chance(0.25)
            if _try(d, name):
                k += 1
                done = done or name == focus
        if done and _read(d):
            return d.recipe
    raise PenstockError(f"no program with {focus} could be drawn from seed {seed}")


def _read(d: Drawer) -> bool:
    """Give every on-chip memory somebody that reads it."""
    read = {d.element(Live(step["ins"][0], True)).memory for step in d.recipe.steps if step["op"] == "Streamify"}
    for s in list(d.live):
        e = d.element(s)
        if isinstance(e, BufferType) and e.memory not in read and not s.readers:
            read.add(e.memory)
            try:
                d.add("Streamify", [s])
            except (Refused, PenstockError):
                return False
    return True


def _try(d: Drawer, name: str) -> bool:
    """One step, or none of its parts."""
    steps, live = list(d.recipe.steps), [Live(list(s.at), s.fixed, s.readers) for s in d.live]
    try:
        VARIANTS[name](d)
        return True
    except (Refused, PenstockError):
        d.recipe.steps, d.live = steps, live
        if len(d.built.nodes) != len(steps):
            d.drop()
        return False
