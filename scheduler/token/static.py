"""Images of static PEs: the contexts of a schedule (docs/overlay.md sections 6 and 7)."""

from __future__ import annotations

import numpy as np
import numba

from ...overlay.core.config import RIGHT, SWITCH_CODES, WRITE_ALU, WRITE_NET, Sizes
from ...overlay.core.image import StaticImage
from .edges import Task
from .schedule import EAST, NORTH, SOUTH, WEST, Schedule, route

OUTPUTS = {WEST: "w", EAST: "e", NORTH: "n", SOUTH: "s"}
OPPOSITE = {WEST: "E", EAST: "W", NORTH: "S", SOUTH: "N"}
"""The input of the neighbour that an output feeds."""


def static_image(s: Schedule, task: Task, value: np.ndarray) -> StaticImage:
    """The image of a schedule; ``value``: bits of the sources' values."""
    source = task.source
    e = task.e
    pes = s.overlay.pes
    length = s.length
    base = np.concatenate([[0], np.cumsum(s.values)]).astype(np.int64)
    values = np.zeros(base[-1], np.uint64)
    values[base[s.pe] + s.address] = np.where(source, value, np.uint64(0))
    context = {n: np.zeros((pes, length), np.int32) for n in ("a", "b", "send", "address")} | {
        n: np.zeros((pes, length), np.uint8) for n in ("op", "write")
    }
    nodes = np.flatnonzero(~source)
    p = s.pe[nodes]
    at = s.issue[nodes]
    context["op"][p, at] = task.op[nodes]
    seen = np.where(
        s.edge_copy >= 0,
        s.copy_address[s.edge_copy] if len(s.copy_address) else 0,
        s.address[e.src],
    )
    for name, mask in (("a", e.slot != RIGHT), ("b", e.slot == RIGHT)):
        context[name][s.pe[e.dst[mask]], s.issue[e.dst[mask]]] = seen[mask]
    done = at + task.latency[nodes] - 1
    context["write"][p, done] = WRITE_ALU
    context["address"][p, done] = s.address[nodes]
    context["write"][s.copy_pe, s.copy_cycle] = WRITE_NET
    context["address"][s.copy_pe, s.copy_cycle] = s.copy_address
    context["send"][s.pe[s.send_node], s.send_cycle] = s.address[s.send_node]
    switch = np.zeros((5, pes, length), np.uint8)
    # by output (W, E, N, S, P) and where the value comes from (output of the last switch, or 4: the
    # PE)
    codes = np.zeros((5, 5), np.uint8)
    for out, name in [*OUTPUTS.items(), (4, "p")]:
        for last, port in [*OPPOSITE.items(), (4, "P")]:
            codes[out, last] = SWITCH_CODES[name].get(port, 0)
    _switches(
        s.overlay.cols,
        s.pe[s.send_node[s.copy_send]] if len(s.copy_send) else s.copy_pe,
        s.copy_pe,
        s.copy_cycle,
        codes,
        switch,
    )
    return StaticImage(
        s.overlay,
        Sizes(nodes=int(s.values.max(initial=1)), contexts=max(1, length)),
        s.pe,
        s.address,
        base,
        values,
        length,
        {n: context[n] for n in ("op", "a", "b", "send", "write", "address")},
        {name: switch[out] for out, name in [*OUTPUTS.items(), (4, "p")]},
    )


@numba.njit(cache=True)
def _switches(cols, frm, to, arrival, codes, switch):
    way = np.empty(64, np.int64)
    for k in range(len(to)):
        hops = route(cols, frm[k], to[k], way)
        t = arrival[k] - hops
        last = 4
        for x in range(hops):
            at = way[x] // 4
            out = way[x] % 4
            switch[out, at, t + x] = codes[out, last]
            last = out
        switch[4, to[k], arrival[k]] = codes[4, last]
