"""Schedules on one machine: predicted latency beside simulated cycles.

    python bench/dag_machine.py [--rtl]

The machine is the preset `dag`. The worked examples of the contest's
statement keep the statement's schedules; generated problems take the
machine's rates and are solved here. All run on the model with values
checked, and with --rtl some also on RTL, every beat compared. Each
ratio stands as it is, with what lies between prediction and run.
Exit status 1 where a value differs from the reference, a beat from the
model, or a ledger does not add up.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from penstock.machine.config import Config, load
from penstock.runs import dag_run
from penstock.runs.dag_ledger import TERMS
from penstock.runs.tables import print_table
from penstock.scheduler.dag import Schedule, Subgraph
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.machine import at_rates_of, shrink
from penstock.scheduler.dag.problem import Op, OpType, Problem, Tensor
from penstock.scheduler.dag.solve import solve
from records import Record, Sources, on_model, on_rtl, preset

MACHINE = "dag"
TINY = "dag_tiny"
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
ON_RTL = {"example 3B": 4, "example 3C": 4, "example 4B": 4, "example 5B": 4, "residual-8-1": 4}
"""Of schedules that run on RTL too, what lengths are divided by: on
tiles of 4 x 4 these are as many tiles as at full size.
"""


def machine(name: str = MACHINE) -> Config:
    """The machine, as its preset says."""
    return load(name)


def scheduled(name: str) -> tuple[Problem, Schedule]:
    """A problem by name at the machine's rates, and its schedule."""
    for problem, schedule in EXAMPLES:
        if problem.name == name:
            return at_rates_of(machine(), problem), schedule
    kind, ops, seed = name.rsplit("-", 2)
    problem = at_rates_of(machine(), generate(kind, int(ops), int(seed)))
    return problem, solve(problem, seconds=5, seed=0).schedule


def on_the_model(name: str) -> list[dict]:
    """The record of a schedule at full size."""
    problem, schedule = scheduled(name)
    return [dag_run.run_schedule(problem, schedule, machine())[0].to_dict()]


def on_both(name: str) -> list[dict]:
    """The records of a schedule on model and RTL."""
    by = ON_RTL[name]
    small, scaled = shrink(*scheduled(name), by)
    small = replace(small, name=name)
    runs = dag_run.run_schedule(small, scaled, machine(TINY), on="both", scale=by)
    return [r.to_dict() | {"compared": True} for r in runs]


NAMES = [problem.name for problem, _ in EXAMPLES]
NAMES += [f"{kind}-{ops}-{seed}" for kind, ops, seed in GENERATED]
CASES = {name: (on_the_model, name) for name in NAMES}
CASES |= {f"{name} on RTL": (on_both, name) for name in ON_RTL}
"""What makes the rows of a case."""


def run(case: str) -> dict:
    """The records of one schedule."""
    make, name = CASES[case]
    return {"rows": make(name)}


def sources(case: str) -> Sources:
    """Of one schedule: its problem is at the rates of one machine, and one on RTL runs on a smaller
    one.
    """
    roots = ("bench/dag_machine.py", "runs/dag_run.py", preset(MACHINE))
    if CASES[case][0] is on_both:
        return on_rtl(*roots, preset(TINY))
    return on_model(*roots)


RECORD = Record("dag_machine", cases=lambda: CASES, run=run, sources=sources)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtl", action="store_true", help="some on RTL too")
    args = parser.parse_args()
    cases = [case for case, (make, *_) in CASES.items() if args.rtl or make is not on_both]
    records = []
    for case in cases:
        print(case, flush=True)
        records += run(case)["rows"]
    judged = judge(records)
    print_table(summary(records))
    print_table(ledgers(records))
    print_table(reduced(records))
    print(
        f"Spearman over {judged['schedules']} schedules {judged['over_schedules']:.3f}, over "
        f"{judged['programs']} programs {judged['over_programs']:.3f}"
    )
    if judged["failed"]:
        print(f"failed: {', '.join(judged['failed'])}")
    return int(bool(judged["failed"]))


def total(record: dict, name: str) -> float:
    return sum(s[name] for s in record["programs"])


def lines(record: dict) -> float:
    """Elements moved for each one that the problem's model moves."""
    return total(record, "elements") / total(record, "predicted_elements")


def values_ok(record: dict) -> bool:
    return all(s["values_ok"] for s in record["programs"])


def full_size(records: list[dict]) -> list[dict]:
    return [r for r in records if "compared" not in r]


def times(records: list[dict]) -> list[tuple[float, float]]:
    """(predicted, simulated) of every program, in cycles."""
    return [(s["predicted"], s["cycles"]) for r in records for s in r["programs"]]


def adds_up(record: dict) -> bool:
    """Whether each program's ledger leads from its prediction to its
    cycles.
    """
    signs = {name: -1 if title.startswith("-") else 1 for name, title in TERMS.items()}
    return all(
        abs(p["predicted"] + sum(s * p["ledger"][n] for n, s in signs.items()) - p["cycles"]) < 0.5
        for p in record["programs"]
    )


def judge(records: list[dict]) -> dict:
    """Rank correlations, and the names of the runs that miss what the
    module's first lines say.
    """
    runs = full_size(records)
    whole = [(r["predicted"], r["cycles"]) for r in runs]
    failed = [
        r["problem"]
        for r in records
        if not values_ok(r) or not adds_up(r) or any(p["mismatches"] for p in r["programs"])
    ]
    return {
        "schedules": len(runs),
        "programs": len(times(runs)),
        "over_schedules": dag_run.spearman(*zip(*whole, strict=True)),
        "over_programs": dag_run.spearman(*zip(*times(runs), strict=True)),
        "failed": failed,
    }


def retained(record: dict) -> str:
    """Retained tensors that stay in the fabric, of all."""
    kept = sum(len(p["kept"]) for p in record["programs"])
    left = sum(len(p["left"]) for p in record["programs"])
    return f"{kept} of {kept + left}" if kept + left else "-"


def summary(records: list[dict]) -> list[dict]:
    """A row for each schedule at full size."""
    return [
        {
            "problem": r["problem"],
            "subgraphs": sum(len(p["subgraphs"]) for p in r["programs"]),
            "programs": len(r["programs"]),
            "retained in the fabric": retained(r),
            "predicted": f"{r['predicted']:,.0f}",
            "simulated": f"{r['cycles']:,}",
            "predicted / simulated": f"{r['ratio']:.3f}",
            "lines / elements": f"{lines(r):.3f}",
            "largest error": f"{max(s['max_rel_err'] for s in r['programs']):.1e}",
            "values": "equal" if values_ok(r) else "DIFFER",
        }
        for r in full_size(records)
    ]


def ledgers(records: list[dict]) -> list[dict]:
    """What lies between prediction and run, in percent of the
    prediction.
    """
    return [
        {"problem": r["problem"]}
        | {
            title: f"{100 * r['ledger'][name] / r['predicted']:.1f}%"
            for name, title in TERMS.items()
        }
        | {"busiest in": busiest(r), "beats without data": f"{r['ledger']['stops']:,}"}
        for r in full_size(records)
    ]


def busiest(record: dict) -> str:
    """In how many programs which kind of resource is the busiest."""
    memory = sum(p["ledger"]["busiest"] == "off-chip memory" for p in record["programs"])
    units = len(record["programs"]) - memory
    parts = (f"{memory} memory" * bool(memory), f"{units} unit" * bool(units))
    return ", ".join(filter(None, parts))


def reduced(records: list[dict]) -> list[dict]:
    """A row for each schedule on RTL."""
    rtl = [r for r in records if r["backend"] == "rtl"]
    model = {r["problem"]: r for r in records if r["backend"] == "model" and "compared" in r}
    return [
        {
            "problem": r["problem"] + (f" / {r['scale']}" if r["scale"] > 1 else ""),
            "retained in the fabric": retained(r),
            "model, cycles": f"{model[r['problem']]['cycles']:,}",
            "RTL, cycles": f"{r['cycles']:,}",
            "mismatched beats": f"{total(r, 'mismatches'):.0f}",
            "elements moved": f"{total(r, 'elements'):,.0f}",
            "by the schedule": f"{total(r, 'predicted_elements'):,.0f}",
            "predicted / simulated": f"{r['ratio']:.3f}",
            "values": "equal" if values_ok(r) else "DIFFER",
        }
        for r in rtl
    ]


if __name__ == "__main__":
    sys.exit(main())
