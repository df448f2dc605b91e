"""The tables of coverage in docs/detection.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import explained
from made import coverage_hosts
from made.coverage import FUZZED, RECORD, REGRESSION, TOTAL
from made.reached import PARTS
from tables import frame

Places = dict[str, set[str]]
"""Part of a row (`PARTS`) -> places, as ``file:line``."""
RECORDS = (RECORD, coverage_hosts.RECORD)
REGRESSIONS = (*REGRESSION, *coverage_hosts.CASES)
BODY = "body"
"""The branch of an `If` or a `Case`."""


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks."""
    return {"coverage": coverage, "unreached": unreached}


def stored(cases: Iterable[str]) -> Places:
    """What the stored ones of some cases say together."""
    found: Places = {part: set() for part in PARTS}
    chosen = set(cases)
    entries = [entry for record in RECORDS for entry in record.entries()]
    for entry in entries:
        for row in entry["rows"] if entry["case"] in chosen else ():
            for part in PARTS:
                found[part] |= {f"{row['file']}:{at}" for at in row[part].split()}
    return found


def lines() -> dict[str, str]:
    """Line, as ``file:12`` -> what it says, as `explained` names it."""
    return {
        f"{row['file']}:{number}": f"{row['file']}: {text}"
        for record in RECORDS
        for row in record.rows()
        for number, text in row.get("lines", {}).items()
    }


def name_of(place: str, said: Mapping[str, str]) -> tuple[str, str]:
    """A branch as `explained` names it; ``said``: what lines say."""
    line, _, way = place.partition(".py:")[2].partition(".")
    at = f"{file_of(place)}:{line}"
    return said.get(at, at), way or BODY


def file_of(place: str) -> str:
    return place.rpartition(":")[0]


def whole() -> tuple[Places, Places]:
    """What there is, with what designs add to it (where none of an
    `If`'s bodies is entered); what is reached.
    """
    there = stored([TOTAL])
    found = stored([*REGRESSIONS, FUZZED])
    files = {file_of(place) for place in there["there"] | there["statements"]}
    there["there"] |= {place for place in found["there"] if file_of(place) in files}
    return there, found


def share(some: int, of: int) -> str:
    return f"{some} of {of} ({100 * some / of:.0f} %)" if of else ""


def coverage() -> str:
    """Branches and statements of each file, and how many are reached."""
    there, found = whole()
    ways = [stored(REGRESSIONS), stored([FUZZED]), found]
    files = sorted({file_of(place) for place in there["there"] | there["statements"]})
    table = []
    for file in [*files, ""]:
        branches = {p for p in there["there"] if not file or file_of(p) == file}
        lines = {p for p in there["statements"] if not file or file_of(p) == file}
        cells = [str(len(branches & way["entered"])) for way in ways[:2]]
        both = share(len(branches & found["entered"]), len(branches))
        done = share(len(lines & found["executed"]), len(lines))
        table.append((f"`{file}`" if file else "**all**", *cells, both, done))
    header = (
        "file",
        "branches entered by the regression",
        "by 64 programs",
        "by all runs",
        "assignments reached",
    )
    return frame(header, table, (False, True, True, True, True))


def missed() -> list[str]:
    """The branches that nothing enters."""
    there, found = whole()
    return sorted(there["there"] - found["entered"], key=place_order)


def place_order(place: str) -> tuple[str, int, str]:
    file, _, where = place.rpartition(":")
    line, _, way = where.partition(".")
    return file, int(line), way


def unreached() -> str:
    """The branches that nothing enters, with file and line."""
    said = lines()
    why = explained.branches()
    table = []
    for place in missed():
        line, way = name_of(place, said)
        what = {BODY: "body", "none": "no body"}.get(way, f"side {way} of a `Mux`")
        told = why.get((line, way), "")
        table.append((f"`{place.removesuffix(f'.{way}')}`", what, told))
    return frame(("line", "branch", "why"), table, (False, False, False))


def unexplained() -> list[tuple[str, str]]:
    """Those of which nothing is said."""
    said = lines()
    why = explained.branches()
    names = [name_of(place, said) for place in missed()]
    return [name for name in names if name not in why]
