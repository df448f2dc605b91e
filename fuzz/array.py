"""Random programs on an array: drawn within its capabilities, placed, and run on its one build."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..frontend.meaning.evaluator import Evaluator
from ..machine.array.netlist import absorbs, with_buffers
from ..machine.array.network import Network
from ..machine.array.streams import ENDS, in_memories
from ..machine.array.structure import Structure
from ..machine.config import Config
from ..machine.deadlock import DeadlockError
from ..machine.errors import FormError, LoweringError, PenstockError, RunError
from ..machine.stimulus import Point
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..runs.array import array_config, arrived
from ..runs.executors import Pool
from ..runs.progress import Progress
from ..scheduler.array import map_program
from ..scheduler.array.fit import fits, lacks, payloads_of
from ..testing.judge import Judge
from . import programs
from .campaign import Campaign, Failure, keep_failure
from .draw import draw
from .programs import Case
from .recipe import Recipe
from .slices import APART, Slice, run_all

if TYPE_CHECKING:
    from ..tb.array import ArrayDesign
    from ..tb.parts import Build as Parts
    from ..tb.runner import Build as Whole

    Built = Parts | Whole

SLICE = 100
"""Programs of a simulator launch; what they are depends on the slice's number and the seed."""
SHORT = 20
"""The same of a campaign with a deadline: what is drawn by then has not been run."""
MOST_DRAWS = 500
"""Programs drawn one after the other of which none can be run, after which the array is refused."""
EFFORT = 0.2
"""Effort of the placements: routes that are longer than they need be are met too."""


@dataclass
class _Drawn:
    """A program that is right on the model."""

    # origin, case: where it comes from; its graph is the placed one
    origin: _Origin
    case: Case
    # run, want, meaning, judge: the model's run, and the evaluation and the judge that it agrees
    # with
    run: Run
    want: dict[str, np.ndarray]
    meaning: Evaluator
    judge: Judge | None


@functools.cache
def _machine(array: str) -> tuple[Config, Structure]:
    """An array's configuration, and its things by number."""
    config = array_config(array)
    return config, Structure(config)


_simulators: dict[str, tuple[ArrayDesign, Built]] = {}


def _simulator(array: str, stage: Callable[[str], None]) -> tuple[ArrayDesign, Built]:
    """An array's Verilog, and its simulator."""
    from ..tb import api
    from ..tb.array import array_design

    if array not in _simulators:
        design = array_design(_machine(array)[0], stage=stage)
        _simulators[array] = (design, api.build_design(design, stage=stage))
    return _simulators[array]


def lack(graph: UnitGraph, network: Network) -> str | None:
    """The reason why no slot of an array holds a program, however many slots there were; None: each
    unit has one that fits.
    """
    try:
        program = with_buffers(graph)
    except LoweringError as e:
        return f"payload: {e.rule}"
    table = fits(program, network)
    given = payloads_of(program)
    for unit in program.units:
        if absorbs(unit) or table[unit.id].any():
            continue
        slots = {id(s.slot): s.slot for s in network.slots if unit.kind.name in s.slot.kinds}
        reasons = [lacks(network.variants(s), unit, given[unit.id])[0] for s in slots.values()]
        what = min(reasons, key=len).partition(" is ")[0] if reasons else "no slot"
        return f"{unit.kind.name}: {what}"
    return None


def run_on_array(
    campaign: Campaign,
    count: int,
    seed: int,
    array: str,
    *,
    on: str = "model",
    keep: Path | None = None,
    progress: Progress | None = None,
    executor: Executor | Pool | None = None,
) -> None:
    """Draw and run ``count`` programs on an array.

    Parameters
    ----------
    campaign
        What it adds to: counts, seconds, failures, coverage.
    count, seed
        Number of programs that run; of what is drawn and of the placements.
    array
        Configuration with a table ``[array]``.
    on
        ``model``: the placed graph on the model, values against NumPy. ``rtl``: also every beat of
        the array's RTL against the model's.
    keep
        Folder for failures.
    progress
        A display.
    executor
        Where slices run: any of `concurrent.futures`, or a pool; None: this process. So does a
        campaign with a deadline.
    """
    show = progress or Progress()
    if on == "rtl":  # once, before several processes want it
        start = time.perf_counter()
        _simulator(array, show.stage)
        campaign.seconds["RTL build"] += time.perf_counter() - start
    size = SLICE if campaign.deadline is None else SHORT
    slices = [
        ArraySlice(min(size, count - first), seed, on, keep, k * APART, array=array)
        for k, first in enumerate(range(0, count, size))
    ]
    if executor is None or len(slices) < 2 or campaign.deadline is not None:
        show.plan(count * (2 if on == "rtl" else 1))
    run_all(campaign, slices, show, executor)


@dataclass(frozen=True)
class ArraySlice(Slice):
    """Some programs of a campaign on an array; arguments of :func:`run_on_array`."""

    array: str = ""

    def run(self, campaign: Campaign, show: Progress) -> None:
        if campaign.late():
            return
        drawn = []
        for one in itertools.islice(_programs(campaign, self), self.count):
            drawn.append(one)
            show.done(f"program {one.origin.number}")
            if campaign.late():
                return
        if self.on == "rtl":
            _on_rtl(campaign, drawn, self.array, show)


def _programs(campaign: Campaign, told: ArraySlice) -> Iterator[_Drawn]:
    """Programs that the array holds, each once it is right on the model.

    Those without stalls have their own streams in memories of slots, as far as they fit.
    """
    config, _ = _machine(told.array)
    m = config.machine
    last = campaign.first
    for number in itertools.count(campaign.first):
        if number - last > MOST_DRAWS:
            raise PenstockError(
                f"holds none of {MOST_DRAWS} programs drawn one after the other",
                f"array {config.name}",
                remedy="name an array with sources, sinks and more kinds of slots, as array_small",
            )
        start = time.perf_counter()
        recipe = draw((told.seed, 2, number), m.t, m.dtype)
        recipe.run["depths"] = recipe.seed
        recipe.run["stalls"] = recipe.seed + 1 if recipe.seed % 4 else None
        campaign.seconds["draw"] += time.perf_counter() - start
        campaign.counts["drawn"] += 1
        origin = f"seed {told.seed} program {number}"
        one = _Origin(number, recipe, told.array, origin, told.keep)
        if (drawn := _judged(campaign, one)) is not None:
            last = number
            yield drawn


@dataclass(frozen=True)
class _Origin:
    """Origin of a program: its number, which is the seed of its placement, too, and where a failure
    goes.
    """

    number: int
    recipe: Recipe
    array: str
    origin: str = ""
    keep: Path | None = None

    @property
    def config(self) -> Config:
        """The array's."""
        return _machine(self.array)[0]

    def fails(self, campaign: Campaign, backend: str, message: str) -> None:
        """Note what is wrong with it."""
        told = f"on {self.config.name}: {message}"
        failure = ArrayFailure(
            backend,
            told,
            self.recipe,
            self.config,
            self.origin,
            array=self.array,
            placement=self.number,
        )
        keep_failure(campaign, failure, self.keep)


@dataclass
class ArrayFailure(Failure):
    """Failure on an array, which has a name or a file; ``placement`` is its seed."""

    _: KW_ONLY
    array: str
    placement: int

    def to_dict(self) -> dict:
        told = super().to_dict()
        del told["config"]  # the array's
        return {**told, "array": self.array, "placement": self.placement}


def fails_on_array(recipe: Recipe, array: str, placement: int, on: str) -> str | None:
    """Fault of a program placed with a seed; None: no fault, or the array refuses the program with
    a message.

    ``on``: model, or rtl (with the model first).
    """
    campaign = Campaign()
    drawn = _judged(campaign, _Origin(placement, recipe, array))
    if drawn is not None and on == "rtl":
        _on_rtl(campaign, [drawn], array, Progress())
    return campaign.failures[0].message if campaign.failures else None


def _judged(campaign: Campaign, one: _Origin) -> _Drawn | None:
    """A program that the array holds, placed and right on the model; else it is counted why not."""
    config, structure = _machine(one.array)
    network = structure.network
    start = time.perf_counter()
    try:
        case = programs.prepare(one.recipe, config)
    except LoweringError as e:
        campaign.outside[f"lowering: {e.rule}"] += 1
        return None
    finally:
        campaign.seconds["draw"] += time.perf_counter() - start
    if (what := lack(case.graph, network)) is not None:
        campaign.outside[what] += 1
        _refused(campaign, case, one, network, what)
        return None
    start = time.perf_counter()
    try:
        mapping = map_program(
            case.graph, network.array, seed=one.number, effort=EFFORT, network=network
        )
        placed = on_array(case, mapping.graph)
        if one.recipe.run["stalls"] is None:
            placed = without_ports(campaign, placed, config, structure)
    except LoweringError as e:
        campaign.counts["refused"] += 1
        campaign.refused[e.what.partition(" (")[0]] += 1
        return None
    finally:
        campaign.seconds["map"] += time.perf_counter() - start
    return _right(campaign, one, placed, case)


def _refused(campaign: Campaign, case: Case, one: _Origin, network: Network, lacking: str) -> None:
    """Check that the compiler refuses a program that the array cannot be."""
    try:
        map_program(case.graph, network.array, effort=EFFORT, network=network)
    except LoweringError:
        campaign.counts["refusals"] += 1
        return
    one.fails(campaign, "model", f"is placed, and no slot has {lacking}")


def on_array(case: Case, graph: UnitGraph) -> Case:
    """A case whose graph is the placed one; its sources and sinks are found by name."""
    number = {u.name: u.id for u in graph.units}
    names = [u.name for u in case.graph.units]
    sources = {number[names[u]]: beats for u, beats in case.sources.items()}
    sinks = {number[names[u]]: release for u, release in case.sinks.items()}
    return replace(case, graph=graph, sources=sources, sinks=sinks)


def without_ports(campaign: Campaign, case: Case, config: Config, structure: Structure) -> Case:
    """A case on an array with its own streams in memories of slots, as far as they fit; how many
    come to a sink, a run tells.
    """
    beats = {u: len(given.stop) for u, given in case.sources.items()}
    try:
        run = programs.run_model(case, config)
    except (DeadlockError, RunError):  # found again, and told, where the case is judged
        return case
    graph = in_memories(case.graph, structure, beats | arrived(case.graph, run))
    used = sum(u.kind.beats is not None for u in graph.units if u.kind.name in ENDS)
    campaign.counts["streams in memories"] += used
    return replace(case, graph=graph)


def _right(campaign: Campaign, one: _Origin, placed: Case, own: Case) -> _Drawn | None:
    """A program that ends on the model, with the right values; None: it does not. ``own`` is its
    case before it was placed.
    """
    config = one.config
    start = time.perf_counter()
    try:
        run = programs.run_model(placed, config)
        want, meaning, judge = programs.check_values(placed, config, run)
    except DeadlockError:
        if _must_finish(own, config):
            one.fails(campaign, "model", "deadlocks, and finishes on a fabric of its own")
        campaign.counts["deadlocks"] += 1
        return None
    except FormError:
        campaign.counts["without a form on a wire"] += 1
        return None
    except RunError as e:
        one.fails(campaign, "model", str(e))
        return None
    finally:
        campaign.seconds["model"] += time.perf_counter() - start
    campaign.counts["programs"] += 1
    campaign.counts["beats on the model"] += sum(len(c.stop) for c in run.channels)
    return _Drawn(one, placed, run, want, meaning, judge)


def _must_finish(case: Case, config: Config) -> bool:
    """True if a program finishes on any fabric that holds as many beats as its own: it does there,
    and no unit depends on arrivals.
    """
    if any(unit.kind.by_arrival for unit in case.graph.units):
        return False
    try:
        programs.run_model(case, config)
    except DeadlockError:
        return False
    return True


def _on_rtl(campaign: Campaign, drawn: list[_Drawn], array: str, show: Progress) -> None:
    """Run programs one after the other on the RTL of the array, and compare each."""
    from ..tb import api

    start = time.perf_counter()
    config, _ = _machine(array)
    design, built = _simulator(array, show.stage)
    points = [
        Point(x.case.graph, x.case.tensors, x.case.sources, x.case.sinks, expected=x.run)
        for x in drawn
    ]
    runs = api.simulate(
        design,
        points,
        config,
        built=built,
        stage=show.stage,
        progress=lambda k: show.done(f"program {drawn[k].origin.number} on RTL"),
        keep_going=True,
    )
    for one, got in zip(drawn, runs, strict=True):
        message = _differs(campaign, one, got, config)
        if message is not None:
            one.origin.fails(campaign, "rtl", message)
    campaign.seconds["RTL"] += time.perf_counter() - start


def _differs(campaign: Campaign, one: _Drawn, got: Run | RunError, config: Config) -> str | None:
    """Fault of an RTL run: in its beats, or its values; None: none."""
    if isinstance(got, RunError):
        return str(got)
    report = got.extra["report"]
    campaign.counts["beats compared on RTL"] += report.beats
    campaign.counts["cycles on RTL"] += got.cycles
    campaign.counts["programs on RTL"] += 1
    if not report.ok:
        return str(report)
    try:
        programs.compare_values(one.case, config, got, one.want, one.meaning, one.judge)
    except RunError as e:
        return str(e)
    return None
