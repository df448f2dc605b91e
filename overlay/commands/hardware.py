"""``penstock overlay verilog`` and ``penstock overlay resources``."""

from __future__ import annotations

import argparse

from ...cli.examples import examples_of
from ...cli.options import add_max_memory, add_quiet, display
from ...cli.verilog import add_export
from ...machine.errors import PenstockError
from ...machine.limits import SEEDS, within
from ...runs.tables import print_table
from ...system import output
from ..core.ops import OP_CLASS, Op, format_of
from ..studies.parts import CAPACITY, full_sizes
from .options import add_overlay, add_placement, effort_of, overlay_of


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
        f"{CAPACITY} words, or what --memory says",
    )
    add_max_memory(c)
    add_overlay(c)
    c.add_argument("--seed", type=int, default=0, help="of the placement")
    add_placement(c)
    c.add_argument("--out", required=True, type=output.folder_option, metavar="DIR")
    c.add_argument(
        "--bench",
        action="store_true",
        help="with a bench for cocotb alone: Makefile, test, the model's cycles, writes, tokens "
        "and values",
    )
    add_export(c)
    add_quiet(c)
    c.set_defaults(handler=cmd_verilog)


def _add_resources(commands) -> None:
    from ...hw.synthesis import FAMILIES

    c = commands.add_parser(
        "resources",
        help=(
            "LUTs, flip-flops and block RAMs of PEs and switches: figures 5 to 7 of DFM 2014 "
            "beside ours (about 15 minutes; repeated runs take seconds)"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=examples_of("overlay resources"),
    )
    c.add_argument("--out", required=True, type=output.folder_option, metavar="DIR")
    c.add_argument(
        "--family", choices=FAMILIES, default="xc7", help="FPGA family (default xc7, the paper's)"
    )
    c.add_argument(
        "--coarse", action="store_true", help="larger steps of payload and contexts: half the runs"
    )
    add_quiet(c)
    c.set_defaults(handler=cmd_resources)


def cmd_verilog(args) -> int:
    from ...hw.export import check_prefix, export, put
    from ...hw.export.project import files_of
    from ...hw.overlay import Overlay as Component
    from ...hw.overlay import load_layout, load_words
    from ..runs import leaving
    from ..runs.reference import print_underflow

    within("--seed", args.seed, SEEDS)
    check_prefix(args.prefix)
    if args.bench and not args.graph:
        raise PenstockError("--bench is of a graph that runs", remedy="name a GRAPH")
    overlay = overlay_of(args)
    mapped = None
    sizes = full_sizes(CAPACITY)
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
                OP_CLASS[op]
                for op in format_of(overlay.format).ops
                if op in OP_CLASS and (overlay.pe != "static" or op < Op.THEN)
            )
            classes = dict.fromkeys(range(overlay.pes), every)
        progress.step(f"export Verilog of {overlay.rows}x{overlay.cols} {overlay.name()}")
        component = Component(overlay=overlay, sizes=sizes, classes=classes)
        done = export(component, prefix=args.prefix, annotated=args.annotated)
        files = files_of(done, args.project)
        if mapped:
            done.sidecar.update(_ends(mapped))
            if args.bench:
                labels = [mapped.graph.label(node) for node in range(len(mapped.graph.op))]
                files |= leaving.bench(mapped.image, done, files, labels)
        paths = put(done, files, args.out)
    if mapped:
        paths.append(args.out / "load.hex")
        layout = load_layout(overlay, sizes)
        digits = -(-layout.width // 4)
        lines = [f"{word:0{digits}x}\n" for word in load_words(mapped.image)]
        output.write_text(paths[-1], "".join(lines))
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


def cmd_resources(args) -> int:
    from ..studies import resources

    output.folder(args.out)
    with display(args) as progress:
        written, tables = resources.write_all(args.out, args.family, args.coarse, progress)
    for title, rows in tables.items():
        print_table(rows, title)
    print("wrote " + ", ".join(written))
    return 0
