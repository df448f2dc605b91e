"""``penstock cache``."""

from __future__ import annotations

import argparse
import math
import time

from ..machine.errors import PenstockError
from ..system import cache

ACTIONS = ("list", "prune", "clear")


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "action",
        choices=ACTIONS,
        help=(
            "list: what is kept; prune: remove what was not used for longest; clear: remove "
            "everything"
        ),
    )
    c.add_argument(
        "--gb",
        type=float,
        metavar="N",
        help="prune: size to keep below, in 10^9 bytes (default: PENSTOCK_CACHE_GB, else 10)",
    )
    c.set_defaults(handler=command)


def command(args) -> int:

    if args.gb is not None and args.action != "prune":
        raise PenstockError(f"--gb is for `penstock cache prune`, not {args.action}")
    if args.gb is not None and not (math.isfinite(args.gb) and args.gb >= 0):
        raise PenstockError(f"--gb must be a number of at least 0, not {args.gb}")
    if args.action == "list":
        show(cache.entries())
        print(f"{cache.cache_dir()}, kept below {cache.limit() / 1e9:g} GB")
        return 0
    if args.action == "prune":
        gone = cache.prune(cache.limit() if args.gb is None else int(args.gb * 1e9), idle=0.0)
    else:
        gone = cache.clear()
    size = sum(e.bytes for e in gone)
    entries = f"{len(gone)} entr{'y' if len(gone) == 1 else 'ies'}"
    print(f"removed {entries}, {size / 1e6:.1f} MB, from {cache.cache_dir()}")
    return 0


def show(entries) -> None:
    """A table of entries, the one used last at its end, with the sum."""
    from ..runs.tables import print_table

    rows = [
        {
            "kind": e.kind,
            "name": e.folder.name,
            "MB": round(e.bytes / 1e6, 1),
            "last used": ago(time.time() - e.used),
            "state": "" if e.complete else "incomplete",
        }
        for e in entries
    ]
    print_table(
        [
            *rows,
            {
                "kind": "total",
                "name": f"{len(rows)}",
                "MB": round(sum(e.bytes for e in entries) / 1e6, 1),
                "last used": "",
                "state": "",
            },
        ]
    )


def ago(seconds: float) -> str:
    """A time that has passed, in its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
