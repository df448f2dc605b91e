"""A program in the making: its streams, the sources made for them, and the dice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..frontend.meaning.elements import nested
from ..frontend.types import BufferType, TileType, TupleType
from ..machine.beat import MAX_STOP
from .recipe import Built, Recipe, measure

MOST_TILES = 80  # physical tiles of one stream
RUN_TIME = (
    0.15,
    0.6,
    # share of the sources of tiles whose size only the run knows: at large, and where such a tile
    # is the goal
)
HOLLOW = 0.2  # share of the programs whose sources have empty parts; operators make them in others


@dataclass
class Live:
    """A stream that can be read: where it comes from, and whether its elements are the same in
    every run.
    """

    at: list
    fixed: bool
    readers: int = 0


class CannotDrawError(Exception):
    """A step that cannot be drawn here."""


class Drawer:
    """A program in the making."""

    def __init__(self, rng: np.random.Generator, t: int, dtype: str, seed: int):
        self.rng = rng
        self.t = t
        self.dtype = dtype
        self.hollow = self.chance(HOLLOW)
        self.recipe = Recipe(seed=seed)
        self.built = Built(t, dtype, seed)
        self.live: list[Live] = []
        self.hungry = False  # whether a step may make a source of its own
        self.sized = False  # whether tiles of run-time size are asked for

    # -- dice
    # --------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def one_of(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def count(self, *options: int) -> int:
        """A number of elements; 0 is left out where no part is to be empty."""
        return self.one_of(*(n for n in options if n or self.hollow))

    # -- streams
    # --------------------

    def type(self, s: Live):
        return self.built.stream(s.at).type

    def element(self, s: Live):
        return self.type(s).element

    def rank(self, s: Live) -> int:
        return self.type(s).rank

    def items(self, s: Live) -> list:
        return self.built.items[tuple(s.at)]

    def add(self, op: str, ins: Sequence[Live] = (), *, fixed: bool = True, **step) -> list[Live]:
        """Add a step, if its rules and the size of what it gives allow; the streams it gives."""
        step = {"op": op, **({"ins": [list(s.at) for s in ins]} if ins else {}), **step}
        before = self.built.saved()
        at = self.built.add(step)
        for node in self.built.nodes[at]:
            for s in node:
                items = self.built.items[at, s.port]
                if (
                    sum(self.tiles_of(s.element, v) for v, _ in items) > MOST_TILES
                    or s.rank + 3 > MAX_STOP
                ):
                    self.built.restore(before)
                    raise CannotDrawError
        self.recipe.steps.append(step)
        sources = [*ins, *([Live(step["ref"], True)] if step.get("ref") else [])]
        for s in self.live:
            s.readers += sum(s.at == x.at for x in sources)
        new = [
            Live([at, s.port], fixed and all(x.fixed for x in ins))
            for node in self.built.nodes[at]
            for s in node
        ]
        self.live += new
        return new

    def drop(self) -> None:
        """Build all steps again, after one was changed."""
        self.built = Built(self.t, self.dtype, self.recipe.seed)
        for step in self.recipe.steps:
            self.built.add(step)

    def tiles_of(self, element, value) -> int:
        """Physical tiles of an element."""
        if value is None:
            return 1
        if isinstance(element, TupleType):
            return sum(self.tiles_of(m, v) for m, v in zip(element.members, value, strict=True))
        if isinstance(element, BufferType):
            return sum(self.tiles_of(element.element, v) for v, _ in value)
        if isinstance(element, TileType):
            rows, cols = (
                value.shape[i] if d.value is None else d.value
                for i, d in enumerate((element.rows, element.cols))
            )
            return max(1, -(-rows // self.t) * -(-cols // self.t))
        return 1

    def pick(self, suits: Callable[[Live], bool], make: Callable[[], Live]) -> Live:
        """A live stream that suits, or a source made for the purpose."""
        found = [s for s in self.live if suits(s) and (s.readers == 0 or self.chance(0.3))]
        if found and not (self.hungry and self.chance(0.5)):
            return self.one_of(*found)
        if not found and not self.hungry:
            raise CannotDrawError
        return make()

    def shape(self, rank: int, regular: bool = False) -> tuple[list, list]:
        """(size specifications, nested counts) of a new stream of ``rank`` + 1 dimensions; counts
        are lists of lists, [] where a dimension is empty.
        """
        kinds = [
            self.one_of("static", "static", "dynamic", "ragged", "ragged") for _ in range(rank + 1)
        ]
        kinds[0] = self.one_of("static", "dynamic")
        if regular:
            kinds = ["static"] * (rank + 1)
        small = rank > 3
        fixed = [
            1
            if self.chance(0.7 if small else 0.2)
            else self.number(1, 2 if small else (8 if rank == 0 else 4 if rank == 1 else 3))
            for _ in range(rank + 1)
        ]
        for i, kind in enumerate(kinds):
            if (
                self.hollow
                and kind == "dynamic"
                and self.chance(0.3)
                and (i < 2 or fixed[i - 1] > 1)
            ):
                fixed[i] = 0
        hollow = {
            i: self.one_of("first", "last", "between", "everywhere")
            for i, kind in enumerate(kinds)
            if self.hollow and i and kind == "ragged" and self.chance(0.4)
        }

        def counts(i: int, gone: bool = False):
            n = (
                fixed[i]
                if kinds[i] != "ragged"
                else 0
                if gone
                else self.count(0, 1, 1, 2, *((3, 4) if not small else ()))
            )
            if i == rank:
                return [None] * n
            place = hollow.get(i + 1)
            out = [counts(i + 1, place is not None and _there(place, k, n)) for k in range(n)]
            if i and out == [[]] and kinds[i] == "ragged":
                return self.one_of([], [[], []])
            while i and out == [[]]:  # alone it has no form
                out = [counts(i + 1)]
            return out

        out = counts(0)
        return told(kinds, out), out

    def source(
        self,
        rank: int | None = None,
        *,
        tile: tuple | None = None,
        dtype: str = "fp32",
        selector: int | None = None,
        scalar: int | None = None,
        most: int = 9,
        full: bool = False,
        one_hot: bool = False,
        regular: bool = False,
    ) -> Live:
        """A new source with a shape of its own; ``regular``: of static sizes."""
        rank = (
            (
                self.one_of(0, 0, 1, 1, 1, 2, 2, 3)
                if not self.chance(0.06)
                else self.number(4, MAX_STOP - 4)
            )
            if rank is None
            else rank
        )
        kinds, counts = self.shape(rank, regular)
        return self.filled(
            kinds,
            counts,
            rank,
            tile=tile,
            dtype=dtype,
            selector=selector,
            scalar=scalar,
            most=most,
            full=full,
            one_hot=one_hot,
        )

    def filled(self, shape: list, counts: list, rank: int, *, values=None, **kind) -> Live:
        """A source of given structure with elements of a kind (:meth:`elements`)."""
        given = iter(values) if values is not None else None
        arguments, leaf = self.elements(**kind)

        def fill(x, level):
            return [fill(y, level - 1) if level else (next(given) if given else leaf()) for y in x]

        return self.add("Source", shape=shape, elements=fill(counts, rank), **arguments)[0]

    def elements(
        self,
        *,
        tile=None,
        dtype="fp32",
        selector=None,
        scalar=None,
        most=9,
        full=False,
        one_hot=False,
    ) -> tuple[dict, Callable]:
        """Arguments of a source of these elements, and what draws one."""
        if selector is not None:

            def targets():
                if one_hot:
                    return [self.number(0, selector - 1)]
                return sorted(
                    map(
                        int,
                        self.rng.permutation(selector)[
                            : self.count(0, 1, 1, min(2, selector), selector)
                        ],
                    )
                )

            return {"selector": selector}, targets
        if scalar is not None:

            def count():
                return self.number(0, min(most, 2**scalar - 1))

            return {"scalar": scalar}, count
        rows, cols = tile or (self.size(), self.size())
        if tile is None and not full and self.chance(RUN_TIME[self.sized]):
            rows, cols = self.one_of(
                ("ragged", cols),
                ("dynamic", cols),
                (rows, "ragged"),
                (rows, "dynamic"),
                ("ragged", "dynamic"),
            )
        partly = (
            not full and isinstance(rows, int) and isinstance(cols, int) and self.chance(0.2)
        )  # with a run-time size all is valid
        same = [self.number(1, self.t + 1) for _ in range(2)]

        def sides():
            r, c = (
                x
                if isinstance(x, int)
                else self.number(1, 2 * self.t)
                if x == "ragged"
                else same[axis]
                if x == "dynamic"
                else 2
                for axis, x in enumerate((rows, cols))
            )
            return [self.number(0, r), c] if partly else [r, c]

        return {"tile": [rows, cols], "dtype": dtype}, sides

    def size(self) -> int:
        """Rows or columns of a tile: up to a bit more than two physical ones, divided or not."""
        t = self.t
        return self.one_of(1, t, t, self.number(1, t), self.number(t, 2 * t + 1), 2 * t)

    def like(self, s: Live, depth: int | None = None, **kind) -> Live:
        """A source with the outer ``depth`` dimensions of a stream (all of them by default), and
        its empty places.
        """
        if not s.fixed:
            raise CannotDrawError
        rank = self.rank(s)
        depth = rank + 1 if depth is None else depth
        counts = _outer(
            nested([(v if v is None else 0, stop) for v, stop in self.items(s)], rank), depth
        )
        shape = [["of", *s.at, i] for i in range(depth)]
        values = kind.pop("values", None)
        if callable(values):
            values = values(counts)
        return self.filled(shape, counts, depth - 1, values=values, **kind)

    def inner(self, s: Live, extra: int) -> Live:
        """A source with the outer dimensions of a stream and ``extra`` ragged inner ones (some of
        them empty).
        """
        if not s.fixed:
            raise CannotDrawError
        rank = self.rank(s)
        depth = rank + 1
        counts = _outer(
            nested([(v if v is None else 0, stop) for v, stop in self.items(s)], rank), depth
        )

        def grow(x, level):
            if level:
                return [grow(y, level - 1) for y in x]
            return [more(extra) for _ in x]

        def more(k):
            return (
                [more(k - 1) if k > 1 else None for _ in range(self.count(0, 1, 1, 2, 3))]
                if k
                else None
            )

        shape = [["of", *s.at, i] for i in range(depth)] + ["ragged"] * extra
        kind = self.one_of(
            {"scalar": 8}, {"selector": 3}, {"tile": (self.number(1, 3), self.number(1, 3))}
        )
        return self.filled(shape, grow(counts, depth - 1), depth - 1 + extra, **kind)

    def tile(
        self,
        dtype: str | None = "fp32",
        *,
        fixed: bool = False,
        rank: int = 0,
        suits: Callable | None = None,
        **make,
    ) -> Live:
        """A stream of tiles."""

        def ok(s: Live) -> bool:
            e = self.element(s)
            return (
                isinstance(e, TileType)
                and (dtype is None or e.dtype == dtype)
                and (s.fixed or not fixed)
                and self.rank(s) >= rank
                and (suits is None or suits(s))
            )

        def new() -> Live:
            s = self.source(
                self.one_of(*[r for r in (rank, rank, rank + 1, rank + 2) if r < 4])
                if rank
                else None,
                dtype=dtype or "fp32",
                **make,
            )
            if not ok(s):
                raise CannotDrawError
            return s

        return self.pick(ok, new)

    def any(self, suits: Callable | None = None, rank: int = 0) -> Live:
        """A stream of anything."""

        def ok(s: Live) -> bool:
            return self.rank(s) >= rank and (suits is None or suits(s))

        def new() -> Live:
            r = self.one_of(rank, rank, rank + 1) if rank else None
            s = self.one_of(
                lambda: self.source(r),
                lambda: self.source(r, dtype="bf16"),
                lambda: self.source(r, selector=self.number(1, 5)),
                lambda: self.source(r, scalar=self.one_of(1, 8, 32)),
                lambda: self.source(r),
                lambda: self.buffers(self.number(0, 2), r),
                lambda: self.pairs(r),
            )()
            if not ok(s):
                raise CannotDrawError
            return s

        return self.pick(ok, new)

    def buffers(self, depth: int, rank: int | None = None, *, regular: bool = False) -> Live:
        """References to new buffers of ``depth`` dimensions, of a memory of their own; ``regular``:
        of static sizes.
        """
        s = self.source(
            (self.one_of(0, 0, 1, 1, 2) if rank is None else rank) + depth,
            tile=(self.size(), self.size()),
            regular=regular,
        )
        return self.add("Bufferize", [s], args={"rank": depth})[0]

    def pairs(self, rank: int | None = None) -> Live:
        """Numbers and selectors side by side."""
        s = self.source(rank, scalar=8)
        return self.add("Zip", [s, self.like(s, selector=3)])[0]

    def scalars(self, **kw) -> Live:
        return self.pick(lambda s: False, lambda: self.source(scalar=32, **kw))


def told(kinds: list, counts: list) -> list:
    """Kinds of dimensions that suit their sizes: what is empty somewhere, or not seen at all, is
    not static.
    """
    seen: list[set] = [set() for _ in kinds]
    measure(counts, 0, len(kinds) - 1, seen)
    return [
        k
        if k != "static" or (len(n) == 1 and 0 not in n)
        else "dynamic"
        if len(n) < 2
        else "ragged"
        for k, n in zip(kinds, seen, strict=True)
    ]


def _there(place: str, k: int, n: int) -> bool:
    """True for part ``k`` of ``n`` where the empty parts are in a place."""
    ends = {"first": (0,), "last": (n - 1,), "between": range(1, n - 1), "everywhere": range(n)}
    return k in ends[place]


def _outer(x: list, depth: int) -> list:
    """The outer dimensions of nested lists; leaves are None."""
    return [None if depth == 1 else _outer(y, depth - 1) for y in x]


def static(d: Drawer, s: Live) -> bool:
    e = d.element(s)
    return isinstance(e, TileType) and e.static


def sizes(d: Drawer, s: Live) -> tuple:
    """Rows and columns of a stream's tiles as specifications for another source."""
    e = d.type(s).tile
    return tuple(
        x.value if x.value is not None else ["of", *s.at, -1 - i]
        for i, x in enumerate((e.rows, e.cols))
    )
