"""A proven lower bound on the latency of any schedule.

Operations that can never share a subgraph fall into components; a subgraph lies in one component, so the components'
bounds add up.  Within a component the latency is at least the compute every operation needs once, and at least the
traffic nothing can avoid:

- graph outputs are written; so is a tensor a consumer can take neither from inside a subgraph nor by retention;
- a consumer reads such a tensor, or a graph input; an outer MatMul whose reduction is deeper than the native k
  streams its left operand once per column of tiles and its right once per row; uses in one component that may share
  a buffer are counted once (the largest).
"""

from __future__ import annotations

import math
from collections import defaultdict

from .problem import Problem
from .readings import Readings
from .solve.groups import fusible_neighbours

__all__ = ["lower_bound"]


def lower_bound(problem: Problem, readings: Readings = Readings()) -> float:
    """No schedule is faster (units of time)."""
    near = fusible_neighbours(problem, readings)
    component = _components(near)
    compute: dict[int, float] = defaultdict(float)
    traffic: dict[int, float] = defaultdict(float)
    shared: dict[tuple[int, ...], float] = defaultdict(float)
    outputs = set(problem.graph_outputs)
    for index, op in enumerate(problem.ops):
        home = component[index]
        inner = _may_be_inner(problem, near, index)
        compute[home] += _least_compute(problem, readings, index, inner)
        if op.output in outputs or any(_from_outside(problem, near, op.output, user) for user in problem.consumers[op.output]):
            traffic[home] += problem.tensors[op.output].size
        for role, (tensor, elements) in enumerate(_least_reads(problem, readings, near, index, inner)):
            fits_whole = problem.tensors[tensor].size < problem.capacity
            use = -1 if fits_whole or readings.sharing != "same-slice" else (1 + role if op.is_matmul else 0)
            key = (home, tensor, use)
            shared[key] = max(shared[key], elements)
    for (home, _, _), elements in shared.items():
        traffic[home] += elements
    return math.fsum(max(compute[home], traffic[home] / problem.bandwidth) for home in set(component))


def _components(near: tuple[int, ...]) -> list[int]:
    component = [-1] * len(near)
    for seed in range(len(near)):
        stack = [seed]
        while stack:
            op = stack.pop()
            if component[op] < 0:
                component[op] = seed
                stack.extend(other for other in range(len(near)) if near[op] >> other & 1)
    return component


def _may_be_inner(problem: Problem, near: tuple[int, ...], op: int) -> bool:
    """Whether a MatMul's product can be asked for in part: an operand of a MatMul, directly or through pointwise ones."""
    seen, stack = {op}, [op]
    while stack:
        at = stack.pop()
        for user in problem.consumers[problem.ops[at].output]:
            if near[at] >> user & 1 and user not in seen:
                if problem.ops[user].is_matmul:
                    return True
                seen.add(user)
                stack.append(user)
    return False


def _from_outside(problem: Problem, near: tuple[int, ...], tensor: int, user: int) -> bool:
    """Whether `user` can only read the tensor from slow memory."""
    producer = problem.producer[tensor]
    if producer is None:
        return True
    return not near[producer] >> user & 1 and problem.tensors[tensor].size > problem.capacity


def _least_compute(problem: Problem, readings: Readings, index: int, inner: bool) -> float:
    op = problem.ops[index]
    shape = problem.tensors[op.output]
    across, down = shape.width / problem.native[0], shape.height / problem.native[1]
    tiles = across * down if inner else math.ceil(across) * math.ceil(down)
    per_tile = op.cost
    if op.is_matmul and readings.matmul_cost == "native-k":
        per_tile *= problem.reduction(index) / problem.native_depth
    return per_tile * tiles


def _least_reads(problem: Problem, readings: Readings, near: tuple[int, ...], index: int, inner: bool) -> list[tuple[int, float]]:
    """(tensor, elements) that must come from slow memory, one entry per operand, in order."""
    op = problem.ops[index]
    outside = [_from_outside(problem, near, t, index) for t in op.inputs]
    if not op.is_matmul:
        return [(t, float(problem.tensors[t].size) if out else 0.0) for t, out in zip(op.inputs, outside)]
    shape, depth = problem.tensors[op.output], problem.reduction(index)
    once = [float(problem.tensors[t].size) if out else 0.0 for t, out in zip(op.inputs, outside)]
    again = [0.0, 0.0]
    strict = (readings.above_native == "refused" and readings.reuse == "previous-step" and readings.split_k_lhs == "streamed"
              and readings.sharing == "same-slice")
    if strict and not inner:
        columns, rows = math.ceil(shape.width / problem.native[0]), math.ceil(shape.height / problem.native[1])
        if depth > problem.native_depth:
            again = [(columns - 1) * once[0], (rows - 1) * once[1]]
        elif all(outside) and op.inputs[0] != op.inputs[1]:
            along_rows = (rows - 1) * max(0, shape.width - problem.native[0]) * depth
            along_columns = (columns - 1) * max(0, shape.height - problem.native[1]) * depth
            again = [along_columns, 0.0] if along_columns <= along_rows else [0.0, along_rows]
    return [(t, a + b) for t, a, b in zip(op.inputs, once, again)]
