"""``penstock show``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..machine.errors import LoweringError, PenstockError
from ..machine.limits import metadata_bits
from .options import (
    add_file,
    add_program,
    add_quiet,
    add_rule,
    add_timing,
    display,
    machines,
    one_value,
)

if TYPE_CHECKING:
    from ..machine.config import Config


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, several=True)
    add_timing(c)
    add_rule(c)
    c.add_argument("--units", action="store_true", help="also the lowered unit graph")
    add_file(c, "--png", "draw the program")
    add_file(c, "--fabric", "draw the fabric: units, channels, memory")
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    found = machines(args)
    for option in ("--png", "--fabric"):
        if len(found) > 1 and getattr(args, option.removeprefix("--")) is not None:
            raise PenstockError("draws one machine", option, remedy="give one machine")
    for apart, config in found:
        if len(found) > 1:
            print(f"with {' '.join(f'{name}={value}' for name, value in apart.items())}:")
        _show(args, config)
    return 0


def _show(args, config: Config) -> None:
    from ..frontend import build, lower

    with display(args) as progress:
        progress.step(f"build {args.program}")
        program = build(args.program, one_value(args.params), config)
        progress.step(f"analyse {args.program}")
        print(program.text())
        analysis = program.analysis(args.onchip_rule, config)
        print("\n".join([analysis.text(), *traffic(program, analysis), *means(program, analysis)]))
        progress.step(f"lower {args.program}")
        print(on_the_machine(program, config))
        if args.units:
            print(lower(program.graph, config, timing=args.timing))
        if args.png:
            progress.step(f"draw {args.program}")
            program.draw(args.png)
        if args.fabric:
            from ..frontend.show.draw import draw_fabric

            progress.step(f"draw the fabric of {args.program}")
            draw_fabric(lower(program.graph, config), config, args.fabric)


def traffic(program, analysis) -> list[str]:
    """A line on the traffic of each off-chip tensor."""
    from ..frontend.analysis.metrics import by_tensor

    moved = by_tensor(program.graph, analysis.lines)
    return [
        f"traffic of {name}: {share.total} B, {moved[name].total} lines"
        for name, share in by_tensor(program.graph, analysis.offchip).items()
    ]


def means(program, analysis) -> list[str]:
    """A line on the sizes in the formulas that differ from group to group."""
    from ..frontend.types import TileType

    streams = [s for node in program.graph.nodes for s in node]
    tiles = [s.element for s in streams if isinstance(s.element, TileType)]
    dims = [d for s in streams for d in s.shape] + [d for t in tiles for d in (t.rows, t.cols)]
    ragged = {str(d.size) for d in dims if d.kind.ragged and d.size.is_Symbol}
    names = [name for name in analysis.symbols if name in ragged]
    return [f"ragged, each the mean over its groups: {', '.join(names)}"] if names else []


def on_the_machine(program, config) -> str:
    """The resources that the program takes of the machine, or the reason why it does not run
    there.
    """
    from ..frontend import lower

    try:
        units = lower(program.graph, config)
    except LoweringError as e:
        return f"not lowered on {config.name}: {e}"
    return "\n".join([*scratchpads(units), *least_cycles(program, units, config)])


def least_cycles(program, units, config) -> list[str]:
    """Lower bounds on a run's cycles: those over sizes that are open, each that no other exceeds at
    all sizes, and the largest that is a number.
    """
    from ..frontend.analysis.bounds import bounds

    found = bounds(program.graph, program.analysis(), units, config)
    shown = []
    for bound in found.all():
        if bound.value is None and not any(below(bound, other) for other in shown):
            shown = [other for other in shown if not below(other, bound)] + [bound]
    return [f"cycles at least: {b.cycles}, by {b.constraint}" for b in [*shown, found.tightest()]]


def below(bound, other) -> bool:
    """True if a bound is at most another whatever the sizes are, as far as SymPy tells."""
    return bool((other.cycles - bound.cycles).is_nonnegative)


def scratchpads(units) -> list[str]:
    """A line for every scratchpad of a fabric: its size, and the bits that it keeps besides the
    tiles.
    """
    from ..machine.beat import beat_bits

    lines = []
    for u in units.memories():
        p = units.units[u].kind
        tile = units.inputs(u)[0].payload
        data = p.pages * p.frames * beat_bits(tile)
        posts = len(units.posters(u))
        bits = metadata_bits(p.pages, units.drops(u), len(p.writers), posts)
        lines.append(
            f"scratchpad {units.units[u].name}: {p.pages} pages of {p.frames} tiles, "
            f"{data // 8} B; metadata {bits} bits ({bits / data:.2%})"
        )
    return lines
