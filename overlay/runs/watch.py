"""Probes of an overlay's RTL against the model and (static) the schedule: the cycle of every write,
the tokens of every link.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...scheduler.token import Mapped
from ..core.config import link_name, packet
from ..core.ops import Op
from ..core.places import WIRES
from ..model import Run
from ..model.moves import moves
from ..tb.api import RtlRun

NEVER = 1 << 62

At = tuple[int, int]
"""Cycle of a move, and its PE or link."""


@dataclass(frozen=True, order=True)
class Difference:
    """One write or token that is not as expected."""

    cycle: int  # when it moves, on either side
    where: str  # the PE or the link
    what: str  # what each side has there

    def __str__(self) -> str:
        when = "" if self.cycle == NEVER else f", cycle {self.cycle}"
        return f"{self.where}{when}: {self.what}"


@dataclass
class Watched:
    """Compared quantities of a run."""

    # writes, tokens, links: writes to value memories (static: received values among them), tokens
    # on links, and links
    writes: int
    tokens: int
    links: int
    differences: list[Difference] = field(default_factory=list)

    @property
    def first(self) -> str | None:
        """The first difference, in words."""
        return str(min(self.differences)) if self.differences else None


def watch(m: Mapped, model: Run, rtl: RtlRun) -> Watched:
    """Compare a run of the RTL with the model's, which kept its tokens, and with the schedule.

    Parameters
    ----------
    m
        What ran.
    model
        Of :func:`~penstock.overlay.model.simulate` with ``tokens=True``.
    rtl
        What the probes recorded.
    """
    due = moves(m.image, model)
    tokens: dict[At, Any] = {at: word for at, word in due.tokens.items() if at[1] < WIRES}
    out = Watched(len(due.writes), len(tokens), len(m.overlay.links()))
    rows = zip(*(rtl.writes[name].tolist() for name in rtl.writes.dtype.names or ()), strict=True)
    writes = [((cycle, pe), (address, value)) for cycle, pe, address, value in rows]
    out.differences = _differences(due.writes, writes, lambda pe: _pe(m, pe), _write)
    if m.schedule is None:
        layout = packet(m.overlay, m.image.sizes)
        tokens = {at: layout.unpack(word) for at, word in tokens.items()}
        there = _packets(rtl.tokens)
    else:
        there = _held(rtl.tokens, tokens)
    out.differences += _differences(tokens, there, lambda link: _link(m, link), _token)
    ends = {"model": model.cycles}
    if m.schedule is not None:
        out.differences += _against_schedule(m, model)
        ends["schedule"] = m.schedule.length
    last = 1 + int(model.written.max(initial=-1))
    if rtl.cycles != last or {rtl.counted} != set(ends.values()):
        told = ", ".join(f"{cycles} cycles by the {what}" for what, cycles in ends.items())
        seen = f"{rtl.cycles} by the RTL's last write, {rtl.counted} by its counter"
        out.differences.append(Difference(NEVER, m.graph.title, f"{told}, {seen}"))
    return out


def _differences(
    wanted: Mapping[At, Any],
    seen: Iterable[tuple[At, Any]],
    where: Callable[[int], str],
    words: Callable[[Any], str],
    sides: tuple[str, str] = ("model", "RTL"),
) -> list[Difference]:
    """Moves that are not the same on both sides."""
    left = dict(wanted)
    found = []
    for at, word in seen:
        if at not in left or left[at] != word:
            due = words(left[at]) if at in left else "nothing"
            told = f"{sides[0]} {due}, {sides[1]} {words(word)}"
            found.append(Difference(at[0], where(at[1]), told))
        left.pop(at, None)
    for at, word in left.items():
        told = f"{sides[0]} {words(word)}, {sides[1]} nothing"
        found.append(Difference(at[0], where(at[1]), told))
    return found


def _pe(m: Mapped, pe: int) -> str:
    return f"PE {pe} ({pe % m.overlay.cols}, {pe // m.overlay.cols})"


def _link(m: Mapped, link: int) -> str:
    return link_name(link, m.overlay.cols)


def _write(word: tuple[int, int]) -> str:
    return f"writes {word[1]:#x} to address {word[0]}"


def _token(word: int | dict[str, int]) -> str:
    """A value on a link, or the fields of a packet."""
    fields = word if isinstance(word, dict) else {"value": word}
    return ", ".join(f"{name} {x:#x}" for name, x in fields.items())


def _packets(tokens: np.ndarray) -> list[tuple[At, dict[str, int]]]:
    """Packets on the links of the RTL, by their fields."""
    names = tokens.dtype.names or ()
    rows = zip(*(tokens[name].tolist() for name in names), strict=True)
    return [((cycle, link), dict(zip(names[2:], rest, strict=True))) for cycle, link, *rest in rows]


def _held(tokens: np.ndarray, wanted: Mapping[At, int]) -> list[tuple[At, int]]:
    """Words of the RTL's links where the model has values. What they have elsewhere nobody
    receives.
    """
    changes: dict[int, tuple[list[int], list[int]]] = {}
    order = np.argsort(tokens["cycle"], kind="stable")
    rows = (tokens[name][order].tolist() for name in ("link", "cycle", "value"))
    for link, cycle, value in zip(*rows, strict=True):
        cycles, values = changes.setdefault(link, ([], []))
        cycles.append(cycle)
        values.append(value)
    found = []
    for cycle, link in wanted:
        cycles, values = changes.get(link, ([], []))
        if at := bisect_right(cycles, cycle):
            found.append(((cycle, link), values[at - 1]))
    return found


def _against_schedule(m: Mapped, model: Run) -> list[Difference]:
    """The image does what the schedule says: results and links, as the model reads them back."""
    s = m.schedule
    assert s is not None
    assert model.tokens is not None
    sides = ("schedule", "model")
    node = np.flatnonzero(m.graph.op >= Op.ADD)
    issue = (s.issue + m.overlay.latencies()[m.graph.op] - 1)[node]
    pe = m.image.node_pe[node].tolist()
    address = m.image.node_address[node].tolist()
    due = dict(zip(zip(issue.tolist(), pe, strict=True), address, strict=True))
    written = model.node_cycles(m.image)[node].tolist()
    read = zip(zip(written, pe, strict=True), address, strict=True)
    found = _differences(due, read, lambda pe: _pe(m, pe), "writes address {}".format, sides)
    link, cycle, send = s.crossings().T
    origin = (m.image.base[s.pe] + s.address)[s.send_node[send]]
    due = dict(zip(zip(cycle.tolist(), link.tolist(), strict=True), origin.tolist(), strict=True))
    rows = (model.tokens[name].tolist() for name in ("cycle", "link", "origin"))
    read = (((cycle, link), at) for cycle, link, at in zip(*rows, strict=True))
    return found + _differences(due, read, lambda x: _link(m, x), "local address {}".format, sides)
