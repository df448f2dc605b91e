"""Candidate subgraphs: connected sets of operations, each with its retention variants and best tiling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..demand import Plan, ScheduleError, make_plan
from ..problem import Problem
from ..readings import Readings
from .tiles import TileSearch, Tiling

__all__ = ["Candidate", "Key", "Pool", "fusible_neighbours"]


Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Operations (as a mask), tensors received, tensors retained."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subgraph that could be scheduled.

    `needs` must be in slow memory before it (tensors another subgraph writes), `resident` is handed over by the
    subgraph just before, `retain` to the one just after, `writes` goes to slow memory.
    """

    mask: int
    plan: Plan
    resident: tuple[int, ...]
    retain: tuple[int, ...]
    needs: tuple[int, ...]
    writes: tuple[int, ...]
    tiling: Tiling

    @property
    def latency(self) -> float:
        return self.tiling.latency

    @property
    def key(self) -> Key:
        """What tells candidates apart."""
        return self.mask, self.resident, self.retain

    @property
    def ops(self) -> tuple[int, ...]:
        return self.plan.ops


def fusible_neighbours(problem: Problem, readings: Readings) -> tuple[int, ...]:
    """For each operation, the mask of operations one produced tensor away that may share a subgraph with it."""
    near = [0] * len(problem.ops)
    for consumer, op in enumerate(problem.ops):
        for position, tensor in enumerate(op.inputs):
            producer = problem.producer[tensor]
            if producer is None:
                continue
            if op.is_matmul and not problem.ops[producer].is_matmul:
                native = problem.native[position]  # left: w >= K, right: h >= K
                if (readings.pointwise_into_matmul == "covering" and readings.above_native == "refused"
                        and problem.reduction(consumer) > native):
                    continue
            near[producer] |= 1 << consumer
            near[consumer] |= 1 << producer
    return tuple(near)


class Pool:
    """Grows the set of candidates level by level (by number of operations) and remembers all of them.

    `slack` bounds growth: a set is extended only if its latency is below `slack` times that of its best split.
    """

    def __init__(self, problem: Problem, readings: Readings, tiles: TileSearch):
        self.problem, self.readings, self.tiles = problem, readings, tiles
        self.near = fusible_neighbours(problem, readings)
        self.plans: dict[int, Plan | None] = {}
        self.plain: dict[int, Candidate | None] = {}
        self.by_size: dict[int, list[int]] = {}
        self.split: dict[int, float] = {}
        self.candidates: list[Candidate] = []
        self._variants: set[Key] = set()

    # -- sets of operations -----------------------------------------------------------------------------------

    def members(self, mask: int) -> tuple[int, ...]:
        """The operations of a set in topological order."""
        ops = []
        while mask:
            low = mask & -mask
            ops.append(low.bit_length() - 1)
            mask ^= low
        return tuple(sorted(ops, key=self.problem.rank.__getitem__))

    def neighbourhood(self, mask: int) -> int:
        near, rest = 0, mask
        while rest:
            low = rest & -rest
            near |= self.near[low.bit_length() - 1]
            rest ^= low
        return near & ~mask

    def components(self, mask: int) -> Iterator[int]:
        """The connected parts of a set."""
        while mask:
            part, grown = 0, mask & -mask
            while grown != part:
                part = grown
                grown = part | (self.neighbourhood(part) & mask)
            yield part
            mask &= ~part

    def grow(self, size: int, slack: float, within: int = -1) -> set[int]:
        """The unknown sets of `size` + 1 operations that extend a known one worth extending."""
        larger = set()
        for mask in self.by_size.get(size, ()):
            candidate = self.plain[mask]
            if mask & ~within or candidate is None or (size > 1 and candidate.latency > slack * self.split[mask]):
                continue
            near = self.neighbourhood(mask) & within
            while near:
                low = near & -near
                if mask | low not in self.plain:
                    larger.add(mask | low)
                near ^= low
        return larger

    # -- candidates -------------------------------------------------------------------------------------------

    def plan(self, mask: int) -> Plan | None:
        """The plan of a set; None if it is illegal."""
        if mask not in self.plans:
            try:
                self.plans[mask] = make_plan(self.problem, self.members(mask), self.readings)
            except ScheduleError:
                self.plans[mask] = None
        return self.plans[mask]

    def add(self, mask: int) -> Candidate | None:
        """The candidate for a set without retention; None if it is illegal or does not fit."""
        if mask in self.plain:
            return self.plain[mask]
        plan = self.plan(mask)
        candidate = self._tile(mask, plan, (), ()) if plan else None
        self.plain[mask] = candidate
        self.by_size.setdefault(mask.bit_count(), []).append(mask)
        if candidate is not None:
            self.split[mask] = self._best_split(mask, plan.ops)
            if candidate.latency < self.split[mask] * (1 - 1e-12):
                self.candidates.append(candidate)
        return candidate

    def _best_split(self, mask: int, ops: tuple[int, ...]) -> float:
        """Least latency of an equivalent set of smaller candidates.

        Tried: a cut at a point of the topological order, and one operation taken out.  The pieces must hand all
        tensors between them through slow memory, without waiting in a circle.
        """
        cuts = {1 << op for op in ops}
        head = 0
        for op in ops[:-1]:
            head |= 1 << op
            cuts.add(head)
        best = float("inf")
        for part in cuts:
            if part == mask:
                continue
            pieces = [self.plain.get(p) for p in (*self.components(part), *self.components(mask & ~part))]
            if None in pieces:
                continue
            total = sum(min(p.latency, self.split[p.mask]) for p in pieces)
            if total < best and self._runs_alone(pieces, mask):
                best = total
        return best

    def _runs_alone(self, pieces: list[Candidate], mask: int) -> bool:
        """Whether the pieces can run in some order with all tensors of `mask` between them written."""
        producer = self.problem.producer
        written: set[int] = set()
        waiting = list(pieces)
        while waiting:
            ready = [p for p in waiting if all(t in written or not mask >> producer[t] & 1 for t in p.needs)]
            if not ready:
                return False
            for piece in ready:
                written.update(piece.writes)
                waiting.remove(piece)
        return True

    def _tile(self, mask: int, plan: Plan, resident: tuple[int, ...], retain: tuple[int, ...]) -> Candidate | None:
        tiling = self.tiles.best(plan, resident, retain)
        if tiling is None:
            return None
        producer = self.problem.producer
        return Candidate(mask, plan, resident, retain, tuple(t for t in plan.inputs if t not in resident and producer[t] is not None),
                         tuple(t for t in plan.outputs if t not in retain), tiling)

    # -- retention --------------------------------------------------------------------------------------------

    def retainable(self, mask: int) -> list[int]:
        """Products of the set that others consume and that fit, in index order."""
        problem, plan = self.problem, self.plans[mask]
        products = plan.formed if self.readings.inner_retention == "refused" else [problem.ops[op].output for op in plan.ops]
        return sorted(t for t in products if problem.tensors[t].size < problem.capacity
                      and any(not mask >> user & 1 for user in problem.consumers[t]))

    def receivable(self, mask: int) -> list[int]:
        """Inputs of the set another operation produces and that fit, in index order."""
        problem, plan = self.problem, self.plans[mask]
        return sorted(t for t in plan.inputs if problem.producer[t] is not None and problem.tensors[t].size < problem.capacity)

    def _subsets(self, tensors: list[int], most: int) -> Iterator[tuple[int, ...]]:
        size = self.problem.tensors
        for count in range(1, most + 1):
            for chosen in itertools.combinations(tensors, count):
                if sum(size[t].size for t in chosen) < self.problem.capacity:
                    yield chosen

    def retention(self, masks: Iterable[int], most: int, late: Callable[[], bool]) -> Iterator[Key]:
        """(set, resident, retained) for every hand-over of up to `most` tensors that one set can give and another take.

        Ends early, with what it has, when `late` says so.
        """
        gives, takes = {}, {}
        for mask in masks:
            if self.plans.get(mask) is not None and not late():
                gives[mask] = list(self._subsets(self.retainable(mask), most))
                takes[mask] = list(self._subsets(self.receivable(mask), most))
        linkable = set(itertools.chain.from_iterable(gives.values())) & set(itertools.chain.from_iterable(takes.values()))
        for mask in gives:
            out = [(), *(r for r in gives[mask] if r in linkable)]
            into = [(), *(r for r in takes[mask] if r in linkable)]
            for resident, retain in itertools.product(into, out):
                if late():
                    return
                if (resident or retain) and (mask, resident, retain) not in self._variants:
                    yield mask, resident, retain

    def add_variant(self, mask: int, resident: tuple[int, ...], retain: tuple[int, ...]) -> None:
        """The candidate for a set with retention, if it fits."""
        self._variants.add((mask, resident, retain))
        candidate = self._tile(mask, self.plans[mask], resident, retain)
        if candidate is not None:
            self.candidates.append(candidate)
