"""``penstock overlay spice``: the DC operating point of a circuit on overlays."""

from __future__ import annotations

import argparse

from ...cli.examples import examples_of
from ...cli.options import add_file, add_max_memory, add_quiet, display
from ...machine.errors import PenstockError
from ...machine.limits import SEEDS, within
from ...runs.tables import print_table, to_csv
from ...system import output
from .options import add_overlay, mesh_of, overlays_of


def add_commands(commands) -> None:
    """Add the command to ``penstock overlay``."""
    c = commands.add_parser(
        "spice",
        help="the DC operating point of a SPICE netlist: a Newton iteration on each kind of PE",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=examples_of("overlay spice"),
    )
    c.add_argument(
        "netlist", metavar="CIRCUIT", help="a netlist of R, I, V, D, Q, level-1 M, .model and .op"
    )
    add_max_memory(c)
    add_overlay(c, several=True)
    c.add_argument(
        "--on",
        choices=("model", "both"),
        default="model",
        help="both: the RTL as well, each write of each iteration compared",
    )
    c.add_argument("--seed", type=int, default=0, help="of the placement (default 0)")
    add_file(c, "--csv", "write node voltages and currents")
    add_quiet(c)
    c.set_defaults(handler=command_spice)


def command_spice(args) -> int:
    # What places and simulates takes a second to load.
    from dataclasses import replace

    from ..graphs.circuit import newton_graph, read_netlist
    from ..runs.operating_point import operating_point

    if args.format != "fp32":
        raise PenstockError("--format: circuits are computed in fp32", remedy="leave it out")
    seed = within("seed", args.seed, SEEDS)
    overlays = overlays_of(args)
    meshes = [mesh_of(m) for m in args.mesh or ["4x4"]]
    found = []
    with display(args) as progress:
        graph = newton_graph(read_netlist(args.netlist))
        progress.plan(len(meshes) * len(overlays))
        for (rows, cols), o in ((mesh, o) for mesh in meshes for o in overlays):
            overlay = replace(o, rows=rows, cols=cols)
            what = f"{rows}x{cols} {overlay.name()}"
            progress.step(what)
            found.append(operating_point(graph, overlay, on=args.on, seed=seed))
            progress.done(what)
    units = {"v": "V", "i": "A"}
    table = [
        {"unknown": name, "value": f"{x:.9g}", "unit": units[name[0]]}
        for name, x in found[0].values.items()
    ]
    print(f"{graph.title}: {len(graph)} nodes")
    print_table(table)
    shown = []
    for r in found:
        o = r.overlay
        shown.append(
            {
                "mesh": f"{o.rows}x{o.cols}",
                "variant": o.name(),
                "iterations": len(r.cycles),
                "cycles of one": "-".join(map(str, sorted({min(r.cycles), max(r.cycles)}))),
                "cycles of all": sum(r.cycles),
                "dynamic %": None if r.dynamic_share is None else round(100 * r.dynamic_share, 1),
                **({"RTL writes": r.compared} if r.compared is not None else {}),
            }
        )
    print_table(shown)
    print(
        f"{o.alu} ALU latency; cycles: of the shortest and longest iteration, and of all; every "
        "output of every iteration equal to NumPy's in fp32, every bit"
    )
    if args.csv:
        output.write_text(args.csv, to_csv(table))
    return 0
