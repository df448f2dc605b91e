"""The checker of static schedules: replays one and names the first rule it breaks (docs/overlay.md
sections 6 to 8).
"""

from __future__ import annotations

import numpy as np

from ...machine.errors import RunError
from .edges import Task
from .schedule import Schedule


def check(s: Schedule, task: Task, there: np.ndarray | None = None) -> None:
    """Raises RunError naming PE, cycle and rule unless ``s`` is a schedule of the graph; sources
    that are ``there`` need no issue.
    """
    source = task.source
    e = task.e
    latency = task.latency
    cols = s.overlay.cols
    length = max(s.length, 1)
    must = ~source | (np.diff(e.start) > 0)
    must &= np.True_ if there is None else ~there
    _none("a node never issues", np.flatnonzero(must & (s.issue < 0)))
    nodes = np.flatnonzero(must)
    _once("issue", s.pe[nodes], s.issue[nodes], length)
    operations = np.flatnonzero(~source)
    done = s.issue[operations] + latency[operations] - 1
    _none("an operation ends after the last cycle", operations[done >= s.length])
    frm = s.pe[s.send_node]
    start = s.send_cycle
    _once("send", frm, start, length)
    # a value is there from here on; sources: with or without a cycle of their own
    there = np.where(source, np.where(s.issue >= 0, s.issue + 1, 0), s.issue + latency)
    _none("a value is sent before it is there", s.send_node[start < there[s.send_node]])
    sender = frm[s.copy_send]
    hops = np.abs(sender % cols - s.copy_pe % cols) + np.abs(sender // cols - s.copy_pe // cols)
    _none(
        "a value does not arrive when it is written",
        s.send_node[s.copy_send[s.copy_cycle != start[s.copy_send] + hops]],
    )
    _none("a value is sent to its own PE", s.send_node[s.copy_send[hops == 0]])
    _once(
        "write",
        np.concatenate([s.pe[operations], s.copy_pe]),
        np.concatenate([done, s.copy_cycle]),
        length,
    )
    own = np.bincount(s.pe, minlength=s.overlay.pes)
    _once(
        "address",
        np.concatenate([s.pe, s.copy_pe]),
        np.concatenate([s.address, s.copy_address]),
        int((own + np.bincount(s.copy_pe, minlength=len(own))).max()),
    )
    # each send's tree uses a link once
    link, cycle, _ = s.crossings().T
    _once("link", link, cycle, length)
    # operands
    copied = np.flatnonzero(s.edge_copy >= 0)
    copy = s.edge_copy[copied]
    _none(
        "an operand is a copy of another value, or at another PE",
        e.dst[copied][
            (s.send_node[s.copy_send[copy]] != e.src[copied])
            | (s.copy_pe[copy] != s.pe[e.dst[copied]])
        ],
    )
    local = np.flatnonzero(s.edge_copy < 0)
    _none("an operand is at another PE", e.dst[local][s.pe[e.src[local]] != s.pe[e.dst[local]]])
    ready = there[e.src].copy()
    ready[copied] = s.copy_cycle[copy] + 1
    _none("an operand is read before it is there", e.dst[s.issue[e.dst] < ready])


def _none(what: str, nodes: np.ndarray) -> None:
    if len(nodes):
        raise RunError(f"{what}: node {int(nodes[0])} ({len(nodes)} in all)", "static schedule")


def _once(what: str, row: np.ndarray, cycle: np.ndarray, length: int) -> None:
    if len(cycle) and (int(cycle.min()) < 0 or int(cycle.max()) >= length):
        raise RunError(f"{what} outside of the schedule's {length} cycles", "static schedule")
    key = np.sort(row.astype(np.int64) * length + cycle)
    twice = key[1:][key[1:] == key[:-1]]
    if len(twice):
        raise RunError(
            f"two users of one {what} cycle: {what} {int(twice[0] // length)}, cycle "
            f"{int(twice[0] % length)}",
            "static schedule",
            rule="one issue, send, value on a link and write a cycle",
        )
