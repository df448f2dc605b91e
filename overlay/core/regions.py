"""Conditional regions of a dataflow graph: nodes between ``then`` or ``else`` and ``merge``.

A node fires if its operands come. The operands of a node belong to one region, so either all come
or none; what a region needs from outside passes a ``then`` or ``else`` of its condition, and what
leaves it a ``merge`` of both sides. A region in a region is taken if both are.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...machine import arith
from ...machine.errors import ProgramError
from .ops import Op

if TYPE_CHECKING:
    from .dataflow import DataflowGraph


@dataclass(frozen=True)
class Regions:
    """Regions of a graph; region 0 is the whole graph."""

    of: np.ndarray  # int32 [nodes]: region in which each node's value is
    fires_in: np.ndarray  # int32 [nodes]: region in which it fires: of a switch, the one around
    # by region: the region around it, its condition's node, whether it is taken where that is not 0
    around: Sequence[int]
    condition: Sequence[int]
    side: Sequence[bool]
    # by merge: the condition, and the operands where it is not 0 and where it is
    merges: dict[int, tuple[int, int, int]]

    @cached_property
    def outermost(self) -> np.ndarray:
        """int64 [nodes]: the condition of the outermost region around each node's value, or -1."""
        found = [-1]
        for around, condition in zip(self.around[1:], self.condition[1:], strict=True):
            found.append(found[around] if around else condition)
        return np.array(found)[self.of]

    def taken(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes that fire and nodes whose value is sent on, bool [nodes, *batch] both, given every
        node's value.
        """
        is_taken = np.ones((len(self.around), *values.shape[1:]), bool)
        for k in range(1, len(self.around)):
            open_ = arith.canonical(values[self.condition[k]]) != 0
            is_taken[k] = is_taken[self.around[k]] & (open_ == self.side[k])
        return is_taken[self.fires_in], is_taken[self.of]

    def merged(self, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values of merges, given those before them."""
        condition, there, otherwise = np.array([self.merges[node] for node in nodes.tolist()]).T
        open_ = arith.canonical(values[condition]) != 0
        return np.where(open_, values[there], values[otherwise])


def regions(graph: DataflowGraph) -> Regions:
    """The regions; ProgramError names a node whose operands belong to different ones."""
    n = len(graph)
    of = np.zeros(n, np.int32)
    fires_in = np.zeros(n, np.int32)
    known: dict[tuple[int, int, bool], int] = {(-1, -1, True): 0}
    keys = [(-1, -1, True)]
    merges: dict[int, tuple[int, int, int]] = {}
    original = list(range(n))  # of a copy (a value joined with itself), the node that is copied
    for i, op, a, b in _rows(graph):
        if a < 0:
            continue
        if op == Op.JOIN and a == b:
            original[i] = original[a]
        first = int(of[a])
        second = int(of[b]) if b >= 0 else first
        fires_in[i] = first
        if op == Op.MERGE:
            around, condition, side = keys[first]
            if keys[second] != (around, condition, not side):
                raise _refused(graph, i, "a merge has both sides of one condition")
            merges[i] = (condition, a, b) if side else (condition, b, a)
            of[i] = fires_in[i] = around
            continue
        if first != second:
            rule = "operands of a node are of one region"
            raise _refused(graph, i, rule)
        of[i] = first
        if op in (Op.THEN, Op.ELSE):
            key = (first, original[a], op == Op.THEN)
            of[i] = known.setdefault(key, len(keys))
            if of[i] == len(keys):
                keys.append(key)
    for name, i in zip(graph.output_names, graph.outputs, strict=True):
        if of[i]:
            raise ProgramError(
                f"output {name} is inside a conditional region",
                f"dataflow graph {graph.title}, node {graph.label(i)}",
                "an output has a value in every run",
                "merge it with a value of the other side",
            )
    around, condition, side = zip(*keys, strict=True)
    return Regions(of, fires_in, around, condition, side, merges)


def _rows(graph: DataflowGraph) -> Iterator[tuple[int, int, int, int]]:
    """Number, operation and operands of each node."""
    op: list[int] = graph.op.tolist()
    a: list[int] = graph.a.tolist()
    b: list[int] = graph.b.tolist()
    yield from zip(range(len(op)), op, a, b, strict=True)


def _refused(graph: DataflowGraph, node: int, rule: str) -> ProgramError:
    return ProgramError(
        f"operands {graph.label(graph.a[node])} and {graph.label(graph.b[node])} are of different "
        "regions",
        f"dataflow graph {graph.title}, node {graph.label(node)}",
        rule,
        "take what comes from outside through then or else of the region's condition",
    )


class Rows:
    """Nodes of a graph in the making, and for each the node from which it stems."""

    def __init__(self):
        self.rows: list[tuple[Op, int, int, float]] = []
        self.origin: list[int] = []
        self.node = 0

    def __call__(self, op: Op, a: int, b: int, value: float = 0.0) -> int:
        self.rows.append((op, a, b, value))
        self.origin.append(self.node)
        return len(self.rows) - 1


def selected(graph: DataflowGraph, kept: Container[int]) -> tuple[Rows, list[int]]:
    """Nodes of a graph that executes both sides and selects, and each node's place there; outermost
    regions of the conditions ``kept`` stay conditional. An operand of their merges is an operation
    of its own: a copy where it is not.
    """
    new = Rows()
    at: list[int] = []
    nots: dict[int, int] = {}
    zeros: dict[int, int] = {}
    defines: set[int] = set()
    r = graph.regions
    outermost = r.outermost

    def zero(region: int) -> int:
        """A zero in a region that stays, or in the whole graph."""
        if region not in zeros:
            if not region:
                zeros[region] = new(Op.CONST, -1, -1)
            else:
                side = Op.THEN if r.side[region] else Op.ELSE
                zeros[region] = new(side, at[r.condition[region]], zero(0))
        return zeros[region]

    def defining(row: int) -> int:
        if row in defines or new.rows[row][0] in (Op.THEN, Op.ELSE):
            row = new(Op.JOIN, row, row)
        defines.add(row)
        return row

    for i, op, a, b in _rows(graph):
        new.node = i
        stays = outermost[a if op == Op.MERGE else i] in kept
        around: int = r.around[int(r.of[a if op == Op.MERGE else i])]
        if op in (Op.THEN, Op.ELSE) and not (stays and not around):
            at.append(at[b])
        elif op == Op.MERGE and stays and not around:
            at.append(new(Op.MERGE, defining(at[a]), defining(at[b])))
        elif op == Op.MERGE:
            c, there, otherwise = [at[k] for k in r.merges[i]]
            region = int(r.of[i]) if stays else 0
            while region and r.around[region]:
                region = r.around[region]
            if c not in nots:
                nots[c] = new(Op.EQ, c, zero(region))
            left, right = new(Op.GATE, c, there), new(Op.GATE, nots[c], otherwise)
            at.append(new(Op.JOIN, left, right))
        else:
            left, right = (at[k] if k >= 0 else -1 for k in (a, b))
            at.append(new(Op(op), left, right, float(graph.value[i])))
    return new, at
