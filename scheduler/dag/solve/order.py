"""Orders of a schedule's subgraphs: which are valid, and one drawn at random."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from .groups import Candidate

MANY_RELATED = 24
"""Subgraphs that touch a tensor, above which the tensor does not make them related."""


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
    """The same candidates in another valid order, drawn so that related ones come together."""
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


def _draw(
    waiting: list[int], frees: list[set[int]], related: list[list[int]], chance: random.Random
) -> Iterator[int]:
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
