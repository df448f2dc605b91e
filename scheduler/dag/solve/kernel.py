"""Search for the best [w, h, k] and traversal of one subgraph, in the part of Python that numba
compiles.

The functions run as they are; `compiled` makes compiled code of them.

The closed form of `meter.Meter` for the default reuse: tiles that are clipped alike cost alike, and
a tile's first step depends only on how the tile was reached, so the cost of a whole traversal is a
sum over a handful of (row class, column class, move) cases instead of over all steps.

Arrays (integers unless said otherwise), one row per item:

- ``slices``: tensor, rows, cols, height, width, first, last, depth, role; sorted by tensor
- ``made``: matmul, outer, rows, cols, height, width, K, first, last, depth, depth up to which the
  product is carried; ``costs`` (float) alongside
- ``outputs``: height, width, retained
- ``machine`` (float): capacity - kept, bandwidth, native width, native height, what one base_cost's
  reduction is (0: the whole K), 1 if inner extents are padded, grid
  width, grid height, 1 if a tensor has one buffer per step, 1 if any
  depth is a candidate, tiles of the largest grid that a snake may visit
  (raster order above)

What travels together is a tuple:

- ``work``: slices, made, costs, outputs, machine; a ``code`` is these and the widths and heights of
  all tensors, ascending
- ``sizes``: widths, heights and depths to choose from, each descending
- ``grid``: first tiles of the row classes and how many classes, the same of the columns
- ``scratch``: room for runs of steps, for the tiles' latencies and for a route
- ``room``: all that a search writes to (`room`), as compiled code allocates nothing
"""

from __future__ import annotations

import numpy as np

from ..demand import Extent

NOT_FOUND = np.inf
_TILE = int(Extent.TILE)
_STEP = int(Extent.STEP)
_COVER = int(Extent.COVER)
# a literal as an argument would compile the callee once more
_0 = np.int64(0)
_1 = np.int64(1)
_START = _0
_ALONG_ROW = _1
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
    if extent == _TILE:
        return max(0, min(size, length - start))
    if extent == _STEP:
        return max(0, min(k, length - step * k))
    return length


def _native(extent, length, native, padded):
    if extent == _TILE or extent == _COVER or padded:
        return max(1.0, np.ceil(length / native))
    return length / native


def _steps(slices, made, k):
    steps = _1
    for e in range(made.shape[0]):
        if made[e, 1]:
            steps = max(steps, -(-made[e, 6] // k))
    return steps


def _fixed(made, outputs, machine, top, left, w, h, steps):
    """Output tiles and accumulators without one, elements."""
    total = 0.0
    for o in range(outputs.shape[0]):
        if not outputs[o, 2]:
            total += max(0, min(h, outputs[o, 0] - top)) * max(0, min(w, outputs[o, 1] - left))
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
        or (cols == _TILE and move != _ALONG_COLUMN)
        or (rows == _TILE and move != _ALONG_ROW)
    )


def _stays(rows, cols, step, steps, move):
    """True if a slice of these extents is the one of the step before, if that has one."""
    stepping = rows == _STEP or cols == _STEP
    if step > 0:
        return not stepping
    return not (stepping and steps > 1) and not _begins(rows, cols, step, move)


def _buffers(slices, machine, top, left, w, h, k, step, steps, move):
    """(held, loaded) elements of one step; `move` says which buffers the step before shares."""
    held = loaded = 0.0
    one_buffer = machine[8] > 0
    count = slices.shape[0]
    begin = _0
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
            * _native(made[e, 2], rows, machine[3], padded)
            * _native(made[e, 3], cols, machine[2], padded)
        )
        if made[e, 0]:
            depth = made[e, 6]
            streamed = min(k, depth - step * k) if made[e, 1] else depth
            cost *= streamed / (machine[4] if machine[4] > 0 else depth)
        total += cost
    return total


def _sort(values):
    """Sort a few values in place; array.sort takes seconds to compile."""
    for i in range(1, values.shape[0]):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


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
    _sort(runs[:count])
    unique = 1
    for i in range(1, count):
        if runs[i] != runs[unique - 1]:
            runs[unique] = runs[i]
            unique += 1
    return unique - 1


def _axis_runs(lengths, size, grid_length, starts):
    """First tiles of the n clip classes along one axis; starts[n] is the number of tiles."""
    tiles = -(-grid_length // size)
    starts[0] = 0
    count = 1
    for length in lengths:
        for candidate in (length // size, -(-length // size)):
            if 0 < candidate < tiles and count < starts.shape[0] - 1:
                starts[count] = candidate
                count += 1
    _sort(starts[:count])
    unique = 1
    for i in range(1, count):
        if starts[i] != starts[unique - 1]:
            starts[unique] = starts[i]
            unique += 1
    starts[unique] = tiles
    return unique


def _held(slices, made, machine, w, h, k, step, steps):
    """Input slices and carried products of a step of the first tile, elements."""
    held, _ = _buffers(slices, machine, _0, _0, w, h, k, step, steps, _START)
    return held + _carried(made, _0, _0, w, h, k, step)


def _fits(slices, made, outputs, machine, w, h, k, runs, spared):
    """True if the first tile fits, whatever the last runs of steps hold that are spared."""
    steps = _steps(slices, made, k)
    room_left = machine[0] - _fixed(made, outputs, machine, _0, _0, w, h, steps)
    for i in range(max(_1, _step_runs(made, k, steps, runs) - spared)):
        if _held(slices, made, machine, w, h, k, runs[i], steps) > room_left:
            return False
    return True


def _raster_only(rows, nr, cols, nc, machine):
    return float(rows[nr]) * cols[nc] > machine[10]


def _tile_table(work, w, h, k, grid, runs, table):
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
            fixed = _fixed(made, outputs, machine, top, left, w, h, steps)
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
            compute = _compute(made, costs, machine, top, left, w, h, k, _0, steps)
            for move in range(4 if _raster_only(rows, nr, cols, nc, machine) else 3):
                held, loaded = _buffers(slices, machine, top, left, w, h, k, _0, steps, move)
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


def _best_traversal(table, rows, nr, cols, nc, machine, best, route):
    if _raster_only(rows, nr, cols, nc, machine):
        route[0] = 2
        route[1] = 0
        route[2] = 0
        route[3] = 0
        return _raster(table, rows, nr, cols, nc)
    best = _best_snake(table, _0, rows, nr, cols, nc, best, route)
    return _best_snake(table, _1, cols, nc, rows, nr, best, route)


def _least_loads(rows, cols, height, width, nx, ny, w, h, across):
    """Elements that a slice loads at least: (with one step per tile, with several)."""
    size = float(height * width)
    single = size
    several = size * nx * ny
    if rows == _TILE:
        several = size * nx
        if cols != _TILE and across:
            single = size * nx - (nx - 1) * min(h, height) * width
    elif cols == _TILE:
        several = size * ny
        if not across:
            single = size * ny - (ny - 1) * min(w, width) * height
    return single, several if rows == _STEP or cols == _STEP else single


def _bounds(slices, made, costs, outputs, machine, nx, ny, w, h):
    """Lower bounds on the latency for this (w, h): (with one step per tile, with several)."""
    # products of three lengths exceed 64 bits
    nx = float(nx)
    ny = float(ny)
    compute = 0.0
    area = machine[6] * machine[7] / (machine[2] * machine[3])
    for e in range(made.shape[0]):
        padded = machine[5] > 0
        rows = 1.0
        cols = 1.0
        if made[e, 2] != _TILE and made[e, 2] != _COVER:
            rows = _native(made[e, 2], made[e, 4], machine[3], padded and made[e, 2] != _STEP)
        if made[e, 3] != _TILE and made[e, 3] != _COVER:
            cols = _native(made[e, 3], made[e, 5], machine[2], padded and made[e, 3] != _STEP)
        cost = costs[e] * rows * cols
        if made[e, 0] and machine[4] > 0:
            cost *= made[e, 6] / machine[4]
        if made[e, 2] == _TILE and made[e, 3] == _TILE:
            compute += cost * max(nx * ny, area)
        else:
            compute += cost * nx * ny
    stored = 0.0
    for o in range(outputs.shape[0]):
        if not outputs[o, 2]:
            stored += outputs[o, 0] * outputs[o, 1]
    low_single = low_several = np.inf
    for across in range(2):
        single = several = stored
        begin = 0
        while begin < slices.shape[0]:
            end = begin
            most_single = most_several = 0.0
            while end < slices.shape[0] and slices[end, 0] == slices[begin, 0]:
                height = slices[end, 3]
                width = slices[end, 4]
                least_single, least_several = _least_loads(
                    slices[end, 1], slices[end, 2], height, width, nx, ny, w, h, across
                )
                most_single = max(most_single, least_single)
                most_several = max(most_several, least_several)
                end += 1
            single += most_single
            several += most_several
            begin = end
        low_single = min(low_single, single)
        low_several = min(low_several, several)
    return max(compute, low_single / machine[1]), max(compute, low_several / machine[1])


def _limits(work, w, h, depths, guess, longest, runs):
    """(deepest k at which all steps but a last, shorter one fit; most that a last step may reduce).

    A step holds more the deeper it is, and the last of several is as deep as the others leave it.
    Both are 0 if none of the descending `depths` fits.  The search begins at a guess.
    """
    slices, made, _, outputs, machine = work
    if _fits(slices, made, outputs, machine, w, h, depths[0], runs, _0):
        # a single step keeps neither accumulators nor carried products, so shallower ones may not
        # fit
        return depths[0], longest
    low = _1
    high = depths.shape[0]
    at = _largest(depths, guess)
    stride = _1
    while low < high:
        if at < low or at >= high:
            at = (low + high) // 2
        if _fits(slices, made, outputs, machine, w, h, depths[at], runs, _1):
            high = at
            at -= stride
        else:
            low = at + 1
            at += stride
        stride *= 2
    if low == depths.shape[0]:
        return _0, _0
    room_left = machine[0] - _fixed(made, outputs, machine, _0, _0, w, h, np.int64(2))
    most = min(depths[low], longest // 2)
    if _held(slices, made, machine, w, h, longest - most, _1, np.int64(2)) <= room_left:
        return depths[low], longest
    least = _0
    while most - least > 1:
        middle = (least + most) // 2
        if _held(slices, made, machine, w, h, longest - middle, _1, np.int64(2)) <= room_left:
            least = middle
        else:
            most = middle
    return depths[low], least


def _last_step(k, longest):
    """Elements that the last of the steps reduces."""
    return (longest - 1) % k + 1


def _evaluate(work, w, h, k, grid, scratch):
    """Latency of the best snake at one granularity, which goes into the scratch's route; infinite
    if a tile does not fit.
    """
    runs, table, route = scratch
    rows, nr, cols, nc = grid
    if not _tile_table(work, w, h, k, grid, runs, table):
        return np.inf
    return _best_traversal(table, rows, nr, cols, nc, work[4], np.inf, route)


def _try(work, w, h, k, grid, scratch, best, choice):
    """`_evaluate`, noting the result in `best[0]` and `choice` if it is the least so far."""
    total = _evaluate(work, w, h, k, grid, scratch)
    if total < best[0]:
        best[0] = total
        choice[0] = w
        choice[1] = h
        choice[2] = k
        route = scratch[2]
        for i in range(4):
            choice[3 + i] = route[i]
    return total


def _largest(sizes, wanted):
    """Index of the largest of descending sizes that is not above the one wanted."""
    at = 0
    high = sizes.shape[0]
    while at < high:
        middle = (at + high) // 2
        if sizes[middle] > wanted:
            at = middle + 1
        else:
            high = middle
    return at


def _twice(size, grid_length, sizes):
    """Index of the candidate that merges tiles of this size in pairs; -1 if there is none."""
    tiles = -(-grid_length // size)
    if tiles == 1:
        return -1
    wanted = min(2 * size, sizes[0])
    at = _largest(sizes, wanted)
    if (
        at < sizes.shape[0]
        and sizes[at] == wanted
        and -(-grid_length // wanted) <= (tiles + 1) // 2
    ):
        return at
    return -1


def _reductions(made, machine):
    """(the deepest reduction, whether the latency is convex over depths that give as many steps).

    Steps cost alike only if every reduction has the same depth.
    """
    longest = _1
    for e in range(made.shape[0]):
        if made[e, 1]:
            longest = max(longest, made[e, 6])
    convex = machine[9] > 0
    for e in range(made.shape[0]):
        if made[e, 1] and made[e, 6] != longest:
            convex = False
    return longest, convex


def _single_step_fits(work, w, h, longest, runs):
    """True if a tile of one step fits."""
    slices, made, _, outputs, machine = work
    return _fits(slices, made, outputs, machine, w, h, longest, runs, _0)


def _limits_at(work, sizes, iw, ih, longest, known, runs):
    """`_limits` for one of the widths and heights (-1: there is none), found out once."""
    ws, hs, ks = sizes
    if known[iw, ih, 0] < 0:
        guess = max(known[iw - 1, ih, 0], known[iw, ih - 1, 0])  # of tiles somewhat larger
        deepest, last = _limits(work, ws[iw], hs[ih], ks, guess, longest, runs)
        known[iw, ih, 0] = deepest
        known[iw, ih, 1] = last
    return known[iw, ih]


def _last_alike(ks, ik, least, longest):
    """Index of the least depth above `least` that gives as many steps as the one at `ik`."""
    steps = -(-longest // ks[ik])
    least = max(least + 1, -(-longest // steps))
    last = ik
    while last + 1 < ks.shape[0] and ks[last + 1] >= least:
        last += 1
    return last


def _descend(work, w, h, ks, first, last, grid, scratch, best, choice):
    """Try depths from `first` to `last`, over which the latency is convex: its slope leads to the
    least, and bounds it.
    """
    if first == last:
        _try(work, w, h, ks[first], grid, scratch, best, choice)
    while first < last:
        middle = (first + last) // 2
        here = _try(work, w, h, ks[middle], grid, scratch, best, choice)
        beside = _try(work, w, h, ks[middle + 1], grid, scratch, best, choice)
        slope = (here - beside) / (ks[middle] - ks[middle + 1])
        if here <= beside:
            last = middle
            low = here + slope * (ks[first] - ks[middle])
        else:
            first = middle + 1
            low = beside - slope * (ks[first] - ks[last])
        if low >= best[0] * (1 - 1e-12):
            break


def search(code, sizes, room, choice):
    """Least latency over all candidates; `choice` gets w, h, k and the route.

    Merging two neighbouring tiles or steps never costs more, so a candidate is skipped if the one
    twice as wide, high or deep fits too; the rest is pruned by lower bounds against the best so
    far, which begins with the cut-off that the room was made for.
    """
    slices, made, costs, outputs, machine, widths, heights = code
    work = (slices, made, costs, outputs, machine)
    ws, hs, ks = sizes
    longest, convex = _reductions(made, machine)
    runs, rows, cols, table, route, known, least_so_far = room
    scratch = (runs, table, route)
    for iw in range(ws.shape[0]):
        w = ws[iw]
        nx = -(-int(machine[6]) // w)
        nc = _axis_runs(widths, w, int(machine[6]), cols)
        wider = _twice(w, int(machine[6]), ws)
        for ih in range(hs.shape[0]):
            h = hs[ih]
            ny = -(-int(machine[7]) // h)
            low_single, low_several = _bounds(slices, made, costs, outputs, machine, nx, ny, w, h)
            cutoff = least_so_far[0] * (1 - 1e-12)
            # only one step per tile could be better, if it fits
            if low_several >= cutoff and (
                longest > ks[0]
                or low_single >= cutoff
                or not _single_step_fits(work, w, h, longest, runs)
            ):
                continue
            higher = _twice(h, int(machine[7]), hs)
            here = _limits_at(work, sizes, iw, ih, longest, known, runs)
            if here[0] == 0:
                continue
            in_wider = _limits_at(work, sizes, wider, ih, longest, known, runs)
            in_higher = _limits_at(work, sizes, iw, higher, longest, known, runs)
            least = max(min(in_wider[0], in_wider[1]), min(in_higher[0], in_higher[1]))
            twice = here[0] // 2 if machine[9] > 0 else 0
            least = max(least, min(twice, here[1] // 2))
            grid = (rows, _axis_runs(heights, h, int(machine[7]), rows), cols, nc)
            ik = _largest(ks, here[0])
            while ik < ks.shape[0] and ks[ik] > least:
                k = ks[ik]
                short = _last_step(k, longest)
                # only depths that do not also fit in a tile twice as wide or high, or in a step
                # twice as deep
                if (
                    short > here[1]
                    or (k <= in_wider[0] and short <= in_wider[1])
                    or (k <= in_higher[0] and short <= in_higher[1])
                    or (k <= twice and _last_step(2 * k, longest) <= here[1])
                ):
                    ik += 1
                    continue
                last = _last_alike(ks, ik, least, longest) if convex else ik
                low = low_single if k >= longest else low_several
                if low < least_so_far[0] * (1 - 1e-12):
                    fits = last
                    while _last_step(ks[fits], longest) > here[1]:
                        fits -= 1
                    _descend(work, w, h, ks, ik, fits, grid, scratch, least_so_far, choice)
                ik = last + 1
    return least_so_far[0]


def room(widths, heights, best):
    """Buffers that a search over so many widths and heights writes to; `best` is its cut-off."""
    known = np.full((widths + 1, heights + 1, 2), -1, np.int64)  # `_limits`, once found
    known[-1] = known[:, -1] = 0  # where there is no such tile, nothing fits
    return (
        np.empty(STEP_RUNS, np.int64),
        np.empty(RUNS + 1, np.int64),
        np.empty(RUNS + 1, np.int64),
        np.empty((RUNS, RUNS, 4)),
        np.zeros(4, np.int64),
        known,
        np.array([best]),
    )
