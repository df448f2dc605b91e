"""A program on a board: loaded, run, read back, compared with the model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .. import model
from ..frontend import build as frontend_build
from ..frontend import lower
from ..machine.beat import beat_words
from ..machine.config import Config, Dram
from ..machine.config import load as load_config
from ..machine.deliveries import Deliveries
from ..machine.errors import PenstockError, RunError
from ..machine.image import pack, unpack
from ..machine.limits import MOST_SECONDS, SEEDS, within
from ..machine.stimulus import whole_beats
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..runs import check
from ..runs.point import Point
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from ..system import children
from ..tb.bench import streams
from . import simulator
from .bitstream import Bitstream, available, bitstream
from .design import MEMORIES, BoardDesign, Design, board_design, on_board
from .device import Device
from .link import Link, open_line
from .platforms import BOARDS, RAMS, SIM, divisor_of, sdram_clock

RUN_SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """Place of a program's run."""

    board: str = SIM  # ``sim``, or a name of :data:`~penstock.board.platforms.BOARDS`
    # port, baud: the serial port of a board that holds the design, and its baud rate (none: the
    # board's own)
    port: str | None = None
    baud: int | None = None
    memory: int | None = None  # bytes of the board's memory; none: as much as the tensors take
    ram: str = RAMS[0]  # what that is: ``block`` (RAM of the FPGA) or ``sdram``

    @property
    def sdram(self) -> float | None:
        """The clock of its SDRAM in MHz, if that is its memory."""
        return sdram_clock(self.board, self.ram)

    @property
    def divisor(self) -> int:
        """Clock cycles of a bit on its serial line."""
        if self.board == SIM:
            return simulator.DIVISOR
        return divisor_of(self.board, self.baud)


SIMULATED = Place()


@dataclass
class BoardRun:
    """Outcome of a run on a board, and its comparison."""

    # program, config, board: names
    program: str
    config: str
    board: str
    # what was read back: cycles, outputs, counters, and in ``extra["payloads"]`` the beats of
    # sinks, by channel
    run: Run
    # repeated, reloads: frames that were sent again, and loads that began again
    repeated: int = 0
    reloads: int = 0
    model_cycles: int | None = None  # of the model, where it ran too
    # how many tensors, streams and counters were compared with the model's, and are equal
    compared: dict[str, int] = field(default_factory=dict)
    # whether the values are those of the program's meaning in NumPy, and within the tolerance; None
    # where not looked at
    values_ok: bool | None = None
    # where they are not: a message for each difference
    wrong: list[str] = field(default_factory=list)


def run(
    program: str,
    config: str | Config = "small_board",
    params: dict | None = None,
    *,
    place: Place = SIMULATED,
    on: str = "board",
    seed: int = 0,
    limit: float = RUN_SECONDS,
    tolerance: float | None = None,
    progress: Progress | Callable[[str], None] | None = None,
) -> BoardRun:
    """Run a program on a board, or on one in simulation.

    Parameters
    ----------
    program, config, params, seed, tolerance
        As of :func:`penstock.runs.api.run`; the memory is the board's.
    place
        Which board, and how it is reached.
    on
        ``board``, or ``both``: the model too, and compare.
    limit
        Seconds that the run may take.
    progress
        A display, or a function that is called with a line a step.

    Raises
    ------
    PenstockError
        Bad input, no simulator, no board, a fault, or a difference from the model.
    """
    check_limit(limit)
    if place.memory is not None:
        within("memory", place.memory, MEMORIES)
    config = on_board(load_config(config) if isinstance(config, str) else config)
    show = progress_of(progress)
    point = Point(program, config, params or {}, seed=seed, tolerance=tolerance)
    design = board_design(
        point.graph,
        config,
        divisor=place.divisor,
        memory_bytes=place.memory,
        sdram=place.sdram,
        simulated=place.board == SIM,
        stage=show.stage,
    )
    with opened(place, design, show.stage) as link:
        show.stage(f"load {point.graph.name} through {link.name}")
        found = device_run(point, design, link, limit, on == "both")
    found.board = place.board
    found.config = config.name
    if on == "both":
        show.stage("run the model")
        compare(point, found)
    elif not point.traced and (checked := check.values(point, found.run)):
        _set_values(found, checked)
    return found


def build(
    program: str,
    config: str | Config,
    params: dict | None,
    *,
    place: Place,
    out: str | Path,
    seed: int = 1,
    progress: Progress | Callable[[str], None] | None = None,
) -> Bitstream:
    """The bitstream of a program's design; ``seed``: of the placement;
    the others as of :func:`run`, and what it raises as of
    :func:`~penstock.board.bitstream.bitstream`.
    """
    available()
    config = on_board(load_config(config) if isinstance(config, str) else config)
    show = progress_of(progress)
    graph = lower(frontend_build(program, params or {}, config).graph, config)
    design = board_design(
        graph,
        config,
        divisor=place.divisor,
        memory_bytes=place.memory,
        sdram=place.sdram,
        stage=show.stage,
    )
    return bitstream(design, place.board, out, seed=within("seed", seed, SEEDS), stage=show.stage)


@contextlib.contextmanager
def opened(place: Place, design: Design, stage: Callable[[str], None]) -> Iterator[Link]:
    """The line to a board, or to its simulation.

    Raises
    ------
    PenstockError
        No port is given, or what opens it, or builds and starts the simulation, raises.
    """
    if place.board == SIM:
        executable = simulator.build(design, stage)
        with simulator.simulation(executable) as simulated:
            rate = 115_200  # a pseudo-terminal has none
            with contextlib.closing(open_line(simulated.path, rate)) as line:
                yield Link(line, simulated.path, rate, simulator.ANSWER_SECONDS)
        return
    if place.port is None:
        raise PenstockError(
            "its serial port is not given", f"board {place.board}", remedy="give it with --port"
        )
    rate = place.baud or BOARDS[place.board].baud
    with contextlib.closing(open_line(place.port, rate)) as line:
        yield Link(line, place.port, rate)


def check_limit(seconds: float) -> None:
    """Raise PenstockError unless a run may take so many seconds."""
    if not 0 < seconds <= MOST_SECONDS:
        raise PenstockError(f"limit must be above 0 and at most {MOST_SECONDS} s, not {seconds:g}")


def device_run(
    point: Point, design: BoardDesign, link: Link, limit: float, recorded: bool = False
) -> BoardRun:
    """Load a point into the board behind a link, run it, and read all that it leaves, with the
    deliveries of an SDRAM if asked.

    Raises
    ------
    RunError
        What :class:`~penstock.board.device.Device` raises.
    """
    graph = point.graph
    sources, sinks = streams(graph)
    beats = {
        k: whole_beats(graph.outputs(u)[0].payload, point.source_beats()[u])
        for k, (u, _) in enumerate(sources)
    }
    device = Device(link, design.number)
    written = {word[0]: word[1] for word in design.fabric.writes(point.stimulus())}
    loaded = device.load(pack(graph, point.tensors), written, beats)
    counted = point.config.machine.counters
    ended = device.run(len(graph.units) if counted else 0, limit)
    out = Run("board", ended.cycles, -1, counted=counted)
    out.outputs = unpack(graph, device.memory(graph.memory_bytes))
    if counted:
        out.busy, out.blocked, out.starved = (ended.counters[:, k].copy() for k in range(3))
        out.peak_pages = {u: int(ended.counters[u, 3]) for u in graph.memories()}
    out.extra["payloads"] = {
        graph.inputs(u)[0].id: device.stream(
            len(sources) + k, beat_words(graph.inputs(u)[0].payload)
        )
        for k, (u, _) in enumerate(sinks)
    }
    if recorded and design.sdram is not None:
        out.extra["deliveries"] = Deliveries(device.deliveries())
    name = point.program.name
    return BoardRun(name, "", "", out, loaded.frames, loaded.reloads)


def _set_values(found: BoardRun, checked: check.Checked | None) -> None:
    """Note the check of a run's values, if there is one."""
    if checked:
        found.values_ok = not checked.wrong
        found.wrong = checked.wrong


def compare(point: Point, found: BoardRun) -> None:
    """Hold a board's run against the model's; raises RunError at the first difference."""
    graph = point.graph
    kept = sorted(found.run.extra["payloads"])
    with _replaying(point.config, found.run.extra.get("deliveries")) as config:
        want = model.run(
            graph,
            config,
            point.tensors,
            trace=point.traced,
            sources=point.source_beats(),
            record=kept,
        )
    checked = check.values(point, want)
    _set_values(found, checked)
    found.model_cycles = want.cycles
    differences = list(_differences(graph, want, found.run, kept))
    if differences:
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        raise RunError(
            f"differs from the model: {differences[0]}{more}",
            f"{found.program} on board {found.board}",
            remedy="report this: board and model are equal by contract",
        )
    found.compared = {
        "tensors": len(want.outputs or {}),
        "streams": len(kept),
        "counters": 3 * len(found.run.busy) + len(found.run.peak_pages),
    }


@contextlib.contextmanager
def _replaying(config: Config, deliveries: Deliveries | None) -> Iterator[Config]:
    """A configuration whose memory does what was recorded, if there is a record."""
    if deliveries is None:
        yield config
        return
    with children.temporary() as work:
        path = work / "deliveries.csv"
        deliveries.write(path)
        line_bytes = config.machine.dram.line_bytes
        memory = Dram(kind="trace", channels=1, line_bytes=line_bytes, deliveries=str(path))
        yield replace(config, machine=replace(config.machine, dram=memory))


def _differences(graph: UnitGraph, want: Run, got: Run, kept: list[int]) -> Iterator[str]:
    if got.cycles != want.cycles:
        yield f"{got.cycles} cycles, the model's {want.cycles}"
    for name, values in (want.outputs or {}).items():
        if (got.outputs or {})[name].tobytes() != values.tobytes():
            yield f"tensor {name}"
    for channel in kept:
        mine = got.extra["payloads"][channel]
        theirs = want.extra["payloads"][channel]
        if not np.array_equal(mine, theirs[:, : mine.shape[1]]):
            yield f"the beats of channel {graph.channels[channel].name}"
    if not got.counted:
        return
    for name in ("busy", "blocked", "starved"):
        for unit in np.flatnonzero(getattr(got, name) != getattr(want, name)):
            counts = f"{getattr(got, name)[unit]}, the model's {getattr(want, name)[unit]}"
            yield f"{name} cycles of unit {graph.units[unit].name}: {counts}"
    for unit, pages in (want.peak_pages or {}).items():
        if (got.peak_pages or {}).get(unit) != pages:
            yield f"peak pages of unit {graph.units[unit].name}"
