"""A lower bound on what a set of operations takes as one subgraph, and on covering a component.

For one set, every tiling is relaxed to (columns, rows) of the grid: each count of columns goes with
the narrowest tile that gives it.  What could be retained or received costs nothing, so the bound
holds for every hand-over.  Premises (section numbers of docs/dag_scheduler.md):

1. An execution runs in every tile; its sides cost as in the evaluator, summed over the steps (1).
2. Every tensor of the subgraph is loaded once at least.  A slice that spans the tile's rows only is
   loaded whenever the row changes: with n columns and m rows of tiles, in any order, there are
   n*m + 1 runs of tiles in one row or one column at least.  A slice split over k is loaded in every
   tile (`reuse=previous-step`).
3. The working set of a step is at least its slices, the output tiles and the accumulators.
4. Output tiles are stored on a tile's last step, which makes at most k/K of its products; the steps
   before make the others.  What one phase waits for, the other cannot make up.  What may be done in
   any step, all of it in one if need be, counts in the sums over all steps only: slices that
   several uses share, and reductions of different depth.

A component's subgraphs are connected sets of its operations that cover it; the cheapest cover under
these latencies is below any schedule of it.  A subgraph may retain a graph output, which another
subgraph then writes; such a set counts without the operation that makes it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from .demand import Execution, Extent, Plan, ScheduleError, Slice, make_plan
from .problem import Problem
from .readings import Readings

MOST_OPS = 10
"""Operations of a component whose covers are tried."""
MOST_SETS = 300
"""Connected sets of a component, at most."""
MOST_COUNTS = 96
"""Counts of tile columns (rows) told apart."""


def applies(readings: Readings) -> bool:
    """True if the premises hold under these readings."""
    return (
        readings.above_native == "refused"
        and readings.reuse == "previous-step"
        and readings.split_k_lhs == "streamed"
        and readings.sharing == "same-slice"
        and readings.retainable == "produced"
    )


def cheapest_cover(
    problem: Problem,
    readings: Readings,
    ops: Sequence[int],
    near: tuple[int, ...],
    until: float,
    known: dict,
) -> float:
    """Least latency of a component, units of time; 0 if it is too large or the time `until`
    (monotonic) is up.

    `known` keeps what sets that are alike take, for the next component.
    """
    if len(ops) > MOST_OPS:
        return 0.0
    sets = _connected_sets(ops, near)
    if sets is None:
        return 0.0
    place = {op: i for i, op in enumerate(ops)}
    costs: list[tuple[int, float]] = []
    for members in sets:
        if time.monotonic() >= until:
            return 0.0
        order = tuple(sorted(members, key=problem.rank.__getitem__))
        mask = sum(1 << place[op] for op in members)
        costs.append((mask, _of_set(problem, readings, order, frozenset(), known)))
        ends = [op for op in members if _ends(problem, op)]
        rest = mask & ~sum(1 << place[op] for op in ends)
        if ends and rest:
            kept = frozenset(problem.ops[op].output for op in ends)
            costs.append((rest, _of_set(problem, readings, order, kept, known)))
    costs = [c for c in costs if c[1] < math.inf]
    return _cover(costs, len(ops))


def _connected_sets(ops: Sequence[int], near: tuple[int, ...]) -> list[frozenset[int]] | None:
    """The connected sets of a component; None if there are too many."""
    found = {frozenset((op,)) for op in ops}
    frontier = list(found)
    while frontier:
        grown = set()
        for members in frontier:
            for op in members:
                mask = near[op]
                for other in ops:
                    if mask >> other & 1 and other not in members:
                        grown.add(members | {other})
        frontier = [members for members in grown if members not in found]
        found.update(frontier)
        if len(found) > MOST_SETS:
            return None
    return sorted(found, key=lambda members: (len(members), sorted(members)))


def _cover(costs: list[tuple[int, float]], count: int) -> float:
    """The cheapest way to cover all of `count` operations with sets (mask, cost)."""
    least = [0.0] + [math.inf] * ((1 << count) - 1)
    by_first: list[list[tuple[int, float]]] = [
        [c for c in costs if c[0] >> op & 1] for op in range(count)
    ]
    for missing in range(1, 1 << count):
        first = (missing & -missing).bit_length() - 1
        least[missing] = min(
            (cost + least[missing & ~mask] for mask, cost in by_first[first]), default=math.inf
        )
    return least[-1]


def _ends(problem: Problem, op: int) -> bool:
    """True if the operation makes a graph output that could be retained."""
    tensor = problem.ops[op].output
    return not problem.consumers[tensor] and problem.tensors[tensor].size < problem.capacity


def _of_set(
    problem: Problem, readings: Readings, ops: tuple[int, ...], kept: frozenset[int], known: dict
) -> float:
    """Least latency of a set of operations as one subgraph; infinite if it never is one.

    `kept` are graph outputs that it does not write.
    """
    try:
        plan = make_plan(problem, ops, readings)
    except ScheduleError:
        return math.inf
    written = tuple(t for t in plan.outputs if t not in kept and not _stays(problem, t))
    key = _likeness(problem, plan, written)
    if key not in known:
        known[key] = least_latency(problem, readings, plan, written)
    return known[key]


def _likeness(problem: Problem, plan: Plan, written: tuple[int, ...]) -> tuple:
    """Equal for plans that take the same."""
    names: dict[int, int] = {}

    def shape(tensor: int) -> tuple[int, int, int, bool]:
        size = problem.tensors[tensor]
        return names.setdefault(tensor, len(names)), size.width, size.height, _free(problem, tensor)

    return (
        tuple((shape(s.tensor), s.role, s.rows, s.cols, _activity(s)) for s in plan.slices),
        tuple(
            (
                problem.ops[e.op].kind,
                problem.ops[e.op].cost,
                shape(problem.ops[e.op].output),
                problem.reduction(e.op),
                e.rows,
                e.cols,
                e.outer,
                _activity(e),
            )
            for e in plan.executions
        ),
        tuple((shape(t), t in written) for t in plan.outputs),
        tuple((c.axis, c.least) for c in plan.covers),
        plan.limit,
    )


def _activity(part: Slice | Execution) -> tuple[bool, bool, int]:
    return part.activity.first, part.activity.last, part.activity.depth


def _free(problem: Problem, tensor: int) -> bool:
    """True if another subgraph could hand the tensor over."""
    return problem.producer[tensor] is not None and problem.tensors[tensor].size < problem.capacity


def _stays(problem: Problem, tensor: int) -> bool:
    """True if an output could be retained instead of written."""
    return bool(problem.consumers[tensor]) and problem.tensors[tensor].size < problem.capacity


class _Axis:
    """Counts of tiles along one axis (float arrays), each with its narrowest tile and the least its
    last one has.

    Beyond `MOST_COUNTS`, the rest share an entry that is no more than any of them.
    """

    def __init__(self, length: int, native: int, least: int):
        size = min(native, max(length, least))
        counts: list[tuple[int, int, int]] = []
        while size >= least:
            tiles = -(-length // size)
            if len(counts) == MOST_COUNTS:
                counts.append((tiles, least, 0))
                break
            narrow = max(least, -(-length // tiles))
            counts.append((tiles, narrow, min(narrow, length - (tiles - 1) * size)))
            size = narrow - 1
        self.count, self.narrow, self.last = np.array(counts, float).T


def least_latency(
    problem: Problem, readings: Readings, plan: Plan, written: tuple[int, ...]
) -> float:
    """Least latency of the subgraph at any granularity and order, units of time; infinite if
    nothing fits.

    `written` are the outputs that go to slow memory.
    """
    least = {
        axis: max((c.least for c in plan.covers if c.axis == axis), default=1) for axis in "wh"
    }
    if least["w"] > problem.native[0] or least["h"] > problem.native[1]:
        return math.inf
    across = _Axis(plan.width, problem.native[0], least["w"])
    down = _Axis(plan.height, problem.native[1], least["h"])
    grid = _Grid(across, down)
    stored = float(sum(problem.tensors[t].size for t in written))
    depth = max(plan.depths, default=1)
    deepest = min(plan.limit, problem.native_depth)
    best = math.inf
    if depth <= deepest:
        fits = _deepest_step(problem, plan, grid, several=False) >= 1
        work, moved = _work(problem, readings, plan, grid, several=False)
        best = _least(fits, np.maximum(sum(work), (sum(moved) + stored) / problem.bandwidth))
    if depth > 1:
        most = np.minimum(_deepest_step(problem, plan, grid, several=True), min(deepest, depth - 1))
        work, moved = _work(problem, readings, plan, grid, several=True)
        moved = [elements / problem.bandwidth for elements in moved]
        moved[_LATE] = moved[_LATE] + stored / problem.bandwidth
        phased = _two_phases(work, moved, most / depth)
        latency = np.maximum(np.maximum(phased, sum(work)), sum(moved))
        best = min(best, _least(most >= 1, latency))
    return best


_EARLY, _STEPPED, _LATE, _OPEN = range(4)
"""When in a tile of several steps: on the first one or before the last, evenly over the reduction,
on the last one, in any.
"""


def _least(fits: np.ndarray, latency: np.ndarray) -> float:
    return float(np.where(fits, latency, np.inf).min())


def _two_phases(work: list[np.ndarray], moved: list[np.ndarray], most: np.ndarray) -> np.ndarray:
    """Least of max(work, moved) of the last steps plus that of all others, over the share of the
    last step up to `most`.

    Work and traffic of the last step grow with its share of the reduction, those of the others
    fall: the sum is convex and bends where the two are equal.
    """

    def at(share: np.ndarray) -> np.ndarray:
        last = np.maximum(
            work[_LATE] + share * work[_STEPPED], moved[_LATE] + share * moved[_STEPPED]
        )
        others = np.maximum(
            work[_EARLY] + (1 - share) * work[_STEPPED],
            moved[_EARLY] + (1 - share) * moved[_STEPPED],
        )
        return last + others

    shares = [np.zeros_like(most), most]
    slope = work[_STEPPED] - moved[_STEPPED]
    slope = np.where(slope == 0, 1.0, slope)
    shares.append((moved[_LATE] - work[_LATE]) / slope)
    shares.append(1 - (moved[_EARLY] - work[_EARLY]) / slope)
    return np.minimum.reduce([at(np.clip(share, 0.0, np.maximum(most, 0.0))) for share in shares])


class _Grid:
    """All pairs of counts: columns along axis 1, rows along axis 0."""

    def __init__(self, across: _Axis, down: _Axis):
        self.columns = across.count[None, :]
        self.rows = down.count[:, None]
        self.w = across.narrow[None, :]
        self.h = down.narrow[:, None]
        self.last_w = across.last[None, :]
        self.last_h = down.last[:, None]
        self.tiles = self.columns * self.rows


def _work(
    problem: Problem, readings: Readings, plan: Plan, grid: _Grid, several: bool
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(units of time at the array, elements loaded) at least: early, stepped, late and open."""
    nothing = np.zeros(grid.tiles.shape)
    work = [nothing] * 4
    moved = _loads(problem, plan, grid, several)
    even = len(set(plan.depths)) == 1
    for made in plan.executions:
        op = problem.ops[made.op]
        shape = problem.tensors[op.output]
        cost = op.cost
        for extent, length, native in (
            (made.rows, shape.height, problem.native[1]),
            (made.cols, shape.width, problem.native[0]),
        ):
            if extent is Extent.COVER:
                cost *= math.ceil(length / native)
            elif extent is not Extent.TILE:
                cost *= length / native
        if op.is_matmul and readings.matmul_cost == "native-k":
            cost *= problem.reduction(made.op) / problem.native_depth
        when = _EARLY
        if made.outer or Extent.STEP in (made.rows, made.cols):
            when = _STEPPED
        elif made.activity.last and not (made.activity.first or made.activity.depth):
            when = _LATE
        work[when] = work[when] + cost * grid.tiles
    if several and not even:  # a step may have another share of one reduction than of the other
        for amounts in (work, moved):
            amounts[_OPEN] = amounts[_OPEN] + amounts[_STEPPED]
            amounts[_STEPPED] = nothing
    return work, moved


def _loads(problem: Problem, plan: Plan, grid: _Grid, several: bool) -> list[np.ndarray]:
    """Elements loaded at least, with several steps a tile or one: early, stepped, late and open."""
    nothing = np.zeros(grid.tiles.shape)
    loads = [nothing] * 4
    by_row = nothing
    by_column = nothing
    last_row = nothing
    last_column = nothing
    for tensor in {s.tensor for s in plan.slices}:
        if _free(problem, tensor):
            continue
        shape = problem.tensors[tensor]
        uses = [s for s in plan.slices if s.tensor == tensor]
        rows = uses[0].rows
        cols = uses[0].cols
        whole = nothing + float(shape.size)
        if len(uses) > 1:  # one may hold the tensor whole, or share with another
            loads[_OPEN] = loads[_OPEN] + whole
        elif several and Extent.STEP in (rows, cols):
            times = {Extent.TILE: grid.columns}.get(
                rows, {Extent.TILE: grid.rows}.get(cols, grid.tiles)
            )
            loads[_STEPPED] = loads[_STEPPED] + times * whole
        else:
            late = uses[0].activity.last and not (uses[0].activity.first or uses[0].activity.depth)
            when = _LATE if late else _EARLY
            loads[when] = loads[when] + whole
            if rows is Extent.TILE and cols is not Extent.TILE and shape.height == plan.height:
                by_row = by_row + grid.h * shape.width
                last_row = last_row + grid.last_h * shape.width
            if cols is Extent.TILE and rows is not Extent.TILE and shape.width == plan.width:
                by_column = by_column + grid.w * shape.height
                last_column = last_column + grid.last_w * shape.height
    cheapest = np.minimum(by_row, by_column)
    clipped_row = np.minimum(last_row, cheapest)
    clipped_column = np.minimum(last_column, cheapest)
    runs = np.minimum(
        _runs(grid, (grid.columns - 1, clipped_row), (grid.rows - 1, clipped_column), cheapest),
        _runs(grid, (grid.rows - 1, clipped_column), (grid.columns - 1, clipped_row), cheapest),
    )
    loads[_EARLY] = loads[_EARLY] + runs
    return loads


def _runs(
    grid: _Grid,
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    others: np.ndarray,
) -> np.ndarray:
    """Elements loaded for the runs of tiles beyond one a row and one a column: (how many, elements
    of one) in turn, then others.
    """
    left = (grid.columns - 1) * (grid.rows - 1)
    total = np.zeros(grid.tiles.shape)
    for many, elements in (first, second):
        taken = np.minimum(left, many)
        total = total + taken * elements
        left = left - taken
    return total + left * others


def _deepest_step(problem: Problem, plan: Plan, grid: _Grid, several: bool) -> np.ndarray:
    """The deepest k at which the first tile may fit; below 1 where it does not (with one step a
    tile: 1 where it does).
    """
    nothing = np.zeros(grid.tiles.shape)
    first = nothing
    last = nothing
    slope = nothing
    for tensor in {s.tensor for s in plan.slices}:
        uses = [s for s in plan.slices if s.tensor == tensor]
        at_first = nothing
        at_last = nothing
        for part in uses:
            size = _slice(problem, part, grid, several)
            if part.activity.first or part.activity.depth or not several:
                at_first = np.maximum(at_first, size)
            if part.activity.last or not several:
                at_last = np.maximum(at_last, size)
        first = first + at_first
        last = last + at_last
        if (
            several
            and len(uses) == 1
            and Extent.STEP in (uses[0].rows, uses[0].cols)
            and len(set(plan.depths)) == 1
        ):
            slope = slope + at_first
    tiles = nothing
    for tensor in plan.outputs:
        shape = problem.tensors[tensor]
        tiles = tiles + np.minimum(grid.w, shape.width) * np.minimum(grid.h, shape.height)
    if several and len(plan.depths) > len(plan.outputs):
        spare = len(plan.depths) - len(plan.outputs)
        tiles = tiles + spare * np.minimum(grid.w, plan.width) * np.minimum(grid.h, plan.height)
    room = problem.capacity - tiles
    fits = (first <= room) & (last <= room)
    deepest = np.where(slope > 0, 1 + (room - first) / np.maximum(slope, 1.0), np.inf)
    return np.where(fits, deepest, 0.0)


def _slice(problem: Problem, part: Slice, grid: _Grid, several: bool) -> np.ndarray:
    shape = problem.tensors[part.tensor]

    def side(extent: Extent, tile: np.ndarray, length: int) -> np.ndarray:
        if extent is Extent.TILE:
            return np.minimum(tile, length)
        return np.array(1.0 if extent is Extent.STEP and several else float(length))

    return side(part.rows, grid.h, shape.height) * side(part.cols, grid.w, shape.width)
