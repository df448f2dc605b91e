"""Where the gap between schedule and bound comes from.

    python bench/dag_gaps.py [--time 10]

Within a component (operations that may share subgraphs) the bound lets all compute overlap all
traffic, and counts the traffic nothing avoids.  *Overlap* is what such a bound could reach at best
for the schedule found: the sum over components of the larger of its compute and its traffic;
*forced* are the shares of the schedule's compute and traffic that are proven.  So a gap has two
parts: what the schedule does not overlap, and the work that is not forced.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict

from penstock.runs.tables import print_table
from penstock.scheduler.dag import Readings
from penstock.scheduler.dag.bound import lower_bound
from penstock.scheduler.dag.forced import forced
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.tiles import compile_search
from records import Record, Sources

PROBLEMS = (
    ("mlp", 20, 2),
    ("mlp", 40, 5),
    ("mlp", 100, 3),
    ("random", 500, 0),
    ("random", 500, 1),
    ("random", 500, 4),
    ("random", 1000, 0),
    ("random", 2000, 0),
    ("random", 2000, 1),
)
"""Kind, operations and seed: the largest gaps of the first seeds, and smaller ones."""


def measure(kind: str, ops: int, seed: int, seconds: float) -> dict:
    """The record of one problem."""
    problem = generate(kind, ops, seed)
    result = solve(problem, seconds=seconds)
    bound = lower_bound(problem, seconds=20)
    case = forced(problem, Readings())[0]
    home = {op: i for i, members in enumerate(case.components) for op in members}
    compute: dict[int, float] = defaultdict(float)
    memory: dict[int, float] = defaultdict(float)
    for entry, cost in zip(result.schedule.subgraphs, result.evaluation.subgraphs, strict=True):
        compute[home[entry.ops[0]]] += cost.compute
        memory[home[entry.ops[0]]] += cost.memory
    overlap = math.fsum(max(compute[i], memory[i]) for i in compute)
    return {
        "workload": f"dag:{problem.name}",
        "ops": len(problem.ops),
        "time_limit_s": seconds,
        "latency": result.latency,
        "bound": bound,
        "gap": 1 - bound / result.latency,
        "largest_component": max(map(len, case.components)),
        "subgraphs": len(result.schedule.subgraphs),
        "overlap": overlap / result.latency,
        "forced_compute": math.fsum(case.compute) / math.fsum(compute.values()),
        "forced_traffic": math.fsum(case.traffic) / problem.bandwidth / math.fsum(memory.values()),
    }


def summary(records: list[dict]) -> list[dict]:
    """A row for each problem."""
    return [
        {
            "problem": r["workload"].removeprefix("dag:"),
            "operations": r["ops"],
            "largest component": r["largest_component"],
            "subgraphs": r["subgraphs"],
            "latency": f"{r['latency']:,.0f}",
            "bound": f"{r['bound']:,.0f}",
            "gap": f"{r['gap']:.1%}",
            "of it not overlapped": f"{1 - r['overlap']:.1%}",
            "of it not forced": f"{r['gap'] - (1 - r['overlap']):.1%}",
            "compute forced": f"{r['forced_compute']:.1%}",
            "traffic forced": f"{r['forced_traffic']:.1%}",
        }
        for r in records
    ]


def ranges(records: list[dict]) -> str:
    """The least and the largest gap of each kind, and of its two parts,
    as one sentence each.
    """
    sentences = []
    for kind in dict.fromkeys(_kind(r) for r in records):
        own = [r for r in records if _kind(r) == kind]
        gap = _range([r["gap"] for r in own])
        apart = _range([1 - r["overlap"] for r in own])
        rest = _range([r["gap"] - (1 - r["overlap"]) for r in own])
        sentences.append(
            f"{kind}: gaps of {gap}. Of the latency {apart} is not overlapped, {rest} not forced."
        )
    return " ".join(sentences)


def _kind(record: dict) -> str:
    return record["workload"].removeprefix("dag:").split("-")[0]


def _range(shares: list[float]) -> str:
    return f"{min(shares):.1%} to {max(shares):.1%}"


SECONDS = 10.0
CASES = {f"{kind}-{ops}-{seed}": (kind, ops, seed) for kind, ops, seed in PROBLEMS}


def run(case: str) -> dict:
    """One problem; the search is compiled before."""
    compile_search(generate("random", 5, 0))
    return {"rows": [measure(*CASES[case], SECONDS)]}


RECORD = Record(
    "dag_gaps",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: Sources(("bench/dag_gaps.py",), ("hw", "tb")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=SECONDS, help="seconds per problem")
    args = parser.parse_args()
    compile_search(generate("random", 5, 0))
    records = [measure(*problem, args.time) for problem in PROBLEMS]
    print_table(summary(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
