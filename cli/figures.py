"""``penstock figures``."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from ..machine.errors import PenstockError, nearest
from ..machine.timings import TIMINGS, current_name
from ..system import output
from .options import add_executor, add_max_memory, add_out, add_quiet, display, pool


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "figure",
        metavar="FIGURE",
        help="fig8 (SwiGLU by tile size, with the machine's timing and RTL). "
        "In the timing `stepsim`: fig9, fig10, fig19 and fig20 (dynamic tiling), "
        "fig12 and fig13 (time-multiplexing), fig14, fig15 and fig21 (attention), fig17 (whole "
        "layers); "
        "all; or ledger: all, and what the papers' texts state beside ours",
    )
    add_out(c, required=True)
    c.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="published traces: routing/MODEL_bBATCH.npz and "
        "kv_lengths/bBATCH_stdevNAME.npy (default: seeded draws of the same sizes; "
        "no published numbers then)",
    )
    add_max_memory(c)
    c.add_argument(
        "--timing",
        choices=TIMINGS,
        type=current_name,
        default="stepsim",
        help="machine: also the cycles in this machine's own timing, as the model counts them "
        "(figure 10: minutes)",
    )
    c.add_argument(
        "--rtl",
        action="store_true",
        help="figure 8: run the RTL afresh (minutes) in place of the stored records",
    )
    c.add_argument(
        "--records",
        metavar="JSON",
        action="append",
        default=[],
        help="figure 8: take points from these records",
    )
    add_executor(c)
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from .. import figures
    from ..runs import api, tables

    every = ["fig8", *figures.FIGURES]
    whole = args.figure in ("all", "ledger")
    names = every if whole else [args.figure]
    if names[0] not in every:
        remedy = nearest(names[0], [*every, "all", "ledger"])
        raise PenstockError(f"no figure {names[0]!r}", remedy=remedy)
    if "fig8" not in names and (args.rtl or args.records):
        raise PenstockError(
            f"--rtl and --records are for figure 8, not {names[0]}",
            remedy="leave them out: its timing `stepsim` runs on the model only",
        )
    machine = args.timing == "machine"
    if names == ["fig8"] and machine:
        raise PenstockError(
            "--timing machine is for the figures in the timing `stepsim`",
            remedy="leave it out: figure 8 has this machine's cycles",
        )
    traces = figures.Traces(args.traces)
    for name in figures.FIGURES.keys() & set(names):
        figures.FIGURES[name].points(
            traces
        )  # a trace that is not there is told before anything runs
    given = [r for path in args.records for r in api.load_records(path)]
    with pool(args) as workers:
        runs = figures.Runs(executor=workers)
        if whole:  # the longest points of all figures first
            made = [figures.jobs(f, traces, machine) for f in figures.FIGURES.values()]
            with display(args) as runs.show:
                runs.all(chain.from_iterable(made))
        stated = {}
        for name in names:
            with display(args) as runs.show:
                if name == "fig8":
                    made = _figure_8(args, given, runs.show, workers)
                else:
                    figure = figures.FIGURES[name]
                    made = figures.write(figure, args.out, traces, machine, runs)
            rows, agreements, summary, written = made
            stated[name] = summary
            if args.figure == "ledger":
                print(f"wrote {', '.join(map(str, written))}")
                continue
            tables.print_table(rows, None if name == "fig8" else figures.FIGURES[name].title)
            for table in filter(None, (agreements, summary)):
                tables.print_table(table)
            print(f"wrote {', '.join(map(str, written))}")
    if args.figure == "ledger":
        found = figures.ledger(stated)
        output.write_text(args.out / "ledger.csv", tables.to_csv(found))
        tables.print_table(found, "What the papers state")
        print(f"wrote {args.out / 'ledger.csv'}")
    return 0


def _figure_8(args, given: list, progress, workers) -> tuple[list, list, list, list[Path]]:
    """Rows, agreements, no summary, and the files of figure 8."""
    from .. import figures
    from ..runs import api

    records = figures.fig8_records(args.rtl, progress, workers) + given
    records += figures.hbm2_records(args.rtl, progress, workers)
    rows, agreements = figures.fig8(output.folder(args.out), records)
    if not args.rtl:
        print("RTL: stored runs; --rtl runs it afresh")
    api.save_records(records, args.out / "fig8_records.json")
    written = [args.out / f for f in ("fig8.csv", "fig8.png", "fig8_records.json")]
    return rows, agreements, [], written
