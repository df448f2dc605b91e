"""Large neighbourhood search: a stretch of the schedule at a time is chosen anew by the cover's
program.

A schedule may be rewritten into any other order that respects its needs and keeps hand-overs side
by side.  Each sweep draws such an order, with related subgraphs close to each other, and walks a
window over it.  What is before the window has run, what is after has not, so a window's new choice
fits as soon as it writes what the rest wants and keeps the hand-overs at its two ends.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .cover import Surroundings, solve_cover
from .groups import Candidate, Pool, bits
from .order import reorder

WINDOW_SECONDS = 3.0
"""Time limit of one window's choice."""
TOLERANCE = 1e-5
"""Relative difference from its best possible at which a window's choice ends."""
LARGEST_JOINT = 96
"""Operations in the largest set made of two subgraphs of the schedule."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Extent of a window's search.

    Parameters
    ----------
    window : operations in it
    ops : operations in a set
    slack : a set is extended if its latency is below this times that of its best split
    retained : tensors retained at one boundary
    """

    window: int
    ops: int
    slack: float
    retained: int


WINDOWS = (
    Stage(8, 2, 1.5, 1),
    Stage(10, 3, 1.25, 1),
    Stage(14, 5, 1.2, 1),
    Stage(18, 7, 1.15, 2),
    Stage(24, 9, 1.1, 2),
    Stage(32, 12, 1.1, 3),
)
"""The stages, one after the other as the one before stops to gain."""


class WindowSearch:
    """Improves a sequence of candidates in execution order.

    Parameters
    ----------
    pool : where candidates come from and go to
    sequence : the schedule so far
    chance : draws the orders
    late : whether to stop; `deadline` : until when (monotonic)
    on_better : called after each window with a better choice
    """

    def __init__(
        self,
        pool: Pool,
        sequence: Sequence[Candidate],
        chance: random.Random,
        late: Callable[[], bool],
        deadline: float,
        on_better: Callable[[Sequence[Candidate]], None],
    ):
        self.pool = pool
        self.problem = pool.problem
        self.sequence = list(sequence)
        self.chance = chance
        self.late = late
        self.deadline = deadline
        self.on_better = on_better
        self._seen: set[int] = set()
        self._outputs = frozenset(self.problem.graph_outputs)
        self._needing, self._writing, self._running = _count(self.sequence)

    @property
    def latency(self) -> float:
        return sum(c.latency for c in self.sequence)

    def sweep(self, stage: Stage) -> bool:
        """A window over the whole schedule, in an order drawn anew; False if stopped before the
        end.
        """
        self.sequence = reorder(self.sequence, self.chance)
        inputs = {t for t, op in enumerate(self.problem.producer) if op is None}
        start = 0
        written = inputs
        first_stride = self.chance.random()
        while start < len(self.sequence):
            if self.late():
                return False
            if self.pool.full:
                self.pool.forget()
            stop = self._stop(start, stage.window)
            stop = self._choose(start, stop, frozenset(written), stage)
            stride = max(1, int((stop - start) * (first_stride or 0.5)))
            first_stride = 0.0
            if stop == len(self.sequence):
                break
            for candidate in self.sequence[start : start + stride]:
                written.update(candidate.writes)
            start += stride
        return True

    def _stop(self, start: int, ops: int) -> int:
        """The end of the window that starts at a position: two subgraphs at least."""
        mask = 0
        stop = start
        while stop < len(self.sequence):
            mask |= self.sequence[stop].mask
            if stop >= start + 2 and mask.bit_count() > ops:
                break
            stop += 1
        return stop

    def _choose(self, start: int, stop: int, written: frozenset[int], stage: Stage) -> int:
        """Choose anew between two positions; the new end."""
        inside = self.sequence[start:stop]
        state = hash(
            (
                stage,
                frozenset(c.key for c in inside),
                written.issuperset(t for c in inside for t in c.needs),
            )
        )
        if state in self._seen:
            return stop
        around = self._around(inside, written)
        mask = 0
        for candidate in inside:
            mask |= candidate.mask
        self._join(inside)
        self.explore(mask, stage)
        if self.late():
            return stop
        candidates = self._fitting(mask, inside, around)
        limit = min(self.deadline, time.monotonic() + WINDOW_SECONDS)
        latency = sum(c.latency for c in inside)
        cover = solve_cover(self.pool, candidates, limit, latency, None, around, TOLERANCE)
        if cover is None or not cover.chosen:
            self._seen.add(state)
            return stop
        self._replace(start, stop, cover.chosen)
        self.on_better(self.sequence)
        return start + len(cover.chosen)

    def _fitting(self, mask: int, inside: list[Candidate], around: Surroundings) -> list[Candidate]:
        """The candidates whose needs can be met, and the ones chosen so far."""
        ends = {around.received, around.given}
        found = {c.key: c for c in self.pool.candidates_inside(mask)}
        for c in inside:
            if c.key not in found or c.latency < found[c.key].latency:
                found[c.key] = c
        gives = {c.retain for c in found.values()} | ends
        takes = {c.resident for c in found.values()} | ends
        return [
            c
            for c in found.values()
            if (not c.resident or c.resident in gives)
            and (not c.retain or c.retain in takes)
            and all(t in around.written or self.problem.produces(mask, t) for t in c.needs)
        ]

    def _around(self, inside: list[Candidate], written: frozenset[int]) -> Surroundings:
        made = {t for c in inside for t in c.writes} - written
        needing, writing, running = _count(inside)
        wanted = {
            t
            for t in made
            if self._needing[t] > needing[t]
            or (t in self._outputs and self._writing[t] == writing[t])
        }
        ops = sum(1 << op for op, runs in running.items() if self._running[op] == runs)
        return Surroundings(ops, written, frozenset(wanted), inside[0].resident, inside[-1].retain)

    def _replace(self, start: int, stop: int, chosen: Sequence[Candidate]) -> None:
        for total, gone, come in zip(
            (self._needing, self._writing, self._running),
            _count(self.sequence[start:stop]),
            _count(chosen),
            strict=True,
        ):
            total.subtract(gone)
            total.update(come)
        self.sequence[start:stop] = chosen

    # -- candidates -------------------------------------------------------------------------------

    def explore(self, window: int, stage: Stage) -> None:
        """Add to the pool the sets, and hand-overs, that a stage looks at in a window."""
        pool = self.pool
        for op in bits(window):
            pool.add(1 << op)
        for size in range(1, stage.ops):
            for mask in sorted(pool.grow(size, stage.slack, window)):
                if self.late():
                    return
                pool.add(mask)
        good = [mask for mask in pool.sets_inside(window) if self._good(mask, stage)]
        for batch in pool.hand_overs(good, stage.retained, self.late):
            for key in batch:
                if self.late():
                    return
                pool.add_variant(*key)

    def _join(self, inside: list[Candidate]) -> None:
        """Add to the pool what two neighbours of the schedule are together."""
        for first, second in itertools.combinations(inside, 2):
            both = first.mask | second.mask
            if both.bit_count() > LARGEST_JOINT or both in (first.mask, second.mask):
                continue
            if self.pool.neighbourhood(first.mask) & second.mask and not self.late():
                self.pool.add(both)

    def _good(self, mask: int, stage: Stage) -> bool:
        candidate = self.pool.plain[mask]
        if mask & mask - 1 == 0:
            return True
        return (
            candidate is not None
            and mask.bit_count() <= stage.ops
            and (candidate.latency <= stage.slack * self.pool.split[mask])
        )


def _count(candidates: Sequence[Candidate]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """Counts of operations that need each tensor, write each tensor, run each operation."""
    return (
        Counter(t for c in candidates for t in c.needs),
        Counter(t for c in candidates for t in c.writes),
        Counter(op for c in candidates for op in c.ops),
    )
