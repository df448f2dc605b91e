"""The campaigns of docs/fuzzing.md, for `docs/generate.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from made import fuzz, fuzz_array, fuzz_forms
from tables import frame

GROUPS = {
    "operator": "operators and functions",
    "form": "forms of them",
    "port": "ports of units",
    "stop": "stop levels, with and without data",
    "empty": "ways of being empty",
}


@dataclass(frozen=True)
class Sum:
    """Campaigns taken together.

    Attributes
    ----------
    counts
        Of programs, beats and the like, by name.
    failures
        All of them.
    minutes
        Of wall time.

    """

    counts: Counter[str]
    failures: list[dict]
    minutes: float


def added(campaigns: Iterable[dict]) -> Sum:
    """What campaigns did in all; a row of a record each."""
    rows = list(campaigns)
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["counts"])
    failures = [failure for row in rows for failure in row["failures"]]
    return Sum(counts, failures, sum(row["wall_s"] for row in rows) / 60)


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/fuzzing.md."""
    return {
        "campaign": lambda: campaign(fuzz.RECORD.entries()),
        "forms": forms,
        "array": on_array,
        "refused": refused,
    }


def campaign(entries: list[dict]) -> str:
    """What a campaign did, all parts of it, and how often it met what it
    has to meet.
    """
    parts = [row for entry in entries for row in entry["rows"]]
    did = added(parts)
    n = did.counts
    hits = hits_of(parts)
    done = [
        ("programs", f"{n['programs']:,} of {n['structures']:,} structures"),
        ("single-unit streams", f"{n['streams']:,}"),
        ("simulator builds", f"{n['RTL builds']:,}"),
        ("beats compared on RTL", f"{n['beats compared on RTL']:,}"),
        ("cycles on RTL", f"{n['cycles on RTL']:,}"),
        ("failures", f"**{len(did.failures)}**"),
        ("minutes on 2 cores", f"{did.minutes:.0f}"),
        ("made with", f"Verilator {entries[0]['versions']['verilator']}"),
    ]
    rows = []
    for group, what in GROUPS.items():
        name, fewest = min(hits[group].items(), key=lambda hit: hit[::-1])
        rows.append((what, str(len(hits[group])), str(fewest), f"`{name}`"))
    header = ("what is to be met", "number", "fewest hits", "of")
    tables = [
        frame(("what", "how much"), done, (False, False)),
        *_failures(did.failures),
        frame(header, rows, (False, True, True, False)),
    ]
    return "\n\n".join(tables)


def hits_of(parts: Iterable[dict]) -> dict[str, Counter[str]]:
    """How often all parts together met what a campaign has to meet, by
    group.
    """
    hits: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
    for hit in (hit for part in parts for hit in part["hits"]):
        hits[hit["group"]][hit["what"]] += hit["hits"]
    return hits


def met_too_rarely(parts: Iterable[dict]) -> list[str]:
    """What all parts together met less often than they have to."""
    return [
        f"{group} {what}: {n} of at least {fuzz.LEAST}"
        for group, hits in hits_of(parts).items()
        for what, n in hits.items()
        if n < fuzz.LEAST
    ]


def forms() -> str:
    """What the campaigns in other forms of machines did, a line each."""
    if not (rows := fuzz_forms.RECORD.rows()):
        return "Not on record yet."
    what = ("programs", "structures", "refused", "beats compared on RTL", "cycles on RTL")
    lines = []
    for row in rows:
        n = row["counts"]
        told = [f"{n.get(k, 0):,}" for k in what]
        minutes = f"{row['wall_s'] / 60:.0f}"
        lines.append([f"`{row['form']}`", *told, str(len(row["failures"])), minutes])
    header = ("form", *what, "failures", "minutes on 2 cores")
    table = frame(header, lines, [i > 0 for i in range(len(header))])
    return "\n\n".join([table, *_failures(added(rows).failures)])


def ran_on_array() -> list[dict]:
    """The campaigns on the array."""
    return fuzz_array.RECORD.rows("campaign")


def on_array() -> str:
    """What the campaigns on an array did, beside one on fabrics of their
    own.
    """
    if not (rows := ran_on_array()):
        return "Not on record yet."
    did = added(rows)
    counts = did.counts
    done = [
        ("programs on the array's RTL", f"{counts['programs on RTL']:,}"),
        ("drawn", f"{counts['drawn']:,}"),
        ("outside the capabilities, and refused by the compiler", f"{counts['refusals']:,}"),
        ("refused for lack of slots or tracks", f"{counts['refused']:,}"),
        ("deadlocks, diagnosed", f"{counts['deadlocks']:,}"),
        ("beats compared on RTL", f"{counts['beats compared on RTL']:,}"),
        ("cycles on RTL", f"{counts['cycles on RTL']:,}"),
        ("failures", f"**{len(did.failures)}**"),
        ("minutes on 2 cores", f"{did.minutes:.0f}"),
        ("programs a minute", f"{counts['programs on RTL'] / did.minutes:.0f}"),
    ]
    for row in fuzz_array.RECORD.rows(fuzz_array.OWN):
        rate = 60 * row["counts"]["programs"] / row["wall_s"]
        done.append(("programs a minute, on fabrics of their own", f"{rate:.0f}"))
    table = frame(("what", "how much"), done, (False, False))
    return "\n\n".join([table, *_failures(did.failures)])


def reasons() -> Counter[str]:
    """Why programs within the capabilities were refused, numbers apart."""
    found: Counter[str] = Counter()
    for row in ran_on_array():
        for said, number in row["refused"].items():
            found[re.sub(r"\d+ of \d+ |\d+ ", "", said.partition(", ")[0])] += number
    return found


def refused() -> str:
    """Why programs were refused."""
    if not ran_on_array():
        return "Not on record yet."
    rows = [(what, str(number)) for what, number in reasons().most_common()]
    return frame(("refused, for it", "programs"), rows, (False, True)) if rows else "None."


def _failures(failures: list[dict]) -> list[str]:
    """The first line of each message, below a line that announces them;
    nothing without.
    """
    lines = [f"* {f['message'].splitlines()[0]}" for f in failures]
    return ["Failures:", "\n".join(lines)] if lines else []
