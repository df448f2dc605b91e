"""200 generated problems: valid, against three simple schedules, gap to the proven bound.

    python bench/dag/generated.py [--count 200] [--time 3] [--json FILE]

Every problem runs in this process (compilation cached after the first).  Exit status 1 if a schedule is invalid or
behind a simple one.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

from penstock.scheduler.dag import Readings, evaluate
from penstock.scheduler.dag.generate import KINDS, generate
from penstock.scheduler.dag.jsonio import write_atomically
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.baselines import chain_fusion, one_op_per_subgraph, power_of_two_latency

SIZES = (5, 8, 12, 20, 30, 50, 80, 110, 150)


def measure(kind: str, ops: int, seed: int, seconds: float) -> dict:
    """The record of one problem."""
    problem, readings = generate(kind, ops, seed), Readings()
    result = solve(problem, seconds=seconds, seed=seed)
    latency = evaluate(problem, result.schedule).latency
    simple = {"one_op": one_op_per_subgraph(problem, readings).stated_latency, "chains": chain_fusion(problem, readings).stated_latency,
              "powers_of_two": power_of_two_latency(problem, result.schedule, readings)}
    return {"workload": f"dag:{problem.name}", "kind": kind, "ops": len(problem.ops), "seed": seed, "time_limit_s": seconds,
            "latency": latency, "bound": result.bound, "gap": 1 - result.bound / latency, "exact_cover": result.exact_cover,
            "first_s": result.history[0].seconds, "settled_s": result.history[-1].seconds,
            **{f"simple_{name}": value if math.isfinite(value) else None for name, value in simple.items()},
            "behind": any(latency > value * (1 + 1e-9) for value in simple.values())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--time", type=float, default=3.0, help="seconds per problem")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    records = []
    solve(generate("random", 5, 0), seconds=60)  # compile
    for index in range(args.count):
        kind, ops = list(KINDS)[index % len(KINDS)], SIZES[(index // len(KINDS)) % len(SIZES)]
        records.append(measure(kind, ops, index, args.time))
        print(f"\r{index + 1}/{args.count}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{'kind':10} {'problems':>8} {'median gap':>10} {'worst gap':>9} {'vs one op':>9} {'vs chains':>9} {'vs 2^n':>7} "
          f"{'first s':>8} {'behind':>6}")
    for kind in [*KINDS, "all"]:
        rows = [r for r in records if kind in (r["kind"], "all")]
        if not rows:
            continue

        def ratio(name: str) -> float:
            return statistics.geometric_mean(r["latency"] / r[name] for r in rows if r[name])

        print(f"{kind:10} {len(rows):8} {statistics.median(r['gap'] for r in rows):10.1%} {max(r['gap'] for r in rows):9.1%} "
              f"{ratio('simple_one_op'):9.3f} {ratio('simple_chains'):9.3f} {ratio('simple_powers_of_two'):7.3f} "
              f"{max(r['first_s'] for r in rows):8.2f} {sum(r['behind'] for r in rows):6}")
    if args.json:
        write_atomically(args.json, json.dumps(records, indent=1) + "\n")
    return int(any(r["behind"] for r in records))


if __name__ == "__main__":
    sys.exit(main())
