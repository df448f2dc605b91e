"""Steps that run a function: Map, Accum, Scan and FlatMap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...frontend.functions.streams import NUMBERS, SPLIT
from ...frontend.types import BufferType, SelectorType, TupleType
from ...machine.functions import FUNCTIONS
from ..drawer import Drawer, Live, sizes, static


def unary(name: str, **args) -> Callable:
    def make(d: Drawer):
        d.add("Map", [d.tile("bf16" if name == "cast_fp32" else "fp32")], fn=[name, args])

    return make


def scaled(d: Drawer):
    d.add("Map", [d.tile()], fn=["scale", {"factor": float(d.one_of(0.5, -1.25, 0.0, 3.0))}])


def immediate(d: Drawer):
    names = [n for n, f in FUNCTIONS.items() if f.arity == 2]
    given = {"op": d.one_of(*names), "operand": float(d.one_of(0.5, -1.25, 0.0, 3.0))}
    d.add("Map", [d.tile()], fn=["immediate", given])


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
            tile = {"same": (rows, cols), "row": (1, cols), "column": (rows, 1), "one": (1, 1)}[how]
            b = d.like(a, tile=tile, full=how != "same", values=_sizes(d, a, tile))
            if how in ("row", "column") and d.chance(0.3) and static(d, a):
                across = (rows, 1) if how == "row" else (1, cols)
                a = d.like(a, tile=across, full=True)
            d.add("Map", [a, b] if d.chance(0.6) else [b, a], fn=[name, {}])

    return make


def _sizes(d: Drawer, a: Live, tile: tuple) -> list | None:
    """Rows and columns of each element of a stream that agrees with another in those of run-time
    size; None where all are static.
    """
    if all(isinstance(n, int) for n in tile):
        return None
    return [
        [n if isinstance(n, int) else v.shape[axis] for axis, n in enumerate(tile)]
        for v, _ in d.items(a)
        if v is not None
    ]


def paired(d: Drawer):
    """A function of two operands on a stream of pairs."""
    a = d.tile(suits=lambda s: static(d, s))
    b = d.like(a, tile=sizes(d, a))
    (pair,) = d.add("Zip", [a, b])
    if d.chance(0.8):
        d.add("Map", [pair], fn=[d.one_of("add", "sub", "mul", "max"), {}])


def several(d: Drawer):
    """A function of two operands from left to right over more of them, some in a tuple."""
    a = d.tile(suits=lambda s: static(d, s))
    others = [d.like(a, tile=sizes(d, a)) for _ in range(d.number(2, 3))]
    ins = [a, *others]
    if d.chance(0.5):
        (pair,) = d.add("Zip", ins[:2])
        ins = d.add("Zip", [pair, ins[2]])
    d.add("Map", ins, fn=[d.one_of("add", "mul", "max"), {}])


def with_constant(d: Drawer):
    op = d.one_of(*NUMBERS)
    most = d.number(1, 12) if op == "one_hot" else d.one_of(0, 3, 7, 1 << 31)
    d.add("Map", [d.scalars()], fn=["number", {"op": op, "value": most}])


def of_pairs(d: Drawer):
    """Products and cuts of the two members of a tuple, whatever their sizes."""
    a = d.tile(d.dtype, fixed=True, suits=lambda s: static(d, s))
    rows, cols = sizes(d, a)
    if d.chance(0.5):
        (pair,) = d.add("Zip", [a, d.like(a, scalar=8, most=rows + 2)])
        d.add("Map", [pair], fn=["row_offset", {}])
        return
    (pair,) = d.add(
        "Zip", [a, d.like(a, tile=(cols, d.size()), dtype=d.type(a).tile.dtype, full=True)]
    )
    op = d.one_of("Map", "Accum", "Scan") if d.rank(a) else "Map"
    args: dict[str, Any] = {} if op == "Map" else {"args": {"rank": d.number(1, d.rank(a))}}
    d.add(op, [pair], fn=["matmul", {"transposed": False}], **args)


def state(op: str) -> Callable:
    """Reductions from a value, of numbers and of tuples."""

    def make(d: Drawer):
        how = d.one_of("tile", "number", "selector", "tuple")
        args: dict[str, Any] = {}
        fn = d.one_of("add", "mul", "max")
        if how == "selector":
            s = d.source(d.number(1, 2), selector=d.number(1, 5))
            fn = "add"
        elif how == "number":
            s = d.source(d.number(1, 2), scalar=d.one_of(4, 8, 32))
            args = d.one_of({}, {"init": d.number(0, 9)})
        else:
            s = d.tile(rank=1, suits=lambda s: static(d, s))
            if how == "tuple":
                (s,) = d.add("Zip", [s, d.like(s, scalar=d.one_of(8, 32))])
                args = d.one_of({}, {"init": [0.5, 3]})
            else:
                args = {"init": float(d.one_of(0.0, -1.25, 3.0))}
                fn = d.one_of("add", "mul", "max", "sub")
        d.add(op, [s], fn=[fn, {}], args=args | {"rank": d.number(1, d.rank(s))})

    return make


def product(rank: int, op: str = "Accum") -> Callable:
    def make(d: Drawer):
        run_time = (
            ("dynamic",) if rank else ("dynamic", "ragged")
        )  # those of a group take as many physical tiles
        if d.chance(0.4):
            a = d.source(
                d.number(rank, 2),
                tile=(d.one_of(d.size(), *run_time), d.one_of("dynamic", "ragged")),
                dtype=d.dtype,
            )
        elif d.chance(0.2):
            a = d.source(d.number(rank, 2), tile=(d.one_of(*run_time), d.size()), dtype=d.dtype)
        else:
            a = d.tile(d.dtype, fixed=True, rank=rank)
        k = sizes(d, a)[1]
        n = d.one_of(d.size(), d.size(), d.one_of(*run_time))
        transposed = d.chance(0.5)
        same = d.number(1, d.t + 1)
        most = 2 * d.t

        def values(_counts):
            sides = [
                (
                    x.shape[1] if isinstance(k, list) else k,
                    same if n == "dynamic" else d.number(1, most) if n == "ragged" else n,
                )
                for x, _ in d.items(a)
                if x is not None
            ]
            return [list(x[::-1] if transposed else x) for x in sides]

        b = d.like(
            a,
            tile=(n, k) if transposed else (k, n),
            dtype=d.type(a).tile.dtype,
            full=True,
            values=values,
        )
        fn = ["matmul", {"transposed": transposed}]
        if rank:
            d.add(op, [a, b], fn=fn, args={"rank": d.number(1, d.rank(a))})
        else:
            d.add("Map", [a, b], fn=fn)

    return make


def row_append(d: Drawer):
    rows = d.number(2, 2 * d.t)
    cols = d.one_of(d.size(), "ragged")
    a = d.source(tile=(rows, cols), full=True)
    step = d.recipe.steps[-1]
    _shorten(
        step["elements"],
        d.rank(a),
        lambda: [d.number(0, rows - 1), cols if isinstance(cols, int) else d.number(1, 2 * d.t)],
    )
    d.drop()
    tile = (1, sizes(d, a)[1])
    d.add(
        "Map",
        [a, d.like(a, tile=tile, full=True, values=_sizes(d, a, tile))],
        fn=["row_append", {}],
    )


def row_offset(d: Drawer):
    a = d.tile(None, fixed=True, suits=lambda s: isinstance(sizes(d, s)[0], int))
    d.add("Map", [a, d.like(a, scalar=8, most=sizes(d, a)[0] + 2)], fn=["row_offset", {}])


def chosen(d: Drawer):
    """Elements of two tiles by a condition (``where``)."""
    a = d.tile(fixed=True, suits=lambda s: static(d, s))
    rows, cols = sizes(d, a)

    def other() -> Live:
        tile = d.one_of((rows, cols), (rows, cols), (1, cols), (rows, 1), (1, 1))
        return d.like(a, tile=tile, full=True)

    condition = other()
    if d.chance(0.7):
        (condition,) = d.add("Map", [condition], fn=["immediate", {"op": "gt", "operand": 0.0}])
    sides = (("select", a), ("unless", other()))
    d.add(
        "Map", [d.add("Map", [s, condition], fn=[fn, {}])[0] for fn, s in sides], fn=["either", {}]
    )


def rotary(d: Drawer):
    """Rotary positions: x cos + rotate(x) sin."""
    x = d.source(tile=(d.size(), 2 * d.number(1, 2 * d.t)), full=True)
    turned = d.add("Map", [x], fn=["rotate", {"form": d.one_of("pairs", "halves")}])[0]
    rows, cols = sizes(d, x)
    tile = d.one_of((rows, cols), (1, cols))
    terms = [
        d.add("Map", [s, d.like(x, tile=tile, full=True)], fn=["mul", {}])[0] for s in (x, turned)
    ]
    d.add("Map", terms, fn=["add", {}])


def transposed(d: Drawer):
    d.add("Map", [d.tile(None, suits=lambda s: static(d, s))], fn=["transpose", {}])


def rotated(d: Drawer):
    form = d.one_of("pairs", "halves")
    cols = d.one_of(2, d.t, 2 * d.t, 4 * d.t)
    s = d.tile(
        None,
        suits=lambda s: sizes(d, s)[1] == cols and _whole(d, s),
        tile=(d.one_of(d.size(), "ragged"), cols),
        full=True,
    )
    d.add("Map", [s], fn=["rotate", {"form": form}])


def masked(d: Drawer):
    a = d.tile(None, fixed=True, suits=lambda s: static(d, s))
    count = d.like(a, scalar=d.one_of(8, 32), most=max(sizes(d, a)) + 2)
    if d.chance(0.3):
        (count,) = d.add("Map", [count], fn=["number", {"op": "add", "value": (1 << 32) - 3}])
    fn = {"along": d.one_of("rows", "cols", "diagonal"), "fill": d.one_of(0.0, -1e30)}
    d.add("Map", [a, count], fn=["mask", fn])


def address(d: Drawer):
    a = d.scalars()
    d.add(
        "Map",
        [a, d.like(a, scalar=32, most=40)],
        fn=["address", {"stride": d.one_of(0, 1, 7, 1 << 20)}],
    )


def reduction(op: str, name: str) -> Callable:
    def make(d: Drawer):
        s = d.tile(rank=1)
        d.add(op, [s], fn=[name, {}], args={"rank": d.number(1, d.rank(s))})

    return make


def retile_row(d: Drawer):
    rows = d.one_of(*[r for r in (1, 2, 4, 8) if r <= d.t])
    s = d.tile(
        None,
        rank=1,
        suits=lambda s: sizes(d, s)[0] == rows and isinstance(sizes(d, s)[1], int) and _whole(d, s),
        tile=(rows, d.size()),
        full=True,
    )
    d.add("Accum", [s], fn=["retile_row", {}], args={"rank": d.number(1, d.rank(s))})


def retile_col(d: Drawer):
    s = d.tile(
        None,
        rank=1,
        suits=lambda s: _columns(d, s),
        tile=(d.number(1, d.t), d.one_of(d.t, 2 * d.t, d.size())),
        full=True,
    )
    d.add("Accum", [s], fn=["retile_col", {}], args={"rank": d.number(1, d.rank(s))})


def _columns(d: Drawer, s: Live) -> bool:
    rows, cols = sizes(d, s)
    return isinstance(cols, int) and isinstance(rows, int) and rows <= d.t and _whole(d, s)


def _whole(d: Drawer, s: Live) -> bool:
    """True if all tiles of a stream are full."""
    e = d.type(s).tile
    return all(v is None or v.shape == (e.rows.value, e.cols.value) for v, _ in d.items(s))


def all_read(d: Drawer):
    s = d.any(lambda s: not isinstance(d.element(s), (BufferType, TupleType)), rank=1)
    d.add("Accum", [s], fn=["all_read", {}], args={"rank": d.number(1, d.rank(s))})


def unpack(along: str, mask: bool) -> Callable:
    """Single rows or columns."""

    def make(d: Drawer):
        s = d.tile(None, suits=lambda s: mask or static(d, s))
        d.add(
            "FlatMap",
            [s],
            fn=["retile_streamify", {"along": along, "size": 1, "mask": mask}],
            args={"rank": d.one_of(0, 0, 1, 1, 2)},
        )

    return make


def parts(along: str, mask: bool) -> Callable:
    """Several rows or columns at a time, of a number that t divides or not."""
    axis = SPLIT.index(along)

    def make(d: Drawer):
        k = d.one_of(d.t, 2 * d.t, d.t + 1, d.number(2, d.t + 1))
        whole = d.one_of("ragged", k * d.number(1, 2)) if mask else k * d.number(1, 2)
        other = d.size()

        def suits(s: Live) -> bool:
            n = sizes(d, s)[axis]
            return isinstance(sizes(d, s)[1 - axis], int) and (
                n % k == 0 if isinstance(n, int) else mask
            )

        s = d.tile(None, suits=suits, tile=(other, whole) if axis else (whole, other))
        d.add(
            "FlatMap",
            [s],
            fn=["retile_streamify", {"along": along, "size": k, "mask": mask}],
            args={"rank": d.one_of(0, 0, 1, 1, 2)},
        )

    return make


def address_range(d: Drawer):
    a = d.scalars(most=20)
    d.add(
        "FlatMap",
        [a, d.like(a, scalar=8, most=4)],
        fn=["address_range", {"stride": d.number(0, 9)}],
        args={"rank": d.one_of(0, 0, 1, 1, 2)},
    )


def expert_addresses(d: Drawer):
    s = d.pick(
        lambda s: (
            isinstance(d.element(s), SelectorType)
            and all(v is None or len(v) == 1 for v, _ in d.items(s))
        ),
        lambda: d.source(selector=d.number(1, 6), one_hot=True),
    )
    d.add(
        "FlatMap",
        [s],
        fn=["expert_addresses", {"count": d.number(1, 4)}],
        args={"rank": d.one_of(0, 0, 1, 1, 2)},
    )


def last_tile_filter(d: Drawer):
    d.add(
        "FlatMap",
        [d.source(scalar=d.one_of(4, 32), most=4)],
        fn=["last_tile_filter", {}],
        args={"rank": d.one_of(0, 0, 1, 1, 2)},
    )


def _shorten(x: list, rank: int, leaf: Callable) -> None:
    for i, y in enumerate(x):
        if rank:
            _shorten(y, rank - 1, leaf)
        else:
            x[i] = leaf()
