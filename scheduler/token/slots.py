"""Taken slots of PEs and links, a bit a cycle: 64 cycles are looked at together.

The table is uint64 [7 * PEs, words]: a row for the issues of each PE,
then for the writes, the sends, and the links (switch * 4 + output). Bit
t % 64 of word t // 64 is set where cycle t is taken. Rows end in
:data:`SPARE` words that stay free, so that a look ahead does not leave
them.
"""

from __future__ import annotations

import numpy as np
import numba

from .schedule import EAST, NORTH, SOUTH, WEST

SPARE = 4
_ONE = np.uint64(1)
_FULL = np.uint64(2**64 - 1)
_DE_BRUIJN = 0x03F79D71B4CB0A89
_FACTOR = np.uint64(_DE_BRUIJN)
_SHIFT = np.uint64(58)
_PLACE = np.zeros(64, np.int64)
for _bit in range(64):
    _PLACE[((_DE_BRUIJN << _bit) & (2**64 - 1)) >> 58] = _bit


WRITE, SEND, LINK = 1, 2, 3
"""First rows of writes, sends and links, in PEs; those of issues are the first."""


def slots(pes: int, cycles: int) -> np.ndarray:
    """A table for schedules of up to ``cycles`` cycles, with nothing taken."""
    return np.zeros((7 * pes, cycles // 64 + 1 + SPARE), np.uint64)


@numba.njit(cache=True)
def _lowest(x):
    """Index of the lowest bit that is set."""
    return _PLACE[((x & (~x + _ONE)) * _FACTOR) >> _SHIFT]


@numba.njit(cache=True)
def _before(t):
    """The bits of the cycles before t in t's word."""
    return (_ONE << np.uint64(t & 63)) - _ONE


@numba.njit(cache=True)
def _window(s, row, t):
    """The 64 cycles from t on."""
    shift = np.uint64(t & 63)
    if shift == np.uint64(0):
        return s[row, t >> 6]
    return (s[row, t >> 6] >> shift) | (s[row, (t >> 6) + 1] << (np.uint64(64) - shift))


@numba.njit(cache=True)
def take(s, row, t):
    """Take cycle t."""
    s[row, t >> 6] |= _ONE << np.uint64(t & 63)


@numba.njit(cache=True)
def taken(s, row, t):
    """True if cycle t is taken."""
    return (s[row, t >> 6] >> np.uint64(t & 63)) & _ONE != np.uint64(0)


@numba.njit(cache=True)
def first_free(s, pe, t, limit):
    """The first free issue of a PE at or after t; ``limit`` or more where there is none before."""
    base = (t >> 6) << 6
    used = s[pe, base >> 6] | _before(t)
    while used == _FULL:
        base += 64
        if base >= limit:
            return base
        used = s[pe, base >> 6]
    return base + _lowest(~used)


@numba.njit(cache=True)
def first_issue(pes, s, pe, t, latency, limit):
    """The first cycle at or after t in which an operation may issue, its write being free."""
    write = WRITE * pes + pe
    base = (t >> 6) << 6
    used = s[pe, base >> 6] | _window(s, write, base + latency - 1) | _before(t)
    while used == _FULL:
        base += 64
        if base >= limit:
            return base
        used = s[pe, base >> 6] | _window(s, write, base + latency - 1)
    return base + _lowest(~used)


@numba.njit(cache=True)
def _links_taken(cols, pes, frm, to, s, base, used):
    """``used`` and the start cycles from ``base`` on in which a link of the route is taken."""
    x = frm % cols
    y = frm // cols
    tx = to % cols
    ty = to // cols
    hops = 0
    while x != tx and used != _FULL:
        row = LINK * pes + (y * cols + x) * 4 + (EAST if tx > x else WEST)
        used |= _window(s, row, base + hops)
        x += 1 if tx > x else -1
        hops += 1
    while y != ty and used != _FULL:
        row = LINK * pes + (y * cols + x) * 4 + (SOUTH if ty > y else NORTH)
        used |= _window(s, row, base + hops)
        y += 1 if ty > y else -1
        hops += 1
    return used


@numba.njit(cache=True)
def distance(cols, frm, to):
    """Hops from one PE to another."""
    return abs(frm % cols - to % cols) + abs(frm // cols - to // cols)


@numba.njit(cache=True)
def first_send(cols, pes, frm, to, s, t, limit):
    """The first cycle at or after t in which the sender, every link of the route at its time, and
    the receiver's write are free; ``limit`` or more where there is none before.
    """
    hops = distance(cols, frm, to)
    base = (t >> 6) << 6
    low = _before(t)
    while base < limit:
        used = low | s[SEND * pes + frm, base >> 6] | _window(s, WRITE * pes + to, base + hops)
        used = _links_taken(cols, pes, frm, to, s, base, used)
        if used != _FULL:
            return base + _lowest(~used)
        base += 64
        low = np.uint64(0)
    return limit


@numba.njit(cache=True)
def shared_hops(cols, frm, one, other):
    """Hops that the XY routes to two PEs have in common, from the sender on."""
    x = frm % cols
    y = frm // cols
    dx1 = one % cols - x
    dx2 = other % cols - x
    dy1 = one // cols - y
    dy2 = other // cols - y
    if dx1 != dx2:
        return min(abs(dx1), abs(dx2)) if dx1 * dx2 > 0 else 0
    return abs(dx1) + (min(abs(dy1), abs(dy2)) if dy1 * dy2 > 0 else 0)


@numba.njit(cache=True)
def route_free(cols, pes, frm, to, s, t, skip):
    """True if the links of a route that starts at t are free, the first ``skip`` left out."""
    x = frm % cols
    y = frm // cols
    tx = to % cols
    ty = to // cols
    hops = 0
    while x != tx:
        row = LINK * pes + (y * cols + x) * 4 + (EAST if tx > x else WEST)
        if hops >= skip and taken(s, row, t + hops):
            return False
        x += 1 if tx > x else -1
        hops += 1
    while y != ty:
        row = LINK * pes + (y * cols + x) * 4 + (SOUTH if ty > y else NORTH)
        if hops >= skip and taken(s, row, t + hops):
            return False
        y += 1 if ty > y else -1
        hops += 1
    return True


@numba.njit(cache=True)
def take_route(cols, pes, frm, to, s, t):
    """Take the links of a route that starts at t, and the receiver's write."""
    x = frm % cols
    y = frm // cols
    tx = to % cols
    ty = to // cols
    hops = 0
    while x != tx:
        take(s, LINK * pes + (y * cols + x) * 4 + (EAST if tx > x else WEST), t + hops)
        x += 1 if tx > x else -1
        hops += 1
    while y != ty:
        take(s, LINK * pes + (y * cols + x) * 4 + (SOUTH if ty > y else NORTH), t + hops)
        y += 1 if ty > y else -1
        hops += 1
    take(s, WRITE * pes + to, t + hops)
