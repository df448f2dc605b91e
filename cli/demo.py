"""``penstock demo``."""

from __future__ import annotations

import argparse

from .options import add_out, add_quiet


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_out(c, default="out")
    c.add_argument(
        "--paper",
        action="store_true",
        help="also a point of figure 8 on the RTL of the paper's machine (minutes)",
    )
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from . import demonstration as demo

    return demo.run(args.out, paper=args.paper, quiet=args.quiet)
