"""Runs drawn programs: alone on the model, or many side by side in one fabric on model and RTL;
checks values against NumPy and beats against each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from .. import model
from ..frontend.analysis.bounds import Bounds, Known, bounds
from ..frontend.analysis.flows import Flow
from ..frontend.analysis.metrics import analyse, substitute
from ..frontend.analysis.onchip import scratchpad_pages
from ..frontend.lowering import lower
from ..frontend.meaning.evaluator import Evaluator
from ..machine.config import Config, Dram, Machine, Stepsim, check
from ..machine.errors import FormError, RunError
from ..machine.forms import in_form
from ..machine.spilling import without
from ..machine.trace import Run, SourceBeats
from ..machine.unitgraph import UnitGraph
from ..runs import boundary
from ..runs.expected import expected
from ..runs.judged import differences, judge_of
from ..testing.judge import Judge
from ..testing.patterns import PATTERNS, releases
from .recipe import Built, Recipe, build

SINK_RELEASES = 200
MOST_DEPTH = 256
SPILLING = 0.25  # share of the machines whose buffers spill


class MismatchError(RunError):
    """Two sides that have to agree do not."""


@dataclass
class Case:
    """A program ready to run."""

    # recipe, built: what it is made of
    recipe: Recipe
    built: Built
    graph: UnitGraph  # its units, with the channel depths of this run
    # sources, sinks: beats of each source and release cycles of each sink, by unit id
    sources: dict[int, SourceBeats]
    sinks: dict[int, np.ndarray]

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        return self.built.tensors


def machine(seed: tuple[int, ...], form: str = "any") -> Config:
    """A random small machine: tiles of 2 x 2 or 4 x 4, lanes, memory
    and scratchpad of any kind, that spills or not; in one of
    :data:`penstock.machine.forms.FORMS`.
    """
    rng = np.random.default_rng(seed)

    def one_of(*options):
        return options[int(rng.integers(len(options)))]

    t = one_of(2, 2, 2, 2, 4)
    dram = Dram(
        kind="pipe",
        channels=one_of(1, 2, 4),
        interval=int(rng.integers(1, 4)),
        latency=int(rng.integers(1, 9)),
        start_up=int(rng.integers(0, 20)),
    )
    if rng.random() < 0.3:
        dram = Dram(kind="ideal", latency=int(rng.integers(1, 40)))
    lanes = {"default": one_of(1, t, t * t), "silu": one_of(1, t), "accum": one_of(1, t, t * t)}
    m = Machine(
        t=t,
        dtype=one_of("fp32", "bf16"),
        channel_depth=2,
        rows_per_cycle=one_of(1, t),
        lanes=lanes,
        accum_tiles=32,
        pages=one_of(24, 40, 64),
        frames=one_of(1, 2, 4),
        buffers=one_of(2, 0, 4),
        sized=one_of(False, False, True),
        port_lanes=one_of(1, 2),
        load_lines=one_of(8, 16),
        arbitration=one_of("need", "round_robin"),
        dram=dram,
        pipelines=one_of("short", "short", "short", "deep"),
    )
    lean = {"address_bits": one_of(32, 24), "size_bits": one_of(20, 14)}
    m = replace(m, **lean, dram=replace(dram, line_bytes=one_of(64, 64, 32, 4 * t)))
    if rng.random() < SPILLING:
        m = replace(m, pages=one_of(2, 3, 8), spill=t * 64 * one_of(4, 16, 64))
    return check(Config("fuzz", in_form(m, form), Stepsim()))


def prepare(recipe: Recipe, config: Config, name: str = "program") -> Case:
    """Build, lower and equip a recipe; PenstockError where front end or lowering refuse it."""
    built = build(recipe, config.machine.t, config.machine.dtype, name=name)
    graph = lower(built.graph, config)
    run = recipe.run
    rng = np.random.default_rng(run["depths"]) if run["depths"] is not None else None
    channels = []
    for c in graph.channels:
        drawn = int(rng.choice([1, 2, 2, 3, 5])) if rng is not None else 2
        channels.append(
            replace(
                c,
                depth=max(
                    drawn, run["depth"], c.depth if c.depth > config.machine.channel_depth else 0
                ),
            )
        )
    graph = replace(graph, channels=tuple(channels))
    sources = boundary.source_beats(built.graph, graph, built.given)
    sinks = {u.id: np.zeros(0, np.int64) for u in graph.units if u.kind.name == "sink"}
    if run["stalls"] is not None:
        rng = np.random.default_rng(run["stalls"])
        for u, beats in sources.items():
            sources[u] = replace(
                beats,
                release=releases(
                    len(beats.stop),
                    PATTERNS[int(rng.integers(len(PATTERNS)))],
                    int(rng.integers(1 << 30)),
                ),
            )
        for u in sinks:
            sinks[u] = releases(
                SINK_RELEASES,
                PATTERNS[int(rng.integers(len(PATTERNS)))],
                int(rng.integers(1 << 30)),
            )
    return Case(recipe, built, graph, sources, sinks)


def run_model(case: Case, config: Config) -> Run:
    """The model's run of one program, with traces."""
    return model.run(
        case.graph, config, case.tensors, trace=True, sources=case.sources, sinks=case.sinks
    )


def evaluation(
    case: Case, config: Config, order: dict | None = None
) -> tuple[dict[str, np.ndarray], Evaluator]:
    """A program's NumPy meaning: output tensors, and the evaluator with what its streams carried;
    ``order``: arrivals of a run.
    """
    return expected(case.built.graph, case.tensors, config.machine.t, case.built.given, order)


def check_values(case: Case, config: Config, run: Run) -> tuple[dict, Evaluator, Judge | None]:
    """Compare a run with an evaluation of its program and with the judge, as
    :func:`compare_values` does, and return both with the tensors; FormError where the evaluation
    gives lists without a form. The judge, which refuses the same programs, is None where it has no
    rule.
    """
    want, ev = evaluation(case, config, boundary.arrivals(case.graph, run))
    try:
        judge = judge_of(case.built.graph, case.graph, run, case.tensors, case.built.given)
    except FormError as e:
        raise MismatchError(f"the NumPy meaning takes lists without a form: {e}", "judge") from e
    compare_values(case, config, run, want, ev, judge)
    return want, ev, judge


def compare_values(
    case: Case,
    config: Config,
    run: Run,
    want: dict[str, np.ndarray],
    ev: Evaluator,
    judge: Judge | None,
) -> None:
    """Compare a run's tensors and sinks, bit for bit, with the program's NumPy meaning, both with
    the judge of nested lists, and its pages with their bound; MismatchError where they differ, or
    are more.
    """
    for name, got in (run.outputs or {}).items():
        if got.dtype != want[name].dtype or got.tobytes() != want[name].tobytes():
            raise MismatchError(f"tensor {name} differs from the NumPy meaning", f"{run.backend}")
    wrong = boundary.sinks_at_fault(case.built.graph, case.graph, run, ev.sinks)
    if wrong:
        raise MismatchError("; ".join(wrong.values()), f"{run.backend}")
    check_pages(case, config, run, ev)
    if judge and (told := differences(judge, case.graph, run, ev)):
        raise MismatchError(told[0], "judge")


def check_bound(case: Case, config: Config, run: Run, ev: Evaluator) -> float:
    """Compare a run's cycles with their lower bound, for the sizes of an evaluation; their ratio,
    or a MismatchError where the run is below.
    """
    graph = case.built.graph
    streams = len(without(case.graph).channels)  # those to and from spilled tiles have no Done
    for i, (shape, c) in enumerate(list(zip(run.shapes, run.channels, strict=True))[:streams]):
        if Flow.ran(shape) != Flow.seen(c.stop, c.data).summed():
            raise MismatchError(f"channel {i} is not of shape {shape}", f"{run.backend}")
    known = Known(
        {i: Flow.seen(c.stop, c.data) for i, c in enumerate(run.channels)},
        {**{u: beats.release for u, beats in case.sources.items()}, **case.sinks},
    )
    found = bounds(graph, analyse(graph), case.graph, config, known)
    found = found.subs(ev.sizes.symbols, ev.sizes.shares(graph))
    check_lines(found, case.graph, run)
    for unit, pages in found.least_pages().items():
        if run.peak_pages[unit] < pages:
            raise MismatchError(
                f"{run.peak_pages[unit]} pages were in use, below the bound of {pages}",
                f"{run.backend}, unit {case.graph.units[unit].name}",
            )
    least = found.tightest()
    if least.value is not None and run.cycles < least.value:
        raise MismatchError(
            f"{run.cycles} cycles, below the bound of {least.value} by {least.constraint}",
            f"{run.backend}",
        )
    return run.cycles / (least.value or 1)


def check_lines(found: Bounds, graph: UnitGraph, run: Run) -> None:
    """Compare the lines that each operator moved with those that its bound is of."""
    moved: Counter[str] = Counter()
    for unit, port in zip(graph.ports, run.ports, strict=True):
        moved[graph.units[unit].node] += len(port.accept)
    for name, lines in found.claimed().items():
        if run.ports and moved[name] < lines:
            raise MismatchError(
                f"{moved[name]} lines, below the bound of {lines}",
                f"{run.backend}, operator {name}",
            )


def check_pages(case: Case, config: Config, run: Run, ev: Evaluator) -> None:
    """Compare the peak pages of every scratchpad with the on-chip rule `machine`, for the sizes of
    an evaluation; MismatchError where they are more.
    """
    for unit, most in scratchpad_pages(case.graph, config.machine).items():
        most = substitute(most, {**ev.sizes.symbols, **ev.sizes.largest})
        if most.is_number and run.peak_pages[unit] > int(most):
            raise MismatchError(
                f"{run.peak_pages[unit]} pages were in use, at most {most} by the on-chip rule "
                "`machine`",
                f"{run.backend}, unit {case.graph.units[unit].name}",
            )
