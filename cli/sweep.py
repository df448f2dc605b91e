"""``penstock sweep``."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from ..machine.errors import PenstockError
from ..runs import tables
from ..runs.pareto import Front
from .options import (
    CONFIG,
    SEVERAL,
    add_array,
    add_executor,
    add_program,
    add_quiet,
    add_run,
    display,
    grid_of,
    machine_of,
    pool,
    verdict,
)

MOST = 400
"""Points whose rows are kept and printed, where a store has all of them."""


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, **SEVERAL, more="; or a sweep as a file, FILE.toml")
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


def planned(args):
    """The sweep that a file or the command line describes."""
    from ..machine.config import load as load_config
    from ..runs import plan

    if args.program.endswith(".toml"):
        elsewhere = args.array, args.on != "model", args.seed, args.tolerance is not None
        if args.params or args.config != CONFIG or any(elsewhere):
            raise PenstockError(
                f"{args.program} says what is run",
                remedy="write --config or --array, --set, --on, --tolerance and --seed into it: "
                "config, grid, run, seeds",
            )
        return plan.load(args.program)
    points = plan.grid_points(grid_of(args.params))
    how = {
        "on": args.on,
        "timing": args.timing,
        "values": not args.no_values,
        "onchip_rule": args.onchip_rule,
        "on_array": args.array is not None,
        "tolerance": args.tolerance,
    }
    config = load_config(machine_of(args))
    return plan.Plan(args.program, config, points, [args.seed] * len(points), options=how)


def command(args) -> int:
    from ..runs import api, many, results, tables
    from ..runs.store import Store

    plan = planned(args)
    front = Front()
    kept = {}
    whole = args.csv or args.json or args.store is None
    with ExitStack() as stack:
        store = stack.enter_context(Store(args.store)) if args.store else None
        workers = stack.enter_context(pool(args))
        progress = stack.enter_context(display(args))
        for place, outcome in many.each(
            plan.program,
            plan.config,
            plan.points,
            seed=plan.seeds,
            progress=progress,
            executor=workers,
            store=store,
            **plan.options,
        ):
            if whole or place < MOST:
                kept[place] = outcome
            _compete(front, plan.objectives, outcome)
    found = [kept[place] for place in sorted(kept)]
    tables.one_message(found)
    seeded = {} if len(set(plan.seeds)) == 1 else {"seed": plan.seeds}
    rows = [
        tables.row(o, **o.params, **{k: v[i] for k, v in seeded.items()})
        for i, o in zip(sorted(kept), found, strict=True)
    ]
    if args.json:
        api.save_records([r for o in found for r in o.records], args.json)
    if args.csv:
        print(tables.to_csv(rows), end="")
    else:
        _printed(rows, found, len(plan.points))
        if plan.objectives:
            best = [row for _, row in sorted(front.items, key=lambda item: item[0])]
            title = f"Pareto front of {', '.join(plan.objectives)}"
            tables.print_table(results.table(best, plan.objectives), title)
    return verdict(
        [
            {"point": " ".join(f"{k}={v}" for k, v in o.params.items()), **r}
            for o, r in zip(found, rows, strict=True)
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
