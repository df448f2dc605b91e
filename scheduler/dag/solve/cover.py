"""Choose candidates that cover every operation at least cost: a set cover with hand-overs, as a MILP (HiGHS).

Binary x_c per candidate c; minimise the sum of latencies subject to

- every operation is in a chosen candidate that could be the first to run it;
- every graph output is written by one;
- a chosen candidate's needs are each written by a chosen candidate;
- for each set of tensors R, as many chosen candidates retain exactly R as receive exactly R;
- no circular waiting (added for each circle a solution shows).

Recomputation is covering an operation more than once.  A candidate cannot be the first to run an operation if it waits
for something that depends on that operation.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix

from ..problem import Problem
from .groups import Candidate, Key

__all__ = ["Cover", "Cut", "solve_cover", "arrange"]

Cut = tuple[frozenset[Key], frozenset[int]]
"""A circular wait met: the candidates that wait, and the tensors they wait for."""


@dataclass(frozen=True)
class Cover:
    """A selection in execution order.

    An empty selection means that none is better than the incumbent; `optimal` that nothing better exists among the
    candidates.
    """

    chosen: tuple[Candidate, ...]
    optimal: bool


class _Rows:
    """Sparse rows low <= a.x <= high."""

    def __init__(self) -> None:
        self.data: list[float] = []
        self.row: list[int] = []
        self.col: list[int] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.columns = 0

    def add(self, entries: Sequence[tuple[int, float]], low: float, high: float = np.inf) -> None:
        for column, value in entries:
            self.row.append(len(self.low))
            self.col.append(column)
            self.data.append(value)
        self.low.append(low)
        self.high.append(high)

    def matrix(self) -> csr_matrix:
        return csr_matrix((self.data, (self.row, self.col)), shape=(len(self.low), self.columns))


def solve_cover(problem: Problem, candidates: Sequence[Candidate], deadline: float, incumbent: float = np.inf,
                cuts: list[Cut] | None = None) -> Cover | None:
    """The cheapest arrangement of candidates found by `deadline` (monotonic); None if none better than `incumbent`.

    `cuts` collects the circular waits met, for the next call.
    """
    cuts = [] if cuts is None else cuts
    everything = candidates = list(candidates)
    exact = all(tensors for _, tensors in cuts)  # a cut without tensors is a guess, see below
    repaired: list[Candidate] | None = None
    relaxed = _relaxation(problem, candidates, cuts, deadline)
    if relaxed is not None:
        floor, reduced = relaxed
        if floor >= incumbent * (1 - 1e-9):
            return Cover((), exact)
        if np.isfinite(incumbent):
            candidates = [c for c, r in zip(candidates, reduced) if floor + r < incumbent * (1 - 1e-9)]
    while (left := deadline - time.monotonic()) > 0.02:
        rows = _constraints(problem, candidates, cuts)
        if rows is None:
            return Cover((), exact)
        limits = LinearConstraint(rows.matrix(), rows.low, rows.high)
        cost = np.zeros(rows.columns)
        cost[:len(candidates)] = [c.latency for c in candidates]
        whole = np.zeros(rows.columns)
        whole[:len(candidates)] = 1
        result = _interruptibly(lambda: milp(cost, integrality=whole, bounds=Bounds(0, 1), constraints=limits,
                                             options={"time_limit": left, "mip_rel_gap": 1e-9}))
        if result.x is None:
            if result.status == 2:
                return Cover((), exact)
            break
        chosen = [c for c, x in zip(candidates, result.x) if x > 0.5]
        order, waiting = arrange(problem, chosen)
        if waiting and repaired is None:
            repaired = _repair(problem, order, waiting, everything)
        if not waiting:
            if sum(c.latency for c in order) >= incumbent * (1 - 1e-9):
                return Cover((), exact and result.status == 0)
            return Cover(tuple(order), exact and result.status == 0)
        written = {t for c in order for t in (*c.writes, *c.retain)}
        for keys, tensors in _circles(waiting, written):
            if any(tensors.intersection((*c.writes, *c.retain)) for c in chosen if c.key not in keys):
                keys, tensors, exact = frozenset(c.key for c in waiting), frozenset(), False  # never this combination again
            cuts.append((keys, tensors))
    if repaired is not None and sum(c.latency for c in repaired) < incumbent * (1 - 1e-9):
        return Cover(tuple(repaired), False)
    return None


def _repair(problem: Problem, order: list[Candidate], waiting: list[Candidate], candidates: Sequence[Candidate]) -> list[Candidate] | None:
    """Break circular waits by running the operations that wait, and what they miss, one by one."""
    alone = {c.ops[0]: c for c in candidates if len(c.ops) == 1 and not c.resident and not c.retain}
    chosen = {c.key: c for c in order}
    written = {t for c in order for t in c.writes}
    missing = {op for c in waiting for op in c.ops}
    while missing:
        op = missing.pop()
        if op not in alone:
            return None
        chosen[alone[op].key] = alone[op]
        written.update(alone[op].writes)
        missing.update(p for t in alone[op].needs if t not in written and (p := problem.producer[t]) is not None)
    order, waiting = arrange(problem, list(chosen.values()))
    return None if waiting else order


def _circles(waiting: Sequence[Candidate], written: set[int]) -> list[Cut]:
    """Circular waits among candidates none of which can go first, at least one."""
    unmet = {c.key: {t for t in (*c.needs, *c.resident) if t not in written or t in c.resident} for c in waiting}
    blockers = {c.key: [b for b in waiting if b.key != c.key and unmet[c.key].intersection((*b.writes, *b.retain))] for c in waiting}
    for c in waiting:  # a giver waits for what its receivers wait for
        for receiver in waiting:
            if c.retain and receiver.resident == c.retain:
                blockers[c.key] += [b for b in blockers[receiver.key] if b.key not in (c.key, receiver.key)]
    cuts: dict[frozenset[Key], Cut] = {}
    for start in waiting:
        trail: list[Candidate] = []
        at = start
        while at not in trail and blockers[at.key]:
            trail.append(at)
            at = next((b for b in blockers[at.key] if b in trail), blockers[at.key][0])
        if at in trail:
            circle = trail[trail.index(at):]
            retained = {c.retain for c in circle if c.retain}
            involved = [*circle, *(c for c in waiting if c.resident in retained and c not in circle)]
            members = frozenset(c.key for c in involved)
            cuts[members] = members, frozenset().union(*(unmet[key] for key in members))
    if not cuts:  # the whole set waits
        everyone = frozenset(c.key for c in waiting)
        cuts[everyone] = everyone, frozenset().union(*unmet.values())
    return list(cuts.values())


def _ancestors(problem: Problem) -> list[int]:
    """For each operation, the mask of those it depends on."""
    above = [0] * len(problem.ops)
    for op in problem.topological:
        for tensor in problem.ops[op].inputs:
            producer = problem.producer[tensor]
            if producer is not None:
                above[op] |= above[producer] | 1 << producer
    return above


def _run_elsewhere(mask: int, ops: Sequence[int], above: list[int]) -> int:
    """Operations of the set that something the set waits for depends on."""
    before = 0
    for op in ops:
        before |= above[op]
    between, rest = 0, before & ~mask
    while rest:
        low = rest & -rest
        rest ^= low
        if above[low.bit_length() - 1] & mask:
            between |= above[low.bit_length() - 1]
    return between & mask


_T = TypeVar("_T")


def _interruptibly(call: Callable[[], _T]) -> _T:
    """Run a long call into HiGHS on a helper thread, so that Ctrl-C reaches the caller at once."""
    box: list[_T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            box.append(call())
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
    if failure:
        raise failure[0]
    return box[0]


def _constraints(problem: Problem, candidates: list[Candidate], cuts: list[Cut]) -> _Rows | None:
    """The rows of the program; None if some operation has no candidate."""
    rows = _Rows()
    writers: dict[int, list[int]] = defaultdict(list)
    covering: dict[int, list[int]] = defaultdict(list)
    links: dict[tuple[int, ...], list[tuple[int, float]]] = defaultdict(list)
    above = _ancestors(problem)
    for index, candidate in enumerate(candidates):
        for tensor in candidate.writes:
            writers[tensor].append(index)
        again = _run_elsewhere(candidate.mask, candidate.ops, above)
        for op in candidate.ops:
            if not again >> op & 1:
                covering[op].append(index)
        if candidate.retain:
            links[candidate.retain].append((index, 1.0))
        if candidate.resident:
            links[candidate.resident].append((index, -1.0))
    for op in range(len(problem.ops)):
        if not covering[op]:
            return None
        rows.add([(i, 1.0) for i in covering[op]], 1.0)
    for tensor in problem.graph_outputs:
        rows.add([(i, 1.0) for i in writers[tensor]], 1.0)
    for entries in links.values():
        rows.add(entries, 0.0, 0.0)
    written: dict[int, int] = {}  # the variable that says that a tensor is written
    for index, candidate in enumerate(candidates):
        for tensor in candidate.needs:
            if tensor not in written:
                written[tensor] = len(candidates) + len(written)
                rows.add([*((i, 1.0) for i in writers[tensor]), (written[tensor], -1.0)], 0.0)
            rows.add([(written[tensor], 1.0), (index, -1.0)], 0.0)
    rows.columns = len(candidates) + len(written)
    for keys, tensors in cuts:
        stuck = [(i, -1.0) for i, c in enumerate(candidates) if c.key in keys]
        if len(stuck) < len(keys):
            continue
        relief = [(i, 1.0) for i, c in enumerate(candidates) if c.key not in keys and tensors.intersection((*c.writes, *c.retain))]
        rows.add(stuck + relief, 1.0 - len(stuck))
    return rows


def _relaxation(problem: Problem, candidates: list[Candidate], cuts: list[Cut], deadline: float) -> tuple[float, np.ndarray] | None:
    """Value of the linear relaxation and the reduced cost of each candidate."""
    rows = _constraints(problem, candidates, cuts)
    left = deadline - time.monotonic()
    if rows is None or left < 0.05:
        return None
    matrix = rows.matrix()
    cost = np.zeros(rows.columns)
    cost[:len(candidates)] = [c.latency for c in candidates]
    equal = np.array(rows.low) == np.array(rows.high)
    low = np.array(rows.low)
    result = _interruptibly(lambda: linprog(
        cost, A_ub=-matrix[~equal], b_ub=-low[~equal], A_eq=matrix[equal] if equal.any() else None,
        b_eq=low[equal] if equal.any() else None, bounds=(0, None), method="highs", options={"time_limit": left}))
    if result.status != 0:
        return None
    return float(result.fun), np.maximum(result.lower.marginals, 0.0)


def arrange(problem: Problem, chosen: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """(execution order, candidates that wait for each other); hand-overs become neighbours."""
    receivers: dict[tuple[int, ...], list[Candidate]] = defaultdict(list)
    for candidate in chosen:
        if candidate.resident:
            receivers[candidate.resident].append(candidate)
    heads = [c for c in chosen if not c.resident]
    written = {t for t, op in enumerate(problem.producer) if op is None}
    order: list[Candidate] = []
    progress = True
    while heads and progress:
        progress = False
        for head in list(heads):
            chain = _chain(head, written, receivers)
            if chain is not None:
                heads.remove(head)
                for candidate in chain:
                    written.update(candidate.writes)
                    if candidate.resident:
                        receivers[candidate.resident].remove(candidate)
                order.extend(chain)
                progress = True
    placed = {c.key for c in order}
    return order, [c for c in chosen if c.key not in placed]


def _chain(candidate: Candidate, written: set[int], receivers: dict[tuple[int, ...], list[Candidate]],
           used: tuple[Candidate, ...] = ()) -> list[Candidate] | None:
    """The candidate and its hand-overs down to one that retains nothing, if all their needs are written by then."""
    if not written.issuperset(candidate.needs):
        return None
    if not candidate.retain:
        return [candidate]
    after = written.union(candidate.writes)
    for receiver in receivers[candidate.retain]:
        if receiver not in used:
            rest = _chain(receiver, after, receivers, (*used, receiver))
            if rest is not None:
                return [candidate, *rest]
    return None
