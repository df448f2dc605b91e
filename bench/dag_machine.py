"""Schedules on the machine: predicted latency beside simulated cycles, judged.

    python bench/dag_machine.py [--rtl]

The worked examples of the contest's statement and generated MLP, attention, mixture-of-experts and
residual problems, solved here, run on the model with values checked; with --rtl three of the
examples at reduced size also on RTL, every beat compared.  Judged: predicted / simulated after the
stated fill between 0.7 and 1.1 for every schedule whose traffic is mostly whole 64-B lines (at most
1.25 elements moved per element asked for; the others are shown with that factor, which the
problem's model does not have), rank correlation at least 0.9 over schedules and over all subgraphs
(predicted against simulated, in units of time), values bit-equal to the reference.  Exit status 1
otherwise.
"""

from __future__ import annotations

import argparse
import sys

from penstock.runs import dag_run
from penstock.runs.tables import print_table
from penstock.scheduler.dag import Schedule, Subgraph
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.machine import shrink
from penstock.scheduler.dag.problem import Op, OpType, Problem, Tensor
from penstock.scheduler.dag.solve import solve
from records import Record, on_model, on_rtl

PW = OpType.POINTWISE
MM = OpType.MATMUL
GENERATED = [
    ("mlp", 6, 0),
    ("mlp", 8, 1),
    ("attention", 8, 0),
    ("attention", 14, 1),
    ("moe", 8, 0),
    ("moe", 14, 1),
    ("residual", 8, 0),
    ("residual", 8, 1),
    ("random", 10, 0),
]
LINES = 1.25


def example(
    name: str, ops: list[Op], tensors: int, capacity: float, *entries: Subgraph
) -> tuple[Problem, Schedule]:
    return Problem(
        (Tensor(128, 128),) * tensors, tuple(ops), capacity, 10.0, (128, 128), name
    ), Schedule(entries)


NATIVE = (128, 128, 1)
DIAMOND = [Op(PW, (0,), 1, 1500.0), Op(PW, (1,), 2, 1500.0), Op(PW, (1, 2), 3, 1500.0)]
EXAMPLES = [
    example(
        "example 1B",
        [Op(PW, (0,), 1, 1000.0), Op(PW, (1,), 2, 100.0)],
        3,
        35_000.0,
        Subgraph((0, 1), NATIVE),
    ),
    example(
        "example 3B", DIAMOND, 4, 50_000.0, Subgraph((0, 1), NATIVE, (2,)), Subgraph((0, 2), NATIVE)
    ),
    example(
        "example 3C", DIAMOND, 4, 50_000.0, Subgraph((0,), NATIVE, (1,)), Subgraph((1, 2), NATIVE)
    ),
    example("example 4A", [Op(MM, (0, 1), 2, 1500.0)], 3, 25_000.0, Subgraph((0,), (64, 64, 128))),
    example(
        "example 4B",
        [Op(MM, (0, 1), 2, 1500.0)],
        3,
        25_000.0,
        Subgraph((0,), (64, 64, 128), (), (0, 1, 3, 2)),
    ),
    example(
        "example 5B",
        [Op(MM, (0, 1), 3, 2000.0), Op(MM, (3, 2), 4, 2000.0)],
        5,
        45_000.0,
        Subgraph((0, 1), (128, 128, 32)),
    ),
]
ON_RTL = {"example 3C": 8, "example 4B": 8, "example 5B": 2}  # lengths divided by


def on_the_model(problem: Problem, schedule: Schedule) -> list[dict]:
    """The record of a schedule at full size."""
    return [dag_run.run_schedule(problem, schedule)[0].to_dict()]


def on_both(name: str) -> list[dict]:
    """The records of an example at reduced size, the model's and the RTL's."""
    problem, schedule = next(e for e in EXAMPLES if e[0].name == name)
    small, scaled = shrink(problem, schedule, ON_RTL[name])
    runs = dag_run.run_schedule(small, scaled, on="both", t=4, scale=ON_RTL[name])
    return [r.to_dict() for r in runs]


def solved(kind: str, ops: int, seed: int) -> list[dict]:
    """The record of a generated problem, solved here."""
    problem = generate(kind, ops, seed)
    return on_the_model(problem, solve(problem, seconds=5, seed=0).schedule)


CASES = {problem.name: (on_the_model, problem, schedule) for problem, schedule in EXAMPLES}
CASES |= {f"{kind}-{ops}-{seed}": (solved, kind, ops, seed) for kind, ops, seed in GENERATED}
CASES |= {f"{name} on RTL": (on_both, name) for name in ON_RTL}
"""What makes the rows of a case."""


def run(case: str) -> dict:
    """The records of one schedule."""
    make, *given = CASES[case]
    return {"rows": make(*given)}


RECORD = Record(
    "dag_machine",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: (on_rtl if CASES[case][0] is on_both else on_model)(
        "bench/dag_machine.py", "runs/dag_run.py"
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtl", action="store_true", help="three examples on RTL too")
    args = parser.parse_args()
    cases = [case for case, (make, *_) in CASES.items() if args.rtl or make is not on_both]
    records = [row for case in cases for row in run(case)["rows"]]
    judged = judge(records)
    print_table(summary(records))
    print_table(reduced(records))
    print(
        f"Spearman over {judged['schedules']} schedules {judged['over_schedules']:.3f}, over "
        f"{judged['subgraphs']} subgraphs {judged['over_subgraphs']:.3f}; "
        f"{judged['ratios']} schedules judged by their ratio"
    )
    if judged["failed"]:
        print(f"failed: {', '.join(judged['failed'])}")
    return int(bool(judged["failed"]))


def total(record: dict, name: str) -> float:
    return sum(s[name] for s in record["subgraphs"])


def lines(record: dict) -> float:
    """Elements moved for each one that the problem's model moves."""
    return total(record, "elements") / total(record, "predicted_elements")


def values_ok(record: dict) -> bool:
    return all(s["values_ok"] for s in record["subgraphs"])


def full_size(records: list[dict]) -> list[dict]:
    return [r for r in records if r["scale"] == 1]


def times(records: list[dict]) -> list[tuple[float, float]]:
    """(predicted, simulated) of every subgraph, in the problem's units of time."""
    return [
        (s["predicted"] / r["cycles_per_time"], s["cycles"] / r["cycles_per_time"])
        for r in records
        for s in r["subgraphs"]
    ]


def judge(records: list[dict]) -> dict:
    """What the module's first lines say, and the names of the runs that miss it."""
    runs = full_size(records)
    ratios = [r for r in runs if lines(r) <= LINES]
    schedules = dag_run.spearman(
        *zip(
            *(
                (r["predicted"] / r["cycles_per_time"], r["cycles"] / r["cycles_per_time"])
                for r in runs
            ),
            strict=False,
        )
    )
    subgraphs = dag_run.spearman(*zip(*times(runs), strict=False))
    failed = [
        r["problem"]
        for r in records
        if not values_ok(r) or any(s["mismatches"] for s in r["subgraphs"])
    ]
    failed += [r["problem"] for r in ratios if not 0.7 <= r["ratio_after_fill"] <= 1.1]
    if len(ratios) < 10 or min(schedules, subgraphs) < 0.9:
        failed.append("too few judged, or the rank correlation")
    return {
        "schedules": len(runs),
        "subgraphs": len(times(runs)),
        "over_schedules": schedules,
        "over_subgraphs": subgraphs,
        "ratios": len(ratios),
        "failed": failed,
    }


def summary(records: list[dict]) -> list[dict]:
    """A row for each schedule at full size."""
    return [
        {
            "problem": r["problem"],
            "subgraphs": len(r["subgraphs"]),
            "predicted": f"{r['predicted']:,.0f}",
            "simulated": f"{r['cycles']:,}",
            "predicted / simulated": f"{r['ratio']:.3f}",
            "after fill": f"{r['ratio_after_fill']:.3f}",
            "lines / elements": f"{lines(r):.3f}",
            "largest error": f"{max(s['max_rel_err'] for s in r['subgraphs']):.1e}",
            "values": "equal" if values_ok(r) else "DIFFER",
            "judged by the ratio": "yes" if lines(r) <= LINES else "no",
        }
        for r in full_size(records)
    ]


def reduced(records: list[dict]) -> list[dict]:
    """A row for each schedule on RTL."""
    rtl = [r for r in records if r["backend"] == "rtl"]
    model = {(r["problem"], r["scale"]): r for r in records if r["backend"] == "model"}
    return [
        {
            "problem": r["problem"],
            "model, cycles": f"{model[r['problem'], r['scale']]['cycles']:,}",
            "RTL, cycles": f"{r['cycles']:,}",
            "mismatched beats": f"{total(r, 'mismatches'):.0f}",
            "predicted / simulated": f"{r['ratio']:.3f}",
            "after fill": f"{r['ratio_after_fill']:.3f}",
            "values": "equal" if values_ok(r) else "DIFFER",
        }
        for r in rtl
    ]


if __name__ == "__main__":
    sys.exit(main())
