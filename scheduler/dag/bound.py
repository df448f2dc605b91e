"""A proven lower bound on the latency of any schedule.

Operations that can never share a subgraph fall into components; a subgraph lies in one component, so the components'
bounds add up.  Within a component the latency is at least the compute every operation needs once, and at least the
traffic nothing can avoid:

- graph outputs are written; so is a tensor a consumer can take neither from inside a subgraph nor by retention;
- a consumer reads such a tensor, or a graph input; an outer MatMul whose reduction is deeper than the native k
  streams its left operand once per column of tiles and its right once per row; uses that may share a buffer are
  counted once (the largest), or by the room that those who share it need for their other operands;
- a MatMul that feeds MatMuls only either makes its whole product, which is then retained, or written and read again,
  or is inner and reads one operand anew for every tile of its consumer.

Two operations that may be fused with neighbours are still never in one subgraph if every path between them holds a
MatMul that feeds a MatMul that feeds a MatMul, and the first has to hold an operand too large for fast memory as a
whole (`_Company`).
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
    component, company = _components(near), _Company(problem, near)
    compute: dict[int, float] = defaultdict(float)
    traffic: dict[int, float] = defaultdict(float)
    uses: dict[tuple[int, int], list[tuple[int, int, float]]] = defaultdict(list)
    outputs = set(problem.graph_outputs)
    for index, op in enumerate(problem.ops):
        home = component[index]
        inner = _may_be_inner(problem, near, index)
        compute[home] += _least_compute(problem, readings, index, inner)
        if op.output in outputs or any(_from_outside(problem, near, op.output, user) for user in problem.consumers[op.output]):
            traffic[home] += problem.tensors[op.output].size
        chained = _least_chain_traffic(problem, readings, near, company, index) if inner and op.is_matmul else None
        if chained is not None:
            traffic[home] += chained
            continue
        for role, (tensor, elements) in enumerate(_least_reads(problem, readings, near, index, inner)):
            fits_whole = problem.tensors[tensor].size < problem.capacity
            use = -1 if fits_whole or readings.sharing != "same-slice" else (1 + role if op.is_matmul else 0)
            uses[tensor, use].append((index, role, elements))
    for users in uses.values():
        for group in company.groups(users):
            together = math.fsum(elements * _least_share(problem, readings, near, company, group, op, role) for op, role, elements in group)
            traffic[component[group[0][0]]] += max(together, max(elements for _, _, elements in group))
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


class _Company:
    """Which operations may be in one subgraph."""

    def __init__(self, problem: Problem, near: tuple[int, ...]):
        self.near = near
        self.never: set[tuple[int, int, int]] = set()
        """MatMuls (first, second, third), each feeding the next, that never are together.

        Whatever the third asks for, the second is inner and asks the first for a whole row or column of its product, so the first holds
        one operand as a whole: the right one if its product is the left operand of the second, else the left one.
        """
        feeds = [[u for u in problem.consumers[op.output] if near[index] >> u & 1 and problem.ops[u].is_matmul] if op.is_matmul else []
                 for index, op in enumerate(problem.ops)]
        for first, op in enumerate(problem.ops):
            for second in feeds[first]:
                whole = op.inputs[1 if problem.ops[second].inputs[0] == op.output else 0]
                if problem.producer[whole] is None and problem.tensors[whole].size > problem.capacity:
                    self.never.update((first, second, third) for third in feeds[second])
        self._known: dict[tuple[int, int], int] = {}

    def of(self, op: int, without: int = 0) -> int:
        """The mask of operations that may share a subgraph with `op` which has none of the mask `without`."""
        if (op, without) not in self._known:
            mask, stack, seen = 1 << op, [(-1, op)], {(-1, op)}
            while stack:
                before, at = stack.pop()
                mask |= 1 << at
                rest = self.near[at] & ~without
                if not self.never:
                    rest &= ~mask
                while rest:
                    low = rest & -rest
                    rest ^= low
                    step = at, low.bit_length() - 1
                    if step not in seen and (before, *step) not in self.never and (*step[::-1], before) not in self.never:
                        seen.add(step)
                        stack.append(step)
            self._known[op, without] = mask
        return self._known[op, without]

    def groups(self, users: list[tuple[int, int, float]]) -> list[list[tuple[int, int, float]]]:
        """Uses (operation, role, elements) parted so that operations of different parts are never together."""
        groups: list[list[tuple[int, int, float]]] = []
        for use in users:
            mask = self.of(use[0])
            joined = [g for g in groups if any(mask >> other[0] & 1 for other in g)]
            groups = [g for g in groups if g not in joined] + [[use, *(u for g in joined for u in g)]]
        return groups


def _may_be_inner(problem: Problem, near: tuple[int, ...], op: int, company: _Company | None = None, feeder: int = -1) -> bool:
    """Whether a MatMul's product can be asked for in part: an operand of a MatMul, directly or through pointwise ones.

    With `feeder`, in a subgraph that holds this producer too.
    """
    seen, stack = {op}, [op]
    while stack:
        at = stack.pop()
        for user in problem.consumers[problem.ops[at].output]:
            if near[at] >> user & 1 and user not in seen:
                if problem.ops[user].is_matmul:
                    if company is not None and (feeder, at, user) in company.never:
                        continue
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


def _least_chain_traffic(problem: Problem, readings: Readings, near: tuple[int, ...], company: _Company, index: int) -> float | None:
    """Elements moved for a MatMul that only feeds outer MatMuls; None where the argument does not hold.

    Its operands must come from outside and be shared with no operation of the same subgraph, and the consumers' reductions must be split.
    If it is outer anywhere, its operands are streamed, and its product is retained if that fits; else it is written, and a consumer either
    reads it (once at least where it can be inner itself, else once per column or row of its tiles) or holds this MatMul as inner.  If it is inner, one operand is read once at least and the other, sliced along the consumer's
    reduction, once per tile of the consumer.
    """
    op = problem.ops[index]
    product, users = problem.tensors[op.output], problem.consumers[op.output]
    own = op.inputs[0] != op.inputs[1] and all(
        _from_outside(problem, near, t, index) and not any(company.of(index) >> other & 1 for other in problem.consumers[t] if other != index)
        for t in op.inputs)
    if not (own and _restreams(readings)):
        return None
    if any(not problem.ops[u].is_matmul or problem.reduction(u) <= problem.native_depth or _may_be_inner(problem, near, u, company, index)
           for u in users):
        return None
    left, right = (float(problem.tensors[t].size) for t in op.inputs)
    as_outer = sum(elements for _, elements in _least_reads(problem, readings, near, index, inner=False))
    spilled = product.size if product.size > problem.capacity else 0
    best = 0.0
    for user in users:
        shape = problem.tensors[problem.ops[user].output]
        columns, rows = math.ceil(shape.width / problem.native[0]), math.ceil(shape.height / problem.native[1])
        once = _may_be_inner(problem, near, user)  # elsewhere, without this MatMul
        options = []
        if op.output == problem.ops[user].inputs[0]:
            options += [as_outer + spilled + (1 if once else columns) * spilled, left + columns * rows * right]
        if op.output == problem.ops[user].inputs[1]:
            options += [as_outer + spilled + (1 if once else rows) * spilled, columns * rows * left + right]
        best = max(best, min(options))
    return best


def _least_share(problem: Problem, readings: Readings, near: tuple[int, ...], company: _Company, group: list[tuple[int, int, float]], index: int,
                 role: int) -> float:
    """Share of one reading of a large operand that a MatMul needs, however many others read it with it.

    If its product is not asked for in the subgraph, it has to be on its own there.  If a MatMul with a split reduction asks for it, the operand
    passes by once for every tile, and each operation that takes from the passing slice holds its other operand's rows (columns) of that tile
    in full.  Together these fit in fast memory, so one pass serves at most as many rows as fit, and all rows of all operations are served.
    """
    op = problem.ops[index]
    if not (op.is_matmul and _restreams(readings) and op.inputs[0] != op.inputs[1]):
        return 0.0
    large, other, users = op.inputs[role], op.inputs[1 - role], problem.consumers[op.output]
    takers = {u for u, _, _ in group}
    if problem.tensors[large].size <= problem.capacity or sum(problem.ops[u].inputs[1 - role] == other for u in takers) > 1:
        return 0.0
    for user in users:
        asks = problem.ops[user].inputs
        if not problem.ops[user].is_matmul or asks[role] == op.output or problem.reduction(user) <= problem.native_depth:
            return 0.0
        maker = problem.producer[other]
        if maker is not None and near[maker] >> index & 1 and (maker, index, user) not in company.never:
            return 0.0
    alone = company.of(index, without=sum(1 << user for user in users))
    if any(alone >> u & 1 for u in takers if u != index):
        return 0.0
    return min(1.0, problem.tensors[other].size / problem.capacity)
