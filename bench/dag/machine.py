"""Schedules on the machine: predicted latency beside simulated cycles, judged.

    python bench/dag/machine.py [--json OUT] [--rtl]

The worked examples of the contest's statement and generated MLP, attention, mixture-of-experts and residual problems, solved here, run on the
model with values checked; with --rtl three of the examples at reduced size also on RTL, every beat compared.  Judged: predicted /
simulated after the stated fill between 0.7 and 1.1 for every schedule whose traffic is mostly whole 64-B lines (at most 1.25 elements moved
per element asked for; the others are shown with that factor, which the problem's model does not have), rank correlation at least 0.9 over
schedules and over all subgraphs (predicted against simulated, in units of time), values bit-equal to the reference.  Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys

from penstock import dag_run
from penstock.points import print_table
from penstock.scheduler.dag import Schedule, Subgraph
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.machine import shrink
from penstock.scheduler.dag.problem import Op, OpType, Problem, Tensor
from penstock.scheduler.dag.solve import solve

PW, MM = OpType.POINTWISE, OpType.MATMUL
GENERATED = [("mlp", 6, 0), ("mlp", 8, 1), ("attention", 8, 0), ("attention", 14, 1), ("moe", 8, 0), ("moe", 14, 1), ("residual", 8, 0), ("residual", 8, 1),
             ("random", 10, 0)]
LINES = 1.25


def example(name: str, ops: list[Op], tensors: int, capacity: float, *entries: Subgraph) -> tuple[Problem, Schedule]:
    return Problem((Tensor(128, 128),) * tensors, tuple(ops), capacity, 10.0, (128, 128), name), Schedule(entries)


NATIVE = (128, 128, 1)
DIAMOND = [Op(PW, (0,), 1, 1500.0), Op(PW, (1,), 2, 1500.0), Op(PW, (1, 2), 3, 1500.0)]
EXAMPLES = [
    example("example 1B", [Op(PW, (0,), 1, 1000.0), Op(PW, (1,), 2, 100.0)], 3, 35_000.0, Subgraph((0, 1), NATIVE)),
    example("example 3B", DIAMOND, 4, 50_000.0, Subgraph((0, 1), NATIVE, (2,)), Subgraph((0, 2), NATIVE)),
    example("example 3C", DIAMOND, 4, 50_000.0, Subgraph((0,), NATIVE, (1,)), Subgraph((1, 2), NATIVE)),
    example("example 4A", [Op(MM, (0, 1), 2, 1500.0)], 3, 25_000.0, Subgraph((0,), (64, 64, 128))),
    example("example 4B", [Op(MM, (0, 1), 2, 1500.0)], 3, 25_000.0, Subgraph((0,), (64, 64, 128), (), (0, 1, 3, 2))),
    example("example 5B", [Op(MM, (0, 1), 3, 2000.0), Op(MM, (3, 2), 4, 2000.0)], 5, 45_000.0, Subgraph((0, 1), (128, 128, 32))),
]
ON_RTL = {"example 3C": 8, "example 4B": 8, "example 5B": 2}  # lengths divided by


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="OUT")
    parser.add_argument("--rtl", action="store_true", help="three examples on RTL too")
    args = parser.parse_args()
    cases = list(EXAMPLES)
    for kind, ops, seed in GENERATED:
        problem = generate(kind, ops, seed)
        cases.append((problem, solve(problem, seconds=5, seed=0).schedule))
    runs = [dag_run.run_schedule(problem, schedule)[0] for problem, schedule in cases]
    rows, failed = [], []
    for run in runs:
        lines = run.total("elements") / run.total("predicted_elements")
        judge = lines <= LINES
        good = all(s.values_ok for s in run.subgraphs) and (not judge or 0.7 <= run.ratio_after_fill <= 1.1)
        rows.append({"problem": run.problem, "subgraphs": len(run.subgraphs), "predicted": round(run.total("predicted")), "simulated": int(run.total("cycles")),
                     "ratio": run.ratio, "after fill": run.ratio_after_fill, "lines / elements": lines, "Spearman": run.spearman,
                     "values": all(s.values_ok for s in run.subgraphs), "judged": judge})
        failed += [] if good else [run.problem]
    print_table(rows)
    schedules = dag_run.spearman([r.total("predicted") / r.cycles_per_time for r in runs], [r.total("cycles") / r.cycles_per_time for r in runs])
    parts = [(s.predicted / r.cycles_per_time, s.cycles / r.cycles_per_time) for r in runs for s in r.subgraphs]
    subgraphs = dag_run.spearman(*zip(*parts))
    judged = sum(row["judged"] for row in rows)
    print(f"Spearman over {len(runs)} schedules {schedules:.3f}, over {len(parts)} subgraphs {subgraphs:.3f}; {judged} schedules judged by their ratio")
    records = [r.to_dict() for r in runs]
    if args.rtl:
        for problem, schedule in EXAMPLES:
            if problem.name in ON_RTL:
                small, scaled = shrink(problem, schedule, ON_RTL[problem.name])
                model, rtl = dag_run.run_schedule(small, scaled, on="both", t=4, scale=ON_RTL[problem.name])
                records += [model.to_dict(), rtl.to_dict()]
                values = all(s.values_ok for s in rtl.subgraphs)
                failed += [] if values else [small.name]
                print(f"{small.name}: RTL {int(rtl.total('cycles'))} cycles, model {int(model.total('cycles'))}, every beat equal, "
                      f"predicted / simulated {rtl.ratio:.3f}, after fill {rtl.ratio_after_fill:.3f}, values {'equal' if values else 'DIFFER'}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(records, f, indent=1)
    if failed or judged < 10 or min(schedules, subgraphs) < 0.9:
        print(f"failed: {', '.join(failed) or 'too few judged, or the rank correlation'}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
