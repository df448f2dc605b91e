"""Streams as nested lists, and as lists of (value, stop).

A stream of shape [D_N, ..., D_0] is a list nested N + 1 deep, or an array with these leading axes.
Its elements are arrays (tiles), integers (scalars) and collections of targets (selectors; an
integer is one target). An empty list is an empty tensor; in the other form it is a bare stop, of
value None (docs/timing.md section 3.4).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

import numpy as np

from ...machine.errors import ProgramError
from ..types import ScalarType, SelectorType, StreamType, TileType, empty_tile

START = 1 << 30
"""The stop before the first: above every level."""


def tokens(nested, t: StreamType, where: str) -> list[tuple]:
    """The elements of a stream of type ``t`` with their stops; ProgramError where they do not suit
    the type.
    """
    out: list[tuple] = []
    _walk(nested, t, t.rank, out, where, "")
    return out


def plain(x, what: str, where: str):
    """The given array, unless it is a masked array or one of Python objects: ProgramError."""
    if isinstance(x, np.ma.MaskedArray):
        raise ProgramError(
            f"{what} is a masked array, whose mask no tensor holds",
            where,
            remedy="fill it: a.filled(0)",
        )
    if isinstance(x, np.ndarray) and x.dtype == object:
        raise ProgramError(
            f"{what} is an array of Python objects", where, remedy="give numbers: a.astype(float)"
        )
    return x


def numbers(given, dtype: type) -> np.ndarray:
    """An array of real numbers; TypeError for dates, texts, complex numbers and objects."""
    array = np.asarray(given)
    if array.dtype.kind in "OSUMmc":
        raise TypeError
    with np.errstate(over="ignore"):  # infinities in the inputs are noted
        return np.asarray(array, dtype)


def is_list(x: object) -> bool:
    """True if the object gives elements: an array of no dimensions gives none."""
    return isinstance(x, (list, tuple)) or (isinstance(x, np.ndarray) and x.ndim > 0)


def _walk(nested, t: StreamType, level: int, out: list, where: str, at: str) -> None:
    if not is_list(plain(nested, f"dimension {level}", where)):
        raise ProgramError(
            f"dimension {level} must be a list, not {nested!r}",
            where,
            rule=f"the elements of {t} are given as a list nested {t.rank + 1} deep",
        )
    for i, x in enumerate(nested):
        if level:
            _walk(x, t, level - 1, out, where, f"{at}[{i}]")
            continue
        try:
            out.append((element(x, t.element, where), 0))
        except ProgramError as e:
            raise ProgramError(
                e.what,
                e.where,
                e.rule,
                e.remedy or f"give the elements of {t} as a list nested {t.rank + 1} deep",
            ) from None
    if level == t.rank:  # the outermost dimension has no stop of its own
        return
    tile = t.element if not level and isinstance(t.element, TileType) else None
    alone = len(nested) == 1
    if alone and (empty_tile(out[-1][0].shape, tile) if tile else level and not len(nested[0])):
        raise ProgramError(
            f"element {at} has nothing but an empty {'list' if level else 'tile'}",
            where,
            rule="an empty list or tile that stands alone in a list has no form on the wire",
            remedy="leave it out, or put more beside it",
        )
    if len(nested):
        out[-1] = (out[-1][0], level + 1)
    else:
        out.append((None, level + 1))


def pairs(node, a: Iterable[tuple], b: Iterable[tuple], rule: str):
    """Elements of two streams of one shape as ((x, y), stop); ProgramError of the operator ``node``
    where they differ.
    """
    for one, other in itertools.zip_longest(a, b):
        if one is None or other is None:
            raise node.error("one of its inputs ends before the other", rule=rule)
        (x, s), (y, r) = one, other
        if s != r or (x is None) != (y is None):
            raise node.error(f"its inputs differ: stop {s}, and stop {r}", rule=rule)
        yield (None if x is None else (x, y)), s


def _whole(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def element(x, t, where: str):
    """One element in the form that operators compute with."""
    if isinstance(t, SelectorType):
        targets = (
            [x]
            if _whole(x)
            else list(x)
            if isinstance(x, Collection) and getattr(x, "ndim", 1)
            else None
        )
        if (
            targets is None
            or not all(_whole(i) for i in targets)
            or len(set(targets)) < len(targets)
        ):
            raise ProgramError(
                f"a selector of {x!r}",
                where,
                rule="a selector is the numbers of its targets, each once: [0, 2], or 2 for [2]",
            )
        if any(not 0 <= i < t.n for i in targets):
            raise ProgramError(
                f"selector {sorted(map(int, targets))} names a target outside 0 to {t.n - 1}",
                where,
                remedy="give the Source more targets, or correct the elements",
            )
        return frozenset(int(i) for i in targets)
    if isinstance(t, ScalarType):
        if not _whole(x):
            raise ProgramError(f"a scalar of {x!r}", where, rule="a scalar is an integer")
        if not 0 <= x < 1 << t.bits:
            raise ProgramError(
                f"scalar {x} does not fit into {t.bits} bits",
                where,
                remedy="give the Source more bits, or correct the elements",
            )
        return int(x)
    if isinstance(t, TileType):
        try:
            a = numbers(plain(x, "a tile", where), np.float32)
        except (TypeError, ValueError):
            raise ProgramError(
                f"a tile of {type(x).__name__} that is no array of numbers",
                where,
                rule=f"the stream carries {t}",
            ) from None
        if a.ndim != 2 or any(
            d.value is not None and n > d.value
            for n, d in zip(a.shape, (t.rows, t.cols), strict=True)
        ):
            raise ProgramError(
                f"a tile of shape {list(a.shape)}", where, rule=f"the stream carries {t}"
            )
        return a
    raise ProgramError(f"elements of {t} cannot be given from outside", where)


def nested(items: Iterable[tuple], rank: int) -> list:
    """The nested lists of a stream of (value, stop)."""
    open_: list[list] = [[] for _ in range(rank + 1)]  # open_[d]: the entries so far of dimension d
    last = START
    for v, s in items:
        if v is not None:
            open_[0].append(v)
        elif last:
            open_[min(last, s)].append([])
        for level in range(0 if v is not None else min(last, s), s):
            open_[level + 1].append(open_[level])
            open_[level] = []
        last = s
    return open_[rank]
