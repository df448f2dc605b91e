"""``penstock diff``."""

from __future__ import annotations

import argparse

from ..machine.record import load


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("a", metavar="A.json", help="records")
    c.add_argument("b", metavar="B.json", help="records to lay beside them")
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import explain, tables

    tables.print_table(explain.diff(load(args.a), load(args.b)))
    return 0
