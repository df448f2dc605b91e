"""A judge of programs: what each stream holds, as nested Python lists, one function an operator.

It knows no beats and no stops, and shares nothing with the meaning, the model or the hardware but
the contract: operators with their arguments, types, and the arithmetic of one tile. A stream of
shape [D_N, ..., D_0] is a list nested N + 1 deep. Its elements are arrays (the valid part of a
tile), integers (scalars), sets of targets (selectors), tuples, and :class:`Buffer`. `decoded` reads
what a wire carries into the same lists, with one rule for each beat (docs/timing.md section 3.4).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import networkx as nx

from ..frontend.graph import Graph, Operator, Stream, TensorRef
from ..frontend.operators.shapes import Expand
from ..frontend.operators.tensors import OffChip
from ..frontend.types import ElementType, SelectorType, TileType, TupleType
from ..machine import arith
from ..machine.errors import FormError, RunError
from ..machine.functions import lookup
from ..machine.image import DTYPES

__all__ = ["Buffer", "Judge", "UnjudgedError"]


class UnjudgedError(RunError):
    """A program that the judge has no rule for: an operator or a function from outside the tree, or
    a load of which the order of several stores decides.
    """


@dataclass(frozen=True)
class Buffer:
    """An element that refers to a buffer: the lists that it holds."""

    content: Any


# ---- lists
# --------------------------------------------------------------------------


def deep(f: Callable, depth: int, *lists):
    """The lists with ``f`` applied to what lies ``depth`` levels down, in all at the same place."""
    if not depth:
        return f(*lists)
    if len({len(x) for x in lists}) > 1:
        raise RunError(f"lists of {[len(x) for x in lists]} elements side by side", "judge")
    return [deep(f, depth - 1, *items) for items in zip(*lists, strict=True)]


def flat(x, depth: int) -> list:
    """Elements ``depth`` levels down, in order."""
    for _ in range(depth - 1):
        x = itertools.chain.from_iterable(x)
    return list(x) if depth else [x]


def trimmed(depth: int, lists: list[list]) -> list[list]:
    """Lists of so many common dimensions, each as long as the shortest."""
    if not depth:
        return lists
    rows = [trimmed(depth - 1, list(items)) for items in zip(*lists, strict=False)]
    return [list(x) for x in zip(*rows, strict=True)] if rows else [[] for _ in lists]


def alike(a, b) -> bool:
    """True for equal elements, or lists of such."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, Buffer):
        return alike(a.content, b.content)
    if isinstance(a, np.ndarray):
        return (a.shape == b.shape and a.tobytes() == b.tobytes()) or not (a.size or b.size)
    return a == b


def empty(x, element: ElementType) -> bool:
    """True for a list without elements, and for an element of run-time size without rows or
    columns, which is a list of none.
    """
    if isinstance(x, list):
        return not x
    if isinstance(element, TupleType):
        return any(empty(*pair) for pair in zip(x, element.members, strict=True))
    sizes = (element.rows, element.cols) if isinstance(element, TileType) else ()
    return any(
        d.value is None and not n for d, n in zip(sizes, getattr(x, "shape", ()), strict=False)
    )


def check_form(x: list, depth: int, s: Stream) -> None:
    """Refuse an empty list that is alone in its list: nothing on a wire stands for it."""
    for level in range(1, depth):
        for inner in flat(x, level):
            if len(inner) == 1 and empty(inner[0], s.element):
                raise FormError(
                    f"an empty list is alone in one of dimension {depth - 1 - level}",
                    f"stream {s.name}",
                    "such a list has no form on a wire",
                )


def decoded(beats: Iterable[tuple], depth: int) -> list:
    """The lists, ``depth`` deep, of beats (element or None where bare, stop)."""
    open_: list[list] = [[] for _ in range(depth)]
    last = depth
    for element, stop in beats:
        if stop >= depth:
            raise RunError(f"a stop of level {stop} in a stream of {depth} dimensions", "judge")
        if element is None and not last:
            raise RunError(f"a bare stop of level {stop} follows a plain value", "judge")
        level = 0 if element is not None else min(last, stop)
        open_[level].append([] if element is None else element)
        for k in range(level, stop):
            open_[k + 1].append(open_[k])
            open_[k] = []
        last = stop
    if any(open_[:-1]):
        raise RunError("a stream ends within a dimension", "judge")
    return open_[-1]


def tiled(x, element: ElementType, t: int):
    """An element as lists of physical tiles, [] where it is empty; others are left as they are."""
    if isinstance(element, TupleType):
        parts = [tiled(*pair, t) for pair in zip(x, element.members, strict=True)]
        if not any(isinstance(p, list) for p in parts):
            return tuple(parts)
        if [] in parts:
            return []
        return deep(lambda *p: tuple(p), 2, *parts)
    if not isinstance(element, TileType):
        return x
    if empty(x, element):
        return []
    rows, cols = (
        n if d.value is None else d.value
        for d, n in zip((element.rows, element.cols), x.shape, strict=True)
    )
    return [[x[r : r + t, c : c + t] for c in range(0, cols, t)] for r in range(0, rows, t)]


def difference(
    want: list, beats: Iterable[tuple], depth: int, same: Callable[[Any, Any], bool]
) -> str | None:
    """First place where the lists of beats differ from those wanted; None where they are equal."""
    try:
        return _differ(want, decoded(beats, depth), same, "")
    except RunError as e:
        return e.what


def _differ(want, got, same: Callable[[Any, Any], bool], place: str) -> str | None:
    where = place or "the stream"
    if not isinstance(want, list) or not isinstance(got, list):
        alike = isinstance(want, list) == isinstance(got, list) and same(want, got)
        return None if alike else f"another element at {where}"
    if len(want) != len(got):
        return f"{where} has {len(got)} elements, not {len(want)}"
    found = (
        _differ(*pair, same, f"{place}[{i}]") for i, pair in enumerate(zip(want, got, strict=True))
    )
    return next(filter(None, found), None)


def empty_parts(x: list, depth: int) -> Iterator[str]:
    """Places of the empty lists in lists of lists: first, last, between others, everywhere or
    alone.
    """
    for level in range(depth - 1):
        for inner in flat(x, level):
            gone = [not y for y in inner]
            whole = all(gone)
            found = {
                "alone": whole and len(gone) == 1,
                "everywhere": whole and len(gone) > 1,
                "first": not whole and gone[0],
                "last": not whole and gone[-1],
                "between": not whole and any(gone[1:-1]),
            }
            yield from (
                f"{at}, dimension {depth - 2 - level}" for at, is_so in found.items() if is_so
            )


# ---- tiles
# --------------------------------------------------------------------------


def fit(a: np.ndarray, shape: tuple[int, int], fill: float = 0.0) -> np.ndarray:
    """An array cut or filled up to a shape."""
    out = np.full(shape, fill, np.float32)
    rows, cols = map(min, a.shape, shape)
    out[:rows, :cols] = a[:rows, :cols]
    return out


def apply(name: str, *operands: np.ndarray) -> np.ndarray:
    """An element-wise function in the machine's arithmetic."""
    reference = lookup(name).reference
    if reference is None:
        raise UnjudgedError(f"function {name} has no definition in NumPy", "judge")
    return reference(*operands).astype(np.float32)


def fold(name: str, acc: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One step of a reduction; what is not valid counts as the identity."""
    rows, cols = map(max, acc.shape, x.shape)
    return apply(name, *(fit(v, (rows, cols), identity_of(name)) for v in (acc, x)))


def identity_of(name: str) -> float:
    identity = lookup(name).identity
    if identity is None:
        raise UnjudgedError(f"function {name} has no identity", "judge")
    return identity


def initial(name: str, t: TileType) -> np.ndarray:
    """The result of a reduction of nothing."""
    if t.static:
        return np.full(t.static_shape, identity_of(name), np.float32)
    return np.zeros((t.rows.value or 0, t.cols.value or 0), np.float32)


def by_rows(name: str, x: np.ndarray, t: int) -> np.ndarray:
    """Each row reduced: t columns at a time, as a balanced tree."""
    acc = None
    for c in range(0, x.shape[1], t):
        part = fit(x[:, c : c + t], (x.shape[0], t), identity_of(name))
        while part.shape[1] > 1:
            part = apply(name, part[:, 0::2], part[:, 1::2])
        acc = part if acc is None else apply(name, acc, part)
    return np.zeros((x.shape[0], 0), np.float32) if acc is None else acc


class Products:
    """A matrix product, t columns of A at a time."""

    def __init__(self, node, t: int):
        self.a, self.b = node.operands()
        self.transposed = node.args.fn.transposed
        self.t = t

    def add(self, acc, a: np.ndarray, b: np.ndarray):
        inner = self.b.cols if self.transposed else self.b.rows
        b = b.T if self.transposed else b
        k = next((d.value for d in (self.a.cols, inner) if d.value is not None), a.shape[1])
        k = -(-k // self.t) * self.t
        a = fit(a, (a.shape[0], k))
        b = fit(b, (k, b.shape[1]))
        for i in range(0, k, self.t):
            product = arith.matmul(a[:, i : i + self.t], b[i : i + self.t])
            acc = product if acc is None else fold("add", acc, product)
        return acc


def spread(a: np.ndarray, b: np.ndarray, types: tuple[TileType, TileType]) -> np.ndarray:
    """A second operand of one row or one column, which stands for all of the first's."""
    for axis, (mine, other) in enumerate(zip(*((x.rows, x.cols) for x in types), strict=True)):
        if b.size and other.value == 1 and mine.value != 1:
            b = np.repeat(np.take(b, [0], axis), a.shape[axis], axis)
    return fit(b, a.shape)


# ---- the judge
# --------------------------------------------------------------------------


@dataclass
class Judge:
    """A program with its inputs; ``order``: by name of an EagerMerge or Reassemble, the inputs in
    the order in which a run took their units.

    Attributes
    ----------
    streams
        The lists of each stream, by operator and output; those of a Sink are its input's.
    outputs
        Stored tensors by name, each in its dtype.
    """

    graph: Graph
    tensors: dict[str, np.ndarray]
    t: int
    sources: dict[str, list]
    order: dict[str, list[int]] = field(default_factory=dict)
    streams: dict[tuple[str, int], list] = field(default_factory=dict)
    stored: dict[str, np.ndarray] = field(default_factory=dict)
    partial: bool = False

    def __post_init__(self) -> None:
        self.nodes = {n.name: n for n in self.graph.nodes}
        edges = nx.DiGraph([(s.node.name, n.name) for n in self.graph.nodes for s in n.inputs])
        edges.add_nodes_from(self.nodes)
        self.edges = edges
        whole = nx.condensation(edges)
        for part in nx.topological_sort(whole):
            names = whole.nodes[part]["members"]
            members = [n for n in self.graph.nodes if n.name in names]
            loops = [n for n in members if type(n).__name__ == "Loop"]
            if loops:
                self._go_round(members, loops)
            for node in members if not loops else ():
                self._take(node)
        self.outputs = {
            name: a.astype(DTYPES[self.graph.tensors[name].dtype])
            for name, a in self.stored.items()
        }

    def _go_round(self, members: list[Operator], loops: list[Operator]) -> None:
        """Operators of a loop: each round their streams are longer, until one adds nothing."""
        inside = self.edges.subgraph(n.name for n in members if n not in loops)
        order = [self.nodes[name] for name in nx.topological_sort(inside)]
        ends = {loop.name: (loop.inputs[0].node.name, loop.inputs[0].port) for loop in loops}
        found: dict[str, list] = {name: [] for name in ends}
        self.partial = True
        while True:
            self.streams |= {(name, 0): x for name, x in found.items()}
            for node in order:
                self._take(node)
            if not self.partial:
                return
            before = found
            found = {name: self.streams[at] for name, at in ends.items()}
            self.partial = not all(alike(found[name], before[name]) for name in ends)

    def _take(self, node: Operator) -> None:
        kind = type(node).__name__
        if kind not in RULES:
            raise UnjudgedError(f"{kind} is no operator that is judged", node.label)
        inputs = [self.streams[s.node.name, s.port] for s in node.inputs]
        if self.partial and kind in SIDE_BY_SIDE and len(inputs) > 1:
            own = node.args.rank if isinstance(node, Expand) else 0
            inputs = trimmed(min(s.rank for s in node.inputs) + 1 - own, inputs)
        for port, x in enumerate(RULES[kind](self, node, *inputs)):
            self.streams[node.name, port] = x
            if not self.partial:
                check_form(x, node.outputs[port].rank + 1, node[port])

    # -- memory
    # --------------------

    def values(self, ref: TensorRef) -> np.ndarray:
        """A tensor before the run."""
        if ref.role == "output":
            return np.zeros((ref.rows, ref.cols), np.float32)
        return np.asarray(self.tensors[ref.name]).astype(DTYPES[ref.dtype]).astype(np.float32)

    def read(self, node: OffChip) -> np.ndarray:
        """A tensor as a load sees it: behind the stores on which the load waits."""
        ref = node.args.tensor
        stores = [n for n in self.graph.users(ref) if type(n).__name__.endswith("Store")]
        behind = [nx.has_path(self.edges, n.name, node.name) for n in stores]
        if any(behind) and not all(behind):
            raise UnjudgedError("a load waits for one store of its tensor of several", node.label)
        return self.stored[ref.name] if any(behind) else self.values(ref)

    def store(self, ref: TensorRef, places: Iterable[tuple[int, int]], tiles: list) -> None:
        """Write tiles into a tensor, each at its element row and column."""
        out = self.stored.setdefault(ref.name, self.values(ref))
        for (r, c), tile in zip(places, tiles, strict=not self.partial):
            if tile.size:
                out[r : r + tile.shape[0], c : c + tile.shape[1]] = tile

    def units(self, node: Operator) -> Iterator[int]:
        """The inputs of a merge in the order in which their units arrived."""
        if node.name not in self.order:
            raise UnjudgedError("the order of its inputs was not recorded", node.label)
        return iter(self.order[node.name])


RULES: dict[str, Callable[..., list]] = {}
"""For each operator: (judge, operator, lists of its inputs) -> lists of its outputs."""
SIDE_BY_SIDE = ("Accum", "Expand", "FlatMap", "Map", "Partition", "Scan", "Streamify", "Zip")
"""Operators whose inputs agree in the outermost dimension."""


def rule(f: Callable[..., list]) -> Callable[..., list]:
    """A function as the rule of the operator that it is called after."""
    RULES["".join(map(str.capitalize, f.__name__.split("_")))] = f
    return f


# -- edges
# --------------------


@rule
def source(j: Judge, node, *_):
    (s,) = node
    if node.name not in j.sources:
        raise UnjudgedError("no elements given", node.label)

    def element(x):
        if isinstance(s.element, TileType):
            return np.asarray(x, np.float32).astype(DTYPES[s.element.dtype]).astype(np.float32)
        if isinstance(s.element, SelectorType):
            return frozenset(map(int, [x] if isinstance(x, (int, np.integer)) else x))
        return int(x)

    return [deep(element, s.rank + 1, j.sources[node.name])]


@rule
def sink(*_):
    return []


@rule
def fifo(_j, _node, x):
    return [x]


@rule
def broadcast(_j, node, x):
    return [x] * node.args.n


# -- shapes
# --------------------


@rule
def flatten(_j, node, x):
    lo, hi = node.args.lo, node.args.hi
    return [deep(lambda y: flat(y, hi - lo + 1), node.inputs[0].rank - hi, x)]


@rule
def promote(_j, node, x):
    (s,) = node.inputs
    level = node.args.level
    return [deep(lambda y: [] if empty(y, s.element) else [y], s.rank + 1 - level, x)]


@rule
def reshape(_j, node, x):
    (s,) = node.inputs
    chunk = node.args.chunk
    pad = {"selector": frozenset(), "scalar": 0}.get(node.padding, np.zeros((0, 0), np.float32))

    def chunks(y, fill):
        out = [y[i : i + chunk] for i in range(0, len(y), chunk)]
        if out and node.args.pad is not None:
            out[-1] = out[-1] + [fill] * (chunk - len(out[-1]))
        return out

    depth = s.rank - node.args.dim
    out = [deep(lambda y: chunks(y, pad), depth, x)]
    if node.args.pad is not None:
        out.append(deep(lambda y: chunks([0] * len(y), 1), depth, x))
    return out


@rule
def expand(_j, node, x, ref=None):
    (s, *_) = node.inputs
    if ref is None:
        return [deep(lambda y: [y] * node.args.count, s.rank + 1, x)]
    b = node.args.rank

    def group(y, r):
        held = flat(y, b)
        return deep(lambda _: held[0], b, r)

    return [deep(group, s.rank + 1 - b, x, ref)]


@rule
def zip_(_j, node, a, b):
    return [deep(lambda x, y: (x, y), node.inputs[0].rank + 1, a, b)]


# -- functions
# --------------------


def operands(node, inputs) -> list:
    """The lists of the elements that a function takes: tuples of its operands."""
    (s, *_) = node.inputs
    paired = len(inputs) == 1 and isinstance(s.element, TupleType)
    return deep(lambda *v: v[0] if paired else v, s.rank + 1, *inputs)


@rule
def map_(j: Judge, node, *inputs):
    fn = node.args.fn
    types = node.operands()

    def value(v):
        a, *rest = v
        match fn.name:
            case "matmul":
                return Products(node, j.t).add(None, a, *rest)
            case "scale":
                return apply("mul", a, np.full(a.shape, fn.factor, np.float32))
            case "row_sum" | "row_max":
                if a.shape[1] or types[0].cols.value is not None:
                    return by_rows(fn.op, a, j.t)
                return initial(fn.op, node.outputs[0].element)
            case "row_append":
                if not a.shape[1] and types[0].cols.value is None:
                    return a
                return np.concatenate([a.reshape(-1, rest[0].shape[1]), rest[0]])
            case "row_offset":
                return a[: rest[0]]
            case "address":
                return a * fn.stride + rest[0] & 0xFFFFFFFF
        return apply(fn.name, a, *(spread(a, b, types) for b in rest))

    return [deep(value, node.inputs[0].rank + 1, operands(node, inputs))]


def joined(acc: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """Tiles one below the other, or side by side; empty ones add nothing."""
    if not (acc.size and x.size):
        return acc if acc.size else x
    return np.concatenate([acc, x], axis)


@rule
def accum(j: Judge, node, *inputs):
    fn = node.args.fn
    b = node.args.rank
    result = node.outputs[0].element

    def group(values):
        acc = None
        if fn.name == "all_read":
            return 1
        for v in values:
            if fn.name == "matmul":
                acc = Products(node, j.t).add(acc, *v)
            elif fn.name in ("retile_row", "retile_col"):
                acc = v[0] if acc is None else joined(acc, v[0], int(fn.name == "retile_col"))
            else:
                acc = v[0] if acc is None else fold(fn.op, acc, v[0])
        if acc is not None:
            return acc
        if fn.name in ("retile_row", "retile_col"):
            down = fn.name == "retile_row"
            return np.zeros((0, result.cols.value or 0) if down else (result.rows.value or 0, 0))
        return initial("add" if fn.name == "matmul" else fn.op, result)

    depth = node.inputs[0].rank + 1 - b
    return [deep(lambda y: group(flat(y, b)), depth, operands(node, inputs))]


@rule
def scan(_j, node, x):
    (s,) = node.inputs
    b = node.args.rank

    def group(y):
        acc = None

        def step(v):
            nonlocal acc
            if empty(v, s.element):
                return v
            acc = v if acc is None else fold(node.args.fn.op, acc, v)
            return acc

        return deep(step, b, y)

    return [deep(group, s.rank + 1 - b, x)]


@rule
def flat_map(_j, node, *inputs):
    fn = node.args.fn

    def parts(v):
        a, *rest = v
        if fn.name == "address_range":
            return [a * fn.stride + i & 0xFFFFFFFF for i in range(rest[0])]
        if fn.name == "expert_addresses":
            return [i for target in a for i in range(target * fn.count, (target + 1) * fn.count)]
        if fn.name == "last_tile_filter":
            return [frozenset({int(i < a - 1)}) for i in range(a)]
        t = node.operands()[0]
        if fn.along == "rows":
            end = a.shape[0] if fn.mask else t.rows.value
            return [a[i : i + fn.size] for i in range(0, end, fn.size)]
        end = t.cols.value if not fn.mask else a.shape[1] if a.shape[0] else 0
        return [a[:, i : i + fn.size] for i in range(0, end, fn.size)]

    rank = node.inputs[0].rank
    out = deep(parts, rank + 1, operands(node, inputs))
    return [out if node.args.rank else deep(lambda y: flat(y, 2), rank, out)]


# -- routing
# --------------------


@rule
def partition(_j, node, x, selectors):
    depth = node.inputs[1].rank + 1
    out: list[list] = [[] for _ in node]

    def send(unit, targets):
        for i in targets:
            out[i].append(unit)

    deep(send, depth, x, selectors)
    return out


def taken(j: Judge, node, inputs: list[list]) -> Iterator[tuple[int, Any]]:
    """(input, unit) as a merge takes them, as far as they have come."""
    rest = [iter(x) for x in inputs]
    for i in j.units(node):
        for unit in itertools.islice(rest[i], 1):
            yield i, unit
            break
        else:
            return


@rule
def reassemble(j: Judge, node, *inputs):
    *data, selectors = inputs
    units = taken(j, node, data)
    whole = True

    def collect(x, depth: int) -> list:
        nonlocal whole
        if not depth:
            found = list(itertools.islice(units, len(x)))
            whole = {i for i, _ in found} == set(x)
            if not whole and not j.partial:
                raise RunError(f"takes units of {[i for i, _ in found]} for {set(x)}", node.label)
            return [unit for _, unit in found]
        out = []
        for y in x:
            out.append(collect(y, depth - 1))
            if not whole:
                break
        return out

    return [collect(selectors, node.inputs[-1].rank + 1)]


@rule
def eager_merge(j: Judge, node, *inputs):
    found = list(taken(j, node, list(inputs)))
    if not j.partial and len(found) != sum(map(len, inputs)):
        raise RunError(f"{len(found)} units of {sum(map(len, inputs))} taken", node.label)
    return [[unit for _, unit in found], [frozenset({i}) for i, _ in found]]


# -- memory
# --------------------


@rule
def linear_off_chip_load(j: Judge, node, *ref):
    data = j.read(node)
    shape, stride = node.args.shape, node.args.stride
    rows, cols = node.args.tile
    wide = -(-node.args.tensor.cols // cols)

    def walk(at: int, dims: list):
        if dims:
            (n, step), *inner = dims
            return [walk(at + i * step, inner) for i in range(n)]
        return cut(*(k * n for k, n in zip(divmod(at, wide), (rows, cols), strict=True)))

    def cut(r: int, c: int):
        return data[r : r + rows, c : c + cols]

    order = node.args.order
    one = (
        walk(0, list(zip(shape, stride, strict=True)))
        if order is None
        else [cut(*place) for place in order]
    )
    return [deep(lambda _: one, node.inputs[0].rank + 1, *ref) if ref else [one]]


@rule
def linear_off_chip_store(j: Judge, node, x):
    ref, (s,) = node.args.tensor, node.inputs
    rows, cols = s.element.static_shape
    grid = itertools.product(range(0, ref.rows, rows), range(0, ref.cols, cols))
    j.store(ref, node.args.order or grid, flat(x, s.rank + 1))
    return []


def place_of(node, tile: TileType, address: int) -> tuple[int, int]:
    """Element row and column of a tile by its number in the tensor's grid."""
    rows, cols = tile.static_shape
    r, c = divmod(address, -(-node.args.tensor.cols // cols))
    return r * rows, c * cols


@rule
def random_off_chip_load(j: Judge, node, addresses):
    data = j.read(node)
    tile = node.outputs[0].element

    def read(address):
        r, c = place_of(node, tile, address)
        return data[r : r + tile.rows.value, c : c + tile.cols.value]

    return [deep(read, node.inputs[0].rank + 1, addresses)]


@rule
def random_off_chip_store(j: Judge, node, addresses, tiles):
    s, data = node.inputs
    places = [place_of(node, data.element, a) for a in flat(addresses, s.rank + 1)]
    j.store(node.args.tensor, places, flat(tiles, data.rank + 1))
    return [deep(lambda _: 1, s.rank + 1, addresses)]


@rule
def bufferize(_j, node, x):
    return [deep(Buffer, node.inputs[0].rank + 1 - node.args.rank, x)]


def reader(node) -> Callable[[Buffer], Any]:
    """Output of one pass over a buffer."""
    args = node.args
    (s, *_) = node.inputs
    b = len(s.element.shape)
    if args.stored is not None:
        rows, cols = args.tile

        def matrix(buffer: Buffer):
            stored = list(zip(args.stored, flat(buffer.content, b), strict=True))
            high, wide = (max(at[k] + v.shape[k] for at, v in stored) for k in range(2))
            whole = np.zeros((high, wide), np.float32)
            for (r, c), v in reversed(stored):
                whole[r : r + v.shape[0], c : c + v.shape[1]] = v
            return [whole[r : r + rows, c : c + cols] for r, c in args.places]

        return matrix
    if args.shape is None:
        return lambda buffer: buffer.content

    def affine(held: list, at: int, dims: list):
        if not dims:
            return held[at]
        (n, step), *inner = dims
        return [affine(held, at + i * step, inner) for i in range(n)]

    dims = list(zip(args.shape, args.stride, strict=True))
    return lambda buffer: affine(flat(buffer.content, b), 0, dims)


@rule
def streamify(_j, node, x, ref=None):
    rank = node.inputs[0].rank
    read = reader(node)
    repeat = node.args.repeat
    if ref is not None:
        inner = node.inputs[1].rank - rank
        return [deep(lambda y, r: deep(lambda _: read(y), inner, r), rank + 1, x, ref)]
    if repeat is None:
        return [deep(read, rank + 1, x)]
    if isinstance(repeat, int):
        return [deep(lambda y: [read(y)] * repeat, rank + 1, x)]

    def listed(y):
        return [read(b) for b, turns in zip(y, repeat, strict=True) for _ in range(turns)]

    return [deep(listed, rank, x)]
