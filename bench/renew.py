"""Renews the records of runs (docs/results) that no longer stand: `nox -s records -- ...`.

    python bench/renew.py [NAME ...] [--list | --check] [--most SECONDS] [--again] [--changed]

NAME is a record, or a record and the beginning of cases
(`dynamic/small`); default: all. Cases run one after the other, each is
stored as it ends, and a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from penstock.machine.errors import PenstockError
from penstock.runs.provenance import commit
from penstock.runs.tables import print_table
from records import Record

MODULES = (
    "made.fig8",
    "made.regress",
    "made.fuzz",
    "made.fuzz_forms",
    "made.fuzz_array",
    "made.dynamic",
    "made.deadlock",
    "made.figures",
    "made.overlay_curves",
    "made.overlay_figures",
    "made.overlay_resources",
    "made.synthesis",
    "made.clocks",
    "made.clocks_overlay",
    "made.boards",
    "made.slots",
    "made.price",
    "made.onchip",
    "made.bounds",
    "made.mapping",
    "made.coverage",
    "made.coverage_hosts",
    "made.detection",
    "made.array",
    "made.array_rtl",
    "made.tracks",
    "made.deep",
    "overlay_placement",
    "overlay_rtl",
    "overlay_speed",
    "graphs",
    "dag_contest",
    "dag_generated",
    "dag_gaps",
    "dag_growth",
    "dag_machine",
    "dag_trial",
    "speed",
    "sweep_speed",
    "hbm2_speed",
    "first_minute",
)
"""Where the records are declared; those of time come last."""


def every() -> list[Record]:
    """All records."""
    return [importlib.import_module(name).RECORD for name in MODULES]


def chosen(names: list[str]) -> dict[Record, list[str]]:
    """The records and cases that are asked for.

    Raises
    ------
    PenstockError
        There is no such record or case.

    """
    found: dict[Record, list[str]] = {}
    for record in every():
        cases = [
            case
            for case in record.cases()
            if not names or any(_is_meant(name, record.name, case) for name in names)
        ]
        if cases:
            found[record] = cases
    known = [f"{record.name}/{case}" for record, cases in found.items() for case in cases]
    for name in names:
        if not any(_is_meant(name, *one.split("/", 1)) for one in known):
            raise PenstockError(
                f"no record {name!r}", remedy=f"records: {', '.join(r.name for r in every())}"
            )
    return found


def _is_meant(name: str, record: str, case: str) -> bool:
    of, slash, begin = name.partition("/")
    return of == record and (not slash or case.startswith(begin))


def listed(wanted: dict[Record, list[str]]) -> list[dict]:
    """A row for each record: how much of it is due and why, and what that took last."""
    rows = []
    for record, cases in wanted.items():
        due = {case: why for case, why in record.due().items() if case in cases}
        known = [s for case in due if (s := record.seconds(case)) is not None]
        unknown = len(due) - len(known)
        rows.append(
            {
                "record": record.name,
                "cases": len(cases),
                "due": len(due),
                "why": ", ".join(dict.fromkeys(due.values())),
                "took last": amount(sum(known)) if known else "",
                "of unknown time": unknown or "",
            }
        )
    return rows


def amount(seconds: float) -> str:
    """A time as a reader wants it."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def renew(wanted: dict[Record, list[str]], again: bool, most: float | None) -> list[str]:
    """Run what is due; returns what could not be run, and why."""
    todo = [
        (record, case)
        for record, cases in wanted.items()
        for due in [record.due()]
        for case in cases
        if again or case in due
    ]
    if most is not None:
        todo = [(r, c) for r, c in todo if (s := r.seconds(c)) is not None and s <= most]
    known = [s for record, case in todo if (s := record.seconds(case)) is not None]
    print(
        f"{len(todo)} cases; {len(known)} of them took {amount(sum(known))}"
        f"{'' if len(known) == len(todo) else ', the others are of unknown time'}",
        flush=True,
    )
    left_out = []
    start = time.monotonic()
    for number, (record, case) in enumerate(todo, 1):
        name = f"{record.name}/{case}"
        if lacking := [path.name for path in record.needs(case) if not path.exists()]:
            left_out.append(f"{name}: no {', '.join(lacking)}; PENSTOCK_DATA names their folder")
            continue
        before = record.seconds(case)
        told = "" if before is None else f" (took {amount(before)})"
        print(f"[{amount(time.monotonic() - start)}] {number}/{len(todo)} {name}{told}", flush=True)
        record.renew(case)
    return left_out


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", metavar="NAME", help="records, or RECORD/CASE")
    p.add_argument("--list", action="store_true", help="what is due, and what it took last")
    p.add_argument("--check", action="store_true", help="the same, and fail where there is any")
    p.add_argument("--most", type=float, metavar="SECONDS", help="leave out cases that took longer")
    p.add_argument("--again", action="store_true", help="run what stands, too")
    p.add_argument(
        "--changed", action="store_true", help="run in a tree with changes; the cases are marked"
    )
    args = p.parse_args(argv)
    try:
        wanted = chosen(args.names)
        if args.list or args.check:
            rows = listed(wanted)
            print_table(rows, "Records")
            return int(args.check and any(row["due"] for row in rows))
        if (commit() or "+").endswith("+") and not args.changed:
            raise PenstockError(
                "the tree has changes that no commit has: a record of it would not stand",
                remedy="commit them first, or give --changed",
            )
        left_out = renew(wanted, args.again, args.most)
    except PenstockError as e:
        print(e, file=sys.stderr)
        return 1
    print("\n".join(left_out), file=sys.stderr)
    print("now: python docs/generate.py --pictures")
    return int(bool(left_out))


if __name__ == "__main__":
    sys.exit(main())
