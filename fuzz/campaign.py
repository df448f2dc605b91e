"""A fuzzing campaign: draws programs and streams, runs them on model and RTL, shrinks and keeps
what fails, and counts what it has met.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from ..machine.beat import beat_bits
from ..machine.config import Config, from_dict, to_dict
from ..machine.deadlock import DeadlockError
from ..machine.errors import FormError, LoweringError, PenstockError, RunError
from ..machine.stimulus import Point
from ..machine.unitgraph import UnitGraph
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from ..system.output import folder, write_text
from . import fabric, programs
from .coverage import Coverage, wanted
from .draw import VARIANTS, Goal, draw
from .focus import Focus
from .programs import Case, MismatchError
from .recipe import Recipe, vary
from .shrink import shrink

BATCH = 40
"""Structures side by side in one fabric."""
VARIANTS_OF = 8
"""Programs of one structure."""
MOST_PORTS = 60
MOST_SOURCE_BITS = 48 << 10
"""Off-chip ports of the structures of a fabric, and bits of its sources, at which it takes no
further one.
"""
CLEARING = 0.8
"""Share of the variants that lose all elements somewhere, where that is what has been met least."""
SHRINK_MODEL = 300
SHRINK_RTL = 24


@dataclass
class Failure:
    """Failure of a program, with what reproduces it."""

    # ``model`` (values, or an error that no program should raise) or ``rtl`` (it differs from the
    # model)
    backend: str
    message: str  # the first difference, or the error, of the shrunk program
    recipe: Recipe
    config: Config
    origin: str
    path: Path | None = None

    def to_dict(self) -> dict:
        return {
            "backend": self.backend,
            "message": self.message,
            "origin": self.origin,
            "config": to_dict(self.config),
            "recipe": self.recipe.to_dict(),
        }


@dataclass
class StreamFailure:
    """A point of single-unit streams that went wrong: its seed says all."""

    message: str
    seed: int
    backend: str = "streams"
    path: Path | None = None

    @property
    def origin(self) -> str:
        return f"point {self.seed}"

    def to_dict(self) -> dict:
        return {"backend": self.backend, "message": self.message, "seed": self.seed}


@dataclass
class Campaign:
    """Progress of a campaign; its draws begin from program number ``first``, on machines of a form
    (:data:`penstock.machine.forms.FORMS`). ``structures`` has each one's programs with empty parts.
    On an array, ``outside`` counts drawn programs that it cannot be, by the kind and what it lacks;
    ``refused`` those within its capabilities that found no slot or no track, by message.
    """

    coverage: Coverage = field(default_factory=Coverage)
    failures: list[Failure | StreamFailure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter[str])
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    deadline: float | None = None
    first: int = 0
    form: str = "any"
    gaps: list[float] = field(default_factory=list[float])
    structures: Counter[str] = field(default_factory=Counter[str])
    outside: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])

    def merge(self, other: Campaign) -> None:
        """Add what another campaign has done."""
        self.coverage.hits.update(other.coverage.hits)
        self.failures += other.failures
        self.counts.update(other.counts)
        self.gaps += other.gaps
        self.structures.update(other.structures)
        self.outside.update(other.outside)
        self.refused.update(other.refused)
        for what, spent in other.seconds.items():
            self.seconds[what] += spent

    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


def config_of(data: dict) -> Config:
    """A configuration from a stored one."""
    return from_dict({k: v for k, v in data.items() if k != "name"}, data["name"])


def run_programs(
    campaign: Campaign,
    count: int,
    seed: int,
    *,
    on: str = "model",
    batch: int = BATCH,
    keep: Path | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    only: list[str] | None = None,
    variants: int = VARIANTS_OF,
) -> None:
    """Draw and run ``count`` programs.

    Parameters
    ----------
    campaign
        What it adds to.
    count, seed
        Number of programs; their seed.
    on
        ``model``: values against NumPy. ``rtl``: also every beat of every program against the
        model's.
    batch
        Programs to a simulator build.
    progress
        Told of each program that is done.
    keep
        Folder for failures, as files that :func:`.replay.replay` takes.
    variants
        Programs of one structure, at most: they differ in the sizes of dynamic dimensions, empty
        places, values and waits, and share hardware.
    only
        Names of :data:`penstock.fuzz.draw.VARIANTS` to build programs around, in turn (default:
        all).
    """
    show = progress_of(progress)
    show.plan(count * (2 if on == "rtl" else 1))
    drawn = batches(
        campaign, count, seed, batch=batch, keep=keep, only=only, variants=variants, tell=show.done
    )
    for index, (config, structures) in enumerate(drawn):
        if on == "rtl" and structures:
            _on_rtl(campaign, structures, config, f"seed {seed} batch {index}", keep, show)


def batches(
    campaign: Campaign,
    count: int,
    seed: int,
    *,
    batch: int = BATCH,
    keep: Path | None = None,
    only: list[str] | None = None,
    variants: int = VARIANTS_OF,
    tell: Callable[[str], None] = lambda _name: None,
    edge: int | None = None,
) -> Iterator[tuple[Config, list[list[Case]]]]:
    """Draw programs and run them on the model; machine by machine, the structures that go side by
    side, each with its variants.

    Parameters
    ----------
    campaign, count, seed, batch, keep, only, variants
        As of :func:`run_programs`.
    tell
        Called with the name of each program.
    edge
        Edge of the machines' tiles, where it is not drawn.
    """
    focus = Focus(campaign.coverage, only, 1) if only else Focus(campaign.coverage, list(VARIANTS))
    made = 0
    drawn = campaign.first
    for config in _machines(seed, campaign, edge):
        if made >= count or campaign.late():
            return
        structures: list[list[Case]] = []
        while made < count and len(structures) < batch and _room(v[0].graph for v in structures):
            aim = focus.next()
            case = _one(campaign, config, (seed, 2, drawn), aim.goals, keep)
            drawn += 1
            made += 1
            tell(f"program {drawn}")
            if case is None:
                continue
            structures.append([case])
            rng = np.random.default_rng((seed, 3, drawn))
            origin = f"seed {seed} program {drawn}, a variant"
            for _ in range(3 * (variants - 1)):
                if len(structures[-1]) == variants or made == count:
                    break
                other = _variant(campaign, case, config, rng, origin, keep, aim.clear)
                if other is not None:
                    structures[-1].append(other)
                    made += 1
                    tell(f"program {drawn}, a variant")
        yield config, structures


def _machines(seed: int, campaign: Campaign, edge: int | None) -> Iterator[Config]:
    """The machines of a seed, from the campaign's first on."""
    for index in itertools.count(campaign.first):
        config = programs.machine((seed, 1, index), campaign.form)
        if edge in (None, config.machine.t):
            yield config


def _room(graphs: Iterable[UnitGraph]) -> bool:
    """True if one more program has room beside these."""
    ports = source_bits = 0
    for g in graphs:
        ports += len(g.ports)
        source_bits += sum(
            beat_bits(c.payload) for c in g.channels if g.units[c.src[0]].kind.name == "source"
        )
    return ports < MOST_PORTS and source_bits < MOST_SOURCE_BITS


def _one(
    campaign: Campaign,
    config: Config,
    seed: tuple[int, ...],
    goals: tuple[Goal, ...],
    keep: Path | None,
) -> Case | None:
    """Draw one program and run it on the model; None if it failed."""
    m = config.machine
    for attempt in range(20):
        start = time.perf_counter()
        recipe = draw((*seed, attempt), m.t, m.dtype, goals)
        recipe.run = {
            "depths": recipe.seed,
            "depth": 0,
            "stalls": recipe.seed + 1 if recipe.seed % 4 else None,
        }
        campaign.seconds["draw"] += time.perf_counter() - start
        try:
            case = programs.prepare(recipe, config)
        except LoweringError:  # this machine has no form for it, and says so
            campaign.counts["refused"] += 1
            continue
        start = time.perf_counter()
        try:
            case = _run(campaign, case, config)
            if case is None:
                continue
            campaign.counts["programs"] += 1
            return case
        except DeadlockError:  # diagnosed; there is nothing to compare
            campaign.counts["deadlocks"] += 1
            continue
        except RunError as e:
            _fail(campaign, "model", str(e), recipe, config, f"seed {seed}", keep)
            return None
        finally:
            campaign.seconds["model"] += time.perf_counter() - start
    raise PenstockError(f"no program around {goals[0]} can be lowered and run", f"seed {seed}")


def _run(campaign: Campaign, case: Case, config: Config) -> Case | None:
    """Run a program on the model and check its values; where its channels are too shallow to
    finish, with the depth that the diagnosis names. None where the judge has no answer.
    """
    try:
        run = programs.run_model(case, config)
    except DeadlockError as e:
        depth = e.deadlock.uniform
        if depth is None or depth > programs.MOST_DEPTH:
            raise
        campaign.counts["freed by the named depth"] += 1
        recipe = case.recipe.copy()
        recipe.run["depth"] = depth
        case = programs.prepare(recipe, config)
        try:
            run = programs.run_model(case, config)
        except DeadlockError:
            told = f"does not finish with channels of {depth}, which its diagnosis names"
            raise RunError(told) from None
    try:
        _, ev, judge = programs.check_values(case, config, run)
    except FormError:
        campaign.counts["without a form on a wire"] += 1
        return None
    hollow = judge is not None and campaign.coverage.add_empty_parts(judge)
    campaign.structures[case.built.shape()] += hollow
    campaign.gaps.append(programs.check_bound(case, config, run, ev))
    m = config.machine
    campaign.coverage.add_program(case.built.graph, ev.streams, m.t, m.dtype)
    campaign.coverage.add_run(case.graph, run)
    campaign.counts["beats on the model"] += sum(len(c.stop) for c in run.channels)
    return case


def _variant(
    campaign: Campaign,
    case: Case,
    config: Config,
    rng: np.random.Generator,
    origin: str,
    keep: Path | None,
    clear: tuple[int, ...] = (),
) -> Case | None:
    """A program of the same structure with other sizes, values and waits (``clear``: depths, as of
    :func:`vary`); None where the draw does not suit.
    """
    recipe = vary(case.recipe, rng, clear if rng.random() < CLEARING else ())
    start = time.perf_counter()
    try:
        other = programs.prepare(recipe, config)
        if other.graph.structure().to_dict() != case.graph.structure().to_dict():
            return None
        programs.evaluation(
            other, config
        )  # where sizes that depend on each other no longer agree, it says so
    except PenstockError:
        return None
    try:
        out = _run(campaign, other, config)
        campaign.counts["programs"] += out is not None
        return out if out is not None and out.recipe.run["depth"] == recipe.run["depth"] else None
    except DeadlockError:
        campaign.counts["deadlocks"] += 1
    except RunError as e:
        _fail(campaign, "model", str(e), recipe, config, origin, keep)
    finally:
        campaign.seconds["model"] += time.perf_counter() - start
    return None


def _on_rtl(
    campaign: Campaign,
    structures: list[list[Case]],
    config: Config,
    origin: str,
    keep: Path | None,
    show: Progress,
) -> None:
    """Run programs side by side on model and RTL, and compare."""
    start = time.perf_counter()
    rounds = rounds_of(structures)
    found = compare(campaign, rounds, config, show)
    campaign.seconds["RTL"] += time.perf_counter() - start
    campaign.counts["RTL builds"] += 1
    campaign.counts["programs on RTL"] += sum(map(len, structures))
    for v in structures:
        for _ in v:
            show.done("RTL")
    told = set()
    for (k, i), message in found.items():
        if i >= 0 and i not in told:
            told.add(i)
            _fail(
                campaign, "rtl", message, rounds[k][i].recipe, config, f"{origin} program {i}", keep
            )
    if found and not told:  # of nobody in particular: one after the other
        (k, _), message = next(iter(found.items()))
        for case in rounds[k]:
            one = compare(campaign, [[case]], config, show)
            if one:
                _fail(campaign, "rtl", next(iter(one.values())), case.recipe, config, origin, keep)
                return
        raise MismatchError(message, origin)


def compare(
    campaign: Campaign, rounds: list[list[Case]], config: Config, show: Progress | None = None
) -> dict[tuple[int, int], str]:
    """Differences between model and RTL by (round, program); each round runs all structures side by
    side once. Program -1: none in particular.
    """
    from ..tb.api import with_model

    points, parts = side_by_side(rounds)
    runs = fabric.simulate(
        [with_model(p, config) for p in points], config, show.stage if show else None
    )
    out: dict[tuple[int, int], str] = {}
    for k, (cases, got) in enumerate(zip(rounds, runs, strict=True)):
        if isinstance(got, RunError):
            out[k, _owner(str(got))] = str(got)
            continue
        if k == 0:
            campaign.seconds["RTL build"] += got.extra["export_s"] + got.extra["build_s"]
        report = got.extra["report"]
        campaign.counts["beats compared on RTL"] += report.beats
        campaign.counts["cycles on RTL"] += got.cycles
        for d in report.differences:
            out.setdefault((k, _owner(d.where)), str(d))
        if report.observed != report.total and not report.differences:
            raise MismatchError(f"{report.observed} of {report.total} channels observed", "RTL")
        if not report.differences:
            for i, (part, case) in enumerate(zip(parts, cases, strict=True)):
                part = replace(part, graph=case.graph)
                try:
                    programs.check_values(case, config, fabric.view(part, got))
                except MismatchError as e:
                    out[k, i] = str(e)
    return out


def rounds_of(structures: list[list[Case]]) -> list[list[Case]]:
    """The programs of each run: of every structure one of its variants."""
    return [[v[min(k, len(v) - 1)] for v in structures] for k in range(max(map(len, structures)))]


def side_by_side(rounds: list[list[Case]]) -> tuple[list[Point], list[fabric.Part]]:
    """The point of each round, and where each program is in it."""
    points = []
    parts = []
    for cases in rounds:
        graph, parts = fabric.side_by_side([c.graph for c in cases], "fuzz")
        both = list(zip(parts, cases, strict=True))
        tensors = {p.prefix + n: a for p, c in both for n, a in c.tensors.items()}
        sources = {u + p.unit: s for p, c in both for u, s in c.sources.items()}
        sinks = {u + p.unit: s for p, c in both for u, s in c.sinks.items()}
        points.append(Point(graph, tensors, sources, sinks))
    return points, parts


def _owner(text: str) -> int:
    """The program that a name belongs to."""
    found = re.search(r"\bp(\d+)_", text)
    return int(found[1]) if found else -1


def fails_on_model(recipe: Recipe, config: Config) -> str | None:
    """Fault of a program's run on the model, or None."""
    try:
        _run(Campaign(), programs.prepare(recipe, config), config)
    except DeadlockError:
        return None
    except RunError as e:
        return str(e)
    return None


def fails_on_rtl(recipe: Recipe, config: Config) -> str | None:
    """Difference of a program's run on RTL from the model's, or None."""
    case = _run(Campaign(), programs.prepare(recipe, config), config)
    if case is None:
        return None
    return next(iter(compare(Campaign(), [[case]], config).values()), None)


def kind_of(message: str) -> str:
    """Kind of a failure: the words of its message, without names, numbers and values, so that a
    smaller program that fails in another way is distinguished.
    """
    told = re.sub(r"\([^()]*\)", " ", message.splitlines()[0].split(": model ")[0])
    return " ".join(w for w in re.findall(r"[^\s:,;]+", told) if w.isalpha())


def _fail(
    campaign: Campaign,
    backend: str,
    message: str,
    recipe: Recipe,
    config: Config,
    origin: str,
    keep: Path | None,
) -> None:
    """Shrink a failure and keep it."""
    m = config.machine
    told: dict[str, str | None] = {recipe.key(): message}
    small = recipe

    def again(r: Recipe) -> bool:
        nonlocal small
        text = fails_on_model(r, config) if backend == "model" else fails_on_rtl(r, config)
        told[r.key()] = text
        same = text is not None and kind_of(text) == kind_of(message)
        small = r if same else small
        return same

    try:
        small = shrink(
            recipe, again, m.t, m.dtype, SHRINK_MODEL if backend == "model" else SHRINK_RTL
        )
    finally:  # also where the time is up before it is as small as can be
        keep_failure(
            campaign, Failure(backend, told[small.key()] or message, small, config, origin), keep
        )


def keep_failure(campaign: Campaign, failure: Failure, keep: Path | None) -> None:
    """Note a failure, and store it."""
    campaign.failures.append(failure)
    if keep is not None:
        folder(keep)
        failure.path = (
            keep / f"fuzz_{failure.backend}_{len(campaign.failures)}_{failure.recipe.seed}.json"
        )
        write_text(failure.path, json.dumps(failure.to_dict(), indent=1) + "\n")


def report(campaign: Campaign, least: int) -> dict:
    """Outcome of a campaign, as plain data: counts, seconds, failures, hits of every goal, and the
    goals with fewer than ``least``.
    """
    return {
        "counts": {
            **campaign.counts,
            "structures": len(campaign.structures),
            "structures with empty parts": sum(map(bool, campaign.structures.values())),
            "programs with empty parts": campaign.structures.total(),
        },
        "seconds": {k: round(v, 1) for k, v in campaign.seconds.items()},
        "cycles over bound": {"median": median(campaign.gaps)} if campaign.gaps else {},
        "failures": [f.to_dict() for f in campaign.failures],
        "hits": [
            {"group": g, "what": w, "hits": campaign.coverage.hits[g, w]} for g, w in wanted()
        ],
        "least": least,
        "below": [[g, w, n] for g, w, n in campaign.coverage.missing(wanted(), least)],
    }
