"""How the solver grows: time to within 1 % of the final latency, and peak memory, at 10, 50, 100 and 200 operations.

    python bench/dag/growth.py [--time 30] [--json FILE]

Every problem runs in a fresh process; time counts from its start.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.scheduler.dag.generate import KINDS, generate
from penstock.scheduler.dag.jsonio import write_atomically


def measure(kind: str, ops: int, seconds: float) -> dict:
    """The solver's record, with the time to within 1 % of the final latency."""
    with tempfile.TemporaryDirectory() as folder:
        source, out, record = (Path(folder, name) for name in ("in.json", "out.json", "record.json"))
        generate(kind, ops, 1).save(source)
        subprocess.run([sys.executable, "-m", "penstock.scheduler.dag", "solve", str(source), str(out), "--time", str(seconds), "--quiet",
                        "--json", str(record)], check=True, capture_output=True)
        result = json.loads(record.read_text())[0]
    near = next(t for t, latency in result["history"] if latency <= 1.01 * result["latency"])
    return result | {"kind": kind, "within_1_percent_s": near}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=30.0, help="seconds per problem")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    records = []
    print(f"{'kind':10} {'ops':>4} {'latency':>14} {'gap':>6} {'first s':>8} {'1 % s':>6} {'last s':>7} {'memory MB':>9}")
    for kind in KINDS:
        for ops in (10, 50, 100, 200):
            r = measure(kind, ops, args.time)
            records.append(r)
            print(f"{kind:10} {r['ops']:4} {r['latency']:14,.1f} {r['gap']:6.1%} {r['history'][0][0]:8.2f} {r['within_1_percent_s']:6.1f} "
                  f"{r['history'][-1][0]:7.1f} {r['peak_memory_mb']:9.0f}", flush=True)
    if args.json:
        write_atomically(args.json, json.dumps(records, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
