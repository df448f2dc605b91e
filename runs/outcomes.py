"""Many points: the model's runs, then the RTL's, with the outcome of each."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import model
from ..frontend import build, lower
from ..frontend.analysis.bounds import Bounds, bounds
from ..frontend.located import located
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError, RunError
from ..machine.record import Record
from ..machine.stimulus import Point as Stimulus
from ..machine.trace import Run
from ..model import precompile
from . import check, simulation
from .options import Options, Seeds, seeds_of
from .point import Point, label
from .progress import Progress
from .progress import of as progress_of
from .recording import record

SHORT = 20_000
"""Cycles of all points up to which a simulator is not optimised: its build takes longer."""


@dataclass
class Outcome:
    """Outcome of one point."""

    params: dict  # the parameters that were asked for
    # model, rtl: its records (None where that backend was not asked for, or failed)
    model: Record | None = None
    rtl: Record | None = None
    # why it failed, or None. A point whose values or beats are wrong keeps its records.
    error: PenstockError | None = None

    @property
    def records(self) -> list[Record]:
        return [r for r in (self.model, self.rtl) if r]


@dataclass
class _Waiting:
    """A point whose RTL is still to run."""

    outcome: Outcome
    point: Point
    model_run: Run | None

    def stimulus(self) -> Stimulus:
        """Stimulus of the RTL, with the run that its own must equal."""
        return replace(self.point.stimulus(), expected=self.model_run)


def outcomes(
    program: str,
    config: str | Config,
    points: list[dict],
    *,
    seed: Seeds = 0,
    progress: Progress | Callable[[str], None] | None = None,
    **options,
) -> list[Outcome]:
    """Run a program at each of ``points``; a point that fails carries its error and the others go
    on.

    ``seed`` may be a list, one for each point; further arguments are those of
    :class:`~penstock.runs.options.Options`. What is wrong with the call itself and not with a point
    (a configuration, a backend, a missing tool) is always raised.
    """
    began = time.perf_counter()
    seeds = seeds_of(seed, len(points))
    how = Options(**options)
    show = progress_of(progress)
    config = config if isinstance(config, Config) else load_config(config)
    if how.on_rtl:
        # The simulator takes a second to import; runs on the model alone do without.
        from ..tb.toolchain import require_tools

        require_tools()
    show.plan(len(points) * (how.on_model + how.on_rtl))
    note = ""
    if how.on_model and how.timing == "machine" and not model.compiled():
        if how.on_rtl and points and not how.on_array:
            _compile_and_build(program, config, points[0], len(points), bool(how.waves), show)
        if not model.compiled():
            note = ", which is compiled first (half a minute, once)"
    found = [Outcome(p) for p in points]
    prepared = time.perf_counter() - began
    waiting = []
    for o, one in zip(found, seeds, strict=True):
        show.step(f"model {label(program, o.params)}{note}")
        note = ""
        kept = _run_model(program, config, o, one, how)
        if kept:
            waiting.append(kept)
        for _ in range(how.on_model + (how.on_rtl and o.error is not None)):
            show.done(f"model {label(program, o.params)}")
    if waiting:
        _run_rtl(waiting, config, how, show)
    for r in [r for o in found for r in o.records][-1:]:
        r.setup_s += prepared  # tools, and what is compiled and built once for all
    return found


def _run_model(program, config: Config, o: Outcome, seed: int, how: Options) -> _Waiting | None:
    """Build a point and run it on the model, if it is asked for; what its RTL needs, if that is:
    else nothing of a point but its record is kept.
    """
    with _caught(o, how.keep_going):
        began = time.perf_counter()
        point = Point(program, config, o.params, how.timing, seed, how.onchip_rule, how.tolerance)
        if how.on_array:
            from .array import placed  # networkx and scipy, which fabrics of their own do without

            point = placed(point).on_array()
        run = None
        if how.on_model:
            run = simulation.on_model(point, how.values, trace=how.on_rtl)
            o.model = record(point, run, how.outputs, judge=how.judge)
            o.model.setup_s = time.perf_counter() - began - run.wall_s
        return _Waiting(o, point, run) if how.on_rtl else None
    return None


def _run_rtl(waiting: list[_Waiting], config: Config, how: Options, show: Progress) -> None:
    """Run the RTL of points, those of equal structure on one simulator, and compare every beat."""
    began = time.perf_counter()
    runs = (_on_array if how.on_array else _on_fabrics)(waiting, config, how, show)
    timed = [r for r in runs if not isinstance(r, RunError)]
    rest = time.perf_counter() - began - sum(r.wall_s + r.setup_s for r in timed)
    for r in timed:
        r.setup_s += max(rest, 0) / len(timed)
    for w, rtl in zip(waiting, runs, strict=True):
        began = time.perf_counter()
        with _caught(w.outcome, how.keep_going):
            if isinstance(rtl, PenstockError):
                raise located(rtl, w.point.program.graph.nodes)
            w.outcome.rtl = record(w.point, rtl, how.outputs, judge=how.judge)
            if w.model_run is not None:
                check.against_model(w.point, rtl, w.outcome.rtl, show.stage)
            w.outcome.rtl.setup_s += time.perf_counter() - began


def _on_fabrics(
    waiting: list[_Waiting], config: Config, how: Options, show: Progress
) -> Sequence[Run | RunError]:
    """Runs of points on the RTL of their own fabrics."""
    # The simulator takes a second to import; runs on the model alone do without.
    from ..tb import run_many

    return run_many(
        [w.stimulus() for w in waiting],
        config,
        trace=how.on_model or any(w.point.traced or w.point.asserts for w in waiting),
        short=sum(_cycles(w) for w in waiting) <= SHORT,
        waves=how.waves,
        max_cycles=how.max_cycles,
        stage=show.stage,
        keep_going=how.keep_going,
        progress=lambda i: show.done(f"RTL {waiting[i].point.label}"),
    )


def _cycles(w: _Waiting) -> float:
    """Cycles of a run: the model's, or those of one that the model does not run as foreseen."""
    if w.model_run is not None:
        return w.model_run.cycles
    point = w.point
    return _foreseen(bounds(point.program.graph, point.analysis, point.graph, point.config))


def _foreseen(found: Bounds) -> float:
    """Cycles of a run by its bounds: twice the tightest; without end where there is none."""
    least = found.tightest().value
    return math.inf if least is None else 2 * least


def _on_array(
    waiting: list[_Waiting], config: Config, how: Options, show: Progress
) -> Sequence[Run | RunError]:
    """Runs of points on the RTL of one array."""
    # As above, and Amaranth.
    from ..tb.api import simulate
    from ..tb.array import array_design

    return simulate(
        array_design(config, stage=show.stage),
        [w.stimulus() for w in waiting],
        config,
        stage=show.stage,
        keep_going=how.keep_going,
        progress=lambda i: show.done(f"RTL {waiting[i].point.label}"),
    )


def _compile_and_build(
    program, config: Config, params: dict, points: int, waves: bool, show: Progress
) -> None:
    """Compile the model's code and build the simulator of one point, side by side, before the first
    run of both.

    Both are kept; what fails here fails again, and is told, where it is needed.
    """
    # The simulator takes a second to import; runs on the model alone do without.
    from ..tb.api import prepare

    with contextlib.suppress(PenstockError):
        built = build(program, params, config)
        graph = lower(built.graph, config)
        cycles = _foreseen(bounds(built.graph, built.analysis(), graph, config))
        wait = precompile.beside([graph])
        show.stage("compile the model, once, and meanwhile:")
        prepare(graph, config, waves=waves, short=points * cycles <= SHORT, stage=show.stage)
        show.stage("compile the model")
        wait()


@contextlib.contextmanager
def _caught(o: Outcome, keep_going: bool):
    """An error of a point stays with it, unless the first one is to end everything."""
    try:
        yield
    except PenstockError as e:
        if not keep_going:
            raise
        o.error = e
