"""The overlay's RTL against its model, case by case: exit 1 where any differs.

    python bench/overlay_rtl.py [--only TEXT ...]

A case is one build of the RTL and the graphs that run on it, one after
the other, without a reset in between (`overlay/regression.py`). `nox -s
records -- overlay_rtl` renews the record that docs/overlay_results.md
shows.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from inputs import SHIPPED
from penstock.overlay.regression import SUITES, run
from records import Record, overlay_rtl

CASES = {c.name: c for cases in SUITES.values() for c in cases}


def entry(name: str) -> dict:
    """A case's entry in the record."""
    case = CASES[name]
    ran = run(case, SHIPPED / "matrices")
    o = case.overlay
    return {
        "suite": case.suite,
        "mesh": f"{o.rows}x{o.cols}",
        "variant": o.name(),
        "alu": o.alu,
        "format": o.format,
        "kinds": o.kinds,
        "clocks": ran.clocks,
        "spent": {k: round(v, 1) for k, v in ran.seconds.items()},
        "rows": [asdict(x) | {"equal": x.equal} for x in ran.outcomes],
    }


RECORD = Record(
    "overlay_rtl",
    cases=lambda: CASES,
    run=entry,
    sources=lambda case: overlay_rtl("overlay/regression.py"),
)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help=(
            "cases whose name contains TEXT; may be repeated: all those of the first, then of "
            "the second"
        ),
    )
    args = p.parse_args()
    cases = list(dict.fromkeys(c for text in args.only or [""] for c in CASES if text in c))
    bad = 0
    for k, name in enumerate(cases, 1):
        r = entry(name)
        wrong = [g["graph"] for g in r["rows"] if not g["equal"]]
        bad += bool(wrong)
        print(
            f"{k}/{len(cases)} {name}: {len(r['rows'])} graphs, "
            f"{sum(g['cycles'] for g in r['rows'])} cycles "
            f"({', '.join(f'{n} {s}' for n, s in r['spent'].items())})"
            + (f"; DIFFERENT: {', '.join(wrong)}" if wrong else ""),
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
