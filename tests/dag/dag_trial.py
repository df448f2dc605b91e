"""2,000 random problems: no bound is above a schedule, and the checker agrees with the evaluator.

    python tests/dag/dag_trial.py

Problem and readings follow from the number alone (`case`).  Each is solved; the schedule, simpler
ones and spoiled ones are judged by the evaluator and by `dag_checker.py`, which share no
arithmetic, and the bound is held against every schedule met.  Two of five problems are tiny.
"""

from __future__ import annotations

import dataclasses
import random
import sys

import dag_checker
from penstock.machine.errors import PenstockError
from penstock.runs.tables import print_table
from penstock.scheduler.dag import (
    Op,
    OpType,
    Problem,
    Readings,
    Schedule,
    ScheduleError,
    Tensor,
    evaluate,
)
from penstock.scheduler.dag.bound import lower_bound
from penstock.scheduler.dag.generate import KINDS, generate
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.baselines import chain_fusion, one_op_per_subgraph
from penstock.scheduler.dag.solve.tiles import compile_search

SETTINGS = [f"{name}={value}" for name, values in Readings.names().items() for value in values[1:]]
ROOM = 1e-9
"""Relative difference of sums that are equal but for the order of additions."""
MOST_STEPS = 30_000
"""Steps of a schedule that the checker walks; longer ones are counted as not walked."""
TINY_SECONDS = 10.0
"""Time limit of tiny problems; the search ends long before."""


def tiny(chance: random.Random, ops: int) -> Problem:
    """A problem of a few operations on tensors of a few elements."""
    native, sizes = chance.choice(((2, (1, 2, 3, 4)), (3, (2, 3, 4, 5)), (4, (2, 3, 4, 6, 8))))
    tensors = [Tensor(chance.choice(sizes), chance.choice(sizes)) for _ in range(2)]
    made: list[Op] = []
    for _ in range(ops):
        x = chance.randrange(max(0, len(tensors) - 4), len(tensors))
        equal = [t for t, s in enumerate(tensors) if s == tensors[x]]
        draw = chance.random()
        if draw < 0.45:
            inputs = (x, *([chance.choice(equal)] if draw < 0.25 else []))
            kind = OpType.POINTWISE
            shape = tensors[x]
        else:
            rights = [t for t, s in enumerate(tensors) if s.height == tensors[x].width]
            if draw < 0.75 or not rights:
                tensors.append(Tensor(chance.choice(sizes), tensors[x].width))
                rights = [len(tensors) - 1]
            right = chance.choice(rights)
            inputs = (x, right) if draw < 0.9 or tensors[x].width != tensors[x].height else (x, x)
            kind = OpType.MATMUL
            shape = Tensor(tensors[inputs[1]].width, tensors[x].height)
        tensors.append(shape)
        made.append(Op(kind, inputs, len(tensors) - 1, float(chance.randrange(0, 30))))
    return Problem(
        tuple(tensors),
        tuple(made),
        float(chance.choice((12, 24, 40, 64, 100))),
        float(chance.choice((1, 2, 4))),
        (native, chance.choice((2, native))),
        "tiny",
    )


def case(number: int) -> tuple[str, Problem, list[str]]:
    """(kind, problem, settings) of one number; every second one has another reading, every tenth
    two.
    """
    chance = random.Random(f"trial-{number}")
    settings = [SETTINGS[(number // 2 + number // 50) % len(SETTINGS)]] if number % 2 else []
    if number % 10 == 9:
        name = settings[0].split("=")[0]
        settings.append(chance.choice([s for s in SETTINGS if not s.startswith(name + "=")]))
    if number % 5 == 0 or number % 5 == 3:
        return "tiny", tiny(chance, 2 + number // 5 % 3), settings
    kind = list(KINDS)[number // 5 % len(KINDS)]
    ops = chance.choice((4, 6, 8, 10, 14, 20, 30))
    return kind, generate(kind, ops, number, scale=16), settings


def judge(number: int, seconds: float = 0.2) -> dict:
    """The record of one number; `faults` lists what disagrees."""
    kind, problem, settings = case(number)
    readings = Readings.parse(settings)
    record = {"number": number, "kind": kind, "ops": len(problem.ops), "settings": settings}
    record |= {"faults": [], "schedules": 0, "spoiled": 0, "not_walked": 0}
    record |= dict.fromkeys(("latency", "bound"))
    try:
        limit = TINY_SECONDS if kind == "tiny" else seconds
        result = solve(problem, seconds=limit, readings=readings)
    except PenstockError as error:
        record["refused"] = error.what
        return record
    bound = lower_bound(problem, readings)
    record |= {"latency": result.latency, "bound": bound, "gap": result.gap}
    schedules = [result.schedule, one_op_per_subgraph(problem, readings)]
    schedules.append(chain_fusion(problem, readings))
    for schedule in schedules:
        _compare(record, problem, schedule, readings, bound)
    for schedule in _spoiled(problem, schedules, random.Random(number)):
        _compare(record, problem, schedule, readings, bound)
    return record


def _compare(
    record: dict, problem: Problem, schedule: Schedule, readings: Readings, bound: float
) -> None:
    """Hold the evaluator's verdict on a schedule against the checker's, and the bound against its
    latency.
    """
    try:
        evaluation = evaluate(problem, schedule, readings, check_latencies=False)
    except ScheduleError as error:
        evaluation = None
        reason = error.what
    if evaluation and sum(s.steps for s in evaluation.subgraphs) > MOST_STEPS:
        record["not_walked"] += 1
    else:
        try:
            walked = dag_checker.latencies(problem, schedule, readings)
        except dag_checker.IllegalError as error:
            if evaluation:
                record["faults"].append(f"the checker refuses a schedule: {error}")
        else:
            if evaluation is None:
                record["faults"].append(f"the checker allows what the evaluator refuses: {reason}")
            elif any(
                abs(a - b.latency) > ROOM * max(1.0, a)
                for a, b in zip(walked, evaluation.subgraphs, strict=True)
            ):
                record["faults"].append("the checker has another latency")
    if evaluation is None:
        record["spoiled"] += 1
        return
    record["schedules"] += 1
    if bound > evaluation.latency * (1 + ROOM):
        record["faults"].append(f"the bound {bound} is above a schedule of {evaluation.latency}")


def _spoiled(problem: Problem, schedules: list[Schedule], chance: random.Random) -> list[Schedule]:
    """Schedules with one thing changed at random: some still legal, others not."""
    spoiled = []
    for _ in range(6):
        entries = list(chance.choice(schedules).subgraphs)
        at = chance.randrange(len(entries))
        entry = entries[at]
        what = chance.randrange(5)
        if what == 0:
            side = chance.randrange(3)
            size = chance.choice(
                (1, 2, 3, problem.native[0], problem.native[0] + 1, 2 * entry.granularity[side])
            )
            granularity = tuple(size if i == side else v for i, v in enumerate(entry.granularity))
            entries[at] = dataclasses.replace(entry, granularity=granularity, order=None)
        elif what == 1:
            op = problem.ops[chance.choice(entry.ops)]
            entries[at] = dataclasses.replace(
                entry, retain=(*entry.retain, chance.choice((op.output, *op.inputs)))
            )
        elif what == 2:
            entries[at] = dataclasses.replace(entry, retain=())
        elif what == 3 and len(entries) > 1:
            del entries[at]
        else:
            near = [o for o in range(len(problem.ops)) if o not in entry.ops]
            ops = {*entry.ops, *([chance.choice(near)] if near else [])}
            entries[at] = dataclasses.replace(
                entry, ops=tuple(sorted(ops, key=problem.rank.__getitem__)), order=None
            )
        spoiled.append(Schedule(tuple(entries)))
    return spoiled


def summary(records: list[dict]) -> list[dict]:
    """A row for each kind, and one for all."""
    table = []
    for kind in ["tiny", *KINDS, "all"]:
        rows = [r for r in records if kind in (r["kind"], "all")]
        met = [r["latency"] and r["latency"] <= r["bound"] * (1 + 1e-6) for r in rows]
        row = {"kind": kind, "problems": len(rows)}
        row |= {"without a schedule": sum("refused" in r for r in rows)}
        row |= {"legal schedules": sum(r["schedules"] for r in rows)}
        row |= {"illegal ones": sum(r["spoiled"] for r in rows)}
        row |= {"bound met": sum(map(bool, met))}
        table.append(row | {"disagreements": sum(len(r["faults"]) for r in rows)})
    return table


COUNT = 2000


def judged(numbers: range) -> list[dict]:
    """Records of these problems; faults are printed as they are found."""
    compile_search(generate("random", 5, 0))
    solve(tiny(random.Random(0), 4), seconds=60)  # loads what is loaded once
    done = []
    for number in numbers:
        done.append(judge(number))
        for fault in done[-1]["faults"]:
            where = f"{done[-1]['kind']}, {done[-1]['settings']}"
            print(f"number {number} ({where}): {fault}", flush=True)
        print(f"\r{len(done)}/{len(numbers)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return done


def main() -> int:
    table = summary(judged(range(COUNT)))
    print_table(table)
    return int(table[-1]["disagreements"] > 0)


if __name__ == "__main__":
    sys.exit(main())
