"""``penstock deadlock``."""

from __future__ import annotations

import argparse

from .options import SEVERAL, add_file, add_program, add_quiet, add_timing, display, grid_of


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, *SEVERAL)
    add_timing(c, "this machine's channels, or the published simulator's")
    c.add_argument(
        "--depth",
        type=int,
        metavar="N",
        help="slots of every channel (default: the configuration's)",
    )
    c.add_argument("--seed", type=int, default=0, help="seed of the program's streams")
    add_file(c, "--json", "write what was found")
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import api, deadlock, tables

    with display(args) as progress:
        found = deadlock.find(
            args.program,
            args.config,
            api.grid_points(grid_of(args.params)),
            timing=args.timing,
            depth=args.depth,
            seed=args.seed,
            progress=progress,
        )
    tables.print_table([deadlock.row(f) for f in found])
    for f in found:
        if f.deadlock:
            tables.print_table(
                deadlock.circle_rows(f.deadlock),
                title=" ".join([f.program, *(f"{k}={v}" for k, v in f.params.items())]),
            )
    if args.json:
        deadlock.save(found, args.json)
    return 0
