"""Runs unit graphs on the RTL: export, build (cached), simulate, and the same result type as the
model's.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

import numpy as np

from .. import model
from ..machine.config import Config, Dram, Machine
from ..machine.deliveries import Deliveries
from ..machine.errors import RunError
from ..machine.image import pack
from ..machine.stimulus import Point
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..model import dram_step
from ..model.dram_state import lines_bound
from ..system import children
from . import bench, parts, runner
from .cut import Hole, closure, cut, modules_of
from .exported import Design
from .result import IDLE_CYCLES, FlagError, PointGraph
from .toolchain import require_tools

QUIET_CYCLES = 64
"""Cycles a run goes on after `done`: nothing may happen in them."""
MAX_CYCLES = 20_000_000


class Options(TypedDict, total=False):
    """Options of a simulation; meanings and defaults as of :func:`run_many`."""

    trace: bool
    waves: str | None
    max_cycles: int | None
    seed: int
    progress: Callable[[int], None] | None
    short: bool
    stage: Callable[[str], None] | None
    quiet: int


def run(
    graph: UnitGraph,
    config: Config,
    tensors: Mapping[str, np.ndarray] | None = None,
    *,
    trace: bool = True,
    sources=None,
    sinks=None,
    waves: str | None = None,
    max_cycles: int | None = None,
    seed: int = 0,
    record: Iterable[int] = (),
    resets_at: Sequence[int] = (),
    quiet: int = QUIET_CYCLES,
    expected: Run | None = None,
) -> Run:
    """Simulate one unit graph; parameters as :func:`run_many`."""
    point = Point(graph, tensors, sources or {}, sinks or {}, resets_at, expected=expected)
    return run_many(
        [point],
        config,
        trace=trace,
        waves=waves,
        max_cycles=max_cycles,
        seed=seed,
        record=record,
        quiet=quiet,
    )[0]


@overload
def run_many(
    points: Sequence[Point | tuple],
    config: Config,
    *,
    record: Iterable[int] = (),
    keep_going: Literal[False] = False,
    **options: Unpack[Options],
) -> list[Run]: ...


@overload
def run_many(
    points: Sequence[Point | tuple],
    config: Config,
    *,
    record: Iterable[int] = (),
    keep_going: Literal[True],
    **options: Unpack[Options],
) -> list[Run | RunError]: ...


def run_many(
    points: Sequence[Point | tuple],
    config: Config,
    *,
    trace: bool = True,
    waves: str | None = None,
    max_cycles: int | None = None,
    seed: int = 0,
    record: Iterable[int] = (),
    progress: Callable[[int], None] | None = None,
    short: bool = False,
    stage: Callable[[str], None] | None = None,
    keep_going: bool = False,
    quiet: int = QUIET_CYCLES,
) -> list[Run] | list[Run | RunError]:
    """Simulate several points; those of equal structure share one build and one simulator launch.

    Parameters
    ----------
    points, config
        :class:`Point` objects, or (graph, tensors) pairs; their machine.
    trace
        Whether the runs carry channel and port traces (they are recorded anyway).
    waves
        Path stem for waveforms and viewer layout; the first point only.
    max_cycles, seed
        Limit of a run, by default the model's bound; seed of the simulator.
    record
        Channel ids whose whole beats are kept, in ``extra["payloads"]`` of each run.
    progress
        Called with a point's position when it has finished.
    short
        Whether the runs are short: a build that is not in the cache is not optimised then.
    stage
        Called with one line when an export, a build or a simulation begins.
    keep_going
        Whether a point that fails leaves its error in the list and lets the others go on; otherwise
        the first error is raised.
    quiet
        Cycles the simulation goes on after `done`.

    Returns
    -------
    list of Run
        ``backend`` 'rtl'; ``extra`` has build (name of the simulator build), export_s, build_s,
        launch_s, simulate_s, clocked_s (wall of the clocked part alone), clocked_cpu_s,
        cycles_per_s; of a point with an expected run report, the
        :class:`~.check.Report` of its test.

    Raises
    ------
    RunError
        No simulator, a cycle limit, a deadlock, an error flag, an access outside the memory, or a
        fabric that is not drained at the end.
    """
    require_tools()
    points = [p if isinstance(p, Point) else Point(*p) for p in points]
    from .design import design_of

    groups: dict[str, list[int]] = {}
    for i, p in enumerate(points):
        shape = p.graph.structure(config.machine.registers)
        groups.setdefault(json.dumps(shape.to_dict(), sort_keys=True), []).append(i)
    results: dict[int, Run | RunError] = {}
    say = stage or (lambda _line: None)
    for k, members in enumerate(groups.values(), 1):
        chosen = [points[i] for i in members]
        name = f"{chosen[0].graph.name}, build {k} of {len(groups)}"
        try:
            design = design_of(
                chosen[0].graph, config, stage=lambda what, name=name: say(f"{what} of {name}")
            )
            runs = simulate(
                design,
                chosen,
                config,
                trace=trace,
                waves=waves,
                max_cycles=max_cycles,
                seed=seed,
                record=record,
                quiet=quiet,
                progress=(lambda i, members=members: progress(members[i])) if progress else None,
                short=short,
                stage=lambda what, name=name: say(f"{what} of {name}"),
                keep_going=keep_going,
            )
        except RunError as e:  # of the build or the launch: all its points fail
            if not keep_going:
                raise
            runs = [e] * len(members)
        results |= zip(members, runs, strict=False)  # with waves, the first alone has run
    return [results[i] for i in sorted(results)]


def with_model(p: Point, config: Config, record: Iterable[int] = ()) -> Point:
    """A point with the model's run, which that of the RTL must equal."""
    given = {"sources": p.sources, "sinks": p.sinks, "record": list(record)}
    return replace(p, expected=model.run(p.graph, config, p.tensors, trace=True, **given))


def prepare(
    graph: UnitGraph,
    config: Config,
    *,
    waves: bool = False,
    short: bool = False,
    stage: Callable[[str], None] | None = None,
) -> None:
    """Export a unit graph and build its simulator, unless they are in the cache; ``short`` and
    ``stage`` as of :func:`run_many`.
    """
    from .design import design_of

    def say(what: str) -> None:
        if stage:
            stage(f"{what} of {graph.name}")

    build_design(design_of(graph, config, stage=say), waves=waves, short=short, stage=say)


def build_design(
    design: Design,
    *,
    waves: bool = False,
    short: bool = False,
    stage: Callable[[str], None] | None = None,
) -> runner.Build | parts.Build:
    """The simulator of a design, from the cache if it is there."""
    if not waves and (apart := design.apart):
        return build_apart(design, apart, stage=stage)
    verilog = {}
    if waves:
        verilog["channels.sv"] = bench.channel_package(design.graph)
    verilog |= design.verilog
    verilog["penstock_bench_top.sv"] = _wrapper(design, design.further)
    return runner.build(
        verilog,
        bench.TOP,
        (*bench.PUBLIC, *(hole.name for hole in design.further)),
        alike=design.alike(),
        name=design.name,
        waves=waves,
        covered=design.covered,
        short=short,
        stage=stage,
    )


def _wrapper(design: Design, further: Sequence[Hole] = ()) -> str:
    """The bench's top around a design; ``further``: ports of its own."""
    sources, sinks = design.agents()
    return bench.wrapper(
        fabric=design.top,
        lanes=design.lanes,
        responses=design.responses,
        line=design.line,
        memory=design.memory,
        sources=sources,
        sinks=sinks,
        further=further,
    )


def build_apart(
    design: Design, apart: Collection[str], *, stage: Callable[[str], None] | None = None
) -> parts.Build:
    """The simulator of a design whose modules ``apart`` are compiled apart."""
    modules = modules_of("\n".join(design.verilog.values()))
    pieces = cut(modules, design.top, apart)
    pieces = replace(pieces, holes=[*pieces.holes, *design.further])
    rest = closure(modules | {design.top: pieces.rest}, design.top)
    rest += _wrapper(design, pieces.holes)
    return parts.build(
        pieces, modules, rest, bench.TOP, alike=design.alike(), name=design.name, stage=stage
    )


def simulate(
    design: Design,
    points: Sequence[Point],
    config: Config | None,
    *,
    trace: bool = True,
    waves: str | None = None,
    max_cycles: int | None = None,
    seed: int = 0,
    record: Iterable[int] = (),
    quiet: int = QUIET_CYCLES,
    progress: Callable[[int], None] | None = None,
    short: bool = False,
    stage: Callable[[str], None] | None = None,
    keep_going: bool = False,
    built: runner.Build | parts.Build | None = None,
) -> list[Run | RunError]:
    """Build a design and run points on it in one simulator launch; see
    :func:`run_many`. ``built``: its simulator, where it is at hand.
    """
    say = stage or (lambda _line: None)
    built = built or build_design(design, waves=bool(waves), short=short, stage=say)
    say(f"simulate {len(points)} point{'s' if len(points) > 1 else ''}")
    with children.temporary() as folder:
        runs = _launch(
            folder,
            built,
            design,
            points,
            config,
            trace=trace,
            waves=waves,
            max_cycles=max_cycles,
            seed=seed,
            record=record,
            quiet=quiet,
            progress=progress,
            keep_going=keep_going,
        )
        design.collect(folder)
    return runs


def _changes(design, points: Sequence[Point]) -> Iterator[list[list[int]]]:
    """Register writes before each program: the state left by the one before it is written only
    where a fault may change it.
    """
    held: dict[int, int] = {}
    wrong = any(p.mutant for p in points)
    for p in points:
        words = design.writes(p)
        if wrong:
            held.clear()
        yield [[at, value] for at, value in words if held.get(at) != value]
        held.update((at, value) for at, value in words)


def _launch(
    folder: Path,
    built: runner.Build | parts.Build,
    design: Design,
    points: Sequence[Point],
    config: Config | None,
    *,
    trace: bool,
    waves: str | None,
    max_cycles: int | None,
    seed: int,
    record: Iterable[int],
    quiet: int,
    progress: Callable[[int], None] | None,
    keep_going: bool,
) -> list[Run | RunError]:
    """One simulator launch, whose files come into ``folder``; with waves of the first point."""
    graph = design.graph
    points = points[:1] if waves else points
    n = len(points)
    sources, sinks = design.agents()
    started = time.perf_counter()
    job = {
        "channels": len(graph.channels),
        "ports": len(graph.ports),
        "units": len(graph.units),
        "lanes": design.lanes,
        "responses": design.responses,
        "sources": [u for u, _ in sources],
        "sinks": [u for u, _ in sinks],
        "keep": sorted(record),
        "idle": IDLE_CYCLES,
        "quiet": quiet,
        "max_cycles": max_cycles or MAX_CYCLES,
        "trace": trace,
        "counted": design.counted,
        "points": [],
        "dram": _dram(config.machine.dram) if config else {},
        "dram_step": str(dram_step.kept()) if any(p.graph.ports for p in points) else "",
    }
    for i, (p, changed) in enumerate(zip(points, _changes(design, points), strict=True)):
        given = PointGraph.of(p, _inputs(p, design, config.machine if config else Machine()))
        (folder / f"given{i}").write_bytes(pickle.dumps(given))
        job["points"].append(
            {
                "given": str(folder / f"given{i}"),
                "out": str(folder / f"out{i}"),
                "ended": str(folder / f"ended{i}"),
                "registers": changed,
                "resets_at": list(p.resets_at),
                "mutant": p.mutant,
                "whole": p.whole,
                "values": p.tensors is not None,
                **design.own(p),
            }
        )
    with _Watching(folder, n, progress):
        if isinstance(built, parts.Build):
            messages = parts.launch(built, job, folder=folder)
        else:
            module = "penstock.tb.fabric_test"
            messages = runner.launch(
                built, module, job, seed=seed, folder=folder, waves=bool(waves)
            )
    wall = time.perf_counter() - started
    left = [pickle.loads((folder / f"out{i}").read_bytes()) for i in range(n)]
    spent = sum(seconds for _, seconds in left)
    shared = {
        "build": built.folder.name,
        "export_s": design.seconds,
        "build_s": built.seconds,
        "launch_s": (wall - spent) / n,
    }
    runs: list[Run | RunError] = []
    for p, message, (r, _) in zip(points, messages, left, strict=True):
        if isinstance(r, RunError):
            if isinstance(r, FlagError):
                r = RunError(r.what + _told(p, config, r.cycles), r.where)
            if not keep_going:
                raise r
        else:
            # its share of what the points have in common
            r.setup_s = (design.seconds + built.seconds + wall - spent) / n
            r.extra |= shared
            if p.expected is not None:
                r.extra["report"].verdict = message
        runs.append(r)
    if waves:
        from .waves import collect

        files = collect(folder, waves, graph)
        if isinstance(runs[0], Run):
            runs[0].extra["waves"] = files
    return runs


def _told(p: Point, config: Config | None, cycle: int) -> str:
    """The model's message for a fault of the RTL."""
    if config is None:
        return ""
    try:
        model.run(
            p.graph, config, p.tensors, sources=p.sources, sinks=p.sinks, max_cycles=cycle + 2
        )
    except RunError as e:
        return f"; the model: {e}"
    return "; the model has no fault"


class _Watching:
    """Calls ``progress`` while the simulator runs, as points finish."""

    def __init__(self, folder: Path, n: int, progress: Callable[[int], None] | None):
        self.folder = folder
        self.n = n
        self.progress = progress
        self.stop = threading.Event()

    def __enter__(self):
        if self.progress:
            self.thread = threading.Thread(target=self._watch, daemon=True)
            self.thread.start()
        return self

    def _watch(self):
        for i in range(self.n):
            while not (self.folder / f"ended{i}").exists():
                if self.stop.wait(0.2):
                    if not (self.folder / f"ended{i}").exists():
                        return
            if self.progress:
                self.progress(i)

    def __exit__(self, *_):
        self.stop.set()
        if self.progress:
            self.thread.join()


def _inputs(p: Point, design: Design, machine: Machine) -> dict[str, np.ndarray]:
    image = (
        pack(p.graph, dict(p.tensors))
        if p.tensors is not None
        else np.zeros(p.graph.memory_bytes, np.uint8)
    )
    places = np.array([c.depth for c in p.graph.channels], np.int32)
    arrays = {"image": image, "places": places}
    if p.graph.ports:
        tensors = [p.graph.tensor(p.graph.units[u].kind.tensor) for u in p.graph.ports]
        arrays["ranges"] = np.array([[x.base, x.base + x.bytes] for x in tensors], np.int64)
        arrays["lines"] = np.array(lines_bound(p.graph, machine), np.int64)
        arrays["waits"] = _waits(p, machine)
    return arrays | design.streams(p)


def _dram(dram: Dram) -> dict:
    """The memory as the simulator reads it, which runs in another folder."""
    table = asdict(dram)
    if dram.deliveries:
        table["deliveries"] = str(Path(dram.deliveries).absolute())
    return table


def _waits(p: Point, machine: Machine) -> np.ndarray:
    """Stalls by cycle, repeated: whether the memory takes nothing; a `trace` takes a line when it
    was taken.
    """
    if machine.dram.kind != "trace":
        return np.array(p.memory_waits, np.uint8)
    taken = Deliveries.read(machine.dram.deliveries).taken
    waits = np.ones(int(taken.max(initial=0)) + 1, np.uint8)
    waits[taken] = 0
    return waits
