"""``penstock show``."""

from __future__ import annotations

import argparse

from ..machine.errors import LoweringError
from ..machine.limits import metadata_bits
from ..system import output
from .options import add_program, add_quiet, add_rule, add_timing, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c)
    add_timing(c)
    add_rule(c)
    c.add_argument("--units", action="store_true", help="also the lowered unit graph")
    c.add_argument("--png", type=output.file("--png"), metavar="OUT", help="draw the program")
    c.add_argument(
        "--fabric",
        type=output.file("--fabric"),
        metavar="OUT",
        help="draw the fabric: units, channels, memory",
    )
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from ..frontend import build, lower
    from ..machine.config import load

    config = load(args.config)
    with display(args) as progress:
        progress.step(f"build {args.program}")
        program = build(args.program, one_value(args.params), config)
        progress.step(f"analyse {args.program}")
        print(program.text())
        print(program.analysis(args.onchip_rule, config).text())
        progress.step(f"lower {args.program}")
        if text := scratchpads(program.graph, config):
            print(text)
        if text := least_cycles(program, config):
            print(text)
        if args.units:
            print(lower(program.graph, config, timing=args.timing))
        if args.png:
            progress.step(f"draw {args.program}")
            program.draw(args.png)
        if args.fabric:
            from ..frontend.show.draw import draw_fabric

            progress.step(f"draw the fabric of {args.program}")
            draw_fabric(lower(program.graph, config), config, args.fabric)
    return 0


def least_cycles(program, config) -> str:
    """Lower bounds on a run's cycles: of the memory, over the sizes
    that are open, and the largest that is a number; none where the
    machine cannot run the program.
    """
    from ..frontend import lower
    from ..frontend.analysis.bounds import bounds

    try:
        units = lower(program.graph, config)
    except LoweringError:
        return ""
    found = bounds(program.graph, program.analysis(), units, config)
    shown = [b for b in found.all() if b.value is None] + [found.tightest()]
    return "\n".join(f"cycles at least: {b.cycles}, by {b.constraint}" for b in shown)


def scratchpads(graph, config) -> str:
    """A line for every scratchpad of a program's fabric: its size, and
    the bits that it keeps besides the tiles; none where the machine
    cannot run the program.
    """
    from ..frontend import lower
    from ..machine.beat import beat_bits

    try:
        units = lower(graph, config)
    except LoweringError:
        return ""
    lines = []
    for u in units.memories():
        p = units.units[u].params
        tile = units.inputs(u)[0].payload
        data = p["pages"] * p["frames"] * beat_bits(tile)
        posts = len(units.posters(u))
        bits = metadata_bits(p["pages"], units.drops(u), len(p["writers"]), posts)
        lines.append(
            f"scratchpad {units.units[u].name}: {p['pages']} pages of {p['frames']} tiles, "
            f"{data // 8} B; metadata {bits} bits ({bits / data:.2%})"
        )
    return "\n".join(lines)
