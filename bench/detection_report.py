"""The tables of docs/detection.md, for `docs/generate.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import coverage_report
from made.detection import (
    COUNT,
    DESIGNS,
    DRAW,
    DRAWN_OF,
    EDGE,
    FUZZED,
    RECORD,
    REFUSED,
    SEED,
    current,
    stored,
)
from tables import frame

Rows = dict[int, dict]
WAYS = {"regression": list(DESIGNS)} | {
    f"{count} fuzzed programs": list(FUZZED)[: k + 1] for k, count in enumerate(FUZZED.values())
}
"""Way of looking -> the cases that it is made of."""
EVERY = [*DESIGNS, *FUZZED]
NO_NAN = "no input is infinite or NaN"
ONE_LANE = "these machines have one lane"
NO_FAULT = "a fault flag that no right program raises"
NOT_HALF_WAY = "equal: an exact quotient of two significands is never half way"
ONE_SIZE = "equal: tiles of a group have one size"
EXPLAINED = {
    "hw/arith/maximum.py:29 $eq B + 1": NO_NAN,
    "hw/arith/maximum.py:29 $or as $and": NO_NAN,
    "hw/arith/exp.py:34 $and A for B": NO_NAN,
    "hw/arith/format.py:68 $and A for B": NO_NAN,
    "hw/arith/silu.py:51 $reduce_or inverted": NO_NAN,
    "hw/arith/div.py:48 $and A for B": NOT_HALF_WAY,
    "hw/arith/div.py:102 $mux A + 1": "needs a remainder of exactly 1 above a half",
    "hw/arith/recip.py:41 $sub A + 1": "14 bits below: one in 16,384 corrections sees it",
    "hw/arith/rounding.py:48 $ge A and B swapped": "no result overflows",
    "hw/memory/locate.py:28 $dff a cycle late": "it holds what stands since before the run",
    "hw/memory/random_store.py:208 $add as $sub": "one lane: 0 - 1 is 1 in a bit",
    "hw/memory/table.py:66 $eq as $ge": "the position is never larger",
    "hw/memory/walk.py:183 $add as $sub": "one lane: 0 is added",
    "hw/units/accum.py:288 $and A for B": ONE_SIZE,
    "hw/units/accum.py:444 $lt B + 1": "equal where both sides are t",
    "hw/units/generate.py:86 $ne stuck at 0": NO_FAULT,
    "hw/units/partition.py:97 $or A for B": NO_FAULT,
    "hw/units/row_offset.py:68 $lt as $le": "equal where both sides are",
    "hw/units/row_unpack.py:113 $eq as $ge": "equal: tiles of a band have as many rows",
    "hw/arith/add.py:63 $or inverted": NO_NAN,
    "hw/arith/add.py:63 $reduce_and as $reduce_or": NO_NAN,
    "hw/arith/cast.py:12 $reduce_and stuck at 0": NO_NAN,
    "hw/arith/exp.py:34 $reduce_or stuck at 0": NO_NAN,
    "hw/memory/line_banks.py:120 $eq as $ge": ONE_LANE,
    "hw/memory/ring.py:108 $eq as $ge": ONE_LANE,
    "hw/memory/load.py:169 $lt as $le": "equal where both sides are t",
    "hw/units/fifo.py:76 $eq as $ge": "the pointer is never larger",
    "hw/memory/scratchpad.py:203 $or as $and": NO_FAULT,
    "hw/memory/store.py:116 $gt stuck at 0": NO_FAULT,
    "hw/units/zip.py:50 $or A for B": NO_FAULT,
}
"""Mutant that nothing finds -> why, where that has been looked into."""


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/detection.md."""
    own = {"draw": draw, "ways": ways, "kinds": kinds, "runs": runs, "survivors": survivors}
    return own | coverage_report.blocks()


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
    for case in ran((*DESIGNS, *FUZZED)):
        rows = stored(case)
        entry = RECORD.entry(case)
        seconds = entry["seconds"]
        cells = (str(len(rows)), str(len(found([case]))), f"{seconds / 60:.0f}")
        table.append((case, *cells))
    header = ("case", "tried", "found", "minutes")
    return frame(header, table, (False, True, True, True))


def survivors() -> str:
    """The mutants that nothing finds, with file and line."""
    every = ran(EVERY)
    left = there(every) - found(every)
    kept = [row for n, row in mutants().items() if n in left]
    table = []
    for row in sorted(kept, key=name_of):
        why = EXPLAINED.get(name_of(row), "")
        place = f"`{row['place']}`"
        cell = f"`{row['cell']}`"
        table.append((place, row["kind"], cell, row["form"], why))
    header = ("line", "kind", "cell", "fault", "why")
    return frame(header, table, [False] * len(header))


def name_of(row: dict) -> str:
    """A mutant as `EXPLAINED` names it."""
    return f"{row['place']} {row['cell']} {row['form']}"
