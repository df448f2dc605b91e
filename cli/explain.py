"""``penstock explain``."""

from __future__ import annotations

import argparse
import contextlib

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
        found = _stored(args)
    else:
        found = _runs(args)
    if not found:
        raise PenstockError(
            "holds no records", args.record, remedy="write records with `penstock run ... --json`"
        )
    print("\n\n".join(title + explain.text(r, args.all) + deeper for title, r, deeper in found))
    return 0


def _stored(args) -> list[tuple[str, Record, str]]:
    """Stored records; the last has the channels to deepen, where all are of one point."""
    records = load(args.record)
    found = [("", r, "") for r in records]
    timed = [r for r in records if r.timing == "machine" and not (r.overlay or r.schedule)]
    if not timed:
        return found
    from ..frontend.program import known_programs
    from ..machine.config import load as load_config
    from ..runs import advice
    from ..runs.point import Point

    r = timed[0]
    deeper = "\n  channels to deepen: run `penstock explain PROGRAM` on the program of this record"
    if len({r.key() for r in records}) == 1 and r.workload in known_programs():
        with contextlib.suppress(PenstockError), display(args):
            point = Point(r.workload, load_config(r.config), r.params, seed=r.seed or 0)
            again = advice.advise(point)
            if again.cycles == r.cycles:
                deeper = str(again)
    return [*found[:-1], ("", records[-1], deeper)]


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
                deeper = str(advice.advise(Point(args.record, config, params or {})))
            else:
                titles = ["on a fabric of its own:\n", f"placed on {args.array}{named}:\n"]
                placed = array.place(args.record, config, params, progress=progress)
                records = array.run(placed, values=False, progress=progress)
                deeper = ""
            found += [(title, r, deeper) for title, r in zip(titles, records, strict=True)]
    return found
