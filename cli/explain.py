"""``penstock explain``."""

from __future__ import annotations

import argparse

from ..machine.errors import PenstockError


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("record", metavar="RECORD.json", help="records, as `--json` writes them")
    c.add_argument(
        "--all",
        action="store_true",
        help="all units of a large program, in its order (default: the busiest)",
    )
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..machine.record import load
    from ..runs import explain

    records = load(args.record)
    if not records:
        raise PenstockError(
            "holds no records", args.record, remedy="write records with `penstock run ... --json`"
        )
    print("\n\n".join(explain.text(r, args.all) for r in records))
    return 0
