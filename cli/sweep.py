"""``penstock sweep``."""

from __future__ import annotations

import argparse

from .options import SEVERAL, add_program, add_quiet, add_run, display, grid_of, verdict


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, **SEVERAL)
    add_run(c, both="; RTL points of equal structure share one simulator build")
    c.add_argument("--csv", action="store_true", help="print the table as CSV")
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import api, tables

    grid = grid_of(args.params)
    with display(args) as progress:
        found = api.outcomes(
            args.program,
            args.config,
            api.grid_points(grid),
            on=args.on,
            timing=args.timing,
            values=not args.no_values,
            seed=args.seed,
            onchip_rule=args.onchip_rule,
            progress=progress,
        )
    tables.one_message(found)
    rows = [tables.row(o, **o.params) for o in found]
    records = [r for o in found for r in o.records]
    if args.json:
        api.save_records(records, args.json)
    if args.csv:
        print(tables.to_csv(rows), end="")
    else:
        tables.print_table(rows)
        builds = {r.build for r in records if r.build}
        if builds:
            print(
                f"{len(builds)} simulator build{'s' * (len(builds) > 1)} for "
                f"{sum(o.rtl is not None for o in found)} points"
            )
    return verdict(
        [
            {"point": " ".join(f"{k}={v}" for k, v in o.params.items()), **r}
            for o, r in zip(found, rows, strict=False)
        ]
    )
