"""The first improvement of a schedule: neighbours joined, or linked by a hand-over, while that
gains.

Needs neither compiled code nor the solver of the cover's program, so it works while these load.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from .groups import Candidate, Pool
from .order import reorder

FARTHEST = 40
"""Positions between two subgraphs that are tried together."""
LARGEST = 24
"""Operations in a subgraph made by joining."""
ROUNDS = 6
"""Passes over the schedule, at most."""


def improve_greedily(
    pool: Pool, sequence: Sequence[Candidate], chance: random.Random, late: Callable[[], bool]
) -> list[Candidate]:
    """A sequence no slower than the given one, which hands nothing over."""
    state = _Greedy(pool, sequence)
    for _ in range(ROUNDS):
        state.sequence = reorder(state.sequence, chance)
        joined = state.join(late)
        if late() or not joined:
            break
    if not late():
        state.link(late)
    return state.sequence


class _Greedy:
    def __init__(self, pool: Pool, sequence: Sequence[Candidate]):
        self.pool = pool
        self.sequence = list(sequence)
        self.needing = Counter(t for c in sequence for t in c.needs)
        self.outputs = frozenset(pool.problem.graph_outputs)

    def join(self, late: Callable[[], bool]) -> int:
        """Tile subgraphs, and join them with what they read from; how many were."""
        joined = 0
        position = 0
        while position < len(self.sequence) and not late():
            candidate = self._tiled(position)
            for earlier in range(position - 1, max(-1, position - 1 - FARTHEST), -1):
                reads = not set(self.sequence[earlier].writes).isdisjoint(candidate.needs)
                if reads and self._joined(earlier, position):
                    joined += 1
                    position -= 1
                    break
            position += 1
        return joined

    def _tiled(self, position: int) -> Candidate:
        """The subgraph at a position, in its best tiling."""
        candidate = self.sequence[position]
        best = self.pool.add(candidate.mask)
        if best is not None and best.latency < candidate.latency:
            self.sequence[position] = candidate = best
        return candidate

    def _joined(self, first: int, second: int) -> bool:
        """Join the subgraphs at two positions, if that is possible and gains."""
        one = self.sequence[first]
        other = self.sequence[second]
        mask = one.mask | other.mask
        if mask.bit_count() > LARGEST or mask in (one.mask, other.mask):
            return False
        made = set(one.writes)
        soon: list[Candidate] = []
        after: list[Candidate] = []  # waits for the first, so it comes after both
        for candidate in self.sequence[first + 1 : second]:
            waits = not made.isdisjoint(candidate.needs)
            (after if waits else soon).append(candidate)
            if waits:
                made.update(candidate.writes)
        if made.difference(one.writes).intersection(other.needs):
            return False
        both = self.pool.add(mask)
        if both is None or both.latency >= (one.latency + other.latency) * (1 - 1e-12):
            return False
        inside = Counter((*one.needs, *other.needs))
        for tensor in {*one.writes, *other.writes} - set(both.writes):
            if tensor in self.outputs or self.needing[tensor] > inside[tensor]:
                return False
        self.needing.subtract(inside)
        self.needing.update(both.needs)
        self.sequence[first : second + 1] = [*soon, both, *after]
        return True

    def link(self, late: Callable[[], bool]) -> None:
        """Hand a tensor over between neighbours, where only the second needs it."""
        for position, (first, second) in enumerate(
            zip(self.sequence, self.sequence[1:], strict=False)
        ):
            if late():
                return
            first = self.sequence[position]
            for tensor in set(first.writes).intersection(second.needs):
                if self.needing[tensor] > 1 or tensor not in self.pool.retainable(first.mask):
                    continue
                giver = first.mask, first.resident, (tensor,)
                taker = second.mask, (tensor,), second.retain
                self.pool.add_variant(*giver)
                self.pool.add_variant(*taker)
                gives = self.pool.variants[giver]
                takes = self.pool.variants[taker]
                if (
                    gives is not None
                    and takes is not None
                    and gives.latency + takes.latency < first.latency + second.latency
                ):
                    self.sequence[position : position + 2] = gives, takes
                    break
