"""The anytime solver: a valid schedule at once, then better ones until the time is up or nothing is left to try."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.machine import interrupts

from ..evaluate import Evaluation, evaluate
from ..meter import Meter, tile_grid
from ..problem import Problem
from ..readings import Readings
from ..solution import Schedule, Subgraph
from .baselines import chain_fusion, one_op_per_subgraph

if TYPE_CHECKING:
    from .cover import Cut
    from .groups import Candidate, Key, Pool

__all__ = ["Progress", "Result", "solve"]

MOST_SETS = 60_000
"""Sets of operations kept in the pool; beyond that only windows of the graph are searched deeper."""
MOST_RETAINED = 3
"""Tensors retained at one boundary, at most."""
STAGES = ((2, 1.5, 1), (3, 1.5, 1), (5, 1.25, 2), (8, 1.1, 2), (12, 1.05, MOST_RETAINED))
"""Stages: sets up to so many operations, growth slack, tensors retained at one boundary."""
WIDENINGS = (1.0, 1.5, 4.0, math.inf)
"""Factors on the growth slack; the stages are run again with the next one when time is left."""
COVER_SHARE = 0.4
"""Share of the time left that the cover of the whole graph may take; windows are the way on if that is not enough."""
WINDOW_OPS = 20
"""Operations in a window of the local search."""
WINDOW_SECONDS = 3.0
"""Time limit of one window's cover."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One improvement: seconds since the start, latency and proven bound (units of time)."""

    seconds: float
    latency: float
    bound: float
    stage: str

    @property
    def gap(self) -> float:
        """(latency - bound) / latency."""
        return (self.latency - self.bound) / self.latency if self.latency else 0.0


@dataclass
class Result:
    """A schedule and how it was found.

    `bound` holds for every schedule; `exact_cover` says that the schedule is the best over all candidates of the
    pool, `candidates` and `searches` how many there were and how many distinct tilings were searched.
    """

    schedule: Schedule
    evaluation: Evaluation
    bound: float
    history: list[Progress] = field(default_factory=list)
    exact_cover: bool = False
    candidates: int = 0
    searches: int = 0
    interrupted: bool = False

    @property
    def latency(self) -> float:
        return self.evaluation.latency

    @property
    def gap(self) -> float:
        """(latency - bound) / latency."""
        return (self.latency - self.bound) / self.latency if self.latency else 0.0


def solve(problem: Problem, *, seconds: float = 10.0, readings: Readings = Readings(), seed: int = 0,
          jobs: int = 1, started: float | None = None, on_progress: Callable[[Progress, Schedule], None] | None = None,
          on_stage: Callable[[Progress], None] | None = None) -> Result:
    """The best schedule found in `seconds`.

    Parameters
    ----------
    seconds : time budget, counted from `started` (time.monotonic(); default: now)
    readings : the readings to schedule for
    seed : of the local search's choice of windows
    jobs : threads that search tilings (compiled code, outside the interpreter lock)
    on_progress : called with every better schedule
    on_stage : called when a stage begins, with the state so far and the stage's name
    """
    started = time.monotonic() if started is None else started
    run = _Run(problem, readings, started, seconds, on_progress, on_stage)
    with ThreadPoolExecutor(max(1, jobs)) as threads:
        run.threads = threads if jobs > 1 else None
        try:
            run.first()
            run.improve(random.Random(seed))
        except KeyboardInterrupt:
            interrupts.taken()
            if not run.schedule.subgraphs:
                raise
            run.interrupted = True
    return run.result()


class _Run:
    def __init__(self, problem: Problem, readings: Readings, started: float, seconds: float,
                 on_progress: Callable[[Progress, Schedule], None] | None, on_stage: Callable[[Progress], None] | None):
        self.problem, self.readings = problem, readings
        self.started, self.deadline = started, started + seconds
        self.on_progress = on_progress
        self.on_stage = on_stage
        self.schedule = Schedule(())
        self.latency = math.inf
        self.bound = 0.0
        self.history: list[Progress] = []
        self.threads: Executor | None = None
        self.exact = self.interrupted = False
        self.pool: Pool | None = None
        self.covers = 0
        self.cuts: list[Cut] = []
        self.chosen: tuple[Candidate, ...] = ()
        self.entries: dict[Key, Subgraph] = {}

    def expired(self) -> bool:
        return time.monotonic() >= self.deadline

    def first(self) -> None:
        """One operation per subgraph, then fused chains; needs no compiled code."""
        self._take(one_op_per_subgraph(self.problem, self.readings), "first")
        if not self.expired():
            self._take(chain_fusion(self.problem, self.readings), "chains")

    def _stage(self, what: str) -> None:
        if self.on_stage is not None:
            self.on_stage(Progress(time.monotonic() - self.started, self.latency, self.bound, what))

    def _take(self, schedule: Schedule, stage: str) -> bool:
        latency = math.fsum(s.latency for s in schedule.subgraphs)
        if latency >= self.latency * (1 - 1e-12):
            return False
        self.schedule, self.latency = schedule, latency
        progress = Progress(time.monotonic() - self.started, latency, self.bound, stage)
        self.history.append(progress)
        if self.on_progress is not None:
            self.on_progress(progress, schedule)
        return True

    # -- improvement ------------------------------------------------------------------------------------------

    def improve(self, chance: random.Random) -> None:
        """Larger and larger sets of operations, a cover after each stage; windows where the sets get too many."""
        if self.expired():
            return
        from ..bound import lower_bound
        from .groups import Pool
        from .tiles import TileSearch

        self.bound = lower_bound(self.problem, self.readings)
        if self.done():
            return
        self._stage("tilings; the first run compiles their search")
        self.pool = pool = Pool(self.problem, self.readings, TileSearch(self.problem, self.readings))
        if not self._add_all({1 << op for op in range(len(self.problem.ops))}, self.deadline):
            return
        self._retile()
        for widening in WIDENINGS:
            for most_ops, slack, retained in STAGES:
                self._stage(f"groups of up to {most_ops}")
                half = time.monotonic() + 0.5 * (self.deadline - time.monotonic())
                before = len(pool.candidates)
                complete = all(self._add_all(pool.grow(size, slack * widening), half) for size in range(1, most_ops))
                complete = complete and self._add_retention(pool.plans, retained, half)
                if len(pool.candidates) > before or not self.covers:
                    self._cover(pool.candidates, f"groups of up to {most_ops}", time.monotonic() + COVER_SHARE * (self.deadline - time.monotonic()))
                if self.expired() or self.done():
                    return
                if not complete or not self.exact:
                    return self._windows(chance)
        self._windows(chance)

    def _retile(self) -> None:
        """The best tilings for the subgraphs of the schedule so far (which retains nothing)."""
        masks = [sum(1 << op for op in entry.ops) for entry in self.schedule.subgraphs]
        chosen = [c for mask in masks if (c := self.pool.add(mask)) is not None]
        if len(chosen) == len(masks):
            self.chosen = tuple(chosen)
            self._take(Schedule(tuple(self._entry(c) for c in chosen)), "tilings")

    def done(self) -> bool:
        """Whether the bound is met."""
        return self.latency <= self.bound * (1 + 1e-9)

    def _add_all(self, masks: set[int], deadline: float) -> bool:
        """Add sets to the pool; False if there was no time, or no room, for all."""
        pool = self.pool

        def late() -> bool:
            return time.monotonic() >= deadline or len(pool.plain) > MOST_SETS

        if self.threads is not None:
            plans = (None if late() else pool.plan(m) for m in sorted(masks))
            pool.tiles.prefetch(((p, (), ()) for p in plans if p is not None), self.threads, late)
        for mask in sorted(masks):
            if late():
                return False
            pool.add(mask)
        return True

    def _add_retention(self, masks: Iterable[int], most: int, deadline: float) -> bool:
        """Add the variants of these sets that hand over tensors; False if there was no time for all."""
        pool = self.pool

        def late() -> bool:
            return time.monotonic() >= deadline

        variants = list(pool.retention(masks, most, late))
        if self.threads is not None:
            pool.tiles.prefetch(((pool.plans[m], into, out) for m, into, out in variants if not late()), self.threads, late)
        for variant in variants:
            if late():
                return False
            pool.add_variant(*variant)
        return not late()

    def _cover(self, candidates: list[Candidate], stage: str, deadline: float) -> bool:
        """Choose among the candidates; whether that gave a better schedule."""
        from .cover import solve_cover

        self.covers += 1
        incumbent = math.fsum(c.latency for c in self.chosen) if self.chosen else self.latency
        cover = solve_cover(self.problem, candidates, deadline, incumbent, self.cuts)
        self.exact = cover is not None and cover.optimal
        if cover is None or not cover.chosen:
            return False
        self.chosen = cover.chosen
        self._take(Schedule(tuple(self._entry(c) for c in cover.chosen)), stage)
        return True

    def _entry(self, candidate: Candidate) -> Subgraph:
        """The schedule entry of a candidate, with its latency from the exact evaluator; raster order if as good."""
        from .tiles import traversal

        key = candidate.key
        if key not in self.entries:
            plan, tiling = candidate.plan, candidate.tiling
            meter = Meter(self.problem, plan, self.readings, tiling.granularity, candidate.resident, candidate.retain)
            order = traversal(tiling.route, *tile_grid(plan, tiling.granularity))
            latency = meter.measure(None).latency
            if order is not None:
                snake = meter.measure(order).latency
                if snake < latency * (1 - 1e-12):
                    latency = snake
                else:
                    order = None
            self.entries[key] = Subgraph(plan.ops, tiling.granularity, candidate.retain, order, latency)
        return self.entries[key]

    def _windows(self, chance: random.Random) -> None:
        """Local search: choose anew in windows of the graph, and grow larger sets there once that gains nothing."""
        pool, exact, known = self.pool, self.exact, len(self.pool.candidates)
        for most_ops, slack, retained in STAGES:
            self._stage(f"windows, groups of up to {most_ops}")
            idle, seen = 0, set()
            while idle < 2 * len(self.chosen) and not self.done():
                if self.expired():
                    return
                window = self._window(chance)
                idle += 1
                if window in seen:
                    continue
                seen.add(window)
                for size in range(1, most_ops):
                    self._add_all(pool.grow(size, slack, window), self.deadline)
                self._add_retention([m for m in pool.plain if m & ~window == 0], retained, self.deadline)
                inside = [c for c in pool.candidates if c.mask & ~window == 0]
                keys = {c.key for c in inside}
                inside += [c for c in self.chosen if c.key not in keys]
                if self._cover(inside, f"window, groups of up to {most_ops}", min(self.deadline, time.monotonic() + WINDOW_SECONDS)):
                    idle = 0
                    seen.clear()
        self.exact = exact and len(pool.candidates) == known

    def _window(self, chance: random.Random) -> int:
        """Operations of some neighbouring chosen subgraphs."""
        window = chance.choice(self.chosen).mask
        while window.bit_count() < min(WINDOW_OPS, len(self.problem.ops)):
            near = self._joined(window) & ~window
            if not near:
                break
            pick = chance.choice(self.pool.members(near))
            window |= next(c.mask for c in self.chosen if c.mask >> pick & 1)
        return window

    def _joined(self, mask: int) -> int:
        problem, near = self.problem, 0
        for op in self.pool.members(mask):
            for user in problem.consumers[problem.ops[op].output]:
                near |= 1 << user
            for tensor in problem.ops[op].inputs:
                if problem.producer[tensor] is not None:
                    near |= 1 << problem.producer[tensor]
        return near

    def result(self) -> Result:
        evaluation = evaluate(self.problem, self.schedule, self.readings)
        if not self.bound:
            from ..bound import lower_bound

            self.bound = lower_bound(self.problem, self.readings)
        candidates, searches = (len(self.pool.candidates), self.pool.tiles.searches) if self.pool else (0, 0)
        return Result(self.schedule, evaluation, self.bound, self.history, self.exact, candidates, searches, self.interrupted)
