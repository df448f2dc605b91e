"""``penstock diff``."""

from __future__ import annotations

import argparse

from ..machine.record import load


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("a", metavar="A.json", help="records")
    c.add_argument("b", metavar="B.json", help="records to lay beside them")
    c.add_argument(
        "--by",
        choices=("record", "unit", "tensor"),
        default="record",
        help="a row for each record (default), or each unit or off-chip tensor that differs",
    )
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import explain, tables

    rows = explain.diff(load(args.a), load(args.b), args.by)
    if rows:
        _, numbers = explain.PARTS.get(args.by, ("", ("cycles",)))
        keep = {args.by, "B/A", *(f"{n} {side}" for n in numbers for side in "AB")}
        tables.print_table(rows, keep=keep)
    else:
        print(f"no {args.by} differs")
    return 0
