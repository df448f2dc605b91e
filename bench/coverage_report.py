"""The tables of coverage in docs/detection.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from made.coverage import ELSEWHERE, FUZZED, PARTS, RECORD, REGRESSION, TOTAL
from tables import frame

Places = dict[str, set[str]]
"""Part of a row (`PARTS`) -> places, as ``file:line``."""
NO_DESIGN = "in no design of these"
NO_NAN = "no input is infinite or NaN here"
EVERY_CASE = "the cases are all there are"
ON_A_LINE = "rows of tiles begin on a line; tests of stores have others"
RIGHT = "a fault flag that no right program raises"
EXPLAINED = {
    "hw/arith/exp.py:38.1": NO_NAN,
    "hw/arith/maximum.py:34": NO_NAN,
    "hw/arith/silu.py:73": NO_NAN,
    "hw/memory/arbiter.py:68.none": EVERY_CASE,
    "hw/memory/interconnect.py:133.none": "the memory takes a chunk every cycle",
    "hw/memory/interconnect.py:134.none": EVERY_CASE,
    "hw/memory/packing.py:166.1": ON_A_LINE,
    "hw/memory/packing.py:187.1": ON_A_LINE,
    "hw/memory/packing.py:194.1": ON_A_LINE,
    "hw/memory/packing.py:202.1": ON_A_LINE,
    "hw/memory/packing.py:205": ON_A_LINE,
    "hw/memory/packing.py:237.1": ON_A_LINE,
    "hw/memory/packing.py:240.1": ON_A_LINE,
    "hw/memory/scratchpad.py:206.none": EVERY_CASE,
    "hw/memory/scratchpad.py:290.none": EVERY_CASE,
    "hw/top.py:104": RIGHT,
    "hw/units/eager_merge.py:82.none": EVERY_CASE,
    "hw/units/merge.py:59.none": EVERY_CASE,
    "hw/units/pipeline.py:126": RIGHT,
    "hw/units/reassemble.py:133.none": EVERY_CASE,
}
"""Branch that nothing enters -> why, where that has been looked into;
lines are those of the record.
"""


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks."""
    return {"coverage": coverage, "unreached": unreached}


def stored(cases: Iterable[str]) -> Places:
    """What the stored ones of some cases say together."""
    found: Places = {part: set() for part in PARTS}
    chosen = set(cases)
    for entry in RECORD.entries():
        for row in entry["rows"] if entry["case"] in chosen else ():
            for part in PARTS:
                found[part] |= {f"{row['file']}:{at}" for at in row[part].split()}
    return found


def file_of(place: str) -> str:
    return place.rpartition(":")[0]


def whole() -> tuple[Places, Places]:
    """What there is, with what designs add to it (where none of an
    `If`'s bodies is entered); what is reached.
    """
    there = {
        part: {place for place in places if not place.startswith(ELSEWHERE)}
        for part, places in stored([TOTAL]).items()
    }
    found = stored([*REGRESSION, FUZZED])
    files = {file_of(place) for place in there["there"] | there["statements"]}
    there["there"] |= {place for place in found["there"] if file_of(place) in files}
    return there, found


def share(some: int, of: int) -> str:
    return f"{some} of {of} ({100 * some / of:.0f} %)" if of else ""


def coverage() -> str:
    """Branches and statements of each file, and how many are reached."""
    there, found = whole()
    ways = [stored(REGRESSION), stored([FUZZED]), found]
    files = sorted({file_of(place) for place in there["there"] | there["statements"]})
    table = []
    for file in [*files, ""]:
        branches = {p for p in there["there"] if not file or file_of(p) == file}
        lines = {p for p in there["statements"] if not file or file_of(p) == file}
        cells = [str(len(branches & way["entered"])) for way in ways[:2]]
        both = share(len(branches & found["entered"]), len(branches))
        done = share(len(lines & found["executed"]), len(lines))
        table.append((f"`{file}`" if file else "**all**", *cells, both, done))
    header = ("file", "regression", "64 programs", "branches entered", "assignments reached")
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
    _, found = whole()
    table = []
    for place in missed():
        line, _, way = place.rpartition(":")[2].partition(".")
        what = {"": "body", "none": "no body"}.get(way, f"side {way} of a `Mux`")
        why = EXPLAINED.get(place, "" if place in found["there"] else NO_DESIGN)
        table.append((f"`{file_of(place)}:{line}`", what, why))
    return frame(("line", "branch", "why"), table, (False, False, False))
