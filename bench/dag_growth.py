"""How the solver grows: time to within 1 % of the final latency, and
peak memory, at 10, 50, 100 and 200 operations.

    python bench/dag_growth.py [--time 30]

Every problem runs in a fresh process; time counts from its start, wall
clock and CPU (which other processes disturb less).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.runs.tables import print_table
from penstock.scheduler.dag.generate import KINDS, generate
from records import Record, Sources

SIZES = (10, 50, 100, 200)


def measure(kind: str, ops: int, seconds: float) -> dict:
    """The solver's record, with the time to within 1 % of the final
    latency.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, out, record = (
            Path(folder, name) for name in ("in.json", "out.json", "record.json")
        )
        generate(kind, ops, 1).save(source)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "penstock",
                "dag",
                "solve",
                str(source),
                str(out),
                "--time",
                str(seconds),
                "--quiet",
                "--json",
                str(record),
            ],
            check=True,
            capture_output=True,
        )
        result = json.loads(record.read_text())[0]
    near = next(
        (wall, cpu)
        for wall, latency, cpu in result["history"]
        if latency <= 1.01 * result["latency"]
    )
    return result | {
        "kind": kind,
        "within_1_percent_s": near[0],
        "within_1_percent_cpu_s": near[1],
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def summary(records: list[dict]) -> list[dict]:
    """A row for each problem."""
    return [
        {
            "kind": r["kind"],
            "operations": r["ops"],
            "first, s": f"{r['history'][0][0]:.2f}",
            "within 1 %, s": f"{r['within_1_percent_s']:.1f}",
            "CPU of it, s": f"{r['within_1_percent_cpu_s']:.1f}",
            "whole, s": f"{r['wall_s']:.1f}",
            "CPU of it, s ": f"{r['cpu_s']:.1f}",
            "peak memory, MB": f"{r['peak_memory_mb']:.0f}",
            "latency": f"{r['latency']:,.0f}",
            "gap": f"{r['gap']:.1%}",
        }
        for r in records
    ]


SECONDS = 30.0
CASES = {f"{kind} {ops}": (kind, ops) for kind in KINDS for ops in SIZES}


RECORD = Record(
    "dag_growth",
    cases=lambda: CASES,
    run=lambda case: {"rows": [measure(*CASES[case], SECONDS)]},
    sources=lambda case: Sources(("bench/dag_growth.py", "cli/dag_solver.py"), ("hw", "tb")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=SECONDS, help="seconds per problem")
    args = parser.parse_args()
    records = []
    for case, problem in CASES.items():
        print(case, file=sys.stderr, flush=True)
        records.append(measure(*problem, args.time))
    print_table(summary(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
