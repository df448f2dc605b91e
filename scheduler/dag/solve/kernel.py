"""Search for the best [w, h, k] and traversal of one subgraph, in the part of Python that numba
compiles; costs and their arrays are those of `closed_form`.

The functions run as they are; `compiled` makes compiled code of them.

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

from .closed_form import (
    COVER,
    ONE,
    RUNS,
    STEP,
    STEP_RUNS,
    TILE,
    ZERO,
    axis_runs,
    best_traversal,
    fixed_elements,
    held_elements,
    native_tiles,
    tile_fits,
    tile_table,
)

NOT_FOUND = np.inf


def _least_loads(rows, cols, height, width, nx, ny, w, h, across):
    """Elements that a slice loads at least: (with one step per tile, with several)."""
    size = float(height * width)
    single = size
    several = size * nx * ny
    if rows == TILE:
        several = size * nx
        if cols != TILE and across:
            single = size * nx - (nx - 1) * min(h, height) * width
    elif cols == TILE:
        several = size * ny
        if not across:
            single = size * ny - (ny - 1) * min(w, width) * height
    return single, several if rows == STEP or cols == STEP else single


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
        if made[e, 2] != TILE and made[e, 2] != COVER:
            rows = native_tiles(made[e, 2], made[e, 4], machine[3], padded and made[e, 2] != STEP)
        if made[e, 3] != TILE and made[e, 3] != COVER:
            cols = native_tiles(made[e, 3], made[e, 5], machine[2], padded and made[e, 3] != STEP)
        cost = costs[e] * rows * cols
        if made[e, 0] and machine[4] > 0:
            cost *= made[e, 6] / machine[4]
        if made[e, 2] == TILE and made[e, 3] == TILE:
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
    if tile_fits(slices, made, outputs, machine, w, h, depths[0], runs, ZERO):
        # a single step keeps neither accumulators nor carried products, so shallower ones may not
        # fit
        return depths[0], longest
    low = ONE
    high = depths.shape[0]
    at = _largest(depths, guess)
    stride = ONE
    while low < high:
        if at < low or at >= high:
            at = (low + high) // 2
        if tile_fits(slices, made, outputs, machine, w, h, depths[at], runs, ONE):
            high = at
            at -= stride
        else:
            low = at + 1
            at += stride
        stride *= 2
    if low == depths.shape[0]:
        return ZERO, ZERO
    # a last step of so many elements is the second of two
    two = np.int64(2)
    room_left = machine[0] - fixed_elements(made, outputs, machine, ZERO, ZERO, w, h, two)
    most = min(depths[low], longest // 2)
    if held_elements(slices, made, machine, w, h, longest - most, ONE, two) <= room_left:
        return depths[low], longest
    least = ZERO
    while most - least > 1:
        middle = (least + most) // 2
        if held_elements(slices, made, machine, w, h, longest - middle, ONE, two) <= room_left:
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
    if not tile_table(work, w, h, k, grid, runs, table):
        return np.inf
    return best_traversal(table, rows, nr, cols, nc, work[4], np.inf, route)


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
    longest = ONE
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
    return tile_fits(slices, made, outputs, machine, w, h, longest, runs, ZERO)


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
        nc = axis_runs(widths, w, int(machine[6]), cols)
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
            grid = (rows, axis_runs(heights, h, int(machine[7]), rows), cols, nc)
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
