"""Random programs on an array: drawn within its capabilities, placed, and run on its one build."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..machine.array.netlist import absorbs, with_buffers
from ..machine.array.network import Network
from ..machine.config import Config
from ..machine.deadlock import DeadlockError
from ..machine.errors import LoweringError, PenstockError, RunError
from ..machine.stimulus import Point
from ..machine.unitgraph import UnitGraph
from ..runs.array import array_config
from ..runs.progress import Progress
from ..scheduler.array import map_program
from ..scheduler.array.fit import fits, lacks, payloads_of
from . import programs
from .campaign import Campaign, Failure, keep_failure
from .draw import draw
from .programs import Case

__all__ = ["BATCH", "Tally", "lack", "run_on_array"]

BATCH = 50
"""Programs of a simulator launch."""
MOST_DRAWS = 500
"""Programs drawn one after the other of which none can be run, after which the array is refused."""


@dataclass
class Tally:
    """What was left out, and why.

    Attributes
    ----------
    outside
        Drawn programs that the array cannot be, by the kind and what it lacks: not run, and another
        one is drawn.
    refused
        Programs within the capabilities that found no slot or no track, by message.

    """

    outside: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])


@dataclass
class _Drawn:
    number: int
    case: Case
    """Whose graph is the placed one."""


def lack(graph: UnitGraph, network: Network) -> str | None:
    """What no slot of an array can be for a program, however many of them there were; None: each
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
        slots = {id(s.slot): s.slot for s in network.slots if unit.kind in s.slot.kinds}
        reasons = [lacks(network.variants(s), unit, given[unit.id])[0] for s in slots.values()]
        what = min(reasons, key=len).partition(" is ")[0] if reasons else "no slot"
        return f"{unit.kind}: {what}"
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
    tally: Tally | None = None,
) -> Tally:
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
    tally
        What it adds to, of what is left out.

    """
    show = progress or Progress()
    show.plan(count * (2 if on == "rtl" else 1))
    config = array_config(array)
    tally = Tally() if tally is None else tally
    drawn = _programs(campaign, config, seed, tally, keep)
    made = 0
    while made < count and not campaign.late():
        batch = []
        for one in itertools.islice(drawn, min(BATCH, count - made)):
            batch.append(one)
            show.done(f"program {one.number}")
        made += len(batch)
        if on == "rtl":
            _on_rtl(campaign, batch, config, seed, keep, show)
    return tally


def _programs(
    campaign: Campaign, config: Config, seed: int, tally: Tally, keep: Path | None
) -> Iterator[_Drawn]:
    """Programs that the array holds, each once it is right on the model."""
    assert config.array is not None
    network = Network(config.array)
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
        recipe = draw((seed, 2, number), m.t, m.dtype)
        recipe.run["depths"] = recipe.seed
        recipe.run["stalls"] = recipe.seed + 1 if recipe.seed % 4 else None
        campaign.counts["drawn"] += 1
        try:
            case = programs.prepare(recipe, config)
        except LoweringError as e:
            tally.outside[f"lowering: {e.rule}"] += 1
            continue
        finally:
            campaign.seconds["draw"] += time.perf_counter() - start
        if (what := lack(case.graph, network)) is not None:
            tally.outside[what] += 1
            continue
        start = time.perf_counter()
        try:
            placed = on_array(case, map_program(case.graph, config.array, seed=number).graph)
        except LoweringError as e:
            campaign.counts["refused"] += 1
            tally.refused[e.what.partition(" (")[0]] += 1
            continue
        finally:
            campaign.seconds["map"] += time.perf_counter() - start
        if _right(campaign, placed, config, f"seed {seed} program {number}", keep):
            last = number
            yield _Drawn(number, placed)


def on_array(case: Case, graph: UnitGraph) -> Case:
    """A case whose graph is the placed one; its sources and sinks are found by name."""
    number = {u.name: u.id for u in graph.units}
    names = [u.name for u in case.graph.units]
    sources = {number[names[u]]: beats for u, beats in case.sources.items()}
    sinks = {number[names[u]]: release for u, release in case.sinks.items()}
    return replace(case, graph=graph, sources=sources, sinks=sinks)


def _right(campaign: Campaign, case: Case, config: Config, origin: str, keep: Path | None) -> bool:
    """Whether a program ends on the model, with the right values."""
    start = time.perf_counter()
    try:
        run = programs.run_model(case, config)
        programs.check_values(case, config, run)
    except DeadlockError:  # diagnosed; there is nothing to compare
        campaign.counts["deadlocks"] += 1
        return False
    except RunError as e:
        failure = Failure("model", f"on {config.name}: {e}", case.recipe, config, origin)
        keep_failure(campaign, failure, keep)
        return False
    finally:
        campaign.seconds["model"] += time.perf_counter() - start
    campaign.counts["programs"] += 1
    campaign.counts["beats on the model"] += sum(len(c.stop) for c in run.channels)
    return True


def _on_rtl(
    campaign: Campaign,
    batch: list[_Drawn],
    config: Config,
    seed: int,
    keep: Path | None,
    show: Progress,
) -> None:
    """Run programs one after the other on the RTL of the array, and compare each."""
    from ..tb import api, check
    from ..tb.array import array_design

    start = time.perf_counter()
    design = array_design(config, stage=show.stage)
    built = api.build_design(design, stage=show.stage)
    campaign.seconds["RTL build"] += design.seconds + built.seconds
    points = [Point(x.case.graph, x.case.tensors, x.case.sources, x.case.sinks) for x in batch]
    runs = api.simulate(
        design,
        points,
        config,
        stage=show.stage,
        progress=lambda k: show.done(f"program {batch[k].number} on RTL"),
        keep_going=True,
    )
    for one, got in zip(batch, runs, strict=True):
        message = None
        if isinstance(got, RunError):
            message = str(got)
        else:
            report = check.compare(programs.run_model(one.case, config), got, one.case.graph)
            campaign.counts["beats compared on RTL"] += report.beats
            campaign.counts["cycles on RTL"] += got.cycles
            campaign.counts["programs on RTL"] += 1
            if not report.ok:
                message = str(report)
            else:
                try:
                    programs.check_values(one.case, config, got)
                except RunError as e:
                    message = str(e)
        if message is not None:
            origin = f"seed {seed} program {one.number}"
            told = f"on {config.name}: {message}"
            keep_failure(campaign, Failure("rtl", told, one.case.recipe, config, origin), keep)
    campaign.seconds["RTL"] += time.perf_counter() - start
