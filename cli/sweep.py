"""``penstock sweep``."""

from __future__ import annotations

import argparse
import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.errors import PenstockError
from ..runs import tables
from ..runs.pareto import Front
from .options import (
    SEVERAL,
    add_array,
    add_executor,
    add_program,
    add_quiet,
    add_run,
    display,
    grid_of,
    machines,
    pool,
    seeds,
    verdict,
)

if TYPE_CHECKING:
    from ..runs.plan import Plan

MOST = 400
"""Points whose rows are kept and printed, where a store has all of them."""


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, *SEVERAL, several=True, more="; or a sweep as a file, FILE.toml")
    add_array(c)
    add_run(c, both="; RTL points of equal structure share one simulator build")
    c.add_argument("--csv", action="store_true", help="print the table as CSV")
    c.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="keep each result in this folder; what it has is not run again",
    )
    add_executor(c)
    add_quiet(c)
    c.set_defaults(handler=command)


def planned(args) -> list[tuple[dict, Plan]]:
    """The sweeps that a file or the command line describes, one a machine, with what sets that
    machine apart.
    """
    from ..runs import plan

    if args.program.endswith(".toml"):
        machine = args.config, args.machine, args.array
        if any((*machine, args.params, args.on != "model", args.seed, args.tolerance is not None)):
            raise PenstockError(
                f"{args.program} says what is run",
                remedy="write --config or --array, --set, --on, --tolerance and --seed into it: "
                "config, grid, run, seeds",
            )
        return [({}, plan.load(args.program))]
    points = plan.grid_points(grid_of(args.params))
    each = seeds(args)
    how = {
        "on": args.on,
        "timing": args.timing,
        "values": not args.no_values,
        "onchip_rule": args.onchip_rule,
        "on_array": args.array is not None,
        "tolerance": args.tolerance,
    }
    points = [one for one in points for _ in each]
    numbers = each * (len(points) // len(each))
    return [
        (apart, plan.Plan(args.program, config, points, numbers, options=how))
        for apart, config in machines(args)
    ]


def command(args) -> int:
    from ..runs import api, many, results, tables
    from ..runs.store import Store

    plans = planned(args)
    objectives = plans[0][1].objectives
    points = [
        first | params | ({"seed": seed} if len(set(plan.seeds)) > 1 else {})
        for first, plan in plans
        for params, seed in zip(plan.points, plan.seeds, strict=True)
    ]
    starts = list(itertools.accumulate((len(plan.points) for _, plan in plans), initial=0))
    front = Front()
    kept = {}
    whole = args.csv or args.json or args.store is None
    with ExitStack() as stack:
        store = stack.enter_context(Store(args.store)) if args.store else None
        workers = stack.enter_context(pool(args))
        progress = stack.enter_context(display(args))
        calls = [
            many.call(p.program, p.config, p.points, seed=p.seeds, **p.options) for _, p in plans
        ]
        for number, within, outcome in many.several(
            calls, progress=progress, executor=workers, store=store
        ):
            place = starts[number] + within
            if whole or place < MOST:
                kept[place] = outcome
            _compete(front, objectives, outcome)
    found = [kept[place] for place in sorted(kept)]
    tables.one_message(found)
    rows = [points[i] | tables.row(o) for i, o in sorted(kept.items())]
    if args.json:
        api.save_records([r for o in found for r in o.records], args.json)
    if args.csv:
        print(tables.to_csv(rows), end="")
    else:
        _printed(rows, found, len(points))
        if objectives:
            best = [row for _, row in sorted(front.items, key=lambda item: item[0])]
            title = f"Pareto front of {', '.join(objectives)}"
            tables.print_table(results.table(best, objectives), title)
    return verdict(
        [
            {"point": " ".join(f"{k}={v}" for k, v in points[i].items()), **r}
            for i, r in zip(sorted(kept), rows, strict=True)
        ]
    )


def _compete(front, objectives: tuple[str, ...], outcome) -> None:
    """Lay a point's records beside the best so far."""
    for record in outcome.records if objectives else ():
        at = tuple(getattr(record, name) for name in objectives)
        if None not in at:
            shown = {name: getattr(record, name) for name in ("backend", *objectives)}
            front.add(at, {"program": record.workload, **outcome.params, **shown})


def _printed(rows: list[dict], found: list, points: int) -> None:
    """The table, the builds that it took, and what it leaves out."""
    tables.print_table(rows)
    builds = {r.build for o in found for r in o.records if r.build}
    if builds:
        print(
            f"{len(builds)} simulator build{'s' * (len(builds) > 1)} for "
            f"{sum(o.rtl is not None for o in found)} points"
        )
    if len(found) < points:
        print(f"the first {len(found)} of {points} points; `penstock results` shows the store")
