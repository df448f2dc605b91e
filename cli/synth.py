"""``penstock synth``."""

from __future__ import annotations

import argparse
import json

from ..machine.errors import PenstockError
from ..machine.limits import SEEDS, within
from ..overlay.commands import synth as overlay
from ..overlay.commands.synth import OVERLAY
from ..runs.tables import print_table
from ..system import output
from .options import add_file, add_program, add_quiet, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, more=f", or {OVERLAY}: PEs, routers, ALU and tiles of the token overlay")
    c.add_argument(
        "--only", default="", metavar="TEXT", help="parts whose name contains this, such as accum"
    )
    c.add_argument(
        "--whole",
        action="store_true",
        help="the fabric as one piece, with its registers and counters, instead of its parts; "
        "of an overlay the mesh, with what loads and reads it",
    )
    c.add_argument("--family", default="ecp5", help="FPGA family: ecp5 or xc7 (default ecp5)")
    c.add_argument(
        "--fmax",
        action="store_true",
        help="place and route each part, too (ecp5 only): its clock rate and its critical path",
    )
    c.add_argument(
        "--seed",
        dest="seeds",
        type=int,
        action="append",
        metavar="N",
        help="of the placement (default 1); may be repeated, and the slowest counts",
    )
    c.add_argument("--speed", default="6", help="speed grade of the device: 6, 7 or 8 (default 6)")
    add_file(c, "--json", "write the rows")
    add_quiet(c)
    overlay.add_choice(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs.provenance import versions

    for seed in args.seeds or []:
        within("--seed", seed, SEEDS)
    with display(args) as progress:
        make = overlay.synth if args.program == OVERLAY else _program
        rows = make(args, progress)
    if args.json:
        record = {"family": args.family, "versions": versions(), "parts": rows}
        output.write_text(args.json, json.dumps(record, indent=1) + "\n")
    print_table(rows)
    return 0


def _program(args, progress) -> list[dict]:
    from ..runs.synth import synth

    if names := overlay.given(args):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise PenstockError(
            f"{options}: of an overlay, not of a program",
            f"synth {args.program}",
            remedy=f"leave out {options}, or use `penstock synth {OVERLAY}`",
        )
    return synth(
        args.program,
        args.config,
        one_value(args.params),
        only=args.only,
        whole=args.whole,
        family=args.family,
        seeds=(args.seeds or [1]) if args.fmax else (),
        speed=args.speed,
        progress=progress,
    )
