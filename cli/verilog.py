"""``penstock verilog``."""

from __future__ import annotations

import argparse

from .options import add_out, add_program, add_quiet, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c)
    add_out(c, required=True)
    add_export(c)
    add_quiet(c)
    c.set_defaults(handler=command)


def add_export(c: argparse.ArgumentParser) -> None:
    """Options of every command that writes Verilog."""
    c.add_argument(
        "--prefix",
        default="penstock",
        metavar="NAME",
        help=(
            "what the names of modules and files begin with (default penstock); exports for one "
            "design need one each"
        ),
    )
    c.add_argument(
        "--annotated",
        action="store_true",
        help="with attributes src: the Python line that each part comes from",
    )


def command(args) -> int:
    from ..runs import api

    with display(args) as progress:
        written = api.verilog(
            args.program,
            args.config,
            one_value(args.params),
            out=args.out,
            prefix=args.prefix,
            annotated=args.annotated,
            progress=progress,
        )
    for path in written:
        print(f"wrote {path}")
    return 0
