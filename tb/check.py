"""An RTL run against the model's: every beat, every line, values, counters, totals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..machine.beat import STOP_DONE, beat_number, beat_words
from ..machine.spilling import without_end
from ..machine.trace import COUNTERS, Run
from ..machine.unitgraph import UnitGraph
from ..testing.decoding import payload_differences

_LAST = 1 << 62
SHOWN = 20
"""Differences that a message has, a line each."""
COMPARED = {
    "beat": {
        "accept": "accepted",
        "take": "taken",
        "stop": "stop",
        "data": "data",
        "digest": "payload digest",
    },
    "line": {
        "accept": "granted",
        "deliver": "delivered",
        "address": "address",
        "digest": "data written",
    },
    "post": {"cycle": "posted", "page": "page", "change": "change"},
    "run": {
        "cycles": "cycles",
        "first_request": "first request",
        "lines_read": "lines read",
        "lines_written": "lines written",
    },
    "unit": COUNTERS,
    "tensor": {"outputs": "element"},
}
"""All that is compared: of each item, its columns in the traces or the run, as messages name them.
Digests and tensors are compared where the model computed values, units where the RTL counts.
"""
CYCLES = ("accept", "take", "deliver", "cycle")
"""Columns of traces that are cycles."""


@dataclass(frozen=True)
class Difference:
    """One value that is not equal."""

    cycle: int  # when it shows first on either side (for sorting and for the waveform)
    # where, what: channel, port, unit or tensor; the quantity
    where: str
    what: str
    # model, rtl: the two values, as text
    model: str
    rtl: str
    note: str = ""  # more about it, for instance the decoded payloads

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}: model {self.model}, RTL {self.rtl}"
        return f"{text}\n      {self.note}" if self.note else text


@dataclass
class Report:
    """Compared quantities, and their differences."""

    # observed, total: channels of which the RTL's probes recorded as many beats as the model has,
    # and at least one where it has a Done; channels of the graph
    observed: int
    total: int
    # beats, lines, posts: beats, memory lines, and posts of reference counts that were compared,
    # one by one
    beats: int = 0
    lines: int = 0
    posts: int = 0
    # whether payload digests and outputs were compared (the model computed values)
    values: bool = True
    # in order of the cycle in which they show
    differences: list[Difference] = field(default_factory=list)
    # message of its test in results.xml, empty where it passes; None outside of a test
    verdict: str | None = None

    @property
    def coverage(self) -> float:
        return self.observed / self.total if self.total else 1.0

    @property
    def mismatches(self) -> int:
        return len(self.differences)

    @property
    def ok(self) -> bool:
        if self.verdict is not None:
            return not self.verdict
        return not self.differences and self.observed == self.total

    @property
    def channels_at_fault(self) -> list[str]:
        """Channels with differing payloads, the earliest first (penstock.tb.rerun records their
        beats in full).
        """
        return list(
            dict.fromkeys(
                d.where.removeprefix("channel ").split(" beat ")[0]
                for d in self.differences
                if d.what.startswith("payload")
            )
        )

    def __str__(self) -> str:
        head = (
            f"{self.observed} of {self.total} channels observed ({100 * self.coverage:.0f} %), "
            f"{self.beats} beats, {self.lines} memory lines and {self.posts} posts compared"
        )
        head += ", with values" if self.values else ", values not computed"
        if self.ok:
            return head + ": all equal"
        lines = [head + f": {self.mismatches} differences"]
        lines += [f"  {d}" for d in self.differences[:SHOWN]]
        if self.mismatches > SHOWN:
            lines.append(f"  ... and {self.mismatches - SHOWN} more")
        return "\n".join(lines)


def compare(model: Run, rtl: Run, graph: UnitGraph) -> Report:
    """Compare two runs of one graph, both with traces, in all of :data:`COMPARED`.

    On both sides every channel's stream has its one form (docs/timing.md section 3.4, rule 3), and
    with values every beat its digest. At most one difference is listed per channel, port, quantity
    and kind: the first.
    """
    report = Report(0, len(graph.channels))
    report.values = model.outputs is not None or any(len(c.digest) for c in model.channels)
    found = report.differences
    quiet = without_end(graph)
    for c in graph.channels:
        name = f"channel {c.name}"
        if pair := _pair(found, name, c.id, model.channels, rtl.channels):
            m, r = pair
            some = len(m.accept) > 0 or c.id in quiet
            report.observed += some and len(m.accept) == len(r.accept)
            report.beats += min(len(m.accept), len(r.accept))
            found += _beats(graph, c, model, rtl, report.values)
    for i, unit in enumerate(graph.ports):
        name = f"port {i} ({graph.units[unit].name})"
        if pair := _pair(found, name, i, model.ports, rtl.ports):
            m, r = pair
            report.lines += min(len(m.accept), len(r.accept))
            left = () if model.outputs is not None else ("digest",)
            found += _series(name, "line", m, r, m.accept, r.accept, left)
    names = {u.id: u.name for u in graph.units}
    for u in np.union1d(model.posts["unit"], rtl.posts["unit"]).tolist():
        m, r = (run.posts[run.posts["unit"] == u].view(np.recarray) for run in (model, rtl))
        report.posts += min(len(m), len(r))
        found += _series(f"unit {names.get(u, u)}", "post", m, r, m.cycle, r.cycle)
    for name, what in COMPARED["run"].items():
        _scalar(found, graph.name, what, getattr(model, name), getattr(rtl, name))
    if rtl.counted:
        for u in graph.units:
            for name, what in COMPARED["unit"].items():
                m, r = (_count(getattr(run, name), u.id) for run in (model, rtl))
                _scalar(found, f"unit {u.name}", what, m, r)
    if model.outputs is not None:
        for name in sorted(set(model.outputs) | set(rtl.outputs or {})):
            stores = ", ".join(
                u.name
                for u in graph.units
                if u.id in graph.ports
                and not graph.outputs(u.id)
                and getattr(u.kind, "tensor", None) == name
            )
            found += _output(
                f"output {name}" + (f" (unit {stores})" if stores else ""),
                model.outputs.get(name),
                (rtl.outputs or {}).get(name),
            )
    found.sort(key=lambda d: d.cycle)
    return report


def _pair(found: list[Difference], name: str, i: int, model: list, rtl: list) -> tuple | None:
    """Both traces of a place; None, and a difference, where a run has none."""
    if i < min(len(model), len(rtl)):
        return model[i], rtl[i]
    there = ("there" if i < len(traces) else "missing" for traces in (model, rtl))
    found.append(Difference(_LAST, name, "trace", *there))
    return None


def _scalar(found: list[Difference], where: str, what: str, m, r) -> None:
    if m != r:
        found.append(Difference(_LAST, where, what, str(m), str(r)))


def _count(counts, unit: int) -> int | None:
    """A unit's counter; None where the run has none."""
    if isinstance(counts, dict):
        return counts.get(unit)
    return int(counts[unit]) if len(counts) else None


def _beats(graph: UnitGraph, c, model: Run, rtl: Run, values: bool) -> list[Difference]:
    """Differences of the beats of a channel, and rules of streams that both sides break."""
    m = model.channels[c.id]
    r = rtl.channels[c.id]
    name = f"channel {c.name}"
    whole = all(len(t.digest) == len(t.accept) for t in (m, r))
    left = () if values and whole else ("digest",)
    found = _series(name, "beat", m, r, m.accept, r.accept, left)
    found += _form(name, m, r)
    if values and not whole:
        found.append(Difference(_LAST, name, "digests", str(len(m.digest)), str(len(r.digest))))
    for k, d in enumerate(found):
        if d.what.startswith(COMPARED["beat"]["digest"]):
            i = int(d.where.rpartition(" ")[2])
            ends = " -> ".join(
                f"{graph.units[u].name} ({graph.units[u].kind.name})" for u in (c.src[0], c.dst[0])
            )
            note = f"{ends}, {_when(m, i)}" + (
                f" (RTL: {_when(r, i)})" if _when(m, i) != _when(r, i) else ""
            )
            found[k] = replace(d, note=f"{note}; {_unfold(c, i, model, rtl)}")
    return found


def _form(name: str, m, r) -> list[Difference]:
    """A bare beat behind a value of stop 0: a group that ends twice, or without its last value."""
    found: list[tuple[int, int]] = []
    ends = []
    for t in (m, r):
        bare = (t.data[1:] == 0) & (t.stop[1:] < STOP_DONE)
        broken = np.flatnonzero(bare & (t.data[:-1] == 1) & (t.stop[:-1] == 0))
        found += [(int(i) + 1, int(t.accept[i + 1])) for i in broken[:1]]
        ends.append(f"a bare stop {t.stop[broken[0] + 1]}" if len(broken) else "none")
    if not found:
        return []
    beat, cycle = min(found)
    where = f"{name} beat {beat}"
    what = "a bare stop behind a value of stop 0 (a stream has one form: the last value of a group"
    return [Difference(cycle, where, f"{what} carries its end)", *ends)]


def _when(trace, i: int) -> str:
    return f"accepted {_value('accept', trace.accept[i])}, taken {_value('take', trace.take[i])}"


def _unfold(c, i: int, model: Run, rtl: Run) -> str:
    """Differences between the payloads of beat i, if the runs have them."""
    kept = [run.extra.get("payloads", {}).get(c.id) for run in (model, rtl)]
    if any(k is None or i >= len(k) for k in kept):
        return f"run both with record=[{c.id}] to see the payloads"
    whole = [beat_number(k[i][: beat_words(c.payload)]) for k in kept]
    return payload_differences(c.payload, *whole)


def _series(
    name: str, item: str, m, r, m_cycle: np.ndarray, r_cycle: np.ndarray, left: tuple[str, ...] = ()
) -> list[Difference]:
    """First difference of each column but those that are left out, and of the number of items."""
    found = []
    n = min(len(m_cycle), len(r_cycle))
    for column, what in COMPARED[item].items():
        if column in left:
            continue
        a = getattr(m, column)[:n]
        b = getattr(r, column)[:n]
        differ = np.flatnonzero(a != b)
        if len(differ):
            i = int(differ[0])
            at = (
                min(x for x in (int(a[i]), int(b[i])) if x >= 0)
                if column in CYCLES
                else int(min(m_cycle[i], r_cycle[i]))
            )
            more = f" ({len(differ)} of {n} {item}s)" if len(differ) > 1 else ""
            found.append(
                Difference(
                    at,
                    f"{name} {item} {i}",
                    what + more,
                    _value(column, a[i]),
                    _value(column, b[i]),
                )
            )
    if len(m_cycle) != len(r_cycle):
        longer = m_cycle if len(m_cycle) > n else r_cycle
        found.append(
            Difference(
                int(longer[n]), name, f"number of {item}s", str(len(m_cycle)), str(len(r_cycle))
            )
        )
    return found


def _value(column: str, x) -> str:
    x = int(x)
    if column == "address":
        return f"{x:#x}"
    if column == "digest":
        return f"{x:016x}"
    if column in CYCLES:
        return f"in cycle {x}" if x >= 0 else "never"
    return str(x)


def _output(where: str, m: np.ndarray | None, r: np.ndarray | None) -> list[Difference]:
    if m is None or r is None or m.shape != r.shape or m.dtype != r.dtype:
        return [
            Difference(
                _LAST,
                where,
                "array",
                *("missing" if a is None else f"{a.dtype}{list(a.shape)}" for a in (m, r)),
            )
        ]
    unsigned = np.dtype(f"u{m.dtype.itemsize}")
    differ = np.argwhere(
        np.ascontiguousarray(m).view(unsigned) != np.ascontiguousarray(r).view(unsigned)
    )
    if not len(differ):
        return []
    at = tuple(int(x) for x in differ[0])
    return [
        Difference(
            _LAST,
            where,
            f"{COMPARED['tensor']['outputs']} {list(at)} ({len(differ)} of {m.size} elements)",
            repr(float(m[at])),
            repr(float(r[at])),
        )
    ]
