"""Steps that change a stream's shape, or only its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...frontend.types import BufferType, ScalarType, SelectorType, TileType, TupleType
from ..drawer import CannotDrawError, Drawer, sizes, static


def flatten(d: Drawer):
    s = d.any(lambda s: s.fixed, rank=d.one_of(0, 1, 2))  # what has a form depends on the order
    rank = d.rank(s)
    lo = d.one_of(0, d.number(0, rank))
    d.add("Flatten", [s], args={"lo": lo, "hi": d.one_of(min(lo + 1, rank), d.number(lo, rank))})


def promote(outermost: bool) -> Callable:
    def make(d: Drawer):
        s = d.any(lambda s: d.rank(s) < 9)
        d.add("Promote", [s], args={} if outermost else {"level": d.number(0, d.rank(s))})

    return make


def reshape(pad: bool) -> Callable:
    def make(d: Drawer):
        if pad:
            s = (
                d.any(lambda s: isinstance(d.element(s), (ScalarType, SelectorType, TupleType)))
                if d.chance(0.4)
                else d.tile(None)
            )
            value = filling(d, d.element(s))
            out = d.add("Reshape", [s], args={"dim": 0, "chunk": d.number(1, 4), "pad": value})
            if d.chance(0.3):
                d.add("Fifo", [out[1]], args={"depth": d.number(1, 3)})
            elif d.chance(0.4):
                d.live.remove(out[1])  # stays unread
            return
        s = d.any(lambda s: not isinstance(d.element(s), BufferType))
        at = d.number(0, d.rank(s))
        size = d.type(s).shape[d.rank(s) - at].value
        d.add(
            "Reshape",
            [s],
            args={
                "dim": at,
                "chunk": d.one_of(*[k for k in range(1, size + 1) if size % k == 0]) if size else 1,
            },
        )

    return make


def filling(d: Drawer, element) -> Any:
    """A padding element."""
    if d.chance(0.4):
        return 0
    if isinstance(element, TileType):
        return float(d.one_of(1.5, -2.0)) if element.static else 0
    if isinstance(element, TupleType):
        return [filling(d, m) for m in element.members]
    return d.one_of(0, 1) if isinstance(element, ScalarType) else [0]


def expand_by_numbers(d: Drawer):
    """Copies of each element, as many as a number says; none make an empty group."""
    s = d.any(lambda s: s.fixed and d.rank(s) < 8)
    if isinstance(d.element(s), BufferType):
        raise CannotDrawError
    n = d.like(s, scalar=8, most=3)
    (ref,) = d.add("FlatMap", [n, n], fn=["address_range", {"stride": 0}], args={"rank": 1})
    d.add("Expand", [s], ref=list(ref.at))


def expand_count(d: Drawer):
    s = d.any(lambda s: not isinstance(d.element(s), BufferType))
    d.add("Expand", [s], args={"count": d.number(1, 4)})


def expand_reference(d: Drawer):
    s = d.any(lambda s: s.fixed and d.rank(s) < 8)
    b = d.number(1, 2)
    ref = d.inner(s, b)
    for _ in range(b):
        (s,) = d.add("Promote", [s], args={"level": 0})
    d.add("Expand", [s], ref=list(ref.at), args={"rank": b})


def zipped(d: Drawer):
    a = d.any(lambda s: s.fixed and not isinstance(d.element(s), (BufferType, TupleType)))
    if isinstance(d.element(a), TileType):
        if not static(d, a):
            raise CannotDrawError
        size = d.one_of(sizes(d, a), (d.size(), d.size()))
        other = {"tile": size, "dtype": d.one_of("fp32", "bf16")}
        b = d.like(a, **d.one_of(other, other, {"scalar": 8}, {"selector": 3}))
    else:
        b = d.like(a, **d.one_of({"scalar": 8}, {"selector": 3}))
    d.add("Zip", [a, b])


def fifo(d: Drawer):
    d.add("Fifo", [d.any()], args={"depth": d.number(1, 6)})


def broadcast(d: Drawer):
    d.add("Broadcast", [d.any()], args={"n": d.number(1, 3)})
