"""``penstock synth``."""

from __future__ import annotations

import argparse
import json

from ..system import output
from .options import add_program, add_quiet, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c)
    c.add_argument(
        "--only", default="", metavar="TEXT", help="parts whose name contains this, such as accum"
    )
    c.add_argument(
        "--whole",
        action="store_true",
        help="the fabric as one piece, with its registers and counters, instead of its parts",
    )
    c.add_argument("--family", default="ecp5", help="FPGA family: ecp5 or xc7 (default ecp5)")
    c.add_argument("--json", type=output.file("--json"), metavar="OUT", help="write the rows")
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs.provenance import versions
    from ..runs.synth import synth
    from ..runs.tables import print_table

    with display(args) as progress:
        rows = synth(
            args.program,
            args.config,
            one_value(args.params),
            only=args.only,
            whole=args.whole,
            family=args.family,
            progress=progress,
        )
    if args.json:
        record = {"family": args.family, "versions": versions(), "parts": rows}
        output.write_text(args.json, json.dumps(record, indent=1) + "\n")
    print_table(rows)
    return 0
