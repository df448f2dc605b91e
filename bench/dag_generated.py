"""200 generated problems: valid, against three simple schedules, gap to
the proven bound, optimal where every choice can be tried.

    python bench/dag_generated.py [--count 200] [--time 3]

Every problem runs in this process (compilation cached after the first).
Exit status 1 if a schedule is invalid or behind a simple one, if one of
a small problem is not the best of all (`dag_exhaustive.py`), or if a
first schedule takes half a second.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys

from dag_exhaustive import least_latency
from penstock.runs.tables import print_table
from penstock.scheduler.dag import Readings, evaluate
from penstock.scheduler.dag.generate import KINDS, generate
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.baselines import (
    chain_fusion,
    one_op_per_subgraph,
    power_of_two_latency,
)
from penstock.scheduler.dag.solve.tiles import compile_search
from records import Record, Sources

SIZES = (5, 8, 12, 20, 30, 50, 80, 110, 150)
SMALL = 8
"""Operations up to which every sequence of subgraphs is tried, if there are not too many."""
FIRST_SECONDS = 0.5


def measure(kind: str, ops: int, seed: int, seconds: float) -> dict:
    """The record of one problem."""
    problem = generate(kind, ops, seed)
    readings = Readings()
    result = solve(problem, seconds=seconds, seed=seed)
    latency = evaluate(problem, result.schedule).latency
    simple = {
        "one_op": one_op_per_subgraph(problem, readings).stated_latency,
        "chains": chain_fusion(problem, readings).stated_latency,
        "powers_of_two": power_of_two_latency(problem, result.schedule, readings),
    }
    least = least_latency(problem) if len(problem.ops) <= SMALL else None
    return {
        "workload": f"dag:{problem.name}",
        "kind": kind,
        "ops": len(problem.ops),
        "seed": seed,
        "time_limit_s": seconds,
        "latency": latency,
        "bound": result.bound,
        "gap": 1 - result.bound / latency,
        "exact_cover": result.exact_cover,
        "first_s": result.history[0].seconds,
        "settled_s": result.history[-1].seconds,
        **{
            f"simple_{name}": value if math.isfinite(value) else None
            for name, value in simple.items()
        },
        "behind": any(latency > value * (1 + 1e-9) for value in simple.values()),
        "least": least,
        "optimal": None if least is None else latency <= least * (1 + 1e-9),
    }


COUNT = 200
SECONDS = 3.0


def problem(index: int) -> tuple[str, int, int]:
    """Kind, operations and seed of a problem."""
    kind = list(KINDS)[index % len(KINDS)]
    return kind, SIZES[(index // len(KINDS)) % len(SIZES)], index


CASES = {"{}-{}-{}".format(*problem(index)): problem(index) for index in range(COUNT)}


def run(case: str) -> dict:
    """One problem; the search is compiled before."""
    compile_search(generate("random", 5, 0))
    return {"rows": [measure(*CASES[case], SECONDS)]}


RECORD = Record(
    "dag_generated",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: Sources(("bench/dag_generated.py",), ("hw", "tb")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--time", type=float, default=SECONDS, help="seconds per problem")
    args = parser.parse_args()
    records: list[dict] = []
    compile_search(generate("random", 5, 0))
    for index in range(args.count):
        records.append(measure(*problem(index), args.time))
        print(f"\r{index + 1}/{args.count}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print_table(summary(records))
    return int(
        any(r["behind"] or r["optimal"] is False or r["first_s"] >= FIRST_SECONDS for r in records)
    )


def summary(records: list[dict]) -> list[dict]:
    """A row for each kind, and one for all."""
    table = []
    for kind in [*KINDS, "all"]:
        rows = [r for r in records if kind in (r["kind"], "all")]
        if not rows:
            continue
        tried = [r["optimal"] for r in rows if r["optimal"] is not None]
        table.append(
            {
                "kind": kind,
                "problems": len(rows),
                "operations": f"{min(r['ops'] for r in rows)}-{max(r['ops'] for r in rows)}",
                "behind a simple one": sum(r["behind"] for r in rows),
                "optimal": f"{sum(tried)} of {len(tried)}",
                "median gap": f"{statistics.median(r['gap'] for r in rows):.1%}",
                "worst gap": f"{max(r['gap'] for r in rows):.1%}",
                "to one op each": f"{_ratio(rows, 'simple_one_op'):.3f}",
                "to chains": f"{_ratio(rows, 'simple_chains'):.3f}",
                "to powers of two": f"{_ratio(rows, 'simple_powers_of_two'):.3f}",
                "first, s": f"{max(r['first_s'] for r in rows):.2f}",
            }
        )
    return table


def _ratio(rows: list[dict], simple: str) -> float:
    """Mean latency, relative to that of a simple schedule."""
    return statistics.geometric_mean(r["latency"] / r[simple] for r in rows if r[simple])


if __name__ == "__main__":
    sys.exit(main())
