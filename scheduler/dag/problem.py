"""The scheduling problem: a DAG of MatMul and pointwise operations and the machine it runs on.

Sizes are in elements, bandwidth in elements per unit of time, costs in units of time.  A tensor no
operation produces is a graph input, one no operation consumes is a graph output (both live in slow
memory).
"""

from __future__ import annotations

import enum
import heapq
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...machine.errors import PenstockError
from ...system.output import write_text
from ...system.reading import check_fields
from .jsonio import load, take_int, take_list, take_number


class OpType(enum.Enum):
    """The two kinds of operation, by their name in the file."""

    MATMUL = "MatMul"
    POINTWISE = "Pointwise"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A matrix of `height` rows and `width` columns."""

    width: int
    height: int

    @property
    def size(self) -> int:
        """Elements."""
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class Op:
    """An operation: MatMul of (left, right), or pointwise over equal shapes; one product.

    `cost` is the time of one native tile (of the whole reduction, for a MatMul under the default
    reading).
    """

    kind: OpType
    inputs: tuple[int, ...]
    output: int
    cost: float

    @property
    def is_matmul(self) -> bool:
        return self.kind is OpType.MATMUL


@dataclass(frozen=True)
class Problem:
    """A validated problem.

    Parameters
    ----------
    tensors, ops : the graph; indices are those of the file
    capacity : fast memory, elements
    bandwidth : slow memory, elements per unit of time
    native : native tile (width, height); the native reduction depth equals the native width
    """

    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    capacity: float
    bandwidth: float
    native: tuple[int, int]
    name: str = field(default="problem", compare=False)

    def __post_init__(self) -> None:
        _check_graph(self)

    # -- graph -------------------------------------------------------------------------------------

    @cached_property
    def producer(self) -> tuple[int | None, ...]:
        """The operation that produces each tensor; None for a graph input."""
        producer: list[int | None] = [None] * len(self.tensors)
        for index, op in enumerate(self.ops):
            producer[op.output] = index
        return tuple(producer)

    def produces(self, mask: int, tensor: int) -> bool:
        """True if an operation of the set ``mask`` produces the tensor."""
        maker = self.producer[tensor]
        return maker is not None and bool(mask >> maker & 1)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """The operations that consume each tensor, ascending, each once."""
        consumers: list[list[int]] = [[] for _ in self.tensors]
        for index, op in enumerate(self.ops):
            for tensor in dict.fromkeys(op.inputs):
                consumers[tensor].append(index)
        return tuple(tuple(ops) for ops in consumers)

    @cached_property
    def graph_outputs(self) -> tuple[int, ...]:
        """Produced tensors nobody consumes; they must end in slow memory."""
        return tuple(op.output for op in self.ops if not self.consumers[op.output])

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """Operations, producers before consumers; of those ready, the lowest index first."""
        return tuple(_topological_order(self))

    @cached_property
    def rank(self) -> tuple[int, ...]:
        """Position of each operation in `topological`."""
        rank = [0] * len(self.ops)
        for position, op in enumerate(self.topological):
            rank[op] = position
        return tuple(rank)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Masks of the operations that each operation depends on."""
        above = [0] * len(self.ops)
        for op in self.topological:
            for tensor in self.ops[op].inputs:
                producer = self.producer[tensor]
                if producer is not None:
                    above[op] |= above[producer] | 1 << producer
        return tuple(above)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Masks of the operations that depend on each operation."""
        below = [0] * len(self.ops)
        for op in reversed(self.topological):
            for user in self.consumers[self.ops[op].output]:
                below[op] |= below[user] | 1 << user
        return tuple(below)

    def reduction(self, op: int) -> int:
        """K of a MatMul; 1 for a pointwise operation."""
        return self.tensors[self.ops[op].inputs[0]].width if self.ops[op].is_matmul else 1

    @property
    def native_depth(self) -> int:
        """Native reduction depth (the array streams as deep as it is wide)."""
        return self.native[0]

    # -- files -------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Problem:
        """Read and validate a problem file."""
        name = os.path.splitext(os.path.basename(os.fspath(path)))[0]
        return load(path, lambda data: cls.from_json(data, name))

    @classmethod
    def from_json(cls, data: dict[str, Any], name: str = "problem") -> Problem:
        """A problem from the statement's JSON object."""
        check_fields(data, _FIELDS, "the problem")
        lists = {
            key: take_list(_need(data, key), f"field {key!r}", rule)
            for key, rule in _FIELDS.items()
            if key not in _RANGES
        }
        if (w := len(lists["widths"])) != (h := len(lists["heights"])):
            raise PenstockError(
                f"{w} widths but {h} heights",
                where="fields 'widths', 'heights'",
                rule="one width and one height per tensor",
            )
        counts = {key: len(lists[key]) for key in ("inputs", "outputs", "base_costs", "op_types")}
        if len(set(counts.values())) > 1:
            lengths = ", ".join(f"{k} {n}" for k, n in counts.items())
            raise PenstockError(
                f"the operation lists differ in length: {lengths}",
                where="fields 'inputs', 'outputs', 'base_costs', 'op_types'",
                rule="one entry per operation in each",
            )
        if not lists["inputs"]:
            raise PenstockError(
                "the graph has no operation", "field 'op_types'", "at least one operation"
            )

        def size(value: Any, where: str, rule: str) -> int:
            return take_int(value, where, rule, low=1, high=_LARGEST)

        tensors = tuple(
            Tensor(
                size(w, f"tensor {i}, field 'widths'", "columns of the tensor"),
                size(h, f"tensor {i}, field 'heights'", "rows of the tensor"),
            )
            for i, (w, h) in enumerate(zip(lists["widths"], lists["heights"], strict=True))
        )
        ops = tuple(_read_op(i, lists, len(tensors)) for i in range(len(lists["inputs"])))
        native = lists["native_granularity"]
        where = "field 'native_granularity'"
        if len(native) != 2:
            raise PenstockError(f"has {len(native)} entries", where, "[width, height]")
        capacity, bandwidth = (
            take_number(_need(data, key), f"field {key!r}", rule, low=low, high=_MOST)
            for key, (rule, low) in _RANGES.items()
        )
        across, down = (
            size(native[0], where, "native width"),
            size(native[1], where, "native height"),
        )
        return cls(tensors, ops, capacity, bandwidth, (across, down), name)

    def to_json(self) -> dict[str, Any]:
        """The statement's JSON object."""
        return {
            "widths": [t.width for t in self.tensors],
            "heights": [t.height for t in self.tensors],
            "inputs": [list(op.inputs) for op in self.ops],
            "outputs": [[op.output] for op in self.ops],
            "base_costs": [op.cost for op in self.ops],
            "op_types": [op.kind.value for op in self.ops],
            "fast_memory_capacity": self.capacity,
            "slow_memory_bandwidth": self.bandwidth,
            "native_granularity": list(self.native),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the problem file (atomically)."""
        write_text(path, json.dumps(self.to_json()) + "\n")


_LARGEST = 1 << 24
_LEAST = 1e-9
_MOST = 1e18
"""Largest bandwidth, capacity and cost: sums and quotients of them stay finite."""
_FIELDS = {
    "widths": "columns of each tensor",
    "heights": "rows of each tensor",
    "inputs": "tensors consumed by each operation (MatMul: left, right)",
    "outputs": "the tensor produced by each operation",
    "base_costs": "cost of each operation",
    "op_types": "MatMul or Pointwise, per operation",
    "native_granularity": "[width, height]",
    "fast_memory_capacity": "elements of fast memory",
    "slow_memory_bandwidth": "elements per unit of time",
}
_RANGES = {
    "fast_memory_capacity": ("elements", 1),
    "slow_memory_bandwidth": ("elements per unit of time", _LEAST),
}
"""Rule and least value of the fields that are numbers."""


def _need(data: dict[str, Any], key: str) -> Any:
    if key not in data:
        raise PenstockError("the field is missing", where=f"field {key!r}", rule=_FIELDS[key])
    return data[key]


def _read_op(index: int, lists: dict[str, list[Any]], tensors: int) -> Op:
    names = [kind.value for kind in OpType]
    kind = lists["op_types"][index]
    if kind not in names:
        raise PenstockError(
            f"unknown operation type {kind!r}"[:80],
            where=f"op {index}, field 'op_types'",
            rule="one of: " + ", ".join(names),
        )
    refs = {}
    for key in ("inputs", "outputs"):
        where = f"op {index}, field {key!r}"
        refs[key] = tuple(
            take_int(t, where, "a tensor index", low=0, high=tensors - 1)
            for t in take_list(lists[key][index], where, _FIELDS[key])
        )
    if len(refs["outputs"]) != 1:
        raise PenstockError(
            f"produces {len(refs['outputs'])} tensors",
            where=f"op {index}, field 'outputs'",
            rule="an operation produces exactly one tensor",
        )
    cost = take_number(
        lists["base_costs"][index],
        f"op {index}, field 'base_costs'",
        "time of one native tile",
        low=0,
        high=_MOST,
    )
    return Op(OpType(kind), refs["inputs"], refs["outputs"][0], cost)


def _check_graph(problem: Problem) -> None:
    made: dict[int, int] = {}
    for index, op in enumerate(problem.ops):
        if op.output in made:
            raise PenstockError(
                f"tensor {op.output} is already produced by op {made[op.output]}",
                where=f"op {index}, field 'outputs'",
                rule="a tensor has one producer",
            )
        made[op.output] = index
        _check_shapes(problem, index, op)
    order = _topological_order(problem)
    if len(order) < len(problem.ops):
        cycle = _find_cycle(problem, set(order))
        raise PenstockError(
            "the operations form a cycle: " + " -> ".join(f"op {op}" for op in cycle),
            where=f"op {cycle[0]}, field 'inputs'",
            rule="the graph is acyclic",
        )


def _check_shapes(problem: Problem, index: int, op: Op) -> None:
    def check(right: bool, what: str, field: str, rule: str) -> None:
        if not right:
            raise PenstockError(what, f"op {index}, field {field!r}", rule)

    out = problem.tensors[op.output]
    count = len(op.inputs)
    if not op.is_matmul:
        check(count > 0, "a pointwise operation without inputs", "inputs", "at least one input")
        for tensor in op.inputs:
            given = problem.tensors[tensor]
            check(
                given == out,
                f"input tensor {tensor} is {given.width} x {given.height}, output tensor "
                f"{op.output} is {out.width} x {out.height}",
                "inputs",
                "a pointwise operation keeps the shape",
            )
        return
    what = f"a MatMul with {count} input{'s' * (count != 1)}"
    check(count == 2, what, "inputs", "a MatMul has two inputs, left and right")
    left, right = (problem.tensors[t] for t in op.inputs)
    check(
        left.width == right.height,
        f"left tensor {op.inputs[0]} has {left.width} columns, right tensor {op.inputs[1]} has "
        f"{right.height} rows",
        "inputs",
        "columns of the left = rows of the right",
    )
    check(
        (out.width, out.height) == (right.width, left.height),
        f"product tensor {op.output} is {out.width} wide and {out.height} high; the operands give "
        f"{right.width} and {left.height}",
        "outputs",
        "product is (width of right) x (height of left)",
    )


def _topological_order(problem: Problem) -> list[int]:
    """Kahn's order, the lowest ready index first; shorter than the graph if there is a cycle."""

    waiting = [
        sum(problem.producer[t] is not None for t in dict.fromkeys(op.inputs)) for op in problem.ops
    ]
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for consumer in problem.consumers[problem.ops[index].output]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                heapq.heappush(ready, consumer)
    return order


def _find_cycle(problem: Problem, ordered: set[int]) -> list[int]:
    """A cycle of operations outside `ordered`, in the direction of the data, first = last."""
    op = next(index for index in range(len(problem.ops)) if index not in ordered)
    path: list[int] = []
    while op not in path:
        path.append(op)
        op = next(
            p
            for t in problem.ops[op].inputs
            if (p := problem.producer[t]) is not None and p not in ordered
        )
    return [op, *reversed(path[path.index(op) :])]
