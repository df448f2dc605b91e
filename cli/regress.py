"""``penstock regress``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..machine.errors import PenstockError
from ..system import output
from .options import add_executor, add_file, add_form, add_quiet, add_waves, display, pool, verdict

if TYPE_CHECKING:
    from ..machine.record import Record
    from ..runs.progress import Progress
    from ..runs.regress import Design


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("only", nargs="?", metavar="TEXT", help="designs whose name contains TEXT")
    c.add_argument("--list", action="store_true", help="print the names of the designs, and end")
    c.add_argument(
        "--deep",
        action="store_true",
        help="also the workloads at their larger sizes (8 experts, 16 requests; minutes each)",
    )
    add_form(c)
    add_file(c, "--json", "write the records")
    c.add_argument(
        "--out",
        type=output.folder_option,
        metavar="DIR",
        help="store the table (regress.json, regress.txt) and the records",
    )
    add_waves(
        c,
        "run the first point of each design once more and write its waveform and a viewer "
        "layout: STEM_<design>",
    )
    c.add_argument(
        "--stop-at-first",
        action="store_true",
        help="the waveform is of a point that differs from the model, and ends in the cycle of the "
        "first difference (default STEM: regress)",
    )
    c.add_argument(
        "--array",
        metavar="NAME",
        help=(
            "run the designs' programs on an array (preset or TOML file), which is built once; "
            "those that do not fit are listed"
        ),
    )
    add_executor(c)
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import api, regress, tables

    if args.list:
        for d in regress.chosen(args.only, deep=args.deep):
            count = len(d.points) * d.seeds
            print(f"{d.name:30} {d.config:16} {count} point{'s' if count > 1 else ''}")
        return 0
    if args.array:
        return _on_array(args)
    with pool(args) as workers, display(args) as progress:
        records, rows = regress.run(
            args.only,
            progress,
            deep=args.deep,
            waves=args.waves,
            executor=workers,
            form=args.form,
            stop=args.stop_at_first,
            on_overlay=_on_overlay,
        )
    if args.json:
        api.save_records(records, args.json)
    written = regress.save(args.out, records, rows) if args.out else []
    tables.print_table(rows)
    print(f"seed: {regress.asked().seed}")
    for path in written:
        print(f"wrote {path}")
    return verdict(rows[:-1])


def _on_overlay(design: Design, seed: int, progress: Progress) -> list[Record]:
    """Records of a graph on an overlay, each write and token of the RTL the model's."""
    from ..overlay.core.config import Overlay
    from ..overlay.graphs.source import graph_from
    from ..overlay.runs.comparison import run

    graph = graph_from(design.program)
    return run(graph, Overlay(**design.overlay), "both", progress=progress, seed=seed)


def _on_array(args) -> int:
    """The designs' programs on an array; 0 if all that fit are right."""
    from ..runs import api, regress, tables

    given_of = {
        "--waves": args.waves,
        "--form": args.form != "any",
        "--stop-at-first": args.stop_at_first,
    }
    for name, given in given_of.items():
        if given:
            raise PenstockError(
                f"is for fabrics of their own, not for array {args.array}",
                name,
                remedy="leave it out, or leave out --array",
            )
    with display(args) as progress:
        records, rows, refused = regress.run_on_array(
            args.array, args.only, progress, deep=args.deep
        )
    if args.json:
        api.save_records(records, args.json)
    written = regress.save(args.out, records, rows) if args.out else []
    tables.print_table(rows)
    for name, message in refused.items():
        print(f"does not fit: {name}: {message}")
    for path in written:
        print(f"wrote {path}")
    return verdict(rows[:-1])
