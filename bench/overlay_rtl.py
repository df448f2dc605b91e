"""The overlay's RTL against its model, case by case, into a record: exit 1 where any differs.

    python bench/overlay_rtl.py [--only TEXT ...] [--matrices DIR] [--json
    docs/results/overlay_rtl.json] [--fresh]

A case is one build of the RTL and the graphs that run on it, one after the other, without a reset
in between (`overlay/regression.py`). Cases that the record holds are not run again unless
``--fresh``: a long run can be stopped and taken up. docs/overlay_results.md shows the record.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from inputs import SHIPPED
from penstock.overlay.regression import SUITES, Case, run
from penstock.runs import api
from penstock.system.output import write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "results" / "overlay_rtl.json"


def row(case: Case, matrices: Path) -> dict:
    """A case's entry in the record."""
    start = time.perf_counter()
    ran = run(case, matrices)
    o = case.overlay
    return {
        "case": case.name,
        "suite": case.suite,
        "mesh": f"{o.rows}x{o.cols}",
        "variant": o.name(),
        "alu": o.alu,
        "format": o.format,
        "kinds": o.kinds,
        "graphs": [asdict(x) | {"equal": x.equal} for x in ran.outcomes],
        "clocks": ran.clocks,
        "seconds": {
            k: round(v, 1) for k, v in (ran.seconds | {"all": time.perf_counter() - start}).items()
        },
    }


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
    p.add_argument(
        "--matrices",
        type=Path,
        default=SHIPPED / "matrices",
        metavar="DIR",
        help="folder of the matrices",
    )
    p.add_argument(
        "--json",
        type=Path,
        default=RECORD,
        metavar="OUT",
        help="the record, written after every case",
    )
    p.add_argument("--fresh", action="store_true", help="run cases again that the record holds")
    args = p.parse_args()
    record = json.loads(args.json.read_text()) if args.json.exists() else {"cases": []}
    every = [c for cases in SUITES.values() for c in cases]
    cases = list(dict.fromkeys(c for text in args.only or [""] for c in every if text in c.name))
    known = {r["case"]: r for r in record["cases"]}
    bad = 0
    for k, case in enumerate(cases, 1):
        if args.fresh or case.name not in known:
            known[case.name] = row(case, args.matrices)
            record["cases"] = [known[c.name] for c in every if c.name in known]
            write_text(
                args.json, json.dumps(record | {"versions": api.versions()}, indent=1) + "\n"
            )
        r = known[case.name]
        wrong = [g["graph"] for g in r["graphs"] if not g["equal"]]
        bad += bool(wrong)
        print(
            f"{k}/{len(cases)} {case.name}: {len(r['graphs'])} graphs, "
            f"{sum(g['cycles'] for g in r['graphs'])} cycles, {r['seconds']['all']} s "
            f"({', '.join(f'{n} {s}' for n, s in r['seconds'].items() if n != 'all')})"
            + (f"; DIFFERENT: {', '.join(wrong)}" if wrong else ""),
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
