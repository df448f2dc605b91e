"""The anytime solver: a valid schedule at once, then better ones until the time is up or nothing is
left to try.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from ....machine.errors import PenstockError
from ....system import interrupts
from ..demand import ScheduleError, make_plan
from ..evaluate import evaluate
from ..floor import floor
from ..meter import Meter, tile_grid
from ..problem import Problem
from ..readings import DEFAULT, Readings
from ..solution import Schedule, Subgraph
from .baselines import chain_fusion, one_op_per_subgraph
from .result import Progress, Result

if TYPE_CHECKING:
    from .cover import Cut
    from .groups import Candidate, Key, Pool
    from .tiles import Tiling

GLOBAL_OPS = 160
"""Operations up to which sets are grown, and chosen among, over the whole graph at once."""
TINY = 8
"""Operations up to which plain Python does that."""
SMALL = 24
"""Operations up to which the search of the whole graph is thorough; windows add nothing."""
MOST_RETAINED = 3
"""Tensors retained at one boundary, at most."""
STAGES = ((2, 1.5, 1), (3, 1.5, 1), (5, 1.25, 2), (8, 1.1, 2), (12, 1.05, MOST_RETAINED))
"""Stages over the whole graph: sets up to so many operations, growth slack, tensors retained at one
boundary.
"""
WIDENINGS = (1.0, 1.5, 4.0, math.inf)
"""Factors on the growth slack; the stages are run again with the next one when time is left."""
COVER_SHARE = 0.4
"""Share of the time left for the cover of the whole graph; windows follow if it is too little."""
LEAST_GAIN = 0.008
"""Relative gain of a sweep of windows below which the next stage begins."""
IDLE_SWEEPS = 4
"""Sweeps of the last stage in a row that gain nothing, after which the search ends."""
LOADING = 0.03
"""Seconds of CPU time that linking the compiled search takes."""
LOADING_COVER = 0.05
"""Seconds of CPU time that loading the cover's solver takes."""
LOADING_SHARE = 2.0
"""Share of that time that has to be left for it."""
MOST_SLOWNESS = 8.0
"""Seconds for a second of CPU time, at most, that are reckoned with."""
MOST_ORDERED = 1 << 20
"""Tiles whose order is written down in one schedule; other subgraphs keep the raster order."""
MOST_STRAIGHTENED = 300
"""Subgraphs of the largest schedule whose orders are compared with the raster order at the end."""
STRICT_SHARE = 0.5
"""Share of the time left for the search under the stricter readings, before the laxer ones."""
STRICT_SECONDS = 1.5
"""Time left below which the search under the stricter readings may take all of it."""
BOUND_SECONDS = 0.3
"""Seconds the search waits for the lower bound before it begins beside it."""
LEAST_ORDER = 1 << 10
"""Tiles whose order may be written down in any subgraph, as far as the schedule has room."""
RESTARTS = 30
"""Greedy starts, at most."""
CHECKING = 1.5
"""How many times as long as the first schedule takes the last one may take to be costed and
written.
"""
REPORT_SHARE = 0.05
"""Share of the time that may go into reporting better schedules."""
WALKED = 5_000
"""Steps of a schedule that may be costed one by one (`Meter.walked`), a second of the limit."""
LONGEST_WALK = 3600.0
"""Time limit, at most, that is recommended for a problem with more of them (seconds)."""
WALK_SHARE = 0.3
"""Share of the time limit kept for costing the last schedule so, twice."""


def solve(
    problem: Problem,
    *,
    seconds: float = 10.0,
    readings: Readings = DEFAULT,
    seed: int = 0,
    jobs: int = 1,
    started: float | None = None,
    on_progress: Callable[[Progress, Schedule], None] | None = None,
    on_stage: Callable[[Progress], None] | None = None,
) -> Result:
    """The best schedule found in `seconds`.

    Parameters
    ----------
    problem
        What to schedule.
    seconds
        Time budget, counted from `started`.
    readings
        The readings to schedule for.
    seed
        Of the local search's choice of windows.
    jobs
        Threads that search tilings (compiled code, outside the interpreter lock).
    started
        On the clock `time.monotonic()`; default: now.
    on_progress
        Called with every better schedule.
    on_stage
        Called when a stage begins, with the state so far and the stage's name.
    """
    started = time.monotonic() if started is None else started
    run = _Run(problem, readings, started, seconds, on_progress, on_stage)
    with ThreadPoolExecutor(max(1, jobs)) as threads:
        run.threads = threads if jobs > 1 else None
        try:
            run.first()
            run.start_strictly(seed)
            run.improve(random.Random(seed))
        except KeyboardInterrupt:
            interrupts.taken()
            if not run.schedule.subgraphs:
                raise
            run.interrupted = True
    return run.result()


class _Run:
    def __init__(
        self,
        problem: Problem,
        readings: Readings,
        started: float,
        seconds: float,
        on_progress: Callable[[Progress, Schedule], None] | None,
        on_stage: Callable[[Progress], None] | None,
    ):
        self.problem = problem
        self.readings = readings
        self.started = started
        self.deadline = started + seconds
        self.most_walked = int(WALKED * seconds)
        self.on_progress = on_progress
        self.on_stage = on_stage
        self.schedule = Schedule(())
        self.latency = math.inf
        self.bound = 0.0
        self.history: list[Progress] = []
        self.threads: Executor | None = None
        self.exact = self.interrupted = False
        self._pool: Pool | None = None
        self.cuts: list[Cut] = []
        self.chosen: tuple[Candidate, ...] = ()
        self.taken: tuple[Candidate, ...] = ()
        self.entries: dict[tuple[Key, Tiling, bool], Subgraph] = {}
        self.doing = "first schedule"
        self.unreported = False
        self.report_after = 0.0
        self.over: Callable[[], bool] = self.expired

    def expired(self) -> bool:
        return time.monotonic() >= self.deadline

    def first(self) -> None:
        """One operation per subgraph, then fused chains; needs no compiled code."""
        begin = time.monotonic()
        self.bound = floor(self.problem, self.readings)
        first = one_op_per_subgraph(self.problem, self.readings, self._check_walk)
        self.deadline -= CHECKING * (
            time.monotonic() - begin
        )  # the last schedule is costed once more
        self._take(first, "first")
        if not self.expired():
            chains = chain_fusion(
                self.problem, self.readings, self.schedule, self.expired, self.most_walked
            )
            if self._may_walk(chains):
                self._take(chains, "chains")

    def _walks(self) -> bool:
        """True if the readings may need steps costed one by one."""
        return self.readings.reuse != "previous-step" or self.readings.sharing == "union"

    def _check_walk(self, steps: int) -> None:
        """Refuse a problem whose first schedule takes too long to be costed."""
        if steps > self.most_walked:
            enough = 1.25 * steps / WALKED
            more = f"a time limit of {enough:.0f} s, or " if enough < LONGEST_WALK else ""
            raise PenstockError(
                f"{steps:,} steps are to be costed one by one, and there is time for "
                f"{self.most_walked:,}",
                where=self.problem.name,
                rule="reuse=lru and unions of slices need every step in turn",
                remedy=f"{more}other readings",
            )
        if self._walks():
            self.deadline -= WALK_SHARE * (self.deadline - self.started)

    def _may_walk(self, schedule: Schedule) -> bool:
        """True if a schedule that is legal under the readings can be costed in time."""
        if not self._walks():
            return True
        total, kept = 0, ()
        for entry in schedule.subgraphs:
            plan = make_plan(self.problem, entry.ops, self.readings)
            meter = Meter(self.problem, plan, self.readings, entry.granularity, kept, entry.retain)
            total += meter.walked
            kept = entry.retain
        return total <= self.most_walked

    def start_strictly(self, seed: int) -> None:
        """Under a laxer reading, begin with what the stricter one leads to: the larger search may
        miss it.
        """
        strict = self.readings.strict()
        if strict == self.readings or self.expired():
            return
        left = self.deadline - time.monotonic()
        spared = (1 - STRICT_SHARE) * left if left > STRICT_SECONDS else 0.0
        run = _Run(
            self.problem, strict, self.started, self.deadline - self.started - spared, None, None
        )
        run.threads = self.threads
        run.first()
        run.improve(random.Random(seed))
        try:
            if not self._may_walk(run.schedule):
                return
            costs = evaluate(
                self.problem, run.schedule, self.readings, check_latencies=False
            ).subgraphs
        except ScheduleError:
            return
        entries = (
            dataclasses.replace(entry, latency=cost.latency)
            for entry, cost in zip(run.schedule.subgraphs, costs, strict=True)
        )
        self._take(Schedule(tuple(entries)), "as under the stricter readings")

    def _stage(self, what: str) -> None:
        self.doing = what
        if self.on_stage is not None:
            self.on_stage(Progress(time.monotonic() - self.started, self.latency, self.bound, what))

    def _take(self, schedule: Schedule, stage: str, taken: tuple[Candidate, ...] = ()) -> bool:
        latency = math.fsum(s.latency for s in schedule.subgraphs)
        if latency >= self.latency * (1 - 1e-12):
            return False
        self.schedule = schedule
        self.latency = latency
        self.taken = taken
        progress = Progress(time.monotonic() - self.started, latency, self.bound, stage)
        self.history.append(progress)
        if self.on_progress is not None:
            self.on_progress(progress, schedule)
        return True

    # -- improvement -------------------------------------------------------------------------------

    def improve(self, chance: random.Random) -> None:
        """Plain Python until the compiled search is there, then compiled until the time is up."""
        if self.expired():
            return
        from .compiled import Compilation, loaded

        bound = _Bound(self.problem, self.readings)
        with Compilation() as compilation, bound:
            self.over = lambda: self._heed(bound) or self.expired() or compilation.ready
            if self._heed(bound):
                return
            if not self.over():
                self._search(chance, plain=True)
            while compilation.running and not self.over():  # plain Python has nothing left to try
                time.sleep(0.02)
            if self._heed(bound):
                return
            self.over = lambda: self._heed(bound) or self.expired()
            if not self.over():
                self._search(
                    chance, plain=not (loaded() or (compilation.ready and self._time_for(LOADING)))
                )
            self._heed(bound)

    def _time_for(self, seconds: float) -> bool:
        """True if so many seconds of CPU time are a small part of what is left, as fast as this
        machine is now.
        """
        now = time.monotonic()
        alone = (now - self.started) / max(0.05, time.process_time())
        others = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 1.0
        slowness = min(max(1.0, alone, others), MOST_SLOWNESS)
        return self.deadline - now > LOADING_SHARE * seconds * slowness

    def _heed(self, bound: _Bound) -> bool:
        """Take over the bound, if it is there; whether it is met."""
        self.bound = max(self.bound, bound.value)
        return self.done()

    def done(self) -> bool:
        """True if the bound is met."""
        return self.latency <= self.bound * (1 + 1e-9)

    def _search(self, chance: random.Random, plain: bool) -> None:
        """Improve the schedule so far, with one kind of tile search, until `over`."""
        from .groups import Pool
        from .tiles import LONGEST_ORDER, TileSearch

        self._stage("tilings")
        longest = min(LONGEST_ORDER, max(LEAST_ORDER, MOST_ORDERED // len(self.problem.ops)))
        self._pool = Pool(
            self.problem, self.readings, TileSearch(self.problem, self.readings, longest, plain)
        )
        if not self._adopt():
            return
        if not any(c.retain for c in self.chosen):
            self._join_neighbours(chance)
        everything = (
            len(self.problem.ops) <= (TINY if plain else GLOBAL_OPS) and self._may_load_cover()
        )
        try:
            if not everything or not self._everywhere():
                self._windows(chance)
        finally:
            self._report()

    @property
    def pool(self) -> Pool:
        """The candidates of the search that runs."""
        if self._pool is None:
            raise RuntimeError("A search must have begun before its candidates are asked for")
        return self._pool

    def _join_neighbours(self, chance: random.Random) -> None:
        """The greedy start; again in other orders where that costs little, or while there is no
        time to load the cover's solver.
        """
        from .greedy import improve_greedily

        self._stage("neighbours joined")
        start = self.chosen
        least = math.inf
        for _ in range(RESTARTS):
            sequence = improve_greedily(self.pool, start, chance, self.over)
            latency = sum(c.latency for c in sequence)
            if latency < least:
                least = latency
                self._better(sequence)
                self._report()
            if self.over() or (len(self.problem.ops) > SMALL and self._may_load_cover()):
                break

    def _may_load_cover(self) -> bool:
        return "highspy" in sys.modules or self._time_for(LOADING_COVER)

    def _adopt(self) -> bool:
        """The schedule so far as candidates; False if time is up."""
        if not self.chosen:
            chosen = []
            kept: tuple[int, ...] = ()
            for entry in self.schedule.subgraphs:
                if self.over():
                    return False
                chosen.append(self.pool.as_scheduled(entry, kept))
                kept = entry.retain
            self.chosen = tuple(chosen)
        return True

    def _everywhere(self) -> bool:
        """Sets grown, and chosen among, over the whole graph; whether nothing is left to try."""
        pool = self.pool
        self.threads_prefetch(1 << op for op in range(len(self.problem.ops)))
        for op in range(len(self.problem.ops)):
            pool.add(1 << op)
        covers = 0
        for widening in WIDENINGS:
            for most_ops, slack, retained in STAGES:
                self._stage(f"groups of up to {most_ops}")
                half = time.monotonic() + 0.5 * (self.deadline - time.monotonic())
                before = len(pool.candidates)
                complete = all(
                    self._add_all(pool.grow(size, slack * widening), half)
                    for size in range(1, most_ops)
                )
                complete = complete and self._add_retention(pool.plans, retained, half)
                if len(pool.candidates) > before or not covers:
                    covers += 1
                    limit = time.monotonic() + COVER_SHARE * (self.deadline - time.monotonic())
                    self._cover(pool.candidates, limit)
                if self.over():
                    return True
                if not complete or not self.exact:
                    return False
        return len(self.problem.ops) <= SMALL

    def threads_prefetch(self, masks: Iterable[int]) -> None:
        """Search the tilings of these sets on several threads."""
        if self.threads is not None:
            pool = self.pool
            plans = (None if self.over() else pool.plan(mask) for mask in masks)
            pool.tiles.prefetch(
                ((p, (), ()) for p in plans if p is not None), self.threads, self.over
            )

    def _add_all(self, masks: set[int], deadline: float) -> bool:
        """Add sets to the pool; False if there was no time, or no room, for all."""
        pool = self.pool

        def late() -> bool:
            return time.monotonic() >= deadline or self.over() or pool.full

        self.threads_prefetch(sorted(masks))
        for mask in sorted(masks):
            if late():
                return False
            pool.add(mask)
        return True

    def _add_retention(self, masks: Iterable[int], most: int, deadline: float) -> bool:
        """Add the variants of these sets that hand over tensors; False if there was no time for
        all.
        """
        pool = self.pool

        def late() -> bool:
            return time.monotonic() >= deadline or self.over() or pool.full

        thorough = len(self.problem.ops) <= SMALL
        for batch in pool.hand_overs(list(masks), most, late, thorough):
            if self.threads is not None:
                wanted = ((pool.legal_plan(m), into, out) for m, into, out in batch if not late())
                pool.tiles.prefetch(wanted, self.threads, late)
            for key in batch:
                if late():
                    return False
                pool.add_variant(*key)
        return not late()

    def _cover(self, candidates: list[Candidate], deadline: float) -> None:
        """Choose among the candidates for the whole graph."""
        from .cover import solve_cover

        incumbent = sum(c.latency for c in self.chosen)
        if len(self.problem.ops) <= SMALL:  # made for one receiver, and again for another
            candidates = [*candidates, *(c for c in candidates if c.retain)]
        cover = solve_cover(self.pool, candidates, deadline, incumbent, self.cuts)
        self.exact = cover is not None and cover.optimal
        if cover is not None and cover.chosen:
            self._better(cover.chosen)
            self._report()

    def _windows(self, chance: random.Random) -> None:
        """Stretches of the schedule chosen anew, larger and larger ones as they stop to gain."""
        if not self._may_load_cover():
            return
        from .windows import WINDOWS, WindowSearch

        known = len(self.pool.candidates)
        exact = self.exact
        search = WindowSearch(
            self.pool, self.chosen, chance, self.over, self.deadline, self._better
        )
        widening = 0
        for number in itertools.count():
            stage = WINDOWS[min(number, len(WINDOWS) - 1)]
            if number >= len(WINDOWS):
                widening += 1
                stage = dataclasses.replace(
                    stage, slack=stage.slack * 1.5**widening, window=stage.window + 8 * widening
                )
            self._stage(f"windows of {stage.window} operations, groups of up to {stage.ops}")
            idle = 0
            while idle < (IDLE_SWEEPS if number >= len(WINDOWS) - 1 else 1):
                before = search.latency
                if not search.sweep(stage):
                    self.exact = False
                    return
                self._report()
                gain = 1 - search.latency / before if before else 0.0
                idle = idle + 1 if gain < (LEAST_GAIN if number < len(WINDOWS) - 1 else 1e-9) else 0
            if widening >= 3:
                break
        self.exact = exact and len(self.pool.candidates) == known

    # -- schedules --------------------------------------------------------------------------------

    def _better(self, chosen: Sequence[Candidate]) -> None:
        """Note a better choice; it is reported when that is due."""
        self.chosen = tuple(chosen)
        self.unreported = True
        if time.monotonic() >= self.report_after:
            self._report()

    def _report(self) -> None:
        if not self.unreported:
            return
        begin = time.monotonic()
        self.unreported = False
        walked = 0
        if self._walks():
            walked = sum(c.meter(self.problem, self.readings).walked for c in self.chosen)
        if walked <= self.most_walked:
            self._take(self._scheduled(), self.doing, self.chosen)
        end = time.monotonic()
        self.report_after = end + (end - begin) / REPORT_SHARE

    def _scheduled(self) -> Schedule:
        """The schedule of the candidates chosen, orders of tiles written down as far as there is
        room.
        """
        grids = [tile_grid(c.plan, c.tiling.granularity) for c in self.chosen]
        tiles = [columns * rows for columns, rows in grids]
        room = MOST_ORDERED
        known: dict[tuple[Key, Tiling, bool], Subgraph] = {}
        keys = []
        for i in sorted(range(len(tiles)), key=tiles.__getitem__):
            candidate = self.chosen[i]
            room -= tiles[i]
            key = candidate.key, candidate.tiling, room >= 0
            known[key] = self.entries.get(key) or self._entry(candidate, room >= 0)
            keys.append((i, key))
        self.entries = known
        return Schedule(tuple(known[key] for _, key in sorted(keys)))

    def _entry(self, candidate: Candidate, ordered: bool) -> Subgraph:
        """The schedule entry of a candidate, with its latency from the exact evaluator."""
        from .tiles import traversal

        meter = candidate.meter(self.problem, self.readings)
        order = traversal(candidate.tiling.route, meter.columns, meter.rows) if ordered else None
        if order is not None and order == tuple(range(len(order))):
            order = None
        latency = meter.measure(order).latency
        return Subgraph(candidate.ops, meter.granularity, candidate.retain, order, latency)

    def _straighten(self) -> None:
        """Raster order where the order written down is no better."""
        if 0 < len(self.taken) <= MOST_STRAIGHTENED and not self._walks():
            subgraphs = []
            for candidate, entry in zip(self.taken, self.schedule.subgraphs, strict=True):
                raster = entry if entry.order is None else self._entry(candidate, False)
                subgraphs.append(raster if raster.latency <= entry.latency * (1 + 1e-12) else entry)
            self.schedule = Schedule(tuple(subgraphs))

    def result(self) -> Result:
        if self.unreported:
            self.on_progress = None
            self._report()
        self._straighten()
        evaluation = evaluate(self.problem, self.schedule, self.readings)
        candidates, searches = (
            (len(self.pool.candidates), self.pool.tiles.searches) if self._pool else (0, 0)
        )
        return Result(
            self.schedule,
            evaluation,
            self.bound,
            self.history,
            self.exact,
            candidates,
            searches,
            self.interrupted,
        )


class _Bound:
    """The lower bound, computed beside the search; its `value` is 0 until it is there."""

    def __init__(self, problem: Problem, readings: Readings):
        self.problem = problem
        self.readings = readings
        self.value = 0.0

    def __enter__(self) -> None:
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        thread.join(BOUND_SECONDS)

    def __exit__(self, *exc: object) -> None:
        pass

    def _work(self) -> None:
        from ..bound import lower_bound

        self.value = lower_bound(self.problem, self.readings, seconds=0.0)
        self.value = max(self.value, lower_bound(self.problem, self.readings))
