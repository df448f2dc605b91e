"""Candidate subgraphs: connected sets of operations, each with its retention variants and best
tiling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..demand import Plan, ScheduleError, make_plan
from ..meter import Meter
from ..problem import Problem
from ..readings import Readings
from ..solution import Subgraph
from .tiles import RASTER, TileSearch, Tiling

MOST_SETS = 20_000
"""Sets of operations a pool remembers."""
MOST_VARIANTS = 100_000
"""Sets with hand-overs a pool remembers."""
LARGEST_SPLIT = 24
"""Operations in the largest set that is compared with its parts."""

Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Operations (as a mask), tensors received, tensors retained."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subgraph that could be scheduled.

    `needs` must be in slow memory before it (tensors another subgraph writes), `resident` is handed
    over by the subgraph just before, `retain` to the one just after, `writes` goes to slow memory.
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
        """Key that distinguishes candidates."""
        return self.mask, self.resident, self.retain

    @property
    def ops(self) -> tuple[int, ...]:
        return self.plan.ops

    def meter(self, problem: Problem, readings: Readings) -> Meter:
        """The meter of its cost."""
        granularity = self.tiling.granularity
        return Meter(problem, self.plan, readings, granularity, self.resident, self.retain)


def fusible_neighbours(problem: Problem, readings: Readings) -> tuple[int, ...]:
    """Masks of the operations, for each operation, that are one produced tensor away and may share
    a subgraph with it.
    """
    near = [0] * len(problem.ops)
    for consumer, op in enumerate(problem.ops):
        for position, tensor in enumerate(op.inputs):
            producer = problem.producer[tensor]
            if producer is None:
                continue
            if op.is_matmul and not problem.ops[producer].is_matmul:
                native = problem.native[position]  # left: w >= K, right: h >= K
                if (
                    readings.pointwise_into_matmul == "covering"
                    and readings.above_native == "refused"
                    and problem.reduction(consumer) > native
                ):
                    continue
            near[producer] |= 1 << consumer
            near[consumer] |= 1 << producer
    return tuple(near)


class Pool:
    """Grows the set of candidates level by level (by number of operations) and remembers all of
    them.

    `slack` bounds growth: a set is extended only if its latency is below `slack` times that of its
    best split.
    """

    def __init__(self, problem: Problem, readings: Readings, tiles: TileSearch):
        self.problem = problem
        self.readings = readings
        self.tiles = tiles
        self.near = fusible_neighbours(problem, readings)
        self.forget()

    def forget(self) -> None:
        """Drop all sets and candidates, which may be found again."""
        self.plans: dict[int, Plan | None] = {}
        self.plain: dict[int, Candidate | None] = {}
        self.by_size: dict[int, list[int]] = {}
        self.split: dict[int, float] = {}
        self.candidates: list[Candidate] = []
        self.variants: dict[Key, Candidate | None] = {}
        self._sets_at: dict[int, list[int]] = {}
        self._candidates_at: dict[int, list[Candidate]] = {}
        self._again: dict[int, int] = {}

    @property
    def full(self) -> bool:
        """True if so much is known that it is time to forget, as memory is limited."""
        return len(self.plain) > MOST_SETS or len(self.variants) > MOST_VARIANTS

    # -- sets of operations --------------------------------------------------------------------

    def members(self, mask: int) -> tuple[int, ...]:
        """The operations of a set in topological order."""
        return tuple(sorted(bits(mask), key=self.problem.rank.__getitem__))

    def neighbourhood(self, mask: int) -> int:
        near = 0
        for op in bits(mask):
            near |= self.near[op]
        return near & ~mask

    def components(self, mask: int) -> Iterator[int]:
        """The connected parts of a set."""
        while mask:
            part = 0
            grown = mask & -mask
            while grown != part:
                part = grown
                grown = part | (self.neighbourhood(part) & mask)
            yield part
            mask &= ~part

    def grow(self, size: int, slack: float, within: int = -1) -> set[int]:
        """The unknown sets of `size` + 1 operations that extend a known one worth extending."""
        larger = set()
        known = self.by_size.get(size, ()) if within == -1 else self.sets_inside(within)
        for mask in known:
            candidate = self.plain[mask]
            if candidate is None or mask.bit_count() != size:
                continue
            if size > 1 and candidate.latency > slack * self.split[mask]:
                continue
            near = self.neighbourhood(mask) & within
            while near:
                low = near & -near
                if mask | low not in self.plain:
                    larger.add(mask | low)
                near ^= low
        return larger

    # -- candidates ----------------------------------------------------------------------------

    def plan(self, mask: int) -> Plan | None:
        """The plan of a set; None if it is illegal."""
        if mask not in self.plans:
            try:
                self.plans[mask] = make_plan(self.problem, self.members(mask), self.readings)
            except ScheduleError:
                self.plans[mask] = None
        return self.plans[mask]

    def legal_plan(self, mask: int) -> Plan:
        """The plan of a set that is known to be legal."""
        plan = self.plan(mask)
        if plan is None:
            raise ValueError(f"Set must be legal, not {self.members(mask)!r}")
        return plan

    def add(self, mask: int) -> Candidate | None:
        """The candidate for a set without retention; None if it is illegal or does not fit."""
        if mask in self.plain:
            return self.plain[mask]
        plan = self.plan(mask)
        candidate = self._tile(mask, plan, (), ()) if plan else None
        self.plain[mask] = candidate
        self.by_size.setdefault(mask.bit_count(), []).append(mask)
        self._sets_at.setdefault(mask & -mask, []).append(mask)
        if candidate is not None:
            ops = candidate.plan.ops
            small = len(ops) <= LARGEST_SPLIT
            self.split[mask] = self._best_split(mask, ops) if small else math.inf
            if candidate.latency < self.split[mask] * (1 - 1e-12):
                self._keep(candidate)
        return candidate

    def _keep(self, candidate: Candidate) -> None:
        self.candidates.append(candidate)
        low = candidate.mask & -candidate.mask
        self._candidates_at.setdefault(low, []).append(candidate)

    def sets_inside(self, window: int) -> list[int]:
        """The known sets within a window."""
        sets = []
        for op in bits(window):
            sets += [mask for mask in self._sets_at.get(1 << op, ()) if not mask & ~window]
        return sets

    def candidates_inside(self, window: int) -> list[Candidate]:
        """The candidates within a window."""
        found = []
        for op in bits(window):
            found += [c for c in self._candidates_at.get(1 << op, ()) if not c.mask & ~window]
        return found

    def run_elsewhere(self, mask: int) -> int:
        """Operations of a set that something it waits for depends on: others run them first."""
        if mask not in self._again:
            above = self.problem.ancestors
            below = self.problem.descendants
            before = after = again = 0
            for op in bits(mask):
                before |= above[op]
                after |= below[op]
            for op in bits(before & after & ~mask):
                again |= above[op]
            self._again[mask] = again & mask
        return self._again[mask]

    def _best_split(self, mask: int, ops: tuple[int, ...]) -> float:
        """Least latency of an equivalent set of smaller candidates.

        Tried: a cut at a point of the topological order, and one operation taken out.  The pieces
        must hand all tensors between them through slow memory, without waiting in a circle.
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
            parts = (*self.components(part), *self.components(mask & ~part))
            pieces = [piece for p in parts if (piece := self.plain.get(p)) is not None]
            if len(pieces) < len(parts):
                continue
            total = sum(min(p.latency, self.split[p.mask]) for p in pieces)
            if total < best and self._runs_alone(pieces, mask):
                best = total
        return best

    def _runs_alone(self, pieces: list[Candidate], mask: int) -> bool:
        """True if the pieces can run in some order, all tensors of `mask` between them written."""
        written: set[int] = set()
        waiting = list(pieces)
        while waiting:
            ready = [
                p
                for p in waiting
                if all(t in written or not self.problem.produces(mask, t) for t in p.needs)
            ]
            if not ready:
                return False
            for piece in ready:
                written.update(piece.writes)
                waiting.remove(piece)
        return True

    def _tile(
        self, mask: int, plan: Plan, resident: tuple[int, ...], retain: tuple[int, ...]
    ) -> Candidate | None:
        tiling = self.tiles.best(plan, resident, retain)
        return None if tiling is None else self._candidate(mask, plan, resident, retain, tiling)

    def _candidate(
        self,
        mask: int,
        plan: Plan,
        resident: tuple[int, ...],
        retain: tuple[int, ...],
        tiling: Tiling,
    ) -> Candidate:
        producer = self.problem.producer
        return Candidate(
            mask,
            plan,
            resident,
            retain,
            tuple(t for t in plan.inputs if t not in resident and producer[t] is not None),
            tuple(t for t in plan.outputs if t not in retain),
            tiling,
        )

    def as_scheduled(self, entry: Subgraph, resident: tuple[int, ...]) -> Candidate:
        """The candidate that an entry of a schedule is, tiled anew unless it is in raster order."""
        plan = make_plan(self.problem, entry.ops, self.readings)
        mask = sum(1 << op for op in entry.ops)
        tiling = None if entry.order is None else self.tiles.best(plan, resident, entry.retain)
        tiling = tiling or Tiling(entry.latency, entry.granularity, (RASTER, 0, 0, 0))
        return self._candidate(mask, plan, resident, entry.retain, tiling)

    # -- retention -----------------------------------------------------------------------------

    def retainable(self, mask: int) -> list[int]:
        """Products of the set that others consume and that fit, in index order."""
        problem = self.problem
        plan = self.legal_plan(mask)
        products = (
            plan.formed
            if self.readings.inner_retention == "refused"
            else [problem.ops[op].output for op in plan.ops]
        )
        return sorted(
            t
            for t in products
            if problem.tensors[t].size < problem.capacity
            and any(not mask >> user & 1 for user in problem.consumers[t])
        )

    def receivable(self, mask: int) -> list[int]:
        """Inputs of the set another operation produces and that fit, in index order."""
        problem = self.problem
        plan = self.legal_plan(mask)
        return sorted(
            t
            for t in plan.inputs
            if problem.producer[t] is not None and problem.tensors[t].size < problem.capacity
        )

    def hand_overs(
        self, masks: Iterable[int], most: int, late: Callable[[], bool], thorough: bool = False
    ) -> Iterator[list[Key]]:
        """Batches of (set, resident, retained) worth tiling: what one of the sets gives, another
        takes.

        The first batch hands over single tensors.  The rest goes on with those that gain (with all
        that fit, if `thorough`), up to `most` tensors at a boundary, so the first has to be tiled
        (`add_variant`) before the second is asked for.  Ends early, with what it has, when `late`
        says so.
        """
        gives: dict[int, list[int]] = {}
        takes: dict[int, list[int]] = {}
        for mask in masks:
            if self.plans.get(mask) is not None and not late():
                gives[mask] = self.retainable(mask)
                takes[mask] = self.receivable(mask)
        linkable = set(itertools.chain.from_iterable(gives.values()))
        linkable &= set(itertools.chain.from_iterable(takes.values()))
        batch = [(mask, (), (t,)) for mask in gives for t in gives[mask] if t in linkable]
        batch += [(mask, (t,), ()) for mask in takes for t in takes[mask] if t in linkable]
        yield [key for key in batch if key not in self.variants]
        if late():
            return
        gain = {key: self._gain(key) for key in batch}
        best_give: dict[int, float] = {}
        best_take: dict[int, float] = {}
        for (_, resident, retain), gained in gain.items():
            best = best_give if retain else best_take
            tensor = (*resident, *retain)[0]
            best[tensor] = max(best.get(tensor, 0.0), gained)
        out: dict[int, list[int]] = {mask: [] for mask in gives}
        into: dict[int, list[int]] = {mask: [] for mask in gives}
        for (mask, resident, retain), gained in gain.items():
            tensor = (*resident, *retain)[0]
            other = (best_take if retain else best_give).get(tensor, 0.0)
            if gained > -math.inf and (thorough or gained + other > 0):
                (out if retain else into)[mask].append(tensor)
        whole: dict[int, tuple[list[tuple[int, ...]], list[tuple[int, ...]]]] = {}
        for mask in gives:
            if late():
                return
            whole[mask] = (
                list(self._subsets(into[mask], most)),
                list(self._subsets(out[mask], most)),
            )
        given = {retain for _, outs in whole.values() for retain in outs}
        given &= {resident for ins, _ in whole.values() for resident in ins}
        batch = []
        for mask, (ins, outs) in whole.items():
            for resident in ((), *(r for r in ins if r in given)):
                for retain in ((), *(r for r in outs if r in given)):
                    key = mask, resident, retain
                    if (resident or retain) and key not in self.variants:
                        batch.append(key)
            if late():
                break
        yield batch

    def _gain(self, key: Key) -> float:
        """Gain of a set by a hand-over; minus infinity if it does not fit."""
        variant = self.variants.get(key)
        plain = self.plain.get(key[0])
        if variant is None:
            return -math.inf
        return math.inf if plain is None else plain.latency - variant.latency

    def _subsets(self, tensors: list[int], most: int) -> Iterator[tuple[int, ...]]:
        size = self.problem.tensors
        for count in range(1, most + 1):
            for chosen in itertools.combinations(sorted(tensors), count):
                if sum(size[t].size for t in chosen) < self.problem.capacity:
                    yield chosen

    def add_variant(self, mask: int, resident: tuple[int, ...], retain: tuple[int, ...]) -> None:
        """The candidate for a set with retention, if it fits."""
        key = mask, resident, retain
        if key in self.variants:
            return
        candidate = self.variants[key] = self._tile(mask, self.legal_plan(mask), resident, retain)
        if candidate is not None:
            self._keep(candidate)


def bits(mask: int) -> Iterator[int]:
    """The operations of a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
