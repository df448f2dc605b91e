"""The tables of docs/detection.md, for `docs/generate.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import assignments_report
import coverage_report
import explained
from made.detection import (
    COUNT,
    DESIGNS,
    DRAW,
    DRAWN_OF,
    EDGE,
    FUZZED,
    PARTS,
    PROGRAMS,
    RECORD,
    REFUSED,
    SEED,
    current,
    stored,
)
from tables import frame

Rows = dict[int, dict]
WAYS = {"regression": list(DESIGNS)} | {
    f"{PROGRAMS * parts} fuzzed programs": list(FUZZED)[:parts] for parts in (1, PARTS)
}
"""Way of looking -> the cases that it is made of."""
EVERY = [*DESIGNS, *FUZZED]


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/detection.md."""
    own = {"draw": draw, "ways": ways, "kinds": kinds, "runs": runs, "survivors": survivors}
    return own | coverage_report.blocks() | assignments_report.blocks()


def mutants() -> Rows:
    """The drawn mutants by number."""
    return {row["number"]: row for row in stored(DRAW)}


def ran(cases: Iterable[str]) -> list[str]:
    """Those of the cases that are stored, with mutants of the draw."""
    return [case for case in cases if current(case)]


def shown(cases: list[str]) -> list[str]:
    """The stored ones; of programs all or none, for they are one
    campaign.
    """
    done = ran(cases)
    if set(cases) <= set(FUZZED) and len(done) < len(cases):
        return []
    return done


def there(cases: Iterable[str]) -> set[int]:
    """The mutants that are in a netlist of these cases."""
    return {row["number"] for case in cases for row in stored(case)}


def found(cases: Iterable[str]) -> set[int]:
    """The mutants that one of these cases finds."""
    return {row["number"] for case in cases for row in stored(case) if row["found"]}


def share(some: int, of: int) -> str:
    """A share in words of numbers."""
    return f"{some} of {of} ({100 * some / of:.0f} %)" if of else ""


def draw() -> str:
    """What was drawn."""
    rows = list(mutants().values())
    if not rows:
        return f"{COUNT} mutants are to be drawn."
    files = {row["place"].rpartition(":")[0] for row in rows}
    names = [case.removeprefix("regress ") for case in DRAWN_OF]
    return (
        f"{len(rows)} mutants of {rows[0]['of']:,}, in {len(files)} files, drawn with seed {SEED} "
        f"from {rows[0]['groups']} pairs of file and kind. "
        f"They are lines of the designs {', '.join(names)}. Tiles have an edge of {EDGE}; "
        f"{' and '.join(REFUSED)} have no form with it and are left out."
    )


def ways() -> str:
    """How many each way of looking finds."""
    drawn = len(mutants())
    table = []
    for name, cases in (WAYS | {"all of these": EVERY}).items():
        done = shown(cases)
        here = len(there(done))
        seen = len(found(done))
        cells = (
            f"{len(done)} of {len(cases)}",
            share(seen, here),
            share(seen, drawn if done else 0),
        )
        table.append((name, *cells))
    header = ("found by", "cases run", "of those in its netlists", "of all drawn")
    return frame(header, table, (False, True, True, True))


def kinds() -> str:
    """The same by the kind of fault."""
    groups: dict[str, set[int]] = defaultdict(set)
    for number, row in mutants().items():
        groups[row["kind"]].add(number)
    table = []
    for kind, numbers in sorted(groups.items()):
        cells = [
            share(len(found(shown(cases)) & numbers), len(there(shown(cases)) & numbers))
            for cases in WAYS.values()
        ]
        table.append((kind, str(len(numbers)), *cells))
    return frame(("kind", "drawn", *WAYS), table, (False, True, *[True] * len(WAYS)))


def runs() -> str:
    """Each case, what it tries and finds, and what it took."""
    table = []
    total = 0.0
    for case in ran((*DESIGNS, *FUZZED)):
        rows = stored(case)
        entry = RECORD.entry(case)
        seconds = entry["seconds"]
        total += seconds
        cells = (str(len(rows)), str(len(found([case]))), f"{seconds / 60:.0f}")
        table.append((case, *cells))
    table.append(("**all**", "", "", f"{total / 60:.0f}"))
    header = ("case", "tried", "found", "minutes")
    return frame(header, table, (False, True, True, True))


EQUAL = "equal"
"""How the explanation of a mutant begins that changes nothing."""
FOUND = "finds it"
"""How any other ends: behind the test that finds the mutant."""


def survivors() -> str:
    """The mutants that nothing finds, with file and line."""
    table = []
    for row in left():
        why = explained.mutants().get(name_of(row), "")
        place = f"`{row['place']}`"
        cell = f"`{row['cell']}`"
        table.append((place, row["kind"], cell, row["form"], why))
    header = ("line", "kind", "cell", "fault", "why")
    return f"{frame(header, table, [False] * len(header))}\n\n{told([row[-1] for row in table])}"


def told(whys: list[str]) -> str:
    """How many survivors are no fault, and how many a test of one part finds."""
    equal = sum(why.startswith(EQUAL) for why in whys)
    tested = sum(why.endswith(FOUND) for why in whys)
    return f"Of these {len(whys)}, {equal} change nothing, and tests of one part find {tested}."


def left() -> list[dict]:
    """The mutants that nothing finds, of those in netlists that ran."""
    every = ran(EVERY)
    numbers = there(every) - found(every)
    rows = mutants()
    return sorted((rows[n] for n in numbers & set(rows)), key=name_of)


def unexplained() -> list[tuple[str, str]]:
    """Those of which nothing is said."""
    why = explained.mutants()
    names = [name_of(row) for row in left()]
    return [name for name in names if name not in why]


def name_of(row: dict) -> tuple[str, str]:
    """A mutant as `explained` names it."""
    return row.get("line", row["place"]), f"{row['cell']} {row['form']}"
