"""The campaigns of docs/fuzzing.md, for `docs/generate.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from made import fuzz, fuzz_array, fuzz_forms
from tables import frame

GROUPS = {
    "operator": "operators and functions",
    "form": "forms of them",
    "port": "ports of units",
    "stop": "stop levels, with and without data",
    "empty": "ways of being empty",
}


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
    n: Counter[str] = Counter()
    hits: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
    for part in parts:
        n.update(part["counts"])
        for hit in part["hits"]:
            hits[hit["group"]][hit["what"]] += hit["hits"]
    failures = [failure for part in parts for failure in part["failures"]]
    done = [
        ("programs", f"{n['programs']:,} of {n['structures']:,} structures"),
        ("single-unit streams", f"{n['streams']:,}"),
        ("simulator builds", f"{n['RTL builds']:,}"),
        ("beats compared on RTL", f"{n['beats compared on RTL']:,}"),
        ("cycles on RTL", f"{n['cycles on RTL']:,}"),
        ("failures", f"**{len(failures)}**"),
        ("minutes on 2 cores", f"{sum(part['wall_s'] for part in parts) / 60:.0f}"),
        ("made with", f"Verilator {entries[0]['versions']['verilator']}"),
    ]
    rows = []
    for group, what in GROUPS.items():
        name, fewest = min(hits[group].items(), key=lambda hit: hit[::-1])
        rows.append((what, str(len(hits[group])), str(fewest), f"`{name}`"))
    header = ("what is to be met", "number", "fewest hits", "of")
    tables = [
        frame(("what", "how much"), done, (False, False)),
        *_failures(failures),
        frame(header, rows, (False, True, True, False)),
    ]
    return "\n\n".join(tables)


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
    return "\n\n".join([table, *_failures([f for row in rows for f in row["failures"]])])


def ran_on_array() -> list[dict]:
    """The campaigns on the array."""
    return fuzz_array.RECORD.rows("campaign")


def on_array() -> str:
    """What the campaigns on an array did, beside one on fabrics of their
    own.
    """
    if not (rows := ran_on_array()):
        return "Not on record yet."
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["counts"])
    failures = [f for row in rows for f in row["failures"]]
    wall = sum(row["wall_s"] for row in rows)
    done = [
        ("programs on the array's RTL", f"{counts['programs on RTL']:,}"),
        ("drawn", f"{counts['drawn']:,}"),
        ("outside the capabilities, and refused by the compiler", f"{counts['refusals']:,}"),
        ("refused for lack of slots or tracks", f"{counts['refused']:,}"),
        ("deadlocks, diagnosed", f"{counts['deadlocks']:,}"),
        ("beats compared on RTL", f"{counts['beats compared on RTL']:,}"),
        ("cycles on RTL", f"{counts['cycles on RTL']:,}"),
        ("failures", f"**{len(failures)}**"),
        ("minutes on 2 cores", f"{wall / 60:.0f}"),
        ("programs a minute", f"{60 * counts['programs on RTL'] / wall:.0f}"),
    ]
    for row in fuzz_array.RECORD.rows(fuzz_array.OWN):
        rate = 60 * row["counts"]["programs"] / row["wall_s"]
        done.append(("programs a minute, on fabrics of their own", f"{rate:.0f}"))
    table = frame(("what", "how much"), done, (False, False))
    return "\n\n".join([table, *_failures(failures)])


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
    """The first line of each message, below a line that announces them; nothing without."""
    lines = [f"* {f['message'].splitlines()[0]}" for f in failures]
    return ["Failures:", "\n".join(lines)] if lines else []
