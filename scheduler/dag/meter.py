"""Cost of one subgraph, step by step.

This is the plain meaning of the model, written for reading; the search uses a compiled closed form
of the default readings (`solve.kernel`) and every schedule it returns is costed again here.

A tile takes ceil(max K / k) steps.  A step takes max(compute, (loaded + stored) / bandwidth); its
working set is the buffers of its input slices, the output tiles, one more tile per accumulator that
has no output tile, the slices that pointwise operations made for a MatMul in an earlier step, what
was kept from the subgraph before, and what is kept for the next one at full size.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from .demand import Execution, Extent, Plan, Role, ScheduleError, Slice
from .problem import Problem
from .readings import Readings
from .solution import Granularity

MOST_WALKED = 10_000_000
"""Steps of a subgraph that are costed one by one, at most (minutes)."""
Region = tuple[int, int, int, int]
"""Rows [a, b) and columns [c, d) of a tensor."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """One step: compute and latency in units of time; loaded, stored, working set in elements."""

    compute: float
    loaded: float
    stored: float
    working_set: float
    latency: float


@dataclass(frozen=True, slots=True)
class SubgraphCost:
    """Totals of one subgraph; `memory` is (loaded + stored) / bandwidth in units of time."""

    latency: float
    compute: float
    memory: float
    loaded: float
    stored: float
    working_set: float
    tiles: int
    steps: int

    @property
    def bound_by(self) -> str:
        """The resource that takes longer over the whole subgraph."""
        return "compute" if self.compute >= self.memory else "memory"


@dataclass(frozen=True, slots=True)
class _Visit:
    """Tiles that cost alike: how many, one of them, and the tile before it (None: the first)."""

    count: int
    row: int
    column: int
    before: tuple[int, int] | None


def tile_grid(plan: Plan, granularity: Granularity) -> tuple[int, int]:
    """(columns, rows) of the tile grid."""
    return -(-plan.width // granularity[0]), -(-plan.height // granularity[1])


class Meter:
    """Measures one subgraph at one granularity.

    Parameters
    ----------
    problem, plan, readings : what is executed, under which readings
    granularity : [w, h, k]
    resident : tensors the subgraph before kept in fast memory
    retain : tensors this one keeps
    """

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        readings: Readings,
        granularity: Granularity,
        resident: Iterable[int] = (),
        retain: Iterable[int] = (),
    ):
        self.problem = problem
        self.plan = plan
        self.readings = readings
        self.granularity = granularity
        self.w, self.h, self.k = granularity
        self.columns, self.rows = tile_grid(plan, granularity)
        self.steps_per_tile = max((-(-depth // self.k) for depth in plan.depths), default=1)
        self.resident = frozenset(resident)
        self.retain = frozenset(retain)
        self.slices = [s for s in plan.slices if s.tensor not in self.resident]
        counted = (
            self.resident
            if readings.unused_residents == "counted"
            else self.resident & set(plan.inputs)
        )
        self.carried = [p for p in plan.carried if p.tensor not in self.retain]
        self.kept = sum(problem.tensors[t].size for t in counted | self.retain)
        self.free_space: OrderedDict[tuple, float] = OrderedDict()

    # -- one step ------------------------------------------------------------------------------

    def _side(
        self, extent: Extent, tile: int, step: int, size: int, length: int
    ) -> tuple[int, int]:
        if extent is Extent.TILE:
            start = min(tile * size, length)
            return start, min(start + size, length)
        if extent is Extent.STEP:
            start = min(step * self.k, length)
            return start, min(start + self.k, length)
        return 0, length

    def _region(
        self, part: Slice | Execution, tensor: int, row: int, column: int, step: int
    ) -> Region:
        shape = self.problem.tensors[tensor]
        return (
            *self._side(part.rows, row, step, self.h, shape.height),
            *self._side(part.cols, column, step, self.w, shape.width),
        )

    def buffers(self, row: int, column: int, step: int) -> dict[tuple, Region]:
        """Input slices held in a step: a key that is equal where the content is, and the region."""
        held: dict[tuple, Region] = {}
        by_tensor: dict[int, list[tuple[Slice, Region]]] = {}
        for part in self.slices:
            if part.activity.at(step, self.steps_per_tile, self.k):
                region = self._region(part, part.tensor, row, column, step)
                if _area(region):
                    by_tensor.setdefault(part.tensor, []).append((part, region))
        for tensor, uses in by_tensor.items():
            whole = (0, self.problem.tensors[tensor].height, 0, self.problem.tensors[tensor].width)
            if any(region == whole for _, region in uses):
                held[tensor, "whole"] = whole
            elif self.readings.sharing == "once-per-tensor":
                region = min(uses, key=lambda use: (-_area(use[1]), use[0].role, use[1]))[1]
                held[tensor, region] = region
            else:
                for part, region in uses:
                    held[tensor, part.role, self._extents(part, region)] = region
        return held

    def _extents(self, part: Slice, region: Region) -> tuple:
        """Key under which two slices of a tensor are the same: their sides, by kind unless they
        span the whole tensor.

        A tile and a reduction step that happen to coincide are different slices; a tile and a step
        that both span the tensor are not.
        """
        shape = self.problem.tensors[part.tensor]
        rows = region[:2]
        cols = region[2:]
        return (
            rows if rows == (0, shape.height) else (part.rows, *rows),
            cols if cols == (0, shape.width) else (part.cols, *cols),
        )

    def _held_size(self, held: dict[tuple, Region]) -> float:
        if self.readings.sharing != "union":
            return sum(map(_area, held.values()))
        return sum(_union_area(regions) for regions in _by_tensor(held).values())

    def _loaded(self, held: dict[tuple, Region], before: dict[tuple, Region], room: float) -> float:
        if self.readings.reuse == "lru":
            return self._loaded_lru(held, room)
        missing = {key: region for key, region in held.items() if key not in before}
        if self.readings.reuse == "previous-step" and self.readings.sharing != "union":
            return sum(map(_area, missing.values()))
        had = _by_tensor(before) if self.readings.reuse == "union" else {}
        total = 0.0
        for tensor, regions in _by_tensor(missing).items():
            old = had.get(tensor, [])
            if self.readings.sharing == "union":
                total += _union_area(regions + old) - _union_area(old)
            else:
                total += sum(_union_area([region, *old]) - _union_area(old) for region in regions)
        return total

    def _loaded_lru(self, held: dict[tuple, Region], room: float) -> float:
        loaded = 0.0
        for key, region in sorted(held.items(), key=_touch_order):
            if key not in self.free_space:
                loaded += _area(region)
            self.free_space[key] = _area(region)
            self.free_space.move_to_end(key)
        while len(self.free_space) > len(held) and sum(self.free_space.values()) > room:
            self.free_space.popitem(last=False)
        return loaded

    def _native(self, extent: Extent, length: int, native: int) -> float:
        """Native tiles along one side of a slice of `length`."""
        if extent in (Extent.TILE, Extent.COVER) or self.readings.inner_matmul == "padded":
            return max(1, -(-length // native))
        return length / native

    def _compute(self, part: Execution, row: int, column: int, step: int) -> float:
        op = self.problem.ops[part.op]
        top, bottom, left, right = self._region(part, op.output, row, column, step)
        width, height = self.problem.native
        cost = (
            op.cost
            * self._native(part.rows, bottom - top, height)
            * self._native(part.cols, right - left, width)
        )
        if op.is_matmul:
            depth = self.problem.reduction(part.op)
            streamed = min(self.k, depth - step * self.k) if part.outer else depth
            cost *= streamed / (
                depth if self.readings.matmul_cost == "full-k" else self.problem.native_depth
            )
        return cost

    def step(
        self, row: int, column: int, step: int, before: dict[tuple, Region]
    ) -> tuple[StepCost, dict[tuple, Region]]:
        """Cost of one step, given the buffers of the step before it; also its own buffers."""
        held = self.buffers(row, column, step)
        tiles = {
            t: _area(
                (
                    *self._side(Extent.TILE, row, 0, self.h, self.problem.tensors[t].height),
                    *self._side(Extent.TILE, column, 0, self.w, self.problem.tensors[t].width),
                )
            )
            for t in self.plan.outputs
        }
        accumulators = len(self.plan.depths) if self.steps_per_tile > 1 else 0
        fixed = self.kept + sum(
            size for t, size in tiles.items() if t not in self.retain | self.resident
        )
        fixed += (
            max(0, accumulators - len(tiles))
            * min(self.w, self.plan.width)
            * min(self.h, self.plan.height)
        )
        if step:
            fixed += sum(
                _area(self._region(p, p.tensor, row, column, step))
                for p in self.carried
                if p.activity.at(step, self.steps_per_tile, self.k)
            )
        working_set = fixed + self._held_size(held)
        loaded = self._loaded(held, before, self.problem.capacity - fixed)
        stored = (
            sum(size for t, size in tiles.items() if t not in self.retain)
            if step == self.steps_per_tile - 1
            else 0
        )
        compute = math.fsum(
            self._compute(e, row, column, step)
            for e in self.plan.executions
            if e.activity.at(step, self.steps_per_tile, self.k)
        )
        return StepCost(
            compute,
            loaded,
            stored,
            working_set,
            max(compute, (loaded + stored) / self.problem.bandwidth),
        ), held

    # -- all steps -----------------------------------------------------------------------------

    def tiles(self, order: tuple[int, ...] | None) -> Iterator[tuple[int, int]]:
        """(row, column) of the tiles in the order they are executed."""
        for index in range(self.rows * self.columns) if order is None else order:
            yield divmod(index, self.columns)

    def steps(self, order: tuple[int, ...] | None = None) -> Iterator[StepCost]:
        """Every step in execution order."""
        self.free_space.clear()
        before: dict[tuple, Region] = {}
        for row, column in self.tiles(order):
            for step in range(self.steps_per_tile):
                cost, before = self.step(row, column, step, before)
                yield cost

    def measure(self, order: tuple[int, ...] | None = None) -> SubgraphCost:
        """Totals over all steps.

        A tile's cost depends only on its clipped size and on whether it shares its row or its
        column with the tile before, so equal tiles are costed once, and so are equal steps in a
        row.  Some readings need every step in turn (`walked`).
        """
        if self.walked:
            if self.walked > MOST_WALKED:
                raise ScheduleError(
                    f"{self.walked:,} steps are to be costed one by one, at most {MOST_WALKED:,}",
                    rule=f"readings reuse={self.readings.reuse}, sharing={self.readings.sharing}",
                    remedy="larger tiles, or another reading",
                )
            return self._total([(1, [(1, cost) for cost in self.steps(order)])])
        visits = self._raster() if order is None else self._visits(order)
        return self._total([(visit.count, self._tile(visit)) for visit in visits])

    def work(self, part: Execution, order: tuple[int, ...] | None = None) -> float:
        """Compute of one execution over all tiles, units of time."""
        total = 0.0
        for rows in self._classes(across=False):
            for columns in self._classes(across=True):
                steps = math.fsum(
                    self._compute(part, rows.start, columns.start, step)
                    for step in range(self.steps_per_tile)
                    if part.activity.at(step, self.steps_per_tile, self.k)
                )
                total += len(rows) * len(columns) * steps
        return total

    # -- tiles that cost alike --------------------------------------------------------------------

    @cached_property
    def walked(self) -> int:
        """Steps that are costed one by one; 0 where equal tiles are costed once.

        All of them with `reuse=lru` and for unions of several slices of one tensor: there a step's
        cost depends on more than its tile's class and the move into it.
        """
        unions = self.readings.reuse == "union" or self.readings.sharing == "union"
        several = len({part.tensor for part in self.slices}) < len(self.slices)
        if self.readings.reuse != "lru" and not (unions and several):
            return 0
        return self.rows * self.columns * self.steps_per_tile

    def _classes(self, across: bool) -> list[range]:
        """The rows (columns, if `across`) of the grid in ranges that every tensor clips alike."""
        size, tiles = (self.w, self.columns) if across else (self.h, self.rows)
        starts = {0}
        for tensor in (*self.plan.outputs, *self.plan.inputs):
            shape = self.problem.tensors[tensor]
            length = shape.width if across else shape.height
            starts.update(s for s in (length // size, -(-length // size)) if s < tiles)
        bounds = [*sorted(starts), tiles]
        return [range(low, high) for low, high in itertools.pairwise(bounds)]

    def _raster(self) -> Iterator[_Visit]:
        """The classes of tiles in raster order, in closed form."""
        last = self.columns - 1
        all_columns = self._classes(across=True)
        for rows in self._classes(across=False):
            if rows.start == 0:
                yield _Visit(1, 0, 0, None)
            entered = rows[1:] if rows.start == 0 else rows
            if entered:
                yield _Visit(len(entered), entered.start, 0, (entered.start - 1, last))
            for columns in all_columns:
                inner = columns[1:] if columns.start == 0 else columns
                if inner:
                    before = rows.start, inner.start - 1
                    yield _Visit(len(rows) * len(inner), rows.start, inner.start, before)

    def _visits(self, order: tuple[int, ...]) -> Iterator[_Visit]:
        """The classes of tiles in a given order."""
        import numpy as np  # the default order does without

        row, column = np.divmod(np.asarray(order, np.int64), self.columns)
        yield _Visit(1, int(row[0]), int(column[0]), None)
        classes = []
        for across, line in ((False, row), (True, column)):
            starts = [tiles.start for tiles in self._classes(across)]
            classes.append(np.searchsorted(starts, line[1:], side="right"))
        same_row = row[1:] == row[:-1]
        same_column = column[1:] == column[:-1]
        code = (classes[0] * (self.columns + 1) + classes[1]) * 4 + same_row * 2 + same_column
        _, first, count = np.unique(code, return_index=True, return_counts=True)
        for at, tiles in zip(first.tolist(), count.tolist(), strict=True):
            before = int(row[at]), int(column[at])
            yield _Visit(tiles, int(row[at + 1]), int(column[at + 1]), before)

    def _tile(self, visit: _Visit) -> list[tuple[int, StepCost]]:
        """(how many, cost) of the runs of equal steps of one tile."""
        count = self.steps_per_tile
        row = visit.row
        column = visit.column
        starts = {0, min(1, count - 1), count - 1}
        for depth in self.plan.depths:
            starts.update(s for s in (depth // self.k, -(-depth // self.k)) if s < count)
        runs = sorted(starts)
        costs = []
        for step, end in zip(runs, [*runs[1:], count], strict=True):
            if step:
                before = self.buffers(row, column, step - 1)
            else:
                before = {} if visit.before is None else self.buffers(*visit.before, count - 1)
            costs.append((end - step, self.step(row, column, step, before)[0]))
        return costs

    def _total(self, groups: list) -> SubgraphCost:
        def total(name: str) -> float:
            return math.fsum(
                count * math.fsum(n * getattr(c, name) for n, c in costs) for count, costs in groups
            )

        loaded = total("loaded")
        stored = total("stored")
        return SubgraphCost(
            total("latency"),
            total("compute"),
            (loaded + stored) / self.problem.bandwidth,
            loaded,
            stored,
            max(c.working_set for _, costs in groups for _, c in costs),
            self.rows * self.columns,
            self.rows * self.columns * self.steps_per_tile,
        )


def _touch_order(buffer: tuple[tuple, Region]) -> tuple:
    """The slices of a step are used by tensor, then place, then role."""
    key, region = buffer
    return key[0], region, key[1] if isinstance(key[1], Role) else -1


def _area(region: Region) -> int:
    return (region[1] - region[0]) * (region[3] - region[2])


def _union_area(regions: list[Region]) -> int:
    """Area of a union of rectangles, by strips between their row boundaries."""
    edges = sorted({edge for region in regions for edge in region[:2]})
    total = 0
    for low, high in itertools.pairwise(edges):
        reached = -1
        for top, bottom, left, right in sorted(regions, key=lambda r: r[2]):
            if top <= low and bottom >= high and right > max(left, reached):
                total += (high - low) * (right - max(left, reached))
                reached = right
    return total


def _by_tensor(held: dict[tuple, Region]) -> dict[int, list[Region]]:
    grouped: dict[int, list[Region]] = {}
    for key, region in held.items():
        grouped.setdefault(key[0], []).append(region)
    return grouped
