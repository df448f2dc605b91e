"""``penstock array``: map, show and run."""

from __future__ import annotations

import argparse
import json

from ..system import output
from .examples import EXAMPLES
from .options import add_quiet, display, one_value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    c = _command(commands, "map", "place and route a program on an array, with a report")
    c.add_argument(
        "--json", type=output.file("--json"), metavar="OUT", help="write graph and placement"
    )
    c.set_defaults(handler=cmd_map)
    c = _command(commands, "show", "the same, and a picture: floor plan, units, tracks in use")
    c.add_argument(
        "--png", type=output.file("--png"), metavar="OUT", required=True, help="the picture"
    )
    c.set_defaults(handler=cmd_show)
    c = _command(commands, "run", "run a program on its own fabric and on an array (model)")
    c.add_argument("--no-values", action="store_true", help="timing only")
    c.add_argument("--json", type=output.file("--json"), metavar="OUT", help="write the records")
    c.set_defaults(handler=cmd_run)


def _command(commands, name: str, what: str) -> argparse.ArgumentParser:
    c = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["examples:", *(f"  {line}" for line in EXAMPLES["array"])]),
    )
    c.add_argument(
        "program", help="a workload's name (swiglu) or a Python file that defines program(**params)"
    )
    c.add_argument(
        "--array", default="array_small", help="preset name or TOML file with a table [array]"
    )
    c.add_argument(
        "--set",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the program",
    )
    c.add_argument("--seed", type=int, default=0, help="of the placement")
    c.add_argument("--effort", type=float, default=1.0, help="times the usual number of moves")
    add_quiet(c)
    return c


def _placed(args, progress):
    from ..runs import array

    return array.place(
        args.program,
        args.array,
        one_value(args.params),
        seed=args.seed,
        effort=args.effort,
        progress=progress,
    )


def cmd_map(args) -> int:
    from ..scheduler.array.report import text

    with display(args) as progress:
        mapping = _placed(args, progress).mapping
    if args.json:
        output.write_text(args.json, json.dumps(mapping.to_dict(), indent=1) + "\n")
    print(text(mapping))
    return 0


def cmd_show(args) -> int:
    from ..scheduler.array.draw import draw
    from ..scheduler.array.report import text

    with display(args) as progress:
        mapping = _placed(args, progress).mapping
        progress.step("draw the floor plan")
        draw(mapping, args.png)
    print(text(mapping))
    return 0


def cmd_run(args) -> int:
    from ..runs import api, array

    with display(args) as progress:
        placed = _placed(args, progress)
        records = array.run(placed, values=not args.no_values, progress=progress)
    if args.json:
        api.save_records(records, args.json)
    own, there = records
    name = placed.mapping.network.array.name
    print(f"{placed.point.label}: {own.cycles} cycles on its own fabric, {there.cycles} on {name}")
    print(f"  {there.cycles / own.cycles:.3f} of the cycles; {placed.mapping.hops} hops")
    for record, where in ((own, "its own fabric"), (there, name)):
        if record.values_ok is not None:
            said = "equal to NumPy's" if record.values_ok else "WRONG"
            print(f"  outputs on {where}: {said}")
    return 0 if all(r.values_ok in (True, None) for r in records) else 1
