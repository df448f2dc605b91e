"""Runs drawn cases of the measurements again: `nox -s sample -- MINUTES [--seed DATE]`.

Each case that fits into the rest of the time may be drawn. Columns of values and cycles are equal
to those stored; rates lie within a third. Cells and clock rates are compared where the tools have
the versions of the stored run. Exit status 1 where a case differs.
"""

from __future__ import annotations

import argparse
import datetime
import random
import sys
import time
from collections.abc import Iterator

from measurements import MEASUREMENTS, Measurement, Row
from penstock.machine.errors import PenstockError

THIRD = 1 / 3
BY_TOOLS = {"synthesis", "clocks", "overlay_resources"}
"""Measurements whose values are of a version of the tools."""


def candidates() -> list[tuple[Measurement, str, float]]:
    """Stored cases with the seconds that they took."""
    return [
        (one, name, case["seconds"])
        for one in MEASUREMENTS.values()
        for name, case in one.stored()["cases"].items()
        if one.name not in BY_TOOLS or same_tools(one, case["run"])
    ]


def same_tools(one: Measurement, run: int) -> bool:
    """True if this machine's tools have the versions of a stored run."""
    return one.this_run()["tools"] == one.stored()["runs"][run]["tools"]


def drawn(seed: str, minutes: float) -> Iterator[tuple[Measurement, str]]:
    """Cases in the order of the seed, as long as one fits into the rest of the time."""
    end = time.monotonic() + 60 * minutes
    found = candidates()
    random.Random(seed).shuffle(found)
    for one, name, seconds in found:
        if time.monotonic() + seconds < end:
            yield one, name


def differences(one: Measurement, old: list[Row], new: list[Row]) -> list[str]:
    """Columns in which two runs of a case differ, a line each."""
    if len(old) != len(new):
        return [f"{len(new)} rows, {len(old)} stored"]
    found = []
    for k, (was, now) in enumerate(zip(old, new, strict=True)):
        found += [
            f"row {k}, {column}: {now.get(column)}, stored {was.get(column)}"
            for column in (was.keys() | now.keys()) - set(one.loose)
            if not equal(was.get(column), now.get(column), column in one.rates)
        ]
    return sorted(found)


def equal(was: object, now: object, rate: bool) -> bool:
    """True if two cells are the same, or two rates lie within a third of each other."""
    if rate and isinstance(was, (int, float)) and isinstance(now, (int, float)) and was:
        return 1 - THIRD <= now / was <= 1 + THIRD
    return was == now


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    args = parser.parse_args(words)
    wrong = ran = 0
    for one, name in drawn(args.seed, args.minutes):
        stored = one.stored()["cases"][name]["rows"]
        try:
            found = differences(one, stored, one.made().run(name))
        except PenstockError as error:
            found = [str(error)]
        ran += 1
        wrong += bool(found)
        print(f"{one.name}/{name}: {'DIFFERS' if found else 'as stored'}", *found, sep="\n  ")
        sys.stdout.flush()
    print(f"seed {args.seed}: {ran} cases, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
