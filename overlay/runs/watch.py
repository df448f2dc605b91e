"""Probes of an overlay's RTL against the model and (static) the schedule: the cycle of every write,
the tokens of every link.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...scheduler.token import Mapped, Schedule
from ..core.config import RIGHT, link_name
from ..core.image import DynamicImage
from ..core.ops import Op
from ..model import Run
from ..tb.api import RtlRun

NEVER = 1 << 62


@dataclass(frozen=True, order=True)
class Difference:
    """One write or token that is not as expected.

    Attributes
    ----------
    cycle
        When it shows first on either side.
    where, what
        The node or link; what differs.
    expected, seen
        Of the model (and the schedule), and of the RTL, as text.
    """

    cycle: int
    where: str
    what: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: expected {self.expected}, RTL {self.seen}"


@dataclass
class Watched:
    """Compared quantities of a run.

    Attributes
    ----------
    writes, tokens, links
        Writes to value memories (static: received values among them), tokens on links, and links.
    differences
        In order of cycles.
    """

    writes: int
    tokens: int
    links: int
    differences: list[Difference] = field(default_factory=list)

    @property
    def first(self) -> str | None:
        """The first difference, in words."""
        return str(min(self.differences)) if self.differences else None


@dataclass
class _Expected:
    """Writes by PE and address, one each."""

    pe: np.ndarray
    address: np.ndarray
    cycle: np.ndarray
    node: np.ndarray
    received: np.ndarray  # a copy of the node's value, at another PE


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
    names = _Names(m)
    tokens = model.tokens
    assert tokens is not None
    out = Watched(0, len(tokens), len(m.overlay.links()))
    found = out.differences
    expected = _writes(m, model)
    out.writes = len(expected.cycle)
    if m.schedule is None:
        found += _dynamic_tokens(m, tokens, values, rtl, names)
    else:
        found += _model_and_schedule(m, model, tokens, expected)
        found += _static_tokens(m, values, rtl, names)
    found += _compare_writes(expected, values, rtl, names)
    ends = {"model": model.cycles}
    if m.schedule is not None:
        ends["schedule"] = m.schedule.length
    if {rtl.cycles, rtl.counted} != set(ends.values()):
        told = ", ".join(f"{cycles} by the {what}" for what, cycles in ends.items())
        seen = f"{rtl.cycles} by the last write, {rtl.counted} by its counter"
        found.append(Difference(NEVER, m.graph.title, "cycles", told, seen))
    found.sort()
    return out


class _Names:
    """Nodes and links in words."""

    def __init__(self, m: Mapped):
        self.m = m
        self.cols = m.overlay.cols

    def pe(self, pe: int) -> str:
        return f"PE {pe} ({pe % self.cols}, {pe // self.cols})"

    def node(self, node: int) -> str:
        graph = self.m.graph
        given = f" {graph.name[node]}" if node in graph.name else ""
        return f"node {node}{given} ({Op(int(graph.op[node])).name})"

    def write(self, node: int, pe: int, received: bool) -> str:
        return f"{self.node(node)}{', received' if received else ''} at {self.pe(pe)}"

    def link(self, link: int) -> str:
        return link_name(link, self.cols)


def _at(cycle: int | np.integer) -> str:
    return f"in cycle {cycle}" if cycle >= 0 else "never"


def _bits(value: int) -> str:
    return f"{value:#x}"


# ---- writes


def _writes(m: Mapped, model: Run) -> _Expected:
    """Writes that are due: dynamic, as the model says; static, as the schedule does."""
    s = m.schedule
    operations = np.flatnonzero(m.graph.op >= Op.ADD)
    pe = m.image.node_pe[operations].astype(np.int64)
    address = m.image.node_address[operations].astype(np.int64)
    if s is None:
        image = m.image
        assert isinstance(image, DynamicImage)
        pe = np.concatenate([pe, image.copy_pe])
        address = np.concatenate([address, image.copy_address])
        return _Expected(
            pe,
            address,
            model.written[image.base[pe] + address],
            np.concatenate([operations, image.copy_node]),
            np.repeat([False, True], [len(operations), len(image.copy_pe)]),
        )
    latency = m.overlay.latencies()[m.graph.op[operations]]
    return _Expected(
        np.concatenate([pe, s.copy_pe]),
        np.concatenate([address, s.copy_address]),
        np.concatenate([s.issue[operations] + latency - 1, s.copy_cycle]),
        np.concatenate([operations, s.send_node[s.copy_send]]),
        np.repeat([False, True], [len(operations), len(s.copy_pe)]),
    )


def _compare_writes(
    e: _Expected, values: np.ndarray, rtl: RtlRun, names: _Names
) -> list[Difference]:
    found = []
    deepest = 1 + int(max(e.address.max(initial=0), rtl.writes["address"].max(initial=0)))
    wanted = e.pe * deepest + e.address
    order = np.argsort(wanted)
    key = rtl.writes["pe"] * deepest + rtl.writes["address"]
    # of several writes to one address the first one counts, and the others are too many
    got, first = np.unique(key, return_index=True)
    twice = np.setdiff1d(np.arange(len(key)), first)
    _, mine, theirs = np.intersect1d(wanted[order], got, assume_unique=True, return_indices=True)
    mine = order[mine]
    theirs = first[theirs]
    seen = np.full(len(wanted), -1, np.int64)
    seen[mine] = rtl.writes["cycle"][theirs]
    for i in np.flatnonzero(seen != e.cycle):
        cycles = [int(c) for c in (e.cycle[i], seen[i]) if c >= 0]
        where = names.write(int(e.node[i]), int(e.pe[i]), bool(e.received[i]))
        found.append(Difference(min(cycles), where, "written", _at(e.cycle[i]), _at(seen[i])))
    wrong = values[e.node[mine]] != rtl.writes["value"][theirs]
    for i, k in zip(mine[wrong], theirs[wrong], strict=True):
        where = names.write(int(e.node[i]), int(e.pe[i]), bool(e.received[i]))
        want = _bits(int(values[e.node[i]]))
        got_value = _bits(int(rtl.writes["value"][k]))
        found.append(Difference(int(rtl.writes["cycle"][k]), where, "value", want, got_value))
    extra = np.concatenate([twice, first[~np.isin(got, wanted)]])
    for k in extra:
        cycle, pe, address = (int(rtl.writes[name][k]) for name in ("cycle", "pe", "address"))
        where = f"address {address} of {names.pe(pe)}"
        found.append(Difference(cycle, where, "a further write", "none", _at(cycle)))
    return found


# ---- tokens


def _dynamic_tokens(
    m: Mapped, tokens: np.ndarray, values: np.ndarray, rtl: RtlRun, names: _Names
) -> list[Difference]:
    found = []
    mine = tokens[np.lexsort((tokens["cycle"], tokens["link"]))]
    theirs = rtl.tokens[np.lexsort((rtl.tokens["cycle"], rtl.tokens["link"]))]
    ranks = [_ranks(t["link"]) for t in (mine, theirs)]
    most = 1 + max(int(r.max(initial=0)) for r in ranks)
    keys = [t["link"] * most + r for t, r in zip((mine, theirs), ranks, strict=True)]
    for side, alone, seen in (
        (mine, ~np.isin(keys[0], keys[1]), False),
        (theirs, ~np.isin(keys[1], keys[0]), True),
    ):
        for t in side[alone]:
            sides = ("none", _at(t["cycle"])) if seen else (_at(t["cycle"]), "none")
            found.append(Difference(int(t["cycle"]), names.link(int(t["link"])), "token", *sides))
    _, i, j = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    mine = mine[i]
    theirs = theirs[j]
    wanted, seen = _consumers(m, mine, theirs)
    differ = (mine["cycle"] != theirs["cycle"]) | (wanted != seen).any(axis=1)
    found += [
        Difference(
            int(min(mine["cycle"][k], theirs["cycle"][k])),
            f"{names.link(int(mine['link'][k]))}, token {int(keys[0][i[k]] % most)}",
            "for (PE, address, slot of each consumer) and cycle",
            f"{_tuple(wanted[k])} {_at(mine['cycle'][k])}",
            f"{_tuple(seen[k])} {_at(theirs['cycle'][k])}",
        )
        for k in np.flatnonzero(differ)
    ]
    carried = values[_producer(m, mine)]
    for k in np.flatnonzero(carried != theirs["value"]):
        where = f"{names.link(int(mine['link'][k]))}, cycle {int(theirs['cycle'][k])}"
        sides = (_bits(int(carried[k])), _bits(int(theirs["value"][k])))
        found.append(Difference(int(theirs["cycle"][k]), where, "value of the token", *sides))
    return found


def _tuple(numbers: np.ndarray) -> str:
    return "(" + ", ".join(map(str, numbers[numbers >= 0].tolist())) + ")"


def _ranks(link: np.ndarray) -> np.ndarray:
    """The how manieth of its link each token is; links are sorted."""
    first = np.flatnonzero(np.r_[True, link[1:] != link[:-1]]) if len(link) else link
    return np.arange(len(link)) - np.repeat(first, np.diff(np.r_[first, len(link)]))


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
    operand = np.where(tokens["slot"] == RIGHT, m.graph.b[consumer], m.graph.a[consumer])
    return np.where(copied[at] >= 0, copied[at], operand)


def _model_and_schedule(
    m: Mapped, model: Run, tokens: np.ndarray, e: _Expected
) -> list[Difference]:
    """The image does what the schedule says: writes and links, as the model reads them back."""
    s = m.schedule
    assert s is not None
    found = []
    own = ~e.received
    cycles = model.node_cycles(m.image)[e.node[own]]
    for i in np.flatnonzero(cycles != e.cycle[own]):
        node = int(e.node[own][i])
        sides = (f"by the schedule {_at(e.cycle[own][i])}", f"in the model {_at(cycles[i])}")
        found.append(Difference(int(e.cycle[own][i]), f"node {node}", "written", *sides))
    wanted = _scheduled(s)
    origin = m.image.base[s.pe] + s.address
    wanted[:, 2] = origin[wanted[:, 2]]
    got = np.stack([tokens[n] for n in ("cycle", "link", "origin")], axis=1)
    both, count = np.unique(np.concatenate([wanted, got]), axis=0, return_counts=True)
    for cycle, link, _ in both[count == 1]:
        where = link_name(int(link), m.overlay.cols)
        told = ("one side only", _at(cycle))
        found.append(Difference(int(cycle), where, "value of schedule and model", *told))
    return found


def _scheduled(s: Schedule) -> np.ndarray:
    """Values on links by the schedule: int64 [values, 3], cycle, link and node, each once."""
    link, cycle, send = s.crossings().T
    return np.unique(np.stack([cycle, link, s.send_node[send]], axis=1), axis=0)


def _static_tokens(m: Mapped, values: np.ndarray, rtl: RtlRun, names: _Names) -> list[Difference]:
    """Check the links against the schedule: they have the values that it puts there. What they have
    elsewhere nobody receives. What it has elsewhere nobody receives.
    """
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
        expected = f"{_bits(int(values[node]))}, of {names.node(node)}"
        got = _bits(int(seen[i])) if there[i] else "nothing"
        what = f"value put there in cycle {cycle}"
        found.append(Difference(cycle, names.link(link), what, expected, got))
    return found
