"""``penstock overlay``: compare, figures, and what ``hardware`` and ``board`` add."""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

from ...cli.examples import examples_of
from ...cli.options import add_file, add_max_memory, add_quiet, add_waves, display
from ...machine.limits import within
from ...runs.tables import print_table, to_csv
from ...system import output
from ..core.forms import FORMS
from . import board, hardware, spice
from .options import add_overlay, add_placement, effort_of, mesh_of, overlays_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    c = commands.add_parser(
        "compare",
        help="a graph on meshes of dynamic, static and hybrid PEs, one table",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [
                "GRAPH:",
                *(f"  {form}\n      {what}" for form, what in FORMS.items()),
                "",
                examples_of("overlay compare"),
            ]
        ),
    )
    c.add_argument("graph", metavar="GRAPH", help="what to run: a file, or a form that makes one")
    add_max_memory(c)
    add_overlay(c, several=True)
    c.add_argument(
        "--on",
        choices=("model", "rtl", "both"),
        default="model",
        help="both: run both and compare values and cycles",
    )
    add_placement(c)
    c.add_argument("--seed", type=int, action="append", help="of the placement; may be repeated")
    add_file(c, "--json", "write the records")
    add_file(c, "--csv", "write the table")
    add_file(c, "--timeline", "write the model run's timeline, of one variant (for Perfetto)")
    add_file(c, "--png", "draw placement and schedule, of one variant")
    add_waves(c, "write a waveform of the RTL run, of one variant, and a viewer layout")
    add_quiet(c)
    c.set_defaults(handler=cmd_compare)

    _add_figures(commands)
    hardware.add_commands(commands)
    board.add_commands(commands)
    spice.add_commands(commands)


def _add_figures(commands) -> None:
    c = commands.add_parser(
        "figures",
        help=(
            "figures 10, 11 and 12 of DFM 2014, with --resources 5, 6 and 7 as well: published "
            "against ours"
        ),
    )
    c.add_argument(
        "--out",
        required=True,
        type=output.folder_option,
        metavar="DIR",
        help="folder of the files, made if it is not there",
    )
    c.add_argument(
        "--matrices",
        type=Path,
        metavar="DIR",
        help=(
            "folder with memplus.mtx[.gz] and circuit_1.mtx; without it generated circuits stand in"
        ),
    )
    add_max_memory(c)
    c.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="placements per point; the median is drawn",
    )
    c.add_argument(
        "--resources",
        action="store_true",
        help="figures 5, 6 and 7 as well, as `penstock overlay resources` makes them",
    )
    c.add_argument(
        "--crossover",
        action="store_true",
        help="static, hybrid and dynamic PEs on conditional graphs, and nothing else",
    )
    c.add_argument(
        "--mhz",
        type=_clocks,
        metavar="DYNAMIC,STATIC[,FORWARD]",
        help="in time as well: by these clocks of the PEs, and by the paper's",
    )
    add_quiet(c)
    c.set_defaults(handler=cmd_figures)


def _clocks(text: str) -> dict[str, float]:
    """Clocks in MHz by kind of PE."""
    try:
        clocks = [float(x) for x in text.split(",")]
    except ValueError:
        clocks = []
    if len(clocks) not in (2, 3) or not all(0 < x < math.inf for x in clocks):
        raise argparse.ArgumentTypeError(f"two or three clocks in MHz, 82,122 say, not {text!r}")
    return dict(zip(("dynamic", "static", "forward"), clocks, strict=False))


def cmd_compare(args) -> int:
    from ...runs import api
    from ..graphs.source import graph_from
    from ..runs.comparison import compare, table

    overlays = overlays_of(args)
    meshes = [mesh_of(m) for m in args.mesh or ["4x4"]]
    see = {}
    if args.timeline or args.png:
        # Matplotlib takes a while to load.
        from ..runs import pictures

        given = {
            "--timeline": (args.timeline, pictures.timeline),
            "--png": (args.png, pictures.draw),
        }
        see = {option: partial(show, path) for option, (path, show) in given.items() if path}
    with display(args) as progress:
        progress.step(f"read {args.graph}")
        graph = graph_from(args.graph)
        records = compare(
            graph,
            meshes,
            overlays,
            args.on,
            seeds=args.seed or [0],
            objective=args.objective,
            effort=effort_of(args, overlays),
            progress=progress,
            waves=args.waves,
            see=see,
        )
    s = graph.statistics
    print(
        f"{graph.title}: {s.nodes} nodes ({s.inputs} inputs, {s.constants} constants), {s.edges} "
        f"edges, depth {s.depth}, largest fan-out {s.max_fan_out}"
    )
    rows = table(records)
    print_table(rows)
    print(assumptions(overlays, records))
    if args.json:
        api.save_records(records, args.json)
    if args.csv:
        output.write_text(args.csv, to_csv(rows))
    return 0 if all(r.values_ok for r in records) else 1


def assumptions(overlays, records) -> str:
    """The assumptions behind a table's numbers, in words."""
    o = overlays[0]
    fixed = ", ".join(f"{k}={v}" for k, v in o.memories)
    objectives = ", ".join(sorted({r.params["objective"] for r in records}))
    seeds = ", ".join(map(str, sorted({r.seed for r in records})))
    lines = [
        f"{o.format}, {o.alu} ALU latency, {o.kinds} PEs, memories "
        f"{f'fixed ({fixed})' if fixed else 'sized per graph'}; placement by {objectives}, seed "
        f"{seeds}"
    ]
    if any(x.pe == "dynamic" for x in overlays):
        lines.append(
            "dynamic: one token consumed and one generated per PE and cycle, local ones "
            f"included; a cycle per hop; router FIFOs {o.fifo_depth} deep; "
            "a token per edge; forward: a packet per (value, PE), two consumers a cycle, results "
            "read at their own PE without a token"
        )
    if any(x.pe == "static" for x in overlays):
        lines.append(
            "static: one issue, one send and one write per PE and cycle, sources included; a cycle "
            "per hop; floor: what no placement can beat, gap: cycles divided by it"
        )
    if any(x.pe == "hybrid" for x in overlays):
        lines.append(
            "hybrid: segments of contexts that conditions choose, tokens for what has no context; "
            "dynamic %: operations that a decision chose, or tokens fired"
        )
    lines.append(
        "bound: the largest of depth, work and link bounds of the placement; x static: over static "
        "PEs on the mesh; memory: all PEs and switches, copies for read ports included"
    )
    lines.append(
        "error: of the outputs against the same operations in float64 (NumPy), relative to the "
        "largest; none where a graph makes roundings of its own; values: equal to the NumPy "
        "reference of the format, every bit"
    )
    far = max((r.overlay for r in records), key=lambda x: x["beyond_range"])
    if far["beyond_range"]:
        lines.append(
            f"beyond range: {far['beyond_range']} values, {far['first_beyond']} the first, are "
            f"infinite or no numbers in {o.format}, and numbers in float64; the error leaves out "
            "what infinite sources make infinite"
        )
    lost = max((r.overlay for r in records), key=lambda x: x["underflow"])
    if lost["underflow"]:
        # Loading NumPy's reference takes a while that `--help` does not have.
        from ..runs.reference import underflow_line

        line = underflow_line(lost["underflow"], lost["first_underflow"], o.format)
        lines.append(f"{line}; the error counts them as 0")
    if any(r.overlay["scipy"] for r in records):
        lines.append(
            "SciPy: largest difference from SuperLU's factors with the same pivots (float64), "
            "relative to the largest entry; residual: of |L U - A| / (|L| |U|), largest entry, "
            "in roundings of the format"
        )
    compared = [r.overlay["compared"] for r in records if "compared" in r.overlay]
    if compared:
        writes, tokens = (sum(c[n] for c in compared) for n in ("writes", "tokens"))
        lines.append(
            f"RTL: cycles observed at value memories and links; {writes} writes and {tokens} "
            "tokens equal the model's (static: and the schedule's), cycle by cycle"
        )
    return "\n".join(lines)


def cmd_figures(args) -> int:
    from ..studies import crossover, figures, resources

    within("--seeds", args.seeds, range(1, 1001))
    with display(args) as progress:
        if args.crossover:
            paths, cycles = crossover.write(args.out, range(args.seeds), progress)
            written, rows = list(map(str, paths)), {"crossover": cycles}
        else:
            written, rows = figures.write_all(
                args.out, args.matrices, args.seeds, progress, args.mhz
            )
        if args.resources:
            files, costs = resources.write_all(args.out, "xc7", progress=progress)
            written = [*written, *files]
            rows = rows | costs
    for title, table in rows.items():
        print_table(table, title)
    print("wrote " + ", ".join(written))
    return 0
