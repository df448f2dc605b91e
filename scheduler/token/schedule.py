"""Static schedules: which node issues, is sent and received when (docs/overlay.md section 8).

Compiled; plain data out.

Nodes are taken longest path first; each issues in the first free cycle in which its operands are
there, and each of its sends takes the first cycle in which the send, every link of its XY route,
and the receiver's write are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numba

from ...overlay.core.config import Overlay
from .edges import Task

WEST, EAST, NORTH, SOUTH = range(4)


@dataclass(frozen=True)
class Schedule:
    """A static schedule.

    Attributes
    ----------
    overlay, pe, address
        The machine; PE and local address of each node.
    length
        Cycles.
    issue
        int32 [nodes]: cycle of issue; -1: none needed (sources without edges out).
    send_node, send_cycle
        int32 [sends]: what a PE puts on its switch, and when.
    copy_send, copy_pe, copy_cycle, copy_address
        int32 [copies]: the send that made it, the PE that writes it, when, and where.
    edge_copy
        int32 [edges]: the copy that the consumer reads, -1 for its own PE's value (edges as in
        :class:`~.edges.Edges`).
    values
        int32 [PEs]: local addresses in use, own and received.
    """

    overlay: Overlay
    pe: np.ndarray
    address: np.ndarray
    length: int
    issue: np.ndarray
    send_node: np.ndarray
    send_cycle: np.ndarray
    copy_send: np.ndarray
    copy_pe: np.ndarray
    copy_cycle: np.ndarray
    copy_address: np.ndarray
    edge_copy: np.ndarray
    values: np.ndarray

    def crossings(self) -> np.ndarray:
        """Values on links: int64 [values, 3], link (4 * PE + output), cycle and send, each once."""
        cols = self.overlay.cols
        start = self.send_cycle[self.copy_send]
        sender = self.pe[self.send_node[self.copy_send]].astype(np.int64)
        dx = self.copy_pe % cols - sender % cols
        dy = self.copy_pe // cols - sender // cols
        rows = [np.zeros((0, 3), np.int64)]
        for k in range(int((abs(dx) + abs(dy)).max(initial=0))):
            far = np.flatnonzero(abs(dx) + abs(dy) > k)
            across = np.minimum(k, abs(dx[far]))
            x = sender[far] % cols + np.sign(dx[far]) * across
            y = sender[far] // cols + np.sign(dy[far]) * (k - across)
            along = np.where(dx[far] > 0, EAST, WEST)
            out = np.where(k < abs(dx[far]), along, np.where(dy[far] > 0, SOUTH, NORTH))
            send = self.copy_send[far]
            rows.append(np.stack([4 * (y * cols + x) + out, start[far] + k, send], axis=1))
        return np.unique(np.concatenate(rows), axis=0)


@numba.njit(cache=True)
def _free(table, row, t):
    """First free cycle at or after t; ``table`` links each taken cycle to a later one."""
    root = t
    while table[row, root] != root:
        root = table[row, root]
    while table[row, t] != root:
        table[row, t], t = root, table[row, t]
    return root


@numba.njit(cache=True)
def route(cols, frm, to, out):
    """Write the XY route into ``out`` as switch * 4 + output, hop by hop; returns the number of
    hops.
    """
    x = frm % cols
    y = frm // cols
    tx = to % cols
    ty = to // cols
    h = 0
    while x != tx:
        out[h] = (y * cols + x) * 4 + (EAST if tx > x else WEST)
        x += 1 if tx > x else -1
        h += 1
    while y != ty:
        out[h] = (y * cols + x) * 4 + (SOUTH if ty > y else NORTH)
        y += 1 if ty > y else -1
        h += 1
    return h


@numba.njit(cache=True)
def _clear(busy, way, hops, t, own):
    """True if a route that starts at t is free; with ``own``, links marked 2 (the same send's)
    count as free.
    """
    for x in range(hops):
        taken = busy[way[x], t + x]
        if taken == 1 or (taken == 2 and not own):
            return False
    return True


@numba.njit(cache=True)
def _first_send(cols, frm, to, t, free_send, free_write, busy, way):
    """The first cycle at or after t in which a value can be sent and be written by its receiver."""
    h = route(cols, frm, to, way)
    while True:
        t = _free(free_send, frm, t)
        w = _free(free_write, to, t + h)
        if w > t + h:
            t = w - h
        elif _clear(busy, way, h, t, False):
            return t
        else:
            t += 1


class _Problem(NamedTuple):
    """A placed graph: per node, per operand of a node, per edge."""

    order: np.ndarray
    """The nodes as they are scheduled."""
    source: np.ndarray
    operand: np.ndarray
    operand_edge: np.ndarray
    latency: np.ndarray
    pe: np.ndarray
    start: np.ndarray
    """First edge of each node."""
    dst: np.ndarray
    urgent: np.ndarray
    """The edges of each node, most urgent first."""


class _Found(NamedTuple):
    """The schedule so far; ``counts`` are the numbers of sends and copies."""

    available: np.ndarray
    issue: np.ndarray
    send_node: np.ndarray
    send_cycle: np.ndarray
    copy_send: np.ndarray
    copy_pe: np.ndarray
    copy_cycle: np.ndarray
    edge_copy: np.ndarray
    counts: np.ndarray


class _Tables(NamedTuple):
    """Tables of taken cycles, by PE or link; those of PEs link a taken cycle to a later one."""

    issue: np.ndarray
    write: np.ndarray
    send: np.ndarray
    busy: np.ndarray


@numba.njit(cache=True)
def _issue(n, p, found, tables):
    """Issue node n as early as can be; returns the cycle from which its value can be sent, -1 for a
    source that nothing reads.
    """
    pe = p.pe[n]
    if p.source[n]:
        if p.start[n] == p.start[n + 1]:
            return -1
        t = _free(tables.issue, pe, 0)
        tables.issue[pe, t] = t + 1
        found.issue[n] = t
        return t + 1
    t = 0
    for i in range(2):
        u = p.operand[i, n]
        if u >= 0:
            copy = found.edge_copy[p.operand_edge[i, n]]
            t = max(t, found.available[u] if copy < 0 else found.copy_cycle[copy] + 1)
    while True:
        t = _free(tables.issue, pe, t)
        w = _free(tables.write, pe, t + p.latency[n] - 1)
        if w == t + p.latency[n] - 1:
            break
        t = w - p.latency[n] + 1
    tables.issue[pe, t] = t + 1
    tables.write[pe, w] = w + 1
    found.issue[n] = t
    return t + p.latency[n]


@numba.njit(cache=True)
def _note_copy(found, send, pe, cycle):
    """Add a copy of a value in a PE; returns its number."""
    copy = found.counts[1]
    found.copy_send[copy] = send
    found.copy_pe[copy] = pe
    found.copy_cycle[copy] = cycle
    found.counts[1] += 1
    return copy


@numba.njit(cache=True)
def _note_send(n, t, p, found, tables):
    """Add a send of node n's value; returns its number."""
    send = found.counts[0]
    tables.send[p.pe[n], t] = t + 1
    found.send_node[send] = n
    found.send_cycle[send] = t
    found.counts[0] += 1
    return send


@numba.njit(cache=True)
def _wanted(n, p, found, dest):
    """Write the other PEs that want a value into ``dest``, most urgent first, and each edge's index
    there into ``edge_copy``; returns their number.
    """
    wanted = 0
    for j in range(p.start[n], p.start[n + 1]):
        e = p.urgent[j]
        q = p.pe[p.dst[e]]
        found.edge_copy[e] = -1
        if q == p.pe[n]:
            continue
        d = 0
        while d < wanted and dest[d] != q:
            d += 1
        if d == wanted:
            dest[d] = q
            wanted += 1
        found.edge_copy[e] = d
    return wanted


@numba.njit(cache=True)
def _send_together(n, t, p, cols, joins, found, tables, way, dest):
    """Send a value to the PEs that want it, one by one unless a send ``joins`` several; returns the
    last cycle in use.

    While a send looks for PEs that it reaches too, its own links are marked 2.
    """
    horizon = t
    here = p.pe[n]
    busy = tables.busy
    wanted = _wanted(n, p, found, dest)
    if wanted == 0:
        return t
    made = np.full(wanted, -1, np.int64)
    for lead in range(wanted):
        if made[lead] >= 0:
            continue
        s = _first_send(cols, here, dest[lead], t, tables.send, tables.write, busy, way)
        send = _note_send(n, s, p, found, tables)
        for d in range(lead, wanted if joins else lead + 1):
            if made[d] >= 0:
                continue
            q = dest[d]
            h = route(cols, here, q, way)
            if _free(tables.write, q, s + h) != s + h or not _clear(busy, way, h, s, True):
                continue
            for x in range(h):
                busy[way[x], s + x] = 2
            tables.write[q, s + h] = s + h + 1
            made[d] = _note_copy(found, send, q, s + h)
            horizon = max(horizon, s + h)
        for d in range(lead, wanted):
            if made[d] >= 0 and found.copy_send[made[d]] == send:
                h = route(cols, here, dest[d], way)
                for x in range(h):
                    busy[way[x], s + x] = 1
    for j in range(p.start[n], p.start[n + 1]):
        e = p.urgent[j]
        if p.pe[p.dst[e]] != here:
            found.edge_copy[e] = made[found.edge_copy[e]]
    return horizon


@numba.njit(cache=True)
def _run(at, horizon, p, cols, joins, found, tables):
    """Schedule order[at:]; returns the index reached (less than all: the tables are too short) and
    the last cycle in use.
    """
    way = np.empty(64, np.int64)
    dest = np.empty(1024, np.int64)
    slack = 2 * p.latency.max() + 128
    for k in range(at, len(p.order)):
        n = p.order[k]
        if tables.issue.shape[1] < horizon + slack + (p.start[n + 1] - p.start[n]):
            return k, horizon
        found.issue[n] = -1
        t = _issue(n, p, found, tables)
        if t < 0:
            continue
        found.available[n] = t
        horizon = max(horizon, t)
        last = _send_together(n, t, p, cols, joins, found, tables, way, dest)
        horizon = max(horizon, last)
    return len(p.order), horizon


@numba.njit(cache=True)
def distances(a, b, latency, pe, cols):
    """Longest path after each node, with hops + 1 on every edge between PEs."""
    tail = np.zeros(len(a), np.int32)
    for n in range(len(a) - 1, -1, -1):
        for u in (a[n], b[n]):
            if u >= 0:
                p = pe[u]
                q = pe[n]
                far = abs(p % cols - q % cols) + abs(p // cols - q // cols)
                tail[u] = max(tail[u], tail[n] + latency[n] + (far + 1 if far else 0))
    return tail


def schedule(task: Task, pe: np.ndarray) -> Schedule:
    """The schedule of a placed graph in which a value is sent as soon as it is made: by multicast
    or, where that is shorter, by a send for each PE.
    """
    return min((_scheduled(task, pe, joins) for joins in (True, False)), key=lambda s: s.length)


def _scheduled(task: Task, pe: np.ndarray, joins: bool) -> Schedule:
    overlay = task.overlay
    source = task.source
    e = task.e
    latency = task.latency
    pe = pe.astype(np.int32)
    n = len(source)
    pes = overlay.pes
    far = distances(task.a, task.b, latency, pe, overlay.cols)
    order = np.lexsort((np.arange(n), -far))
    urgent = np.lexsort((e.slot, e.dst, -(latency[e.dst] + far[e.dst]), e.src))
    operand_edge = np.zeros((2, n), np.int64)
    operand_edge[(e.slot & 1).astype(np.int64), e.dst] = np.arange(len(e.src))
    remote = int(np.count_nonzero(pe[e.src] != pe[e.dst]))
    length = (
        int(1.25 * np.bincount(pe, minlength=pes).max(initial=0) + 2 * far.max(initial=0))
        + int(np.diff(e.start).max(initial=0))
        + 2 * int(latency.max(initial=1))
        + 256
    )
    problem = _Problem(
        order, source, np.stack([task.a, task.b]), operand_edge, latency, pe, e.start, e.dst, urgent
    )
    found = _Found(
        *(np.full(size, -1, np.int32) for size in (n, n, *[remote] * 5, len(e.src))),
        counts=np.zeros(2, np.int64),
    )
    ramp = np.tile(np.arange(length, dtype=np.int32), (pes, 1))
    tables = _Tables(ramp, ramp.copy(), ramp.copy(), np.zeros((4 * pes, length), np.uint8))
    at = horizon = 0
    while True:
        at, horizon = _run(at, horizon, problem, overlay.cols, joins, found, tables)
        if at == n:
            break
        more = np.tile(np.arange(length, 2 * length, dtype=np.int32), (pes, 1))
        tables = _Tables(
            *(np.concatenate([t, more], axis=1) for t in tables[:3]),
            busy=np.concatenate([tables.busy, np.zeros_like(tables.busy)], axis=1),
        )
        length *= 2
    sends, copies = found.counts
    return assemble(
        task,
        pe,
        found.issue,
        (found.send_node[:sends], found.send_cycle[:sends]),
        (found.copy_send[:copies], found.copy_pe[:copies], found.copy_cycle[:copies]),
        found.edge_copy,
    )


def assemble(
    task: Task,
    pe: np.ndarray,
    issue: np.ndarray,
    sends: tuple[np.ndarray, np.ndarray],
    copies: tuple[np.ndarray, np.ndarray, np.ndarray],
    edge_copy: np.ndarray,
) -> Schedule:
    """A schedule with its addresses: ``sends`` are nodes and cycles, ``copies`` sends, PEs and
    cycles.
    """
    pes = task.overlay.pes
    own = np.bincount(pe, minlength=pes)
    copy_send, copy_pe, copy_cycle = copies
    return Schedule(
        task.overlay,
        pe,
        ranks(pe, pes),
        int((issue + task.latency)[~task.source].max(initial=0)),
        issue,
        *sends,
        copy_send,
        copy_pe,
        copy_cycle,
        (own[copy_pe] + ranks(copy_pe, pes)).astype(np.int32),
        edge_copy,
        (own + np.bincount(copy_pe, minlength=pes)).astype(np.int32),
    )


def ranks(pe: np.ndarray, pes: int) -> np.ndarray:
    """int32: index of each item among those of its PE."""
    order = np.argsort(pe, kind="stable")
    offset = np.concatenate([[0], np.cumsum(np.bincount(pe, minlength=pes))])
    out = np.empty(len(pe), np.int32)
    out[order] = np.arange(len(pe)) - offset[pe[order]]
    return out
