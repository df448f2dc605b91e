"""Rules of the judge: each operator as a function of nested lists."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..frontend.functions.tiles import Elementwise
from ..frontend.types import ScalarType, SelectorType, TileType, TupleType
from ..machine import arith
from ..machine.errors import RunError
from ..machine.functions import lookup
from ..machine.image import DTYPES
from .judged_tiles import Products, UnjudgedError, apply, by_rows, fit, fold, initial, spread
from .lists import Buffer, deep, empty, flat

if TYPE_CHECKING:
    from .judge import Judge

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


def padding(element, pad):
    """Elements that fill a chunk up: full tiles of a number, tiles of nothing for 0."""
    if isinstance(element, TupleType):
        each = pad or [0] * len(element.members)
        return tuple(padding(m, x) for m, x in zip(element.members, each, strict=True))
    if isinstance(element, TileType):
        value = np.asarray(pad, np.float32).astype(DTYPES[element.dtype]).astype(np.float32)
        return np.full(element.static_shape if pad else (0, 0), value, np.float32)
    return frozenset(pad or ()) if isinstance(element, SelectorType) else pad


@rule
def reshape(_j, node, x):
    (s,) = node.inputs
    chunk = node.args.chunk
    pad = padding(s.element, node.args.pad or 0)

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
    if node.added:
        return [deep(lambda y, r: [y] * len(r), s.rank + 1, x, ref)]
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
    if len(inputs) == 1:
        return deep(lambda v: members(s.element, v), s.rank + 1, *inputs)
    return deep(lambda *v: v, s.rank + 1, *inputs)


def members(element, v) -> tuple:
    """The members of a tuple, and of the tuples in it."""
    if not isinstance(element, TupleType):
        return (v,)
    return sum((members(*x) for x in zip(element.members, v, strict=True)), ())


@rule
def map_(j: Judge, node, *inputs):
    fn = node.args.fn
    types = node.operands()

    def value(v):
        a, *rest = v
        match fn.name:
            case "matmul":
                return Products(node, j.t).add(None, a, *rest)
            case "scale" | "immediate":
                return apply(fn.op, a, np.full(a.shape, fn.operand, np.float32))
            case "row_sum" | "row_max":
                if a.shape[1] or types[0].cols.value is not None:
                    return by_rows(fn.op, a, j.t)
                return initial(fn.op, node.outputs[0].element)
            case "row_append":
                if not a.shape[1] and types[0].cols.value is None:
                    return a
                return np.concatenate([a.reshape(-1, rest[0].shape[1]), rest[0]])
            case "col_sum" | "col_max" | "transpose" | "rotate" | "mask":
                return by_columns(fn, types[0], a, rest, j.t)
            case "row_offset":
                return a[: rest[0]]
            case "address":
                return a * fn.stride + rest[0] & 0xFFFFFFFF
            case "number":
                return by_constant(fn.op, a, fn.constant)
        if not rest:
            return apply(fn.name, a)
        of = types[0]
        for b, other in zip(rest, types[1:], strict=True):
            a = apply(fn.name, *spread(a, b, (of, other)))
            of = fn.result(of, other)
        return a

    return [deep(value, node.inputs[0].rank + 1, operands(node, inputs))]


def by_columns(fn, of: TileType, a: np.ndarray, rest: list, t: int) -> np.ndarray:
    """A function that moves or reduces columns, or masks a tile element by element."""
    if fn.name == "transpose":
        return a.T
    if fn.name in ("col_sum", "col_max"):
        empty_one = of.rows.value is None and not a.shape[0]
        return initial(fn.op, fn.result(of)) if empty_one else by_rows(fn.op, a.T, t).T
    if fn.name == "rotate":
        n = a.shape[1]
        order = [k ^ 1 if fn.form == "pairs" else (k + n // 2) % n for k in range(n)]
        return np.where([k < order[k] for k in range(n)], -a[:, order], a[:, order])
    out = a.copy()
    for r, c in np.ndindex(a.shape):
        end = (rest[0] + 2**31) % 2**32 - 2**31 + r if fn.along == "diagonal" else rest[0]
        if (r if fn.along == "rows" else c) >= end:
            out[r, c] = np.float32(fn.fill).astype(DTYPES[of.dtype])
    return out


def by_constant(op: str, x: int, n: int) -> int | frozenset[int]:
    """A number and a constant."""
    if op == "one_hot":
        return frozenset(range(n)) & {x}
    found = {"add": x + n, "mul": x * n, "min": sorted((x, n))[0], "max": sorted((x, n))[1]}
    found |= {"less": int(n > x), "equal": int(not x - n), "constant": n}
    return found[op] % 2**32


def state(node, element, init, values: list):
    """State that a group of elements leaves, of tuples member by member."""
    name = node.args.fn.op
    if isinstance(element, TupleType):
        parts = init if isinstance(init, (tuple, list)) else [init] * len(element.members)
        return tuple(
            state(node, m, i, [v[k] for v in values])
            for k, (m, i) in enumerate(zip(element.members, parts, strict=True))
        )
    if isinstance(element, SelectorType):
        return frozenset().union(*values)
    if isinstance(element, ScalarType):
        top = 2**element.bits
        first = {"mul": 1, "min": top - 1}.get(name, 0) if init is None else init
        whole = [first, *values]
        by = {"add": sum, "mul": math.prod, "max": max, "min": min}
        return by[name](whole) % top
    if not values:
        if init is None or not element.static:
            return initial(name, element)
        return np.full(element.static_shape, np.float32(init), np.float32)
    if init is None:
        return functools.reduce(lambda acc, x: fold(name, acc, x), values)
    valid = [max(v.shape[k] for v in values) for k in range(2)]
    rest = lookup(name).identity or 0.0
    acc = np.full(valid, np.float32(init), np.float32)
    for v in values:
        acc = apply(name, acc, fit(v, tuple(valid), rest))
    return acc


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
        if acc is not None:
            return acc
        if fn.name in ("retile_row", "retile_col"):
            down = fn.name == "retile_row"
            return np.zeros((0, result.cols.value or 0) if down else (result.rows.value or 0, 0))
        return initial("add", result)

    depth = node.inputs[0].rank + 1 - b
    if isinstance(fn, Elementwise):
        (s,) = node.inputs
        init = node.args.init
        return [deep(lambda y: state(node, s.element, init, flat(y, b)), depth, *inputs)]
    return [deep(lambda y: group(flat(y, b)), depth, operands(node, inputs))]


@rule
def scan(j: Judge, node, *inputs):
    (s, *_) = node.inputs
    b = node.args.rank
    element = s.element

    def group(y):
        seen: list = []

        def step(v):
            if isinstance(element, TileType) and empty(v, element):
                return v
            seen.append(v)
            return state(node, element, node.args.init, seen)

        def product(v):
            seen.append(Products(node, j.t).add(None, *v))
            return functools.reduce(lambda acc, x: fold("add", acc, x), seen)

        return deep(product if node.args.fn.name == "matmul" else step, b, y)

    given = operands(node, inputs) if node.args.fn.name == "matmul" else inputs[0]
    return [deep(group, s.rank + 1 - b, given)]


@rule
def flat_map(_j, node, *inputs):
    fn = node.args.fn

    def parts(v):
        a, *rest = v
        if fn.name == "address_range":
            return [a * fn.stride + i & 0xFFFFFFFF for i in range(rest[0])]
        if fn.name == "expert_addresses":
            return [i for target in a for i in range(target * fn.count, (target + 1) * fn.count)]
        if fn.name == "integers":
            return [int(x) % 2**32 for x in a[0]]
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
    if not node.args.rank:
        return [deep(lambda y: flat(y, 2), rank, out)]
    for _ in range(1, node.args.rank):
        out = deep(lambda y: [y] if y else [], rank + 1, out)
    return [out]


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


@rule
def top_k(j: Judge, node, rows):
    def best(x: np.ndarray) -> list[int]:
        nan = np.isnan(x[0])
        size = np.where(nan | (np.abs(x[0]) < 2.0**-126), 0, x[0])
        return [int(i) for i in np.lexsort((-size, ~nan))[: node.args.k]]

    results: tuple[Callable, ...] = (
        lambda x: frozenset(best(x)),
        lambda x: [frozenset({i}) for i in best(x)],
        lambda x: [arith.canonical(x[:1, i : i + 1]) for i in best(x)],
    )
    return [deep(make, node.inputs[0].rank + 1, rows) for make in results]


# -- memory
# --------------------


@rule
def linear_off_chip_load(j: Judge, node, *ref):
    data = j.read(node)
    shape, stride = node.args.shape, node.args.stride
    rows, cols = node.args.tile
    top, left = node.args.origin or (0, 0)
    wide = -(-(node.args.tensor.cols - left) // cols)

    def walk(at: int, dims: list):
        if dims:
            (n, step), *inner = dims
            return [walk(at + i * step, inner) for i in range(n)]
        r, c = divmod(at, wide)
        return cut(top + r * rows, left + c * cols)

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
