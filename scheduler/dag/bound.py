"""A proven lower bound on the latency of any schedule.

Operations that can never share a subgraph fall into components; a subgraph lies in one component, so the components'
bounds add up.  Within a component the latency is at least the compute every operation needs once, and at least the
traffic nothing can avoid:

- graph outputs are written; so is a tensor a consumer can take neither from inside a subgraph nor by retention;
- a consumer reads such a tensor, or a graph input; an outer MatMul whose reduction is deeper than the native k
  streams its left operand once per column of tiles and its right once per row; uses in one component that may share
  a buffer are counted once (the largest);
- a MatMul that feeds MatMuls only either makes its whole product, which is then written and read again, or is inner
  and reads one operand anew for every tile of its consumer.
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
        chained = _least_chain_traffic(problem, readings, near, index) if inner and op.is_matmul else None
        if chained is not None:
            traffic[home] += chained
            continue
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
    if _restreams(readings) and not inner:
        columns, rows = math.ceil(shape.width / problem.native[0]), math.ceil(shape.height / problem.native[1])
        if depth > problem.native_depth:
            again = [(columns - 1) * once[0], (rows - 1) * once[1]]
        elif all(outside) and op.inputs[0] != op.inputs[1]:
            along_rows = (rows - 1) * max(0, shape.width - problem.native[0]) * depth
            along_columns = (columns - 1) * max(0, shape.height - problem.native[1]) * depth
            again = [along_columns, 0.0] if along_columns <= along_rows else [0.0, along_rows]
    return [(t, a + b) for t, a, b in zip(op.inputs, once, again)]


def _restreams(readings: Readings) -> bool:
    """Whether the readings force an operand split over k to be read anew for every tile."""
    return (readings.above_native == "refused" and readings.reuse == "previous-step" and readings.split_k_lhs == "streamed"
            and readings.sharing == "same-slice")


def _least_chain_traffic(problem: Problem, readings: Readings, near: tuple[int, ...], index: int) -> float | None:
    """Elements moved for a MatMul that only feeds outer MatMuls; None where the argument does not hold.

    Its operands must be its own and come from outside, its product must not fit in fast memory (so that it cannot be
    retained), and the consumers' reductions must be split.  If it is outer anywhere, its operands are streamed, the
    product is written, and a consumer either reads it or holds this MatMul as inner; if it is inner, one operand is
    read once at least and the other, sliced along the consumer's reduction, once per tile of the consumer.
    """
    op = problem.ops[index]
    product, users = problem.tensors[op.output], problem.consumers[op.output]
    own = op.inputs[0] != op.inputs[1] and all(problem.consumers[t] == (index,) and _from_outside(problem, near, t, index) for t in op.inputs)
    if not (own and _restreams(readings) and product.size > problem.capacity):
        return None
    if any(not problem.ops[u].is_matmul or _may_be_inner(problem, near, u) or problem.reduction(u) <= problem.native_depth for u in users):
        return None
    left, right = (float(problem.tensors[t].size) for t in op.inputs)
    as_outer = sum(elements for _, elements in _least_reads(problem, readings, near, index, inner=False)) + product.size
    best = 0.0
    for user in users:
        shape = problem.tensors[problem.ops[user].output]
        columns, rows = math.ceil(shape.width / problem.native[0]), math.ceil(shape.height / problem.native[1])
        options = []
        if op.output == problem.ops[user].inputs[0]:
            options += [as_outer + columns * product.size, left + columns * rows * right]
        if op.output == problem.ops[user].inputs[1]:
            options += [as_outer + rows * product.size, columns * rows * left + right]
        best = max(best, min(options))
    return best
