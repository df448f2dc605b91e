"""Demand of one subgraph: which slices it loads, which operations it executes, and when.

The outputs of a subgraph are produced tile by tile; each output tile asks its producer for a slice,
the producer asks for slices of its inputs, and so on up to the tensors that come from outside.  The
result, a `Plan`, does not depend on the granularity: extents are named (`Extent`), not numbers.

- A pointwise operation asks for the slice it is asked for, of every input.
- A MatMul that makes an output tile is *outer*: it runs over its reduction in steps of k and asks
  for a (tile rows x step) slice of the left operand and a (step x tile columns) slice of the right.
- A MatMul whose product is an operand of another MatMul is *inner*: it makes the slice asked for
  anew in every step, over its whole reduction.
- A pointwise operation that feeds a MatMul fires once per tile, before the first step, on the whole
  reduction, which the tile must cover.  All other pointwise operations fire on the last step of the
  tile.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from ...machine.errors import PenstockError
from .problem import Problem
from .readings import Readings


class ScheduleError(PenstockError):
    """A schedule, or one of its subgraphs, that breaks a rule of the statement."""


class Extent(enum.IntEnum):
    """One side of a slice."""

    TILE = 0  #: the tile's own rows (h) or columns (w), clipped at the edge
    STEP = 1  #: the k elements of this reduction step
    FULL = 2  #: a whole reduction, streamed
    COVER = 3  #: a whole reduction within one tile, made by a pointwise operation


class Role(enum.IntEnum):
    """Use of a tensor; equal slices share a buffer only in the same role."""

    POINTWISE = 0
    LEFT = 1
    RIGHT = 2


@dataclass(slots=True)
class Activity:
    """The steps of a tile in which something happens.

    `depth` is the longest reduction it follows (steps 0 .. ceil(depth / k) - 1), 0 for none.
    """

    first: bool = False
    last: bool = False
    depth: int = 0

    def add(self, other: Activity) -> None:
        self.first |= other.first
        self.last |= other.last
        self.depth = max(self.depth, other.depth)

    def at(self, step: int, steps: int, k: int) -> bool:
        """True if it happens in this step of a tile of `steps` steps."""
        return (
            (self.first and step == 0) or (self.last and step == steps - 1) or step * k < self.depth
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a tensor that comes from outside the subgraph."""

    tensor: int
    role: Role
    rows: Extent
    cols: Extent
    activity: Activity = field(compare=False, default_factory=Activity)


@dataclass(frozen=True, slots=True)
class Execution:
    """An operation making a slice of its product; `outer` MatMuls accumulate over the steps."""

    op: int
    rows: Extent
    cols: Extent
    outer: bool
    activity: Activity = field(compare=False, default_factory=Activity)


@dataclass(frozen=True, slots=True)
class Cover:
    """The tile is at least `least` wide (axis 'w') or high ('h') because `op` feeds a MatMul."""

    axis: str
    least: int
    op: int


@dataclass(frozen=True)
class Plan:
    """The granularity-independent work of one subgraph.

    `outputs` are the tensors made in full tiles and written out unless retained; `depths` the
    reductions of the outer MatMuls, `limit` the largest k allowed; (`width`, `height`) the extent
    of the grid. `formed` are the products made tile by tile (not only in slices of a reduction),
    `carried` those made on a tile's first step for a MatMul that consumes them in the later steps
    too.
    """

    ops: tuple[int, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    width: int
    height: int
    slices: tuple[Slice, ...]
    executions: tuple[Execution, ...]
    depths: tuple[int, ...]
    covers: tuple[Cover, ...]
    limit: int
    formed: tuple[int, ...]
    carried: tuple[Slice, ...]


def make_plan(
    problem: Problem, ops: tuple[int, ...], readings: Readings, where: str = "subgraph"
) -> Plan:
    """The plan of a subgraph, or a `ScheduleError` naming the rule that forbids it."""
    return _Planner(problem, ops, readings, where).plan()


_Request = tuple[int | None, int, Role, Extent, Extent, Activity]
"""The MatMul of which it is an operand (None: of none); tensor, role, rows, columns, when."""


class _Planner:
    def __init__(self, problem: Problem, ops: tuple[int, ...], readings: Readings, where: str):
        self.problem = problem
        self.ops = ops
        self.readings = readings
        self.where = where
        self.inside = {problem.ops[op].output: op for op in ops}
        self.slices: dict[Slice, Slice] = {}
        self.executions: dict[Execution, Execution] = {}
        self.covers: dict[Cover, None] = {}
        self.carried: dict[Slice, Slice] = {}

    def plan(self) -> Plan:
        problem = self.problem
        members = set(self.ops)
        outputs = tuple(t for t in self.inside if self._is_output(t, members))
        shapes = {problem.tensors[t] for t in outputs}
        if self.readings.output_shapes == "same" and len(shapes) > 1:
            raise ScheduleError(
                f"outputs {list(outputs)} differ in shape",
                where=self.where,
                rule="reading output_shapes=same",
            )
        for tensor in outputs:
            self.ask_all(
                (None, tensor, Role.POINTWISE, Extent.TILE, Extent.TILE, Activity(last=True))
            )
        inputs = dict.fromkeys(
            t for op in self.ops for t in problem.ops[op].inputs if t not in self.inside
        )
        executions = tuple(self.executions.values())
        depths = tuple(problem.reduction(e.op) for e in executions if e.outer)
        return Plan(
            self.ops,
            outputs,
            tuple(inputs),
            max(s.width for s in shapes),
            max(s.height for s in shapes),
            tuple(self.slices.values()),
            executions,
            depths,
            tuple(self.covers),
            self._depth_limit(depths),
            tuple(dict.fromkeys(problem.ops[e.op].output for e in executions if _in_tiles(e))),
            tuple(self.carried.values()),
        )

    def _depth_limit(self, depths: tuple[int, ...]) -> int:
        if self.readings.depth_limit == "every-matmul":
            depths = tuple(
                self.problem.reduction(op) for op in self.ops if self.problem.ops[op].is_matmul
            )
            return min(depths, default=1)
        return max(depths, default=1)

    def _is_output(self, tensor: int, members: set[int]) -> bool:
        users = self.problem.consumers[tensor]
        if not any(op in members for op in users):
            return True
        return self.readings.consumed_outside == "written" and any(
            op not in members for op in users
        )

    def ask_all(self, first: _Request) -> None:
        """A slice is needed, and all that it needs in turn, depth first."""
        pending = [first]
        while pending:
            op, tensor, role, rows, cols, when = pending.pop()
            if op is not None:
                rows, cols, when = self.of_operand(op, tensor, role, rows, cols, when)
            pending.extend(reversed(self.ask(tensor, role, rows, cols, when)))

    def ask(
        self, tensor: int, role: Role, rows: Extent, cols: Extent, when: Activity
    ) -> list[_Request]:
        """A slice of `tensor` is needed: load it, or have its producer make it; what that needs."""
        op = self.inside.get(tensor)
        if op is None:
            wanted = Slice(tensor, role, rows, cols)
            self.slices.setdefault(wanted, wanted).activity.add(when)
            return []
        outer = self.problem.ops[op].is_matmul and rows is cols is Extent.TILE and when.last
        if outer:
            when = Activity(depth=self.problem.reduction(op))
        made = Execution(op, rows, cols, outer)
        made = self.executions.setdefault(made, made)
        before = (made.activity.first, made.activity.last, made.activity.depth)
        made.activity.add(when)
        if (made.activity.first, made.activity.last, made.activity.depth) == before:
            return []
        if not self.problem.ops[op].is_matmul:
            operands = dict.fromkeys(self.problem.ops[op].inputs)
            return [(None, operand, Role.POINTWISE, rows, cols, when) for operand in operands]
        if not outer and self.readings.inner_matmul == "forbidden":
            raise ScheduleError(
                f"op {op} feeds a MatMul of its own subgraph",
                where=self.where,
                rule="reading inner_matmul=forbidden",
            )
        depth = Extent.STEP if outer else Extent.FULL
        left_depth = Extent.FULL if self.readings.split_k_lhs == "resident" else depth
        left, right = self.problem.ops[op].inputs
        return [
            (op, left, Role.LEFT, rows, left_depth, when),
            (op, right, Role.RIGHT, depth, cols, when),
        ]

    def of_operand(
        self, op: int, tensor: int, role: Role, rows: Extent, cols: Extent, when: Activity
    ) -> tuple[Extent, Extent, Activity]:
        """The slice to ask for as an operand of MatMul `op`, and when.

        A pointwise producer inside has to cover the reduction.
        """
        maker = self.inside.get(tensor)
        if (
            maker is None
            or self.problem.ops[maker].is_matmul
            or self.readings.pointwise_into_matmul == "free"
        ):
            return rows, cols, when
        other = rows if role is Role.LEFT else cols
        if other not in (Extent.TILE, Extent.COVER):
            raise ScheduleError(
                f"op {maker} (pointwise) feeds MatMul op {op}, which makes only part of a tile "
                "per step",
                where=self.where,
                rule="a pointwise operation fires once per tile",
            )
        axis = "w" if role is Role.LEFT else "h"
        self.covers[Cover(axis, self.problem.reduction(op), maker)] = None
        if role is Role.LEFT:
            cols = Extent.COVER
        else:
            rows = Extent.COVER
        if self.readings.carried_products == "counted":
            product = Slice(tensor, Role.POINTWISE, rows, cols)
            self.carried.setdefault(product, product).activity.add(when)
        return rows, cols, Activity(first=True)


def _in_tiles(made: Execution) -> bool:
    return {made.rows, made.cols} <= {Extent.TILE, Extent.COVER}
