"""Latency of one subgraph at one granularity along the best traversal, in the part of Python that
numba compiles.

The closed form of `meter.Meter` for the default reuse: tiles that are clipped alike cost alike, and
a tile's first step depends only on how the tile was reached, so the cost of a whole traversal is a
sum over a handful of (row class, column class, move) cases instead of over all steps.

Arrays (integers unless said otherwise), one row per item:

- ``slices``: tensor, rows, cols, height, width, first, last, depth, role; sorted by tensor
- ``made``: matmul, outer, rows, cols, height, width, K, first, last, depth, depth up to which the
  product is carried; ``costs`` (float) alongside
- ``outputs``: height, width, retained
- ``machine`` (float): capacity - kept, bandwidth, native width, native height, what one base_cost's
  reduction is (0: the whole K), 1 if inner extents are padded, grid width, grid height, 1 if a
  tensor has one buffer per step, 1 if any depth is a candidate, tiles of the largest grid that a
  snake may visit (raster order above)
"""

from __future__ import annotations

import numpy as np

from ..demand import Extent

TILE = int(Extent.TILE)
STEP = int(Extent.STEP)
COVER = int(Extent.COVER)
# a literal as an argument would compile the callee once more
ZERO = np.int64(0)
ONE = np.int64(1)
_START = ZERO
_ALONG_ROW = ONE
_ALONG_COLUMN = np.int64(2)
_JUMP = np.int64(3)
# clip classes along one axis; more distinct tensor sizes than that do not fit one subgraph in
# practice
RUNS = 12
STEP_RUNS = 64
"""Runs of steps that cost alike, and one."""
COLUMNS = (9, 11, 3)
"""Columns of slices, made and outputs."""


def _active(first, last, depth, step, steps, k):
    return (first and step == 0) or (last and step == steps - 1) or step * k < depth


def _side(extent, start, size, step, k, length):
    """Length of one side of a slice; `start` is the tile's first element along it."""
    if extent == TILE:
        return max(0, min(size, length - start))
    if extent == STEP:
        return max(0, min(k, length - step * k))
    return length


def native_tiles(extent, length, native, padded):
    if extent == TILE or extent == COVER or padded:
        return max(1.0, np.ceil(length / native))
    return length / native


def _steps(slices, made, k):
    steps = ONE
    for e in range(made.shape[0]):
        if made[e, 1]:
            steps = max(steps, -(-made[e, 6] // k))
    return steps


def fixed_elements(made, outputs, machine, top, left, w, h, steps):
    """Output tiles and accumulators without one, elements."""
    total = _stored(outputs, top, left, w, h)
    if steps > 1:
        spare = -outputs.shape[0]
        for e in range(made.shape[0]):
            spare += made[e, 1]
        if spare > 0:
            total += spare * min(w, machine[6]) * min(h, machine[7])
    return total


def _carried(made, top, left, w, h, k, step):
    """Products of the tile's first step that this step consumes, elements."""
    total = 0.0
    for e in range(made.shape[0]):
        if 0 < step * k < made[e, 10]:
            total += _side(made[e, 2], top, h, step, k, made[e, 4]) * _side(
                made[e, 3], left, w, step, k, made[e, 5]
            )
    return total


def _stored(outputs, top, left, w, h):
    total = 0.0
    for o in range(outputs.shape[0]):
        if not outputs[o, 2]:
            total += max(0, min(h, outputs[o, 0] - top)) * max(0, min(w, outputs[o, 1] - left))
    return total


def _repeated(slices, begin, i, top, left, w, h, k, step, steps):
    """True if an earlier slice of the same tensor and role has the same extents in this step."""
    height = slices[i, 3]
    width = slices[i, 4]
    for j in range(begin, i):
        if slices[j, 8] != slices[i, 8] or not _active(
            slices[j, 5], slices[j, 6], slices[j, 7], step, steps, k
        ):
            continue
        same_rows = slices[j, 1] == slices[i, 1] or (
            _side(slices[i, 1], top, h, step, k, height) == height
            and _side(slices[j, 1], top, h, step, k, height) == height
        )
        same_cols = slices[j, 2] == slices[i, 2] or (
            _side(slices[i, 2], left, w, step, k, width) == width
            and _side(slices[j, 2], left, w, step, k, width) == width
        )
        if same_rows and same_cols:
            return True
    return False


def _begins(rows, cols, step, move):
    """True if the step before was in another column (row) of the slice's tensor, or outside."""
    return step == 0 and (
        move == _START
        or (cols == TILE and move != _ALONG_COLUMN)
        or (rows == TILE and move != _ALONG_ROW)
    )


def _stays(rows, cols, step, steps, move):
    """True if a slice of these extents is the one of the step before, if that has one."""
    stepping = rows == STEP or cols == STEP
    if step > 0:
        return not stepping
    return not (stepping and steps > 1) and not _begins(rows, cols, step, move)


def _buffers(slices, machine, top, left, w, h, k, step, steps, move):
    """(held, loaded) elements of one step; `move` says which buffers the step before shares."""
    held = loaded = 0.0
    one_buffer = machine[8] > 0
    count = slices.shape[0]
    begin = ZERO
    previous = step - 1 if step > 0 else steps - 1
    while begin < count:
        end = begin + 1
        while end < count and slices[end, 0] == slices[begin, 0]:
            end += 1
        height = slices[begin, 3]
        width = slices[begin, 4]
        whole_now = whole_before = False
        for i in range(begin, end):
            rows = _side(slices[i, 1], top, h, step, k, height)
            cols = _side(slices[i, 2], left, w, step, k, width)
            if rows == height and cols == width:
                whole_now |= _active(slices[i, 5], slices[i, 6], slices[i, 7], step, steps, k)
            if _begins(slices[i, 1], slices[i, 2], step, move):
                continue
            rows = _side(slices[i, 1], top, h, previous, k, height)
            cols = _side(slices[i, 2], left, w, previous, k, width)
            if rows == height and cols == width:
                whole_before |= _active(
                    slices[i, 5], slices[i, 6], slices[i, 7], previous, steps, k
                )
        if whole_now:
            held += height * width
            if not whole_before:
                loaded += height * width
            begin = end
            continue
        group_held = group_loaded = 0.0
        for i in range(begin, end):
            if not _active(slices[i, 5], slices[i, 6], slices[i, 7], step, steps, k):
                continue
            if _repeated(slices, begin, i, top, left, w, h, k, step, steps):
                continue
            size = float(
                _side(slices[i, 1], top, h, step, k, height)
                * _side(slices[i, 2], left, w, step, k, width)
            )
            same = (
                not whole_before
                and _active(slices[i, 5], slices[i, 6], slices[i, 7], previous, steps, k)
                and _stays(slices[i, 1], slices[i, 2], step, steps, move)
            )
            if one_buffer:
                if size > group_held:
                    group_held = size
                    group_loaded = 0.0 if same else size
            else:
                group_held += size
                if not same:
                    group_loaded += size
        held += group_held
        loaded += group_loaded
        begin = end
    return held, loaded


def _compute(made, costs, machine, top, left, w, h, k, step, steps):
    total = 0.0
    padded = machine[5] > 0
    for e in range(made.shape[0]):
        if not _active(made[e, 7], made[e, 8], made[e, 9], step, steps, k):
            continue
        rows = _side(made[e, 2], top, h, step, k, made[e, 4])
        cols = _side(made[e, 3], left, w, step, k, made[e, 5])
        cost = (
            costs[e]
            * native_tiles(made[e, 2], rows, machine[3], padded)
            * native_tiles(made[e, 3], cols, machine[2], padded)
        )
        if made[e, 0]:
            depth = made[e, 6]
            streamed = min(k, depth - step * k) if made[e, 1] else depth
            cost *= streamed / (machine[4] if machine[4] > 0 else depth)
        total += cost
    return total


def _distinct(values):
    """Sort a few values in place, each once; returns how many (array.sort takes seconds to
    compile).
    """
    count = ZERO
    for value in values:
        j = count
        while j > 0 and values[j - 1] > value:
            j -= 1
        if j > 0 and values[j - 1] == value:
            continue
        for i in range(count, j, -1):
            values[i] = values[i - 1]
        values[j] = value
        count += 1
    return count


def _step_runs(made, k, steps, runs):
    """Boundaries between runs of steps that cost alike; returns how many runs."""
    runs[0] = 0
    runs[1] = steps
    count = 2
    for candidate in (1, steps - 1):
        if 0 < candidate < steps:
            runs[count] = candidate
            count += 1
    for e in range(made.shape[0]):
        if made[e, 1] and count + 2 < runs.shape[0]:
            for candidate in (made[e, 6] // k, -(-made[e, 6] // k)):
                if 0 < candidate < steps:
                    runs[count] = candidate
                    count += 1
    return _distinct(runs[:count]) - 1


def axis_runs(lengths, size, grid_length, starts):
    """First tiles of the n clip classes along one axis; starts[n] is the number of tiles."""
    tiles = -(-grid_length // size)
    starts[0] = 0
    count = 1
    for length in lengths:
        for candidate in (length // size, -(-length // size)):
            if 0 < candidate < tiles and count < starts.shape[0] - 1:
                starts[count] = candidate
                count += 1
    count = _distinct(starts[:count])
    starts[count] = tiles
    return count


def held_elements(slices, made, machine, w, h, k, step, steps):
    """Input slices and carried products of a step of the first tile, elements."""
    held, _ = _buffers(slices, machine, ZERO, ZERO, w, h, k, step, steps, _START)
    return held + _carried(made, ZERO, ZERO, w, h, k, step)


def tile_fits(slices, made, outputs, machine, w, h, k, runs, spared):
    """True if the first tile fits, whatever the last runs of steps hold that are spared."""
    steps = _steps(slices, made, k)
    room_left = machine[0] - fixed_elements(made, outputs, machine, ZERO, ZERO, w, h, steps)
    for i in range(max(ONE, _step_runs(made, k, steps, runs) - spared)):
        if held_elements(slices, made, machine, w, h, k, runs[i], steps) > room_left:
            return False
    return True


def _raster_only(rows, nr, cols, nc, machine):
    return float(rows[nr]) * cols[nc] > machine[10]


def tile_table(work, w, h, k, grid, runs, table):
    """table[row class, column class, move]: latency of a tile; False if one does not fit."""
    slices, made, costs, outputs, machine = work
    rows, nr, cols, nc = grid
    steps = _steps(slices, made, k)
    n = _step_runs(made, k, steps, runs)
    bandwidth = machine[1]
    for i in range(nr):
        top = rows[i] * h
        for j in range(nc):
            left = cols[j] * w
            fixed = fixed_elements(made, outputs, machine, top, left, w, h, steps)
            stored = _stored(outputs, top, left, w, h)
            later = 0.0
            for r in range(1, n):
                step = runs[r]
                held, loaded = _buffers(slices, machine, top, left, w, h, k, step, steps, _START)
                if held + fixed + _carried(made, top, left, w, h, k, step) > machine[0]:
                    return False
                moved = loaded + (stored if step == steps - 1 else 0.0)
                later += (runs[r + 1] - step) * max(
                    _compute(made, costs, machine, top, left, w, h, k, step, steps),
                    moved / bandwidth,
                )
            compute = _compute(made, costs, machine, top, left, w, h, k, ZERO, steps)
            for move in range(4 if _raster_only(rows, nr, cols, nc, machine) else 3):
                held, loaded = _buffers(slices, machine, top, left, w, h, k, ZERO, steps, move)
                if held + fixed > machine[0]:
                    return False
                moved = loaded + (stored if steps == 1 else 0.0)
                table[i, j, move] = later + max(compute, moved / bandwidth)
    return True


def _odd(low, high):
    """Odd integers in [low, high)."""
    return high // 2 - low // 2


def _best_snake(table, across, lines, nl, places, np_, best, route):
    """Cheapest snake along one axis: (first line, entry place, other entry place) into `route`.

    A snake runs along a line, then moves to the next line in the same place; odd lines are entered
    where even ones end.  Within a line any order of places costs the same, so the two turning
    places are free: a clipped tile is a poor place to turn, since turning there saves a smaller
    load.
    """
    straight = 0.0
    along = _ALONG_COLUMN if across else _ALONG_ROW
    turn = _ALONG_ROW if across else _ALONG_COLUMN
    for i in range(nl):
        for j in range(np_):
            cell = table[j, i, along] if across else table[i, j, along]
            straight += (lines[i + 1] - lines[i]) * (places[j + 1] - places[j]) * cell
    found = False
    for s in range(nl):
        start = lines[s]
        for a in range(np_):
            for b in range(np_):
                if a == b and places[a + 1] - places[a] < 2 and places[np_] > 1:
                    continue
                total = straight
                total += (
                    (table[a, s, _START] - table[a, s, along])
                    if across
                    else (table[s, a, _START] - table[s, a, along])
                )
                for i in range(nl):
                    low = lines[i]
                    high = lines[i + 1]
                    if i == s:
                        low += 1
                    elif high <= start:
                        low = low + 1
                        high = high + 1
                    odd = _odd(low, high)
                    even = high - low - odd
                    if across:
                        total += odd * (table[b, i, turn] - table[b, i, along]) + even * (
                            table[a, i, turn] - table[a, i, along]
                        )
                    else:
                        total += odd * (table[i, b, turn] - table[i, b, along]) + even * (
                            table[i, a, turn] - table[i, a, along]
                        )
                if total < best * (1 - 1e-12):
                    best = total
                    found = True
                    route[1] = start
                    route[2] = places[a]
                    route[3] = places[b + 1] - 1
    if found:
        route[0] = across
    return best


def _raster(table, rows, nr, cols, nc):
    """Latency of the raster order."""
    total = table[0, 0, _START]
    turn = _JUMP if cols[nc] > 1 else _ALONG_COLUMN
    for i in range(nr):
        lines = rows[i + 1] - rows[i]
        total += (lines - (i == 0)) * table[i, 0, turn]
        for j in range(nc):
            total += lines * (cols[j + 1] - cols[j] - (j == 0)) * table[i, j, _ALONG_ROW]
    return total


def best_traversal(table, rows, nr, cols, nc, machine, best, route):
    if _raster_only(rows, nr, cols, nc, machine):
        route[0] = 2
        route[1] = 0
        route[2] = 0
        route[3] = 0
        return _raster(table, rows, nr, cols, nc)
    best = _best_snake(table, ZERO, rows, nr, cols, nc, best, route)
    return _best_snake(table, ONE, cols, nc, rows, nr, best, route)
