"""Nested lists: the elements of a stream of shape [D_N, ..., D_0], N + 1 deep.

Elements are arrays (the valid part of a tile), integers (scalars), sets of targets (selectors),
tuples, and :class:`Buffer`. `decoded` reads what a wire carries into the same lists, with one rule
for each beat (docs/timing.md section 3.4).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..frontend.graph import Stream
from ..frontend.types import ElementType, TileType, TupleType
from ..machine.errors import FormError, RunError


@dataclass(frozen=True)
class Buffer:
    """An element that refers to a buffer: the lists that it holds."""

    content: Any


def deep(f: Callable, depth: int, *lists):
    """The lists with ``f`` applied to their parts ``depth`` levels down, in all alike."""
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
