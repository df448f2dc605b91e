"""``penstock explain``."""

from __future__ import annotations

import argparse

from ..machine.errors import PenstockError
from ..machine.record import Record, load
from .options import add_machines, add_quiet, add_set, display, machines, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "record",
        metavar="RECORD.json|PROGRAM",
        help="records, as `--json` writes them; or a program, which runs on the model",
    )
    c.add_argument(
        "--array",
        metavar="NAME",
        help="run the program on a fabric of its own and on this array (preset or TOML file), and "
        "explain both",
    )
    add_machines(c)
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

    if args.record.endswith(".json"):
        for option in ("--set", "--config", "--machine", "--array"):
            name = "params" if option == "--set" else option.removeprefix("--")
            if getattr(args, name):
                raise PenstockError("is of a program, not of a record", option)
        found = [("", r, "") for r in load(args.record)]
    else:
        found = _runs(args)
    if not found:
        raise PenstockError(
            "holds no records", args.record, remedy="write records with `penstock run ... --json`"
        )
    print("\n\n".join(title + explain.text(r, args.all) + deeper for title, r, deeper in found))
    return 0


def _runs(args) -> list[tuple[str, Record, str]]:
    """Titles, records and channels to deepen of a program on each machine, or without the last on
    its own fabric and on an array.
    """
    from ..runs import advice, api, array
    from ..runs.point import Point

    found = []
    params = one_value(args.params)
    several = machines(args)
    with display(args) as progress:
        for apart, config in several:
            named = "".join(f", {name}={value}" for name, value in apart.items())
            if args.array is None:
                titles = [f"with{named[1:]}:\n" if len(several) > 1 else ""]
                records = api.run(args.record, config, params, values=False, progress=progress)
                deeper = advice.text(advice.advise(Point(args.record, config, params or {})))
            else:
                titles = ["on a fabric of its own:\n", f"placed on {args.array}{named}:\n"]
                placed = array.place(args.record, config, params, progress=progress)
                records = array.run(placed, values=False, progress=progress)
                deeper = ""
            found += [(title, r, deeper) for title, r in zip(titles, records, strict=True)]
    return found
