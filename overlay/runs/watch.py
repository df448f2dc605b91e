"""Probes of an overlay's RTL against the model and (static) the schedule: the cycle of every write,
the tokens of every link.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...scheduler.token import Mapped, Schedule
from ..core.config import link_name
from ..core.image import DynamicImage
from ..core.ops import Op
from ..model import Run
from ..tb.api import RtlRun

NEVER = 1 << 62


@dataclass(frozen=True, order=True)
class Difference:
    """One write or token that is not as expected."""

    cycle: int  # when it shows first on either side
    # where, what: the node or link; what differs
    where: str
    what: str
    # expected, seen: of the model (and the schedule), and of the RTL, as text
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: expected {self.expected}, RTL {self.seen}"


@dataclass
class Watched:
    """Compared quantities of a run."""

    # writes, tokens, links: writes to value memories (static: received values among them), tokens
    # on links, and links
    writes: int
    tokens: int
    links: int
    differences: list[Difference] = field(default_factory=list)  # in order of cycles

    @property
    def first(self) -> str | None:
        """The first difference, in words."""
        return str(min(self.differences)) if self.differences else None


class _Writes(NamedTuple):
    """Writes that are due: node, PE, address and cycle of each, and whether it is a copy of the
    node's value at another PE.
    """

    node: np.ndarray
    pe: np.ndarray
    address: np.ndarray
    cycle: np.ndarray
    received: np.ndarray


def watch(m: Mapped, model: Run, values: np.ndarray, rtl: RtlRun) -> Watched:
    """Compare a run of the RTL with the model's, which kept its tokens, and with the schedule.

    Parameters
    ----------
    m
        What ran.
    model
        Of :func:`~penstock.overlay.model.simulate` with ``tokens=True``.
    values
        uint64 [graph nodes]: bits of every node's value.
    rtl
        What the probes recorded.
    """
    tokens = model.tokens
    assert tokens is not None
    out = Watched(0, len(tokens), len(m.overlay.links()))
    found = out.differences
    due = _writes(m, model)
    out.writes = len(due.cycle)
    if m.schedule is None:
        found += _dynamic_tokens(m, tokens, values, rtl)
    else:
        found += _model_and_schedule(m, model, tokens, due)
        found += _static_tokens(m, values, rtl)
    found += _compare_writes(m, due, values, rtl)
    ends = {"model": model.cycles}
    if m.schedule is not None:
        ends["schedule"] = m.schedule.length
    last = 1 + int(model.written.max(initial=-1))
    if rtl.cycles != last or {rtl.counted} != set(ends.values()):
        told = ", ".join(f"{cycles} by the {what}" for what, cycles in ends.items())
        seen = f"{rtl.cycles} by the last write, {rtl.counted} by its counter"
        found.append(Difference(NEVER, m.graph.title, "cycles", told, seen))
    found.sort()
    return out


def _pe(m: Mapped, pe: int) -> str:
    return f"PE {pe} ({pe % m.overlay.cols}, {pe // m.overlay.cols})"


def _node(m: Mapped, node: int) -> str:
    given = f" {m.graph.name[node]}" if node in m.graph.name else ""
    return f"node {node}{given} ({Op(int(m.graph.op[node])).name})"


def _link(m: Mapped, link: int) -> str:
    return link_name(int(link), m.overlay.cols)


def _at(cycle: int) -> str:
    return f"in cycle {cycle}"


def _bits(value: int) -> str:
    return f"{value:#x}"


def _paired(wanted: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, ...]:
    """Entries of two sides by their places, of each place the first with the first, and so on: the
    indices of those with a partner on either side, then of those without.
    """

    def ranked(place: np.ndarray) -> np.ndarray:
        order = np.argsort(place, kind="stable")
        begin = np.flatnonzero(np.diff(place[order], prepend=-1))
        rank = np.empty(len(place), np.int64)
        rank[order] = np.arange(len(place)) - np.repeat(begin, np.diff(begin, append=len(place)))
        return place << 24 | rank

    keys = ranked(wanted), ranked(seen)
    _, i, j = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    alone = [np.setdiff1d(np.arange(len(k)), of) for k, of in zip(keys, (i, j), strict=True)]
    return i, j, *alone


# ---- writes


def _writes(m: Mapped, model: Run) -> _Writes:
    """Writes that are due: dynamic, as the model says; static, as the schedule does."""
    s = m.schedule
    image = m.image
    node = np.flatnonzero(m.graph.op >= Op.ADD)
    pe = image.node_pe[node].astype(np.int64)
    address = image.node_address[node]
    if s is not None:
        done = s.issue[node] + m.overlay.latencies()[m.graph.op[node]] - 1
        copies = s.send_node[s.copy_send], s.copy_pe, s.copy_address, s.copy_cycle
    else:
        assert isinstance(image, DynamicImage)
        done = model.written[image.base[pe] + address]
        at = image.base[image.copy_pe] + image.copy_address
        copies = image.copy_node, image.copy_pe, image.copy_address, model.written[at]
    own = [column[done >= 0] for column in (node, pe, address, done)]
    node, pe, address, cycle = (np.concatenate(c) for c in zip(own, copies, strict=True))
    received = np.arange(len(node)) >= len(own[0])
    return _Writes(node, pe, address.astype(np.int64), cycle.astype(np.int64), received)


def _compare_writes(m: Mapped, e: _Writes, values: np.ndarray, rtl: RtlRun) -> list[Difference]:
    def name(i: int) -> str:
        received = ", received" if e.received[i] else ""
        return f"{_node(m, int(e.node[i]))}{received} at {_pe(m, int(e.pe[i]))}"

    seen = rtl.writes
    i, j, lost, extra = _paired(e.pe << 24 | e.address, seen["pe"] << 24 | seen["address"])
    due = [(int(e.cycle[k]), name(k)) for k in lost]
    found = [Difference(cycle, where, "written", _at(cycle), "never") for cycle, where in due]
    for k in np.flatnonzero(e.cycle[i] != seen["cycle"][j]):
        cycles = int(e.cycle[i[k]]), int(seen["cycle"][j[k]])
        found.append(Difference(min(cycles), name(i[k]), "written", *map(_at, cycles)))
    for k in np.flatnonzero(values[e.node[i]] != seen["value"][j]):
        sides = (_bits(int(v)) for v in (values[e.node[i[k]]], seen["value"][j[k]]))
        found.append(Difference(int(seen["cycle"][j[k]]), name(i[k]), "value", *sides))
    for one in seen[extra]:
        where = f"address {one['address']} of {_pe(m, int(one['pe']))}"
        cycle = int(one["cycle"])
        found.append(Difference(cycle, where, "a further write", "none", _at(cycle)))
    return found


# ---- tokens


def _dynamic_tokens(
    m: Mapped, tokens: np.ndarray, values: np.ndarray, rtl: RtlRun
) -> list[Difference]:
    found = []
    mine, theirs = (t[np.argsort(t["cycle"], kind="stable")] for t in (tokens, rtl.tokens))
    i, j, lost, extra = _paired(mine["link"], theirs["link"])
    for alone, side in ((mine[lost], 0), (theirs[extra], 1)):
        for cycle, link in zip(alone["cycle"].tolist(), alone["link"].tolist(), strict=True):
            sides = ("none", _at(cycle)) if side else (_at(cycle), "none")
            found.append(Difference(cycle, _link(m, link), "token", *sides))
    mine = mine[i]
    theirs = theirs[j]
    sides = _consumers(m, mine, theirs)
    late = mine["cycle"] != theirs["cycle"]
    for k in np.flatnonzero(late | (sides[0] != sides[1]).any(axis=1)):
        cycles = int(mine["cycle"][k]), int(theirs["cycle"][k])
        told = [f"{_tuple(s[k])} {_at(c)}" for s, c in zip(sides, cycles, strict=True)]
        what = "for (PE, address, slot of each consumer) and cycle of a token"
        found.append(Difference(min(cycles), _link(m, mine["link"][k]), what, *told))
    carried = values[_producer(m, mine)]
    for k in np.flatnonzero(carried != theirs["value"]):
        cycle = int(theirs["cycle"][k])
        told = _bits(int(carried[k])), _bits(int(theirs["value"][k]))
        where = f"{_link(m, mine['link'][k])}, cycle {cycle}"
        found.append(Difference(cycle, where, "value of the token", *told))
    return found


def _tuple(numbers: np.ndarray) -> str:
    return "(" + ", ".join(map(str, numbers[numbers >= 0].tolist())) + ")"


def _consumers(m: Mapped, mine: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PE and consumers of tokens of the model and of the RTL, alike: int64 [tokens, 5]; -1 for a
    second consumer that is not there.
    """
    columns = ("pe", "node", "slot", "node2", "slot2")
    wanted = np.stack([mine[name] for name in columns], axis=1)
    wanted[mine["node2"] < 0, 3:] = -1
    pe = theirs["y"] * m.overlay.cols + theirs["x"]
    seen = np.stack([pe, theirs["node"], theirs["slot"], *np.full((2, len(pe)), -1)], axis=1)
    if "pair" in (theirs.dtype.names or ()):
        second = np.stack([theirs["node2"], theirs["slot2"]], axis=1)
        seen[:, 3:] = np.where(theirs["pair"][:, None] != 0, second, -1)
    return wanted, seen


def _producer(m: Mapped, tokens: np.ndarray) -> np.ndarray:
    """The node whose value each token carries: an operand of its consumer."""
    image = m.image
    assert isinstance(image, DynamicImage)
    node = np.zeros(image.base[-1], np.int64)
    node[image.base[image.node_pe] + image.node_address] = np.arange(len(image.node_pe))
    copied = np.full(image.base[-1], -1, np.int64)
    copied[image.base[image.copy_pe] + image.copy_address] = image.copy_node
    at = image.base[tokens["pe"]] + tokens["node"]
    consumer = node[at]
    operand = np.where(tokens["slot"] & 1 != 0, m.graph.b[consumer], m.graph.a[consumer])
    return np.where(copied[at] >= 0, copied[at], operand)


def _model_and_schedule(m: Mapped, model: Run, tokens: np.ndarray, e: _Writes) -> list[Difference]:
    """The image does what the schedule says: writes and links, as the model reads them back."""
    s = m.schedule
    assert s is not None
    found = []
    own = ~e.received
    cycles = model.node_cycles(m.image)[e.node[own]]
    for i in np.flatnonzero(cycles != e.cycle[own]):
        sides = (f"by the schedule {_at(e.cycle[own][i])}", f"in the model {_at(cycles[i])}")
        where = _node(m, int(e.node[own][i]))
        found.append(Difference(int(e.cycle[own][i]), where, "written", *sides))
    wanted = _scheduled(s)
    origin = m.image.base[s.pe] + s.address
    wanted[:, 2] = origin[wanted[:, 2]]
    got = np.stack([tokens[n] for n in ("cycle", "link", "origin")], axis=1)
    both, count = np.unique(np.concatenate([wanted, got]), axis=0, return_counts=True)
    for cycle, link, _ in both[count == 1]:
        where = _link(m, link)
        told = ("one side only", _at(cycle))
        found.append(Difference(int(cycle), where, "value of schedule and model", *told))
    return found


def _scheduled(s: Schedule) -> np.ndarray:
    """Values on links by the schedule: int64 [values, 3], cycle, link and node, each once."""
    link, cycle, send = s.crossings().T
    return np.unique(np.stack([cycle, link, s.send_node[send]], axis=1), axis=0)


def _static_tokens(m: Mapped, values: np.ndarray, rtl: RtlRun) -> list[Difference]:
    """Links have the values that the schedule puts there. What they have elsewhere nobody receives."""
    s = m.schedule
    assert s is not None
    wanted = _scheduled(s)
    if not len(wanted):
        return []
    late = 2 + int(max(wanted[:, 0].max(), rtl.tokens["cycle"].max(initial=0)))
    # a link's first value is that of the cycle before the first
    key = rtl.tokens["link"] * late + rtl.tokens["cycle"] + 1
    order = np.argsort(key)
    at = np.searchsorted(key[order], wanted[:, 1] * late + wanted[:, 0] + 1, side="right") - 1
    last = order[np.maximum(at, 0)]
    there = (at >= 0) & (rtl.tokens["link"][last] == wanted[:, 1])
    seen = rtl.tokens["value"][last]
    found = []
    for i in np.flatnonzero(~there | (seen != values[wanted[:, 2]])):
        cycle, link, node = (int(v) for v in wanted[i])
        expected = f"{_bits(int(values[node]))}, of {_node(m, node)}"
        got = _bits(int(seen[i])) if there[i] else "nothing"
        what = f"value put there in cycle {cycle}"
        found.append(Difference(cycle, _link(m, link), what, expected, got))
    return found
