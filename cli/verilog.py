"""``penstock verilog``."""

from __future__ import annotations

import argparse

from .options import add_out, add_program, add_quiet, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c)
    add_out(c, required=True)
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import api

    with display(args) as progress:
        written = api.verilog(
            args.program, args.config, one_value(args.params), out=args.out, progress=progress
        )
    for path in written:
        print(f"wrote {path}")
    return 0
