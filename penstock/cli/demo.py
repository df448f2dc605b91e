"""``penstock demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import add_out, add_quiet, check_folder


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_out(c, default=Path("out"))
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from penstock import demo

    check_folder(args.out)
    return demo.run(args.out, args.quiet)
