"""``penstock demo``."""

from __future__ import annotations

import argparse

from .options import add_out, add_quiet


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_out(c, default="out")
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from penstock import demo

    return demo.run(args.out, args.quiet)
