"""The best [w, h, k] and traversal of a subgraph, memoised by structure.

Two subgraphs that ask for the same slices of the same sizes at the same costs are the same problem,
whatever their operations are called; the encoded plan is the key, so a repeated block is searched
once.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from ..demand import Plan, make_plan
from ..problem import Problem
from ..readings import Readings
from ..solution import Granularity
from . import compiled, kernel
from .closed_form import COLUMNS

LONGEST_ORDER = 1 << 17
"""Tiles of the largest grid whose order is written down; larger ones are visited in raster
order.
"""
EVERY_SIZE = 256
"""Sizes along an axis of which every one is tried; of more, a choice."""
MOST_REMEMBERED = 400_000
"""Tilings a search remembers."""
FEW_SIZES = 8
"""Sizes along an axis that a plain search tries."""
RASTER = 2
"""`Tiling.route[0]` of the raster order."""


Request = tuple[Plan, tuple[int, ...], tuple[int, ...]]
"""A plan, what it finds resident and what it retains."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A granularity, the snake that visits the tiles, and the latency (units of time).

    `route` is (0: along rows, 1: along columns; first line; place where even lines are entered;
    where odd ones are), or (2, 0, 0, 0): raster order.
    """

    latency: float
    granularity: Granularity
    route: tuple[int, int, int, int]


class TileSearch:
    """Searches tilings for one problem under one set of readings; safe to call from several
    threads.

    Grids of more than `longest_order` tiles are visited in raster order.  A `plain` search does not
    wait for compiled code; it tries few sizes instead.
    """

    def __init__(
        self,
        problem: Problem,
        readings: Readings,
        longest_order: int = LONGEST_ORDER,
        plain: bool = False,
    ):
        self.search = kernel.search if plain else compiled.load()
        self.plain = plain
        self.longest_order = longest_order
        self.problem = problem
        self.readings = readings
        self.memo: dict[bytes, Tiling | None] = {}
        self._known_sizes: dict[tuple[int, int, int, int | None], np.ndarray] = {}

    def best(
        self, plan: Plan, resident: tuple[int, ...] = (), retain: tuple[int, ...] = ()
    ) -> Tiling | None:
        """The least-latency tiling; None if nothing fits."""
        code = self._encode(plan, resident, retain)
        if code is None:
            return None
        key, candidates = self._key(plan, code)
        if key not in self.memo:
            if len(self.memo) >= MOST_REMEMBERED:
                self.memo.clear()
            self.memo[key] = self._search(code, candidates)
        return self.memo[key]

    def prefetch(
        self, wanted: Iterable[Request], threads: Executor, stop: Callable[[], bool]
    ) -> None:
        """Search for what `best` will be asked, on several threads."""
        missing: dict[bytes, tuple] = {}
        for plan, resident, retain in wanted:
            code = self._encode(plan, resident, retain)
            if code is not None:
                key, candidates = self._key(plan, code)
                if key not in self.memo:
                    missing[key] = code, candidates
        for key, tiling in zip(
            missing,
            threads.map(lambda item: None if stop() else (self._search(*item),), missing.values()),
            strict=True,
        ):
            if tiling is not None:
                self.memo[key] = tiling[0]

    @property
    def searches(self) -> int:
        """Distinct structures searched so far."""
        return len(self.memo)

    def _key(
        self, plan: Plan, code: tuple[np.ndarray, ...]
    ) -> tuple[bytes, tuple[np.ndarray, ...]]:
        candidates = self.candidates(plan)
        parts = (*code, *(c[[0, -1]] if len(c) else c for c in candidates))
        whole = b"|".join(a.tobytes() for a in parts)
        return hashlib.blake2b(whole, digest_size=16).digest(), candidates

    def at(
        self,
        plan: Plan,
        granularity: Granularity,
        resident: tuple[int, ...] = (),
        retain: tuple[int, ...] = (),
    ) -> Tiling | None:
        """The best traversal at one granularity; None if it does not fit."""
        code = self._encode(plan, resident, retain)
        if code is None:
            return None
        alone = tuple(np.array([size], np.int64) for size in granularity)
        return self._least(code, alone, kernel.NOT_FOUND, np.zeros(7, np.int64))

    def _search(
        self, code: tuple[np.ndarray, ...], candidates: tuple[np.ndarray, ...]
    ) -> Tiling | None:
        """The least-latency tiling; a plain search looks at few sizes, then around the best of
        them.
        """
        if not all(len(sizes) for sizes in candidates):
            return None
        choice = np.zeros(7, np.int64)
        if not self.plain:
            return self._least(code, candidates, kernel.NOT_FOUND, choice)
        found = self._least(code, tuple(map(_few, candidates)), kernel.NOT_FOUND, choice)
        for choose in (_around_all, _all_depths):
            if found is not None:
                found = self._least(code, choose(candidates, choice), found.latency, choice)
        return found

    def _least(
        self,
        code: tuple[np.ndarray, ...],
        sizes: tuple[np.ndarray, ...],
        best: float,
        choice: np.ndarray,
    ) -> Tiling | None:
        """The least-latency tiling of some sizes, or the choice so far, which takes `best`."""
        room = kernel.room(len(sizes[0]), len(sizes[1]), best)
        return _tiling(self.search(code, sizes, room, choice), choice)

    def candidates(self, plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Widths, heights and depths worth trying under the readings, each descending."""
        problem = self.problem
        readings = self.readings
        least = {
            axis: max((c.least for c in plan.covers if c.axis == axis), default=1) for axis in "wh"
        }
        deepest = max(plan.depths, default=1)
        shallowest = (
            deepest if readings.several_split_k == "forbidden" and len(plan.depths) > 1 else 1
        )
        return (
            self._sizes(least["w"], plan.width, problem.native[0]),
            self._sizes(least["h"], plan.height, problem.native[1]),
            self._sizes(shallowest, deepest, problem.native_depth, plan.limit),
        )

    def _sizes(self, least: int, length: int, native: int, most: int | None = None) -> np.ndarray:
        """Sizes worth trying along an axis, none above `most`, descending; not to be written to."""
        key = least, length, native, most
        if key not in self._known_sizes:
            sizes = _sizes(least, length, native, self.readings)
            sizes = sizes[
                sizes <= min(self.problem.capacity, most or math.inf)
            ]  # larger ones never fit
            self._known_sizes[key] = sizes
        return self._known_sizes[key]

    def _encode(
        self, plan: Plan, resident: tuple[int, ...], retain: tuple[int, ...]
    ) -> tuple[np.ndarray, ...] | None:
        """The kernel's arrays; None if what is kept alone overflows the fast memory."""
        problem = self.problem
        readings = self.readings
        tensors = problem.tensors
        counted = (
            set(resident)
            if readings.unused_residents == "counted"
            else set(resident) & set(plan.inputs)
        )
        room = problem.capacity - sum(tensors[t].size for t in counted | set(retain))
        if room < 0:
            return None
        local: dict[int, int] = {}
        slices = sorted(
            (
                local.setdefault(s.tensor, len(local)),
                s.rows,
                s.cols,
                tensors[s.tensor].height,
                tensors[s.tensor].width,
                s.activity.first,
                s.activity.last,
                s.activity.depth,
                s.role,
            )
            for s in plan.slices
            if s.tensor not in resident
        )
        outputs = [
            (tensors[t].height, tensors[t].width, t in retain)
            for t in plan.outputs
            if t not in resident
        ]
        machine = (
            room,
            problem.bandwidth,
            problem.native[0],
            problem.native[1],
            0 if readings.matmul_cost == "full-k" else problem.native_depth,
            readings.inner_matmul == "padded",
            plan.width,
            plan.height,
            readings.sharing == "once-per-tensor",
            readings.tiling == "any",
            self.longest_order,
        )
        shapes = [tensors[t] for t in (*plan.outputs, *(s.tensor for s in plan.slices))]
        return (
            np.array(slices, np.int64).reshape(-1, COLUMNS[0]),
            np.array(self._made(plan, retain), np.int64).reshape(-1, COLUMNS[1]),
            np.array([problem.ops[e.op].cost for e in plan.executions], np.float64),
            np.array(outputs, np.int64).reshape(-1, COLUMNS[2]),
            np.array(machine, np.float64),
            np.array(sorted({s.width for s in shapes}), np.int64),
            np.array(sorted({s.height for s in shapes}), np.int64),
        )

    def _made(self, plan: Plan, retain: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The rows of the kernel's `made`, one for each execution."""
        carried = {
            (c.tensor, c.rows, c.cols): c.activity.depth
            for c in plan.carried
            if c.tensor not in retain
        }
        rows = []
        for e in plan.executions:
            op = self.problem.ops[e.op]
            shape = self.problem.tensors[op.output]
            rows.append(
                (
                    op.is_matmul,
                    e.outer,
                    e.rows,
                    e.cols,
                    shape.height,
                    shape.width,
                    self.problem.reduction(e.op),
                    e.activity.first,
                    e.activity.last,
                    e.activity.depth,
                    carried.get((op.output, e.rows, e.cols), 0),
                )
            )
        return rows


def compile_search(problem: Problem) -> None:
    """Compile the search, or load it where that was done before; any problem will do."""
    TileSearch(problem, Readings()).best(make_plan(problem, (problem.topological[0],), Readings()))


def _tiling(latency: float, choice: np.ndarray) -> Tiling | None:
    if not np.isfinite(latency):
        return None
    w, h, k, kind, line, enter, leave = (int(v) for v in choice)
    return Tiling(float(latency), (w, h, k), (kind, line, enter, leave))


def _sizes(least: int, length: int, native: int, readings: Readings) -> np.ndarray:
    """Candidate sizes along one axis, descending."""
    above = readings.above_native == "allowed"
    if not above and least > native:
        return np.zeros(0, np.int64)
    most = max(least, length if above else min(length, native))
    if readings.tiling == "divisors":
        sizes = _divisors(length)
    elif readings.tiling == "powers-of-two":
        if length < native or above:  # one tile may be wider than the tensor
            most = max(most, 1 << (length - 1).bit_length())
        sizes = {1 << power for power in range(most.bit_length())}
        sizes = {size for size in sizes if above or size <= native}
    else:
        sizes = _spread(least, most if above else min(native, most), length)
        if above:
            sizes.update(
                native * times for times in _spread(1, most // native, -(-length // native))
            )
            sizes.update((least, most))
    return np.array(sorted((s for s in sizes if least <= s <= most), reverse=True), np.int64)


def _few(sizes: np.ndarray) -> np.ndarray:
    """The largest of descending sizes, and those nearest to a half of it, a quarter and so on."""
    if len(sizes) <= 4:
        return sizes
    halves = sizes[0] >> np.arange(int(sizes[0]).bit_length())
    if len(halves) > FEW_SIZES:
        halves = halves[np.linspace(0, len(halves) - 1, FEW_SIZES).astype(int)]
    return _nearest(sizes, halves)


def _around(sizes: np.ndarray, size: int) -> np.ndarray:
    """The descending sizes nearest to a half, three quarters and so on up to twice a size."""
    return _nearest(sizes, size * np.array([2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5]))


def _around_all(candidates: tuple[np.ndarray, ...], choice: np.ndarray) -> tuple[np.ndarray, ...]:
    """`_around` on every axis."""
    return tuple(_around(c, int(size)) for c, size in zip(candidates, choice, strict=False))


def _all_depths(candidates: tuple[np.ndarray, ...], choice: np.ndarray) -> tuple[np.ndarray, ...]:
    """The width and height chosen, with every depth."""
    return choice[0:1].copy(), choice[1:2].copy(), candidates[2]


def _nearest(sizes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The largest of descending sizes that are not above some wanted ones."""
    return sizes[np.unique(np.minimum(np.searchsorted(-sizes, -wanted), len(sizes) - 1))]


def _divisors(length: int) -> set[int]:
    small = [size for size in range(1, math.isqrt(length) + 1) if length % size == 0]
    return {*small, *(length // size for size in small)}


def _spread(least: int, most: int, length: int) -> set[int]:
    """All sizes of a short range; of a long one those that part `length` evenly, and a geometric
    row.
    """
    if most - least < EVERY_SIZE:
        return set(range(least, most + 1))
    even = {-(-length // parts) for parts in range(1, EVERY_SIZE // 4)}
    halves = {most >> power for power in range(most.bit_length())}
    spaced = {int(2 ** (eighth / 8)) for eighth in range(8 * most.bit_length())}
    return {size for size in (*even, *halves, *spaced, least) if least <= size <= most}


def traversal(route: tuple[int, int, int, int], columns: int, rows: int) -> tuple[int, ...] | None:
    """The tile indices in the order of a route; None for raster order."""
    return None if route[0] == RASTER else snake_order(route, columns, rows)


@functools.lru_cache(maxsize=16)
def snake_order(route: tuple[int, int, int, int], columns: int, rows: int) -> tuple[int, ...]:
    """The tile indices in the order the snake visits them."""
    across, first, enter, leave = route
    lines, places = (columns, rows) if across else (rows, columns)
    visit = np.concatenate(([first], np.delete(np.arange(lines), first)))
    place = _line(places, enter, leave)
    grid = np.empty((lines, places), np.int64)
    grid[0::2] = place
    grid[1::2] = _line(places, leave, enter)
    index = grid * columns + visit[:, None] if across else visit[:, None] * columns + grid
    return tuple(index.ravel().tolist())


def _line(places: int, begin: int, end: int) -> np.ndarray:
    """The places of a line from `begin` to `end`, the others in between in index order or against
    it.
    """
    inner = np.delete(np.arange(places), list({begin, end}))
    if begin > end:
        inner = inner[::-1]
    return np.concatenate(([begin], inner, [end] if end != begin else [])).astype(np.int64)
