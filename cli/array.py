"""``penstock array``: map, show, run, size, verilog and dump."""

from __future__ import annotations

import argparse
import json

from ..machine.errors import PenstockError
from ..system import output
from .examples import examples_of
from .options import add_file, add_quiet, add_set, add_tolerance, display, one_value, values_verdict

ARRAY = "array_small"
ARRAY_HELP = "preset name or TOML file with a table [array]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    c = _command(commands, "map", "place and route a program on an array, with a report")
    add_file(c, "--json", "write graph and placement")
    add_file(c, "--image", "write the array's image")
    c.set_defaults(handler=cmd_map)
    c.add_argument(
        "--keep",
        metavar="FILE",
        help="what --json wrote for an older form of the program: its units stay where they are, "
        "as far as that is good",
    )
    _add_ports(c)
    c = _command(commands, "show", "the same, and a picture: floor plan, units, tracks in use")
    add_file(c, "--png", "the picture", required=True)
    c.set_defaults(handler=cmd_show)
    c = _command(commands, "run", "run a program on its own fabric (model) and on an array")
    c.add_argument(
        "--on",
        choices=("model", "both"),
        default="model",
        help="both: also the array's RTL, equal to the model in every FIFO; the first build takes "
        "minutes (default model)",
    )
    c.add_argument("--no-values", action="store_true", help="timing only")
    add_tolerance(c)
    _add_ports(c)
    add_file(c, "--json", "write the records")
    c.set_defaults(handler=cmd_run)
    _add_hardware(commands)


def _add_ports(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "--ports",
        action="store_true",
        help="the program's own streams come and go at ports, even where a slot has a memory",
    )


def _add_hardware(commands) -> None:
    """The commands that need no program."""
    c = _parser(commands, "size", "make an array of the fewest slots for a set of programs")
    c.add_argument(
        "programs",
        nargs="+",
        metavar="PROGRAM",
        help="name or Python file, with parameters as in moe,tile_rows=0",
    )
    c.add_argument("--like", default=ARRAY, help=f"whose machine and sites it has: {ARRAY_HELP}")
    c.add_argument(
        "-o",
        "--out",
        type=output.file("--out"),
        metavar="FILE.toml",
        help="the configuration (default: it is printed)",
    )
    add_quiet(c)
    c.set_defaults(handler=cmd_size)
    c = _parser(commands, "verilog", "write the Verilog of an array, and its sidecar")
    c.add_argument("--array", default=ARRAY, help=ARRAY_HELP)
    c.add_argument("--out", type=output.folder_option, required=True, metavar="FOLDER")
    c.add_argument(
        "--bench",
        dest="program",
        metavar="PROGRAM",
        help="with a bench for cocotb alone, which runs a program on it (docs/testing.md)",
    )
    add_set(c, "with --bench: a parameter of the program")
    add_quiet(c)
    c.set_defaults(handler=cmd_verilog, seed=0, effort=1.0)
    c = _parser(commands, "dump", "explain every field of an image")
    c.add_argument("image", help="a file that `penstock array map --image` wrote")
    c.add_argument("--array", default=ARRAY, help=ARRAY_HELP)
    c.set_defaults(handler=cmd_dump)


def _command(commands, name: str, what: str) -> argparse.ArgumentParser:
    c = _parser(commands, name, what)
    c.add_argument(
        "program", help="a workload's name (swiglu) or a Python file that defines program(**params)"
    )
    c.add_argument("--array", default=ARRAY, help=ARRAY_HELP)
    add_set(c, "a parameter of the program")
    c.add_argument("--seed", type=int, default=0, help="of the placement")
    c.add_argument("--effort", type=float, default=1.0, help="times the usual number of moves")
    add_quiet(c)
    return c


def _parser(commands, name: str, what: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=examples_of("array"),
    )


def _placed(args, progress):
    from ..runs import array

    return array.place(
        args.program,
        args.array,
        one_value(args.params),
        seed=args.seed,
        effort=args.effort,
        keep=getattr(args, "keep", None),
        ports=getattr(args, "ports", False),
        tolerance=getattr(args, "tolerance", None),
        progress=progress,
    )


def cmd_map(args) -> int:
    from ..runs import array_rtl
    from ..scheduler.array.report import text

    with display(args) as progress:
        placed = _placed(args, progress)
    mapping = placed.mapping
    if args.json:
        output.write_text(args.json, json.dumps(mapping.to_dict(), indent=1) + "\n")
    if args.image:
        image, structure = array_rtl.image(placed)
        output.write_bytes(args.image, image.to_bytes(structure))
        words = len(image.writes(structure))
        loading = f"  an image of {words:,} words, which load in as many cycles"
        print("\n".join([text(mapping), *_streams(placed), loading]))
        return 0
    print(text(mapping))
    return 0


def _streams(placed) -> list[str]:
    """A line on the program's own streams, if it has any."""
    from ..machine.array.streams import streams_text

    note = streams_text(placed.on_array().graph)
    return [f"  {note}"] if note else []


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
    from ..runs import api, array, array_rtl

    values = not args.no_values
    with display(args) as progress:
        placed = _placed(args, progress)
        records = array.run(placed, values=values, progress=progress)
        on_rtl = []
        if args.on == "both":
            on_rtl = array_rtl.run([placed], values=values, progress=progress)
    records += on_rtl
    if args.json:
        api.save_records(records, args.json)
    own, there = records[:2]
    name = placed.mapping.network.array.name
    print(f"{placed.point.label}: {own.cycles} cycles on its own fabric, {there.cycles} on {name}")
    print(f"  {there.cycles / own.cycles:.3f} of the cycles; {placed.mapping.hops} hops")
    for line in _streams(placed):
        print(line)
    for record in on_rtl:
        seen = f"{record.channels_observed} of {record.channels_total} FIFOs in use"
        print(f"  RTL: {record.cycles} cycles, equal to the model in every beat of {seen}")
    pairs = [(own, "its own fabric"), (there, name), *((x, f"{name}, RTL") for x in on_rtl)]
    for record, where in pairs:
        if record.values_ok is not None:
            said = "equal to NumPy's" if record.values_ok else "WRONG"
            print(f"  outputs on {where}: {said}")
    return values_verdict(records)


def cmd_size(args) -> int:
    from ..runs.array_size import size

    programs: list[tuple[str, dict]] = []
    for text in args.programs:
        name, *pairs = text.split(",")
        programs.append((name, one_value(pairs)))
    with display(args) as progress:
        sized = size(programs, args.like, progress=progress)
    if args.out is None:
        print(sized.text, end="")
        return 0
    output.write_text(args.out, sized.text)
    array = sized.mappings[0].network.array
    slots = len(sized.mappings[0].network.slots)
    print(
        f"{array.rows} x {array.cols} sites, {slots} slots, "
        f"{array.tracks['tile']} + {array.tracks['small']} tracks a link"
    )
    for text, mapping in zip(args.programs, sized.mappings, strict=True):
        units = len(mapping.slots_by_name)
        print(f"  {text}: {units} units, {mapping.hops} hops")
    print(f"wrote {args.out}")
    return 0


def cmd_verilog(args) -> int:
    from ..runs import array_rtl

    if args.params and not args.program:
        raise PenstockError("--set is of --bench PROGRAM", remedy="give both, or neither")
    with display(args) as progress:
        bench = _placed(args, progress) if args.program else None
        written = array_rtl.verilog(args.array, out=args.out, bench=bench, progress=progress)
    for path in written:
        print(f"wrote {path}")
    return 0


def cmd_dump(args) -> int:
    from ..runs import array_rtl

    print(array_rtl.dump(args.image, args.array))
    return 0
