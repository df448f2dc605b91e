"""Accesses that race a store: an element of a load, or of another store, and one of the store that
touch the same values of a tensor, where neither waits for the other.

An element waits for what its operator has taken to make it, for what gave that, and so on. So the
order is that of the program, whatever the cycles of a run are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..graph import Graph, Operator
from ..operators.tensors import TensorStore
from .evaluator import Evaluator


@dataclass(frozen=True)
class Race:
    """The first pair of two operators; elements are counted from 0, the place is in elements of the
    tensor. ``read`` is the element of ``other``, which may be a store too.
    """

    other: Operator
    store: TensorStore
    read: int
    written: int
    row: int
    col: int


def contested(graph: Graph) -> list[tuple[Operator, TensorStore]]:
    """Loads, or other stores, and stores of the same tensor."""
    pairs = []
    for tensor in graph.tensors.values():
        users = graph.users(tensor)
        stores = [n for n in users if isinstance(n, TensorStore)]
        pairs += [(n, s) for n in users for s in stores if n not in stores]
        pairs += itertools.combinations(stores, 2)
    return pairs


def races(graph: Graph, ev: Evaluator) -> list[Race]:
    """The races of a program that an evaluator has run with its history; one for each pair."""
    made = {name: _emissions(steps) for name, steps in ev.history.items()}
    found = []
    orders: dict[Operator, _Order] = {}
    for other, store in contested(graph):
        reads, writes = (np.array(ev.accesses.get(n.name, []), int) for n in (other, store))
        if not len(reads) or not len(writes):
            continue
        for node in (other, store):
            orders.setdefault(node, _Order(ev, made, node))
        first = orders[other].before(store)
        for i, (_, row, col, end_row, end_col) in enumerate(reads):
            late = writes[first[i] :]
            meet = (late[:, 1] < end_row) & (late[:, 3] > row)
            meet &= (late[:, 2] < end_col) & (late[:, 4] > col)
            open_ = [first[i] + j for j in np.flatnonzero(meet)]
            if open_ and orders[store].before(other)[open_[0]] <= i:
                at = writes[open_[0]]
                place = int(max(row, at[1])), int(max(col, at[2]))
                found.append(Race(other, store, i, int(open_[0]), *place))
                break
    return found


def _emissions(steps: list[tuple[int, tuple[int, ...]]]) -> dict[int, list[int]]:
    """Emissions by output: the step in which each element was given."""
    given: dict[int, list[int]] = {}
    for step, (port, _) in enumerate(steps):
        given.setdefault(port, []).append(step)
    return given


class _Order:
    """Progress of all operators before each access of one of them, if no more is done than that
    access waits for.
    """

    def __init__(self, ev: Evaluator, made: dict[str, dict[int, list[int]]], node: Operator):
        self.ev = ev
        self.made = made
        self.node = node
        self.nodes = {n.name: n for n in node.graph.nodes}

    @cached_property
    def _progress(self) -> dict[str, list[int]]:
        """Progress by operator with accesses: the steps it has done before each access of this
        one.
        """
        done = dict.fromkeys(self.ev.history, 0)
        progress: dict[str, list[int]] = {name: [] for name in self.ev.accesses}
        for step, *_ in self.ev.accesses[self.node.name]:
            if step:
                self._do(done, self.node.name, step - 1)
            while missing := self._missing(done, self.node.name, step):
                self._do(done, *missing)
            for name, rows in progress.items():
                rows.append(done[name])
        return progress

    def _missing(self, done: dict[str, int], name: str, step: int) -> tuple[str, int] | None:
        """An operator's step that a step waits for and that is not done."""
        for stream, taken in zip(
            self.nodes[name].inputs, self.ev.history[name][step][1], strict=True
        ):
            if taken:
                last = self.made[stream.node.name][stream.port][taken - 1]
                if done[stream.node.name] <= last:
                    return stream.node.name, last
        return None

    def _do(self, done: dict[str, int], name: str, last: int) -> None:
        """Do an operator's steps up to one, and what they wait for."""
        stack = [(name, last)]
        while stack:
            name, last = stack[-1]
            if done[name] > last:
                stack.pop()
            elif missing := self._missing(done, name, done[name]):
                stack.append(missing)
            else:
                done[name] += 1

    def before(self, other: Operator) -> np.ndarray:
        """Number of accesses of another operator before each of this one's."""
        steps = [step for step, *_ in self.ev.accesses[other.name]]
        return np.searchsorted(steps, self._progress[other.name])
