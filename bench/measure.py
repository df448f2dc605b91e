"""Renews measurements by name: `nox -s measure -- NAME[/CASE] ...` (`--list` lists them).

Cases run one after the other, and each is stored as it ends. A run in a tree with changes is
refused: `--changed` runs it, and its commit has a `+`. `--dry` prints rows and stores nothing.
"""

from __future__ import annotations

import argparse
import sys
import time

from measurements import MEASUREMENTS, Measurement, named
from penstock.machine.errors import PenstockError
from penstock.runs.provenance import commit
from penstock.runs.tables import print_table
from penstock.system.output import Shown
from tables import note_history


def renew(one: Measurement, case: str, dry: bool) -> None:
    """Run one case, print its rows and store them."""
    start = time.monotonic()
    rows = one.made().run(case)
    took = time.monotonic() - start
    print(f"{one.name}/{case}: {len(rows)} rows, {took:.1f} s", flush=True)
    print_table([{k: v for k, v in row.items() if not isinstance(v, dict)} for row in rows])
    if not dry:
        one.store(case, rows, took)


def listed() -> list[dict]:
    """Measurements with their cases, dates and the seconds that they took."""
    rows = []
    for one in MEASUREMENTS.values():
        stored = one.stored()
        row = {"measurement": one.name, "cases": len(stored["cases"])}
        row["dates"] = ", ".join(sorted({run["date"] for run in stored["runs"]}))
        row["minutes"] = round(sum(c["seconds"] for c in stored["cases"].values()) / 60)
        rows.append(row)
    return rows


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME[/CASE]")
    parser.add_argument("--list", action="store_true", help="list the measurements")
    parser.add_argument("--changed", action="store_true", help="run in a tree with changes")
    parser.add_argument("--dry", action="store_true", help="print rows and store nothing")
    args = parser.parse_args(words)
    if args.list or not args.names:
        print_table(listed())
        return 0
    try:
        wanted = named(args.names)
        if (commit() or "").endswith("+") and not (args.changed or args.dry):
            raise PenstockError("the tree has changes", remedy="commit them, or use --changed")
        for one, case in wanted:
            renew(one, case, args.dry)
    except PenstockError as error:
        print(error, file=sys.stderr)
        return 1
    if not args.dry:
        note_history({one.name for one, _ in wanted})
    return 0


if __name__ == "__main__":
    Shown.wide = True
    sys.exit(main())
