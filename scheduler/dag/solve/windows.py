"""Large neighbourhood search: a stretch of the schedule at a time is chosen anew by the cover's program.

A schedule may be rewritten into any other order that respects its needs and keeps hand-overs side by
side.  Each sweep draws such an order, with related subgraphs close to each other, and walks a window
over it.  What is before the window has run, what is after has not, so a window's new choice fits as
soon as it writes what the rest wants and keeps the hand-overs at its two ends.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .cover import Surroundings, solve_cover
from .groups import Candidate, Key, Pool, bits

__all__ = ["Stage", "WINDOWS", "WindowSearch", "reorder"]

WINDOW_SECONDS = 3.0
"""Time limit of one window's choice."""
TOLERANCE = 1e-5
"""Relative difference from its best possible at which a window's choice ends."""
MANY_RELATED = 24
"""Subgraphs that touch a tensor, above which the tensor does not make them related."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a window is searched.

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
    Stage(8, 2, 1.5, 1), Stage(10, 3, 1.25, 1), Stage(14, 5, 1.2, 1), Stage(18, 7, 1.15, 2),
    Stage(24, 9, 1.1, 2), Stage(32, 12, 1.1, 3))
"""The stages, one after the other as the one before stops to gain."""


class WindowSearch:
    """Improves a sequence of candidates in execution order.

    Parameters
    ----------
    pool : where candidates come from and go to
    sequence : the schedule so far
    chance : draws the orders
    late : whether to stop
    prefetch : searches the tilings of some hand-overs or sets on several threads
    on_better : called after each window with a better choice
    """

    def __init__(self, pool: Pool, sequence: Sequence[Candidate], chance: random.Random,
                 late: Callable[[], bool], deadline: Callable[[], float],
                 on_better: Callable[[Sequence[Candidate]], None]):
        self.pool, self.problem = pool, pool.problem
        self.sequence = list(sequence)
        self.chance, self.late, self.deadline, self.on_better = chance, late, deadline, on_better
        self._seen: set[int] = set()

    @property
    def latency(self) -> float:
        return sum(c.latency for c in self.sequence)

    def sweep(self, stage: Stage) -> bool:
        """A window over the whole schedule, in an order drawn anew; False if stopped before the end."""
        self.sequence = reorder(self.sequence, self.chance)
        inputs = {t for t, op in enumerate(self.problem.producer) if op is None}
        start, written = 0, inputs
        first_stride = self.chance.random()
        while start < len(self.sequence):
            if self.late():
                return False
            stop = self._stop(start, stage.window)
            stop = self._choose(start, stop, frozenset(written), stage)
            stride = max(1, int((stop - start) * (first_stride or 0.5)))
            first_stride = 0.0
            if stop == len(self.sequence):
                break
            for candidate in self.sequence[start:start + stride]:
                written.update(candidate.writes)
            start += stride
        return True

    def _stop(self, start: int, ops: int) -> int:
        """The end of the window that starts at a position: two subgraphs at least."""
        mask, stop = 0, start
        while stop < len(self.sequence):
            mask |= self.sequence[stop].mask
            if stop >= start + 2 and mask.bit_count() > ops:
                break
            stop += 1
        return stop

    def _choose(self, start: int, stop: int, written: frozenset[int], stage: Stage) -> int:
        """Choose anew between two positions; the new end."""
        inside = self.sequence[start:stop]
        state = hash((stage, frozenset(c.key for c in inside), written.issuperset(
            t for c in inside for t in c.needs)))
        if state in self._seen:
            return stop
        around = self._around(start, stop, written)
        mask = 0
        for candidate in inside:
            mask |= candidate.mask
        self.explore(mask, stage)
        if self.late():
            return stop
        candidates = self._fitting(mask, inside, around)
        limit = min(self.deadline(), time.monotonic() + WINDOW_SECONDS)
        latency = sum(c.latency for c in inside)
        cover = solve_cover(self.pool, candidates, limit, latency, None, around, TOLERANCE)
        if cover is None or not cover.chosen:
            self._seen.add(state)
            return stop
        self.sequence[start:stop] = cover.chosen
        self.on_better(self.sequence)
        return start + len(cover.chosen)

    def _fitting(self, mask: int, inside: list[Candidate], around: Surroundings) -> list[Candidate]:
        """The candidates whose needs can be met, and the ones chosen so far."""
        producer = self.problem.producer
        ends = {around.received, around.given}
        found = {c.key: c for c in self.pool.candidates_inside(mask)}
        found.update((c.key, c) for c in inside)
        gives = {c.retain for c in found.values()} | ends
        takes = {c.resident for c in found.values()} | ends
        return [c for c in found.values()
                if (not c.resident or c.resident in gives) and (not c.retain or c.retain in takes)
                and all(t in around.written or mask >> producer[t] & 1 for t in c.needs)]

    def _around(self, start: int, stop: int, written: frozenset[int]) -> Surroundings:
        inside = self.sequence[start:stop]
        made = {t for c in inside for t in c.writes} - written
        wanted: set[int] = set()
        elsewhere = 0
        outputs = set(self.problem.graph_outputs) & made
        for position, candidate in enumerate(self.sequence):
            if start <= position < stop:
                continue
            elsewhere |= candidate.mask
            outputs.difference_update(candidate.writes)
            if position >= stop:
                wanted.update(made.intersection(candidate.needs))
                made.difference_update(candidate.writes)
        ops = 0
        for candidate in inside:
            ops |= candidate.mask
        return Surroundings(ops & ~elsewhere, written, frozenset(wanted | outputs),
                            inside[0].resident, inside[-1].retain)

    # -- candidates -------------------------------------------------------------------------------

    def explore(self, window: int, stage: Stage) -> None:
        """Add to the pool the sets, and hand-overs between them, that a stage looks at in a window."""
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

    def _good(self, mask: int, stage: Stage) -> bool:
        candidate = self.pool.plain[mask]
        if mask & mask - 1 == 0:
            return True
        return candidate is not None and mask.bit_count() <= stage.ops and (
            candidate.latency <= stage.slack * self.pool.split[mask])


def _chains(sequence: Sequence[Candidate]) -> list[list[Candidate]]:
    """The sequence in parts between which nothing is handed over."""
    chains: list[list[Candidate]] = []
    for candidate in sequence:
        if candidate.resident:
            chains[-1].append(candidate)
        else:
            chains.append([candidate])
    return chains


def reorder(sequence: Sequence[Candidate], chance: random.Random) -> list[Candidate]:
    """The same candidates in another valid order, drawn so that related ones come close together."""
    chains = _chains(sequence)
    writer: dict[int, int] = {}
    users: dict[int, list[int]] = defaultdict(list)
    before: list[set[int]] = [set() for _ in chains]
    after: list[set[int]] = [set() for _ in chains]
    for number, chain in enumerate(chains):
        touched: set[int] = set()
        for candidate in chain:
            touched.update(candidate.plan.inputs, candidate.writes)
            for tensor in candidate.needs:
                if writer.get(tensor, number) != number:
                    before[number].add(writer[tensor])
                    after[writer[tensor]].add(number)
            for tensor in candidate.writes:
                writer.setdefault(tensor, number)
        for tensor in touched:
            users[tensor].append(number)
    related: list[list[int]] = [[] for _ in chains]
    for numbers in users.values():
        if len(numbers) <= MANY_RELATED:
            for number in numbers:
                related[number] += numbers
    backward = chance.random() < 0.5
    waits, frees = (after, before) if backward else (before, after)
    order = list(_draw([len(w) for w in waits], frees, related, chance))
    if backward:
        order.reverse()
    return [candidate for number in order for candidate in chains[number]]


def _draw(waiting: list[int], frees: list[set[int]], related: list[list[int]],
          chance: random.Random) -> Iterator[int]:
    """A topological order; among the ready, one related to what was drawn last."""
    heat = [(0, chance.random(), number) for number, count in enumerate(waiting) if count == 0]
    heapq.heapify(heat)
    done = [False] * len(waiting)
    drawn = 0
    while heat:
        _, _, number = heapq.heappop(heat)
        if done[number]:
            continue
        done[number] = True
        drawn -= 1
        yield number
        for other in frees[number]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(heat, (drawn, chance.random(), other))
        for other in related[number]:
            if not done[other] and waiting[other] == 0:
                heapq.heappush(heat, (drawn, chance.random(), other))
