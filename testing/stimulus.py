"""Stimulus for benches of units: stop levels, payload bits, and whole streams, from a seed.

A stream is a list of (payload bits, stop), without bits (None) for a beat without data. A function
that returns a generator of streams takes a :class:`Draw` later, one for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..machine.beat import STOP_DONE, Payload, Tile, Tuple, tile_bits

Items = Sequence[tuple[int | None, int]]


def regular(shape: Sequence[int]) -> list[int]:
    """Stops of a stream of fixed shape, outermost dimension first; the last beat ends all."""
    stops = []
    for i in range(1, int(np.prod(shape)) + 1):
        level = 0
        size = 1
        for d in reversed(shape):
            size *= d
            if i % size:
                break
            level += 1
        stops.append(level)
    return stops


def ragged(rng: np.random.Generator, rank: int, most: int) -> list[int]:
    """Stops of a stream of ``rank`` dimensions; every size is drawn from 1 to ``most``."""
    if rank == 0:
        return [0]
    stops = [s for _ in range(rng.integers(1, most + 1)) for s in ragged(rng, rank - 1, most)]
    return [*stops[:-1], rank]


def value(
    rng: np.random.Generator,
    payload: Payload,
    rows: int | None = None,
    cols: int | None = None,
    infinite: float = 0.0,
) -> int:
    """Random payload bits; a tile's invalid elements are zero, the share ``infinite`` of the others
    (of a tile alone) is infinite.
    """
    if isinstance(payload, Tuple):
        bits = 0
        at = 0
        for member in payload.members:
            bits |= value(rng, member, rows, cols) << at
            at += member.bits
        return bits
    if not isinstance(payload, Tile):
        drawn = int.from_bytes(rng.bytes((payload.bits + 7) // 8), "little")
        return drawn & (1 << payload.bits) - 1
    t = payload.t
    rows = int(rng.integers(0, t + 1)) if rows is None else rows
    cols = int(rng.integers(0, t + 1)) if cols is None else cols
    a = np.zeros((t, t), np.float32)
    a[:rows, :cols] = rng.standard_normal((rows, cols)) * 2.0 ** rng.integers(-3, 4)
    if infinite:
        a[:rows, :cols][rng.random((rows, cols)) < infinite] = np.inf
    return tile_bits(payload, a, rows, cols)


def lists(rng: np.random.Generator, level: int) -> list:
    """Nested lists of ``level`` dimensions inside the outermost one, a third of them empty, which
    have a form on the wire: none stands in a list of its own, empty.
    """
    while True:
        n = int(rng.choice([0, 1, 2, 3], p=[0.34, 0.22, 0.22, 0.22]))
        drawn = [lists(rng, level - 1) if level else int(rng.integers(256)) for _ in range(n)]
        if drawn != [[]]:
            return drawn


def encoded(nested: list, level: int) -> list[list]:
    """[value, stop] of each beat of nested lists; None: a bare beat."""
    beats = []
    for x in nested:
        part = encoded(x, level - 1) if level else [[x, 0]]
        beats += part or [[None, level]]
        beats[-1][1] = level
    return beats


def merged(nested: list, level: int, lo: int, hi: int) -> list:
    """Nested lists whose dimensions ``lo`` to ``hi`` are one."""
    if level > hi:
        return [merged(x, level - 1, lo, hi) for x in nested]
    for _ in range(hi - lo):
        nested = [x for inner in nested for x in inner]
    return nested


class Draw(np.random.Generator):
    """Source of the streams of one unit: the same numbers at all its inputs, and numbers of each
    one's own.
    """

    def __init__(self, seeds: Sequence[int], port: int):
        super().__init__(np.random.PCG64(np.random.SeedSequence(seeds)))
        self.port = port

    def own(self) -> np.random.Generator:
        return np.random.default_rng([self.port, int(self.integers(1 << 32))])


def _filled(payload: Payload, full: bool) -> int | None:
    """Valid rows and columns of each beat: all of a tile's, or drawn."""
    return payload.t if full and isinstance(payload, Tile) else None


def ragged_stream(
    payload: Payload, rank: int, most: int, *, full: bool = False, bare: float = 0.0
) -> Callable[[Draw], Items]:
    """Random beats on a ragged stream, the share ``bare`` of whose groups is empty.

    The inputs of one unit agree in stops and that, not in values and valid rows and columns.
    """

    def items(rng: Draw) -> Items:
        beats = sometimes_bare(rng, rank, bare, most)
        t = _filled(payload, full)
        own = rng.own()
        return [(value(own, payload, t, t, 0.02) if data else None, s) for data, s in beats]

    return items


def regular_stream(
    payload: Payload, shape: Sequence[int], *, groups: int = 3, full: bool = True
) -> Callable[[Draw], Items]:
    def items(rng: np.random.Generator) -> Items:
        t = _filled(payload, full)
        return [(value(rng, payload, t, t), s) for s in regular([groups, *shape])]

    return items


def row_tiles(payload: Payload, rank: int) -> Callable[[Draw], Items]:
    """Logical tiles of one row of tiles on a ragged stream of ``rank`` dimensions; groups without a
    tile among them.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        cols = int(rng.integers(1, 4))
        for s in ragged(rng, rank, 3):
            if s and rng.random() < 0.3:
                out.append((None, 2 + s))
            else:
                out += [(value(rng, payload), 0) for _ in range(cols - 1)] + [
                    (value(rng, payload), 2 + s)
                ]
        return out

    return items


def end_empty(out: list, stop: int) -> None:
    """End a group as an empty one: a bare beat is all that it has."""
    while out and out[-1][1] == 0:
        out.pop()
    out.append((None, stop))


def sometimes_bare(
    rng: np.random.Generator, rank: int, share: float, most: int = 3
) -> list[tuple[bool | None, int]]:
    """(data, stop) of a ragged stream, the ``share`` of whose groups is empty.

    Drawn first, so that inputs of one unit agree.
    """
    out: list[tuple[bool | None, int]] = []
    for s in ragged(rng, rank, most):
        if s and rng.random() < share:
            end_empty(out, s)
        else:
            out.append((True, s))
    return out


def banded(
    payload: Tile,
    rank: int,
    bands: int,
    cols: int,
    *,
    valid: tuple[int, int],
    bare: float = 0.0,
    most: int = 3,
) -> Callable[[Draw], Items]:
    """Logical tiles of ``bands`` x ``cols`` physical ones on a ragged stream, their valid rows
    drawn from ``valid`` and contiguous.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        t = payload.t
        for data, s in sometimes_bare(rng, rank, bare, most):
            if not data:
                out.append((None, 2 + s))
                continue
            rows = int(rng.integers(*valid))
            for b in range(bands):
                here = min(max(rows - b * t, 0), t)
                stops = [0] * (cols - 1) + [2 + s if b == bands - 1 else 1]
                out += [(value(rng, payload, here, t if here else 0), stop) for stop in stops]
        return out

    return items


def upright(payload: Tile, rank: int, high: int, wide: int) -> Callable[[Draw], Items]:
    """Logical tiles of ``high`` x ``wide`` physical ones, column by column, with valid parts of any
    size and empty groups among them.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        t = payload.t
        for data, s in sometimes_bare(rng, rank, 0.2):
            if not data:
                out.append((None, 2 + s))
                continue
            rows = int(rng.integers(0, high * t + 1))
            cols = int(rng.integers(0, wide * t + 1))
            for j in range(wide):
                here = min(max(cols - j * t, 0), t)
                stops = [0] * (high - 1) + [2 + s if j == wide - 1 else 1]
                out += [
                    (value(rng, payload, min(max(rows - i * t, 0), t), here), stop)
                    for i, stop in enumerate(stops)
                ]
        return out

    return items


def counts(
    payload: Payload, rank: int, most: int, bare: float = 0.0, least: int = 0
) -> Callable[[Draw], Items]:
    """Numbers from ``least`` to below ``most`` on a ragged stream of tiles, with the stops that
    `banded` draws.
    """

    def items(rng: np.random.Generator) -> Items:
        return [
            (int(rng.integers(least, most)) % (1 << payload.bits) if data else None, s)
            for data, s in sometimes_bare(rng, rank, bare)
        ]

    return items


def numbers(rank: int, most: int) -> Callable[[Draw], Items]:
    """Numbers below ``most`` on a ragged stream, with empty groups among them."""

    def items(rng: np.random.Generator) -> Items:
        return [
            (int(rng.integers(0, most)) if data else None, s)
            for data, s in sometimes_bare(rng, rank, 0.3, 4)
        ]

    return items


def drive(rank: int, level: int) -> Callable[[Draw], Items]:
    """A stream that drives the reads of the buffers of ``rank`` dimensions that `ragged_stream`
    gives: some passes each, some of them empty.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        last = STOP_DONE
        for data, s in sometimes_bare(rng, rank + 2, 0.2):
            if not data and min(s, last) > rank:
                out.append((None, level + s - rank))
            elif s >= rank:
                inner = rng.integers(0, max(level, 1), rng.integers(0, 3) if level else 0)
                for stop in [*map(int, inner), level + s - rank]:
                    if level and stop and rng.random() < 0.3:
                        end_empty(out, stop)
                    else:
                        out.append((1, stop))
            last = s
        return out

    return items


def scatter(payload: Tile, bands: int, cols: int, most: int) -> tuple[Callable, Callable]:
    """Numbers of tiles, on a ragged stream with empty groups, and the tiles, of which some have few
    valid rows.
    """

    def draw(rng: np.random.Generator) -> Items:
        return [
            (int(rng.integers(0, most)) if data else None, s)
            for data, s in sometimes_bare(rng, 2, 0.2)
        ]

    def tiles(rng: np.random.Generator) -> Items:
        out = []
        t = payload.t
        for number, s in draw(rng):
            rows = int(rng.integers(0, bands * t + 1)) if rng.random() < 0.5 else bands * t
            for b in range(bands if number is not None else 0):
                here = min(max(rows - b * t, 0), t)
                out += [
                    (value(rng, payload, here, t if here else 0), stop)
                    for stop in [0] * (cols - 1) + [2 + s if b == bands - 1 else 1]
                ]
        return out

    return draw, tiles
