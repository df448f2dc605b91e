"""Static schedules: which node issues, is sent and received when (docs/overlay.md section 8).

Compiled; plain data out.

Nodes are taken longest path first; each issues in the first free cycle in which its operands are
there, and each of its sends takes the first cycle in which the send, every link of its XY route,
and the receiver's write are free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from ...machine.overlay import RIGHT, Overlay
from .edges import Edges

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
        int32 [nodes]: cycle of issue; -1: none needed (stored sources, sources without edges out).
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
    """Whether a route that starts at t is free; with ``own``, links marked 2 (the same send's)
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


@numba.njit(cache=True)
def _run(
    at,
    horizon,
    order,
    source,
    operand,
    operand_edge,
    latency,
    pe,
    fired,
    cols,
    per_edge,
    multicast,
    start,
    dst,
    urgent,
    available,
    issue,
    free_issue,
    free_write,
    free_send,
    busy,
    send_node,
    send_cycle,
    copy_send,
    copy_pe,
    copy_cycle,
    edge_copy,
    counts,
):
    """Schedule order[at:]; returns the index reached (less than all: the tables are too short) and
    the last cycle in use.

    ``counts`` holds the numbers of sends and copies so far.
    """
    T = free_issue.shape[1]
    way = np.empty(64, np.int64)
    dest = np.empty(1024, np.int64)
    made = np.empty(1024, np.int64)
    slack = 2 * latency.max() + 128
    for k in range(at, len(order)):
        n = order[k]
        p = pe[n]
        lo = start[n]
        hi = start[n + 1]
        if T < horizon + slack + (hi - lo):
            return k, horizon
        issue[n] = -1
        t = 0
        if source[n]:
            if hi == lo:
                continue
            if fired:
                t = _free(free_issue, p, 0)
                free_issue[p, t] = t + 1
                issue[n] = t
                t += 1
        else:
            for i in range(2):
                u = operand[i, n]
                if u >= 0:
                    copy = edge_copy[operand_edge[i, n]]
                    t = max(t, available[u] if copy < 0 else copy_cycle[copy] + 1)
            while True:
                t = _free(free_issue, p, t)
                w = _free(free_write, p, t + latency[n] - 1)
                if w == t + latency[n] - 1:
                    break
                t = w - latency[n] + 1
            free_issue[p, t] = t + 1
            free_write[p, w] = w + 1
            issue[n] = t
            t += latency[n]
        available[n] = t
        horizon = max(horizon, t)
        # the foreign PEs that want the value, most urgent first (per edge: with repetition)
        wanted = 0
        for j in range(lo, hi):
            e = urgent[j]
            q = pe[dst[e]]
            edge_copy[e] = -1
            if q == p:
                continue
            if per_edge:
                s = _first_send(cols, p, q, t, free_send, free_write, busy, way)
                h = route(cols, p, q, way)
                for x in range(h):
                    busy[way[x], s + x] = 1
                free_send[p, s] = s + 1
                free_write[q, s + h] = s + h + 1
                send_node[counts[0]] = n
                send_cycle[counts[0]] = s
                copy_send[counts[1]] = counts[0]
                copy_pe[counts[1]] = q
                copy_cycle[counts[1]] = s + h
                edge_copy[e] = counts[1]
                counts += 1
                horizon = max(horizon, s + h)
                continue
            d = 0
            while d < wanted and dest[d] != q:
                d += 1
            if d == wanted:
                dest[d] = q
                made[d] = -1
                wanted += 1
            edge_copy[e] = d  # the destination's index until the copies are known
        if wanted == 0:
            continue
        for lead in range(wanted):
            if made[lead] >= 0:
                continue
            s = _first_send(cols, p, dest[lead], t, free_send, free_write, busy, way)
            send = counts[0]
            counts[0] += 1
            free_send[p, s] = s + 1
            send_node[send] = n
            send_cycle[send] = s
            for d in range(lead, wanted if multicast else lead + 1):
                if made[d] >= 0:
                    continue
                q = dest[d]
                h = route(cols, p, q, way)
                if _free(free_write, q, s + h) != s + h or not _clear(busy, way, h, s, True):
                    continue
                for x in range(h):
                    busy[way[x], s + x] = 2
                free_write[q, s + h] = s + h + 1
                made[d] = counts[1]
                copy_send[counts[1]] = send
                copy_pe[counts[1]] = q
                copy_cycle[counts[1]] = s + h
                counts[1] += 1
                horizon = max(horizon, s + h)
            for d in range(lead, wanted):
                if made[d] >= 0 and copy_send[made[d]] == send:
                    h = route(cols, p, dest[d], way)
                    for x in range(h):
                        busy[way[x], s + x] = 1
        for j in range(lo, hi):
            e = urgent[j]
            if pe[dst[e]] != p:
                edge_copy[e] = made[edge_copy[e]]
    return len(order), horizon


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


def schedule(
    overlay: Overlay,
    source: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    e: Edges,
    latency: np.ndarray,
    pe: np.ndarray,
) -> Schedule:
    """The schedule of a placed graph in topological order (``source``: bool per node; ``latency``:
    cycles per node; ``pe``: PE per node).
    """
    n = len(source)
    pes = overlay.pes
    far = distances(a, b, latency, pe, overlay.cols)
    order = np.lexsort((np.arange(n), -far))
    urgent = np.lexsort((e.slot, e.dst, -(latency[e.dst] + far[e.dst]), e.src))
    operand_edge = np.zeros((2, n), np.int64)
    operand_edge[(e.slot == RIGHT).astype(np.int64), e.dst] = np.arange(len(e.src))
    remote = int(np.count_nonzero(pe[e.src] != pe[e.dst]))
    length = (
        int(1.25 * np.bincount(pe, minlength=pes).max(initial=0) + 2 * far.max(initial=0))
        + int(np.diff(e.start).max(initial=0))
        + 2 * int(latency.max(initial=1))
        + 256
    )
    ints = lambda size: np.full(size, -1, np.int32)  # noqa: E731
    available = ints(n)
    issue = ints(n)
    edge_copy = ints(len(e.src))
    sends = [ints(remote) for _ in range(2)]
    copies = [ints(remote) for _ in range(3)]
    counts = np.zeros(2, np.int64)
    ramp = np.tile(np.arange(length, dtype=np.int32), (pes, 1))
    tables = [ramp, ramp.copy(), ramp.copy()]
    busy = np.zeros((4 * pes, length), np.uint8)
    at = horizon = 0
    while True:
        at, horizon = _run(
            at,
            horizon,
            order,
            source,
            np.stack([a, b]),
            operand_edge,
            latency,
            pe,
            overlay.sources == "fired",
            overlay.cols,
            overlay.sends == "edge",
            overlay.sends == "multicast",
            e.start,
            e.dst,
            urgent,
            available,
            issue,
            *tables,
            busy,
            *sends,
            *copies,
            edge_copy,
            counts,
        )
        if at == n:
            break
        more = np.tile(np.arange(length, 2 * length, dtype=np.int32), (pes, 1))
        tables = [np.concatenate([t, more], axis=1) for t in tables]
        busy = np.concatenate([busy, np.zeros_like(busy)], axis=1)
        length *= 2
    sends = [s[: counts[0]] for s in sends]
    copies = [c[: counts[1]] for c in copies]
    own = np.bincount(pe, minlength=pes)
    operations = ~source
    return Schedule(
        overlay,
        pe,
        _rank(pe, pes),
        int((issue + latency)[operations].max(initial=0)),
        issue,
        *sends,
        *copies,
        (own[copies[1]] + _rank(copies[1], pes)).astype(np.int32),
        edge_copy,
        (own + np.bincount(copies[1], minlength=pes)).astype(np.int32),
    )


def _rank(pe: np.ndarray, pes: int) -> np.ndarray:
    """int32: index of each item among those of its PE."""
    order = np.argsort(pe, kind="stable")
    offset = np.concatenate([[0], np.cumsum(np.bincount(pe, minlength=pes))])
    out = np.empty(len(pe), np.int32)
    out[order] = np.arange(len(pe)) - offset[pe[order]]
    return out
