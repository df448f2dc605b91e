"""``penstock dag``: the scheduler's commands, and a schedule on the machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..machine.limits import SEEDS, SIZES, within
from ..machine.record import save
from ..runs.tables import print_table
from ..scheduler.dag import Problem, Schedule, evaluate
from ..system import output
from . import dag_solver as dag
from .options import add_file, add_quiet, add_waves, display


def add_arguments(c: argparse.ArgumentParser) -> None:
    commands = dag.add_arguments(c)
    show = commands.choices["show"]
    add_quiet(show)
    show.set_defaults(handler=_with_progress(show.get_default("handler")))
    c = commands.add_parser(
        "run", help="run a schedule on the machine: cycles beside predicted latency, values checked"
    )
    c.add_argument("problem", metavar="IN.json", help="the problem")
    c.add_argument("solution", metavar="OUT.json", help="its schedule")
    c.add_argument(
        "--on",
        choices=("model", "rtl", "both"),
        default="model",
        help="both: run both and compare every beat",
    )
    c.add_argument(
        "--scale",
        type=int,
        default=1,
        metavar="N",
        help="divide every length by N and the capacity by N*N (default 1)",
    )
    c.add_argument(
        "--config",
        default="dag",
        metavar="NAME|FILE",
        help="the machine, a preset or a TOML file (default dag): the prediction has its rates",
    )
    c.add_argument("--seed", type=int, default=0, help="seed of the generated inputs")
    c.add_argument("--no-values", action="store_true", help="cycles only (model)")
    add_file(c, "--json", "write the records")
    add_waves(c, "write a waveform of each program's RTL run and a viewer layout: STEM_<subgraph>")
    c.add_argument(
        "--out",
        type=output.folder_option,
        metavar="DIR",
        help="write a chart of predicted and simulated cycles",
    )
    add_quiet(c)
    c.set_defaults(handler=run)


def _with_progress(command: Callable[[argparse.Namespace], int]) -> Callable:
    """A command of the scheduler that may draw for long."""

    def handler(args: argparse.Namespace) -> int:
        with display(args) as progress:
            progress.step(f"draw {args.problem}")
            return command(args)

    return handler


def run(args) -> int:
    from ..machine.config import load
    from ..runs import dag_run
    from ..scheduler.dag.machine import shrink

    within("--scale", args.scale, SIZES[1:])
    within("--seed", args.seed, SEEDS)
    config = load(args.config)
    given = Problem.load(args.problem)
    chosen = Schedule.load(args.solution)
    evaluate(given, chosen)
    problem, schedule = shrink(given, chosen, args.scale)
    with display(args) as progress:
        runs = dag_run.run_schedule(
            problem,
            schedule,
            config,
            on=args.on,
            scale=args.scale,
            seed=args.seed,
            values=not args.no_values,
            progress=progress.stage,
            waves=args.waves,
        )
    for run in runs:
        print(
            f"{run.problem} on {run.backend}: {run.machine}"
            + (f"; lengths / {run.scale}, capacity / {run.scale**2}" if run.scale > 1 else "")
        )
        print_table(dag_run.table(run))
        correlation = (
            f", Spearman over programs {run.spearman:.3f}" if run.spearman is not None else ""
        )
        print(f"predicted / simulated {run.ratio:.3f}{correlation}")
        if args.on == "both" and run.backend == "rtl":
            print("model = RTL in every beat of every program")
        if args.out:
            output.folder(args.out)
            path = args.out / f"{Path(args.problem).stem}_{run.backend}.png"
            dag_run.draw(path, run)
            print(f"drawn: {path}")
    if args.json:
        save([run.record() for run in runs], args.json)
    return 0 if all(s.values_ok in (True, None) for run in runs for s in run.programs) else 1
