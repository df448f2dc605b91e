"""Choose candidates that cover operations at least cost: a set cover with hand-overs, as a MILP
(HiGHS).

A binary x_c for each candidate c, a y_t for each tensor t that one needs; minimise the sum of
latencies subject to

- every operation is in a chosen candidate that could be the first to run it;
- every graph output is written by one;
- a chosen candidate's needs are each written by a chosen candidate (x_c <= y_t <= sum of the x that
  write t);
- for each set of tensors R, as many chosen candidates retain exactly R as receive exactly R;
- no circular waiting (added for each circle a solution shows).

The same program chooses anew in a window of a schedule; the rest (`Surroundings`) gives it
constants.

Recomputation is covering an operation more than once.  A candidate that retains something may be
listed, and chosen, more than once: each time for another receiver.  A candidate cannot be the first
to run an operation if it waits for something that depends on that operation.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..problem import Problem
from .groups import Candidate, Key, Pool, bits
from .program import Rows, minimise

Cut = tuple[frozenset[Key], frozenset[int]]
"""A circular wait met: the candidates that wait, and the tensors they wait for."""

LEAST_FOR_RELAXATION = 300
"""Candidates from which on the linear relaxation is solved first, to discard some."""


@dataclass(frozen=True)
class Surroundings:
    """Surroundings of the operations to be chosen for, in the rest of a schedule.

    Parameters
    ----------
    ops : mask of the operations that have to be run here
    written : tensors in slow memory before
    wanted : tensors the rest needs in slow memory after
    received : tensors the candidate just before retains
    given : those the one just after expects
    """

    ops: int
    written: frozenset[int]
    wanted: frozenset[int]
    received: tuple[int, ...] = ()
    given: tuple[int, ...] = ()

    @classmethod
    def none(cls, problem: Problem) -> Surroundings:
        """The whole graph is to be chosen for."""
        inputs = frozenset(t for t, op in enumerate(problem.producer) if op is None)
        return cls((1 << len(problem.ops)) - 1, inputs, frozenset(problem.graph_outputs))


@dataclass(frozen=True)
class Cover:
    """A selection in execution order.

    An empty selection means that none is better than the incumbent; `optimal` that nothing better
    exists among the candidates.
    """

    chosen: tuple[Candidate, ...]
    optimal: bool


def solve_cover(
    pool: Pool,
    candidates: Sequence[Candidate],
    deadline: float,
    incumbent: float = np.inf,
    cuts: list[Cut] | None = None,
    around: Surroundings | None = None,
    tolerance: float = 1e-9,
) -> Cover | None:
    """The cheapest arrangement of candidates found by `deadline` (monotonic); None if none better
    than `incumbent`.

    Parameters
    ----------
    pool
        Where the candidates are from.
    candidates
        What may be chosen.
    deadline
        On the clock `time.monotonic()`.
    incumbent
        Latency that a selection has to be below.
    cuts
        The circular waits met so far; those met now are added, for the next call.
    around
        The schedule around a window; default: the whole graph is chosen for.
    tolerance
        Relative difference from the best possible that ends the search.
    """
    around = around or Surroundings.none(pool.problem)
    cuts = [] if cuts is None else cuts
    everything = candidates = list(candidates)
    exact = all(tensors for _, tensors in cuts)  # a cut without tensors is a guess, see below
    repaired: list[Candidate] | None = None
    copied = {key for key, times in Counter(c.key for c in candidates).items() if times > 1}
    if len(candidates) >= LEAST_FOR_RELAXATION:
        relaxed = _relaxation(pool, candidates, cuts, around, deadline)
        if relaxed is not None:
            floor, reduced = relaxed
            if floor >= incumbent * (1 - tolerance):
                return Cover((), exact)
            if np.isfinite(incumbent):
                candidates = [
                    c
                    for c, r in zip(candidates, reduced, strict=True)
                    if floor + r < incumbent * (1 - tolerance)
                ]
    while deadline - time.monotonic() > 0.02:
        rows = _constraints(pool, candidates, cuts, around, deadline)
        if rows is None:
            return Cover((), exact) if time.monotonic() < deadline else None
        result = minimise(
            _costs(rows, candidates),
            rows,
            deadline,
            whole=len(candidates),
            most=1.0,
            tolerance=tolerance,
        )
        if result is None or result.values is None:
            if result is not None and result.infeasible:
                return Cover((), exact)
            break
        chosen = [c for c, x in zip(candidates, result.values, strict=False) if x > 0.5]
        order, waiting = arrange(chosen, around)
        if waiting and repaired is None:
            repaired = _repair(pool.problem, order, waiting, everything, around)
        if not waiting:
            if sum(c.latency for c in order) >= incumbent * (1 - 1e-9):
                return Cover((), exact and result.optimal)
            return Cover(tuple(order), exact and result.optimal)
        written = around.written.union(*((*c.writes, *c.retain) for c in order))
        for keys, tensors in _circles(waiting, written):
            if any(
                tensors.intersection((*c.writes, *c.retain)) for c in chosen if c.key not in keys
            ):
                # never this combination again
                keys = frozenset(c.key for c in waiting)
                tensors = frozenset()
                exact = False
            exact = exact and copied.isdisjoint(keys)  # the cut allows no two copies then
            cuts.append((keys, tensors))
    if repaired is not None and sum(c.latency for c in repaired) < incumbent * (1 - 1e-9):
        return Cover(tuple(repaired), False)
    return None


def _repair(
    problem: Problem,
    order: list[Candidate],
    waiting: list[Candidate],
    candidates: Sequence[Candidate],
    around: Surroundings,
) -> list[Candidate] | None:
    """Break circular waits by running the operations that wait, and what they miss, one by one."""
    if around.received or around.given:
        return None
    alone = {c.ops[0]: c for c in candidates if len(c.ops) == 1 and not c.resident and not c.retain}
    chosen = {c.key: c for c in order}
    written = around.written.union(*(c.writes for c in order))
    missing = {op for c in waiting for op in c.ops}
    while missing:
        op = missing.pop()
        if op not in alone:
            return None
        chosen[alone[op].key] = alone[op]
        written = written.union(alone[op].writes)
        missing.update(
            p
            for t in alone[op].needs
            if t not in written and (p := problem.producer[t]) is not None
        )
    order, waiting = arrange(list(chosen.values()), around)
    return None if waiting else order


def _circles(waiting: Sequence[Candidate], written: frozenset[int]) -> list[Cut]:
    """Circular waits among candidates none of which can go first, at least one."""
    unmet = {
        c.key: {t for t in (*c.needs, *c.resident) if t not in written or t in c.resident}
        for c in waiting
    }
    blockers = {
        c.key: [
            b
            for b in waiting
            if b.key != c.key and unmet[c.key].intersection((*b.writes, *b.retain))
        ]
        for c in waiting
    }
    for c in waiting:  # a giver waits for what its receivers wait for
        for receiver in waiting:
            if c.retain and receiver.resident == c.retain:
                blockers[c.key] += [
                    b for b in blockers[receiver.key] if b.key not in (c.key, receiver.key)
                ]
    cuts: dict[frozenset[Key], Cut] = {}
    for start in waiting:
        trail: list[Candidate] = []
        at = start
        while at not in trail and blockers[at.key]:
            trail.append(at)
            at = next((b for b in blockers[at.key] if b in trail), blockers[at.key][0])
        if at in trail:
            circle = trail[trail.index(at) :]
            retained = {c.retain for c in circle if c.retain}
            involved = [
                *circle,
                *(c for c in waiting if c.resident in retained and c not in circle),
            ]
            members = frozenset(c.key for c in involved)
            cuts[members] = members, frozenset().union(*(unmet[key] for key in members))
    if not cuts:  # the whole set waits
        everyone = frozenset(c.key for c in waiting)
        cuts[everyone] = everyone, frozenset().union(*unmet.values())
    return list(cuts.values())


def _costs(rows: Rows, candidates: list[Candidate]) -> np.ndarray:
    cost = np.zeros(rows.columns)
    cost[: len(candidates)] = [c.latency for c in candidates]
    return cost


def _constraints(
    pool: Pool, candidates: list[Candidate], cuts: list[Cut], around: Surroundings, deadline: float
) -> Rows | None:
    """The rows of the program; None if some operation has no candidate, or if time is up."""
    rows = Rows()
    writers: dict[int, list[tuple[int, float]]] = defaultdict(list)
    covering: dict[int, list[tuple[int, float]]] = {op: [] for op in bits(around.ops)}
    links: dict[tuple[int, ...], list[tuple[int, float]]] = defaultdict(list)
    for index, candidate in enumerate(candidates):
        if index % 256 == 0 and time.monotonic() >= deadline:
            return None
        for tensor in candidate.writes:
            writers[tensor].append((index, 1.0))
        for op in bits(candidate.mask & around.ops & ~pool.run_elsewhere(candidate.mask)):
            covering[op].append((index, 1.0))
        if candidate.retain:
            links[candidate.retain].append((index, 1.0))
        if candidate.resident:
            links[candidate.resident].append((index, -1.0))
    for runs in (*covering.values(), *(writers[tensor] for tensor in around.wanted)):
        if not runs:
            return None
        rows.add(runs, 1.0)
    for tensors in {*links, around.received, around.given} - {()}:
        more = float((tensors == around.given) - (tensors == around.received))
        if more and not links[tensors]:
            return None
        rows.add(links[tensors], more, more)
    written: dict[int, int] = {}  # the variable that says that a tensor is written
    for index, candidate in enumerate(candidates):
        for tensor in candidate.needs:
            if tensor in around.written:
                continue
            if tensor not in written:
                written[tensor] = len(candidates) + len(written)
                rows.add([*writers[tensor], (written[tensor], -1.0)], 0.0)
            rows.add([(written[tensor], 1.0), (index, -1.0)], 0.0)
    rows.columns = len(candidates) + len(written)
    _add_cuts(rows, candidates, cuts)
    return rows


def _add_cuts(rows: Rows, candidates: list[Candidate], cuts: list[Cut]) -> None:
    """Add cuts for operations that wait in a circle: not all are chosen without one that relieves
    them.
    """
    for keys, tensors in cuts:
        stuck = [(i, -1.0) for i, c in enumerate(candidates) if c.key in keys]
        if len({candidates[i].key for i, _ in stuck}) < len(keys):
            continue
        relief = [
            (i, 1.0)
            for i, c in enumerate(candidates)
            if c.key not in keys and tensors.intersection((*c.writes, *c.retain))
        ]
        rows.add(stuck + relief, 1.0 - len(keys))


def _relaxation(
    pool: Pool, candidates: list[Candidate], cuts: list[Cut], around: Surroundings, deadline: float
) -> tuple[float, np.ndarray] | None:
    """Value of the linear relaxation and the reduced cost of each candidate."""
    rows = _constraints(pool, candidates, cuts, around, deadline)
    left = deadline - time.monotonic()
    if rows is None or left < 0.05:
        return None
    result = minimise(_costs(rows, candidates), rows, deadline)
    if result is None or not result.optimal:
        return None
    return result.objective, np.maximum(result.reduced[: len(candidates)], 0.0)


def arrange(
    chosen: Sequence[Candidate], around: Surroundings
) -> tuple[list[Candidate], list[Candidate]]:
    """(execution order, candidates that wait for each other); hand-overs become neighbours.

    The first takes what the surroundings hand over, the last hands over what they expect.
    """
    receivers: dict[tuple[int, ...], list[Candidate]] = defaultdict(list)
    for candidate in chosen:
        if candidate.resident:
            receivers[candidate.resident].append(candidate)
    heads = [c for c in chosen if not c.resident]
    if around.received and receivers[around.received]:
        heads = [receivers[around.received].pop(), *heads]
    written = set(around.written)
    order: list[Candidate] = []
    progress = True
    while heads and progress:
        progress = False
        for head in list(heads):
            if around.received and not order and head is not heads[0]:
                break
            chain = _chain(head, written, receivers, around.given if len(heads) == 1 else ())
            if chain is None:
                continue
            heads.remove(head)
            for candidate in chain:
                written.update(candidate.writes)
                if candidate in receivers[candidate.resident]:
                    receivers[candidate.resident].remove(candidate)
            order.extend(chain)
            progress = True
    placed = Counter(c.key for c in order)
    waiting = []
    for candidate in chosen:
        if not placed[candidate.key]:
            waiting.append(candidate)
        placed[candidate.key] -= placed[candidate.key] > 0
    return order, waiting


def _chain(
    candidate: Candidate,
    written: set[int],
    receivers: dict[tuple[int, ...], list[Candidate]],
    given: tuple[int, ...],
    used: tuple[Candidate, ...] = (),
) -> list[Candidate] | None:
    """The candidate and its hand-overs down to one that retains nothing (or what is `given` to the
    rest).

    None if their needs are not all written by then.
    """
    if not written.issuperset(candidate.needs):
        return None
    if not candidate.retain:
        return [candidate]
    after = written.union(candidate.writes)
    for receiver in receivers[candidate.retain]:
        if receiver not in used:
            rest = _chain(receiver, after, receivers, given, (*used, receiver))
            if rest is not None:
                return [candidate, *rest]
    return [candidate] if candidate.retain == given else None
