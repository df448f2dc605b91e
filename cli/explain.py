"""``penstock explain``."""

from __future__ import annotations

import argparse

from ..machine.errors import PenstockError
from ..machine.record import Record, load
from .options import add_quiet, add_set, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "record",
        metavar="RECORD.json",
        help="records, as `--json` writes them; with --array a program",
    )
    c.add_argument(
        "--array",
        metavar="NAME",
        help="run this program on the model, on a fabric of its own and on this array (preset or "
        "TOML file), and explain both",
    )
    add_set(c, "a parameter of that program")
    c.add_argument(
        "--all",
        action="store_true",
        help="all units of a large program, in its order (default: the busiest)",
    )
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..runs import explain

    if args.params and args.array is None:
        raise PenstockError("--set is of a program on an array", remedy="name one with --array")
    records = load(args.record) if args.array is None else _on_array(args)
    if not records:
        raise PenstockError(
            "holds no records", args.record, remedy="write records with `penstock run ... --json`"
        )
    texts = [explain.text(r, args.all) for r in records]
    if args.array is not None:
        titles = ("on a fabric of its own:", f"placed on {args.array}:")
        texts = [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]
    print("\n\n".join(texts))
    return 0


def _on_array(args) -> list[Record]:
    """Records of a program on its own fabric, and on an array."""
    from ..runs import array

    with display(args) as progress:
        placed = array.place(args.record, args.array, one_value(args.params), progress=progress)
        return array.run(placed, values=False, progress=progress)
