"""Costs that no schedule avoids: compute that every operation needs once, and traffic.

Operations that can never share a subgraph fall into components; a subgraph lies in one component,
so the components' bounds add up. Premises, each for any schedule that is legal under the readings:

1. *Writes.*  A graph output is written; so is a tensor that some consumer can take neither inside
   a subgraph nor by retention, because the two operations are never in one subgraph and the tensor
   does not fit.
2. *Reads.*  A consumer reads such a tensor, and every graph input, once at least.  An outer MatMul
   whose reduction is deeper than the native k streams its left operand once per column of tiles and
   its right one once per row.
3. *Shared buffers.*  Uses that may share a buffer are counted once (the largest).  Where several
   operations may use a tensor that fits as a whole, reading again is not counted: one of them may
   hold it whole.
4. *Chains.*  A MatMul that feeds MatMuls only either makes its whole product, which is then
   retained, or written and read again, or is inner and reads one operand anew for every tile of its
   consumer.  This needs `inner_retention=refused`: else an inner product could stay.
5. *Late reads.*  If a consumer also waits for an operation outside of its subgraph that depends on
   the producer, the producer ran before; then the tensor is read, or
   made again from operands that are read.
6. *Passes.*  An operand too large for fast memory passes by once for every tile; each operation
   that takes from the passing slice holds its own other operand's rows of that tile.  Either no
   pass serves more operations than the grid has tiles, or some subgraph has that many tiles, each
   of which costs a native one (two cases).

With `retainable=loaded-too` reading a tensor that fits is not counted. Premises 2 (reading again),
4 and 6 hold where an operand split over k is streamed and reused from the step before only
(`_restreams`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace

from .floor import least_compute
from .problem import Problem
from .readings import Readings
from .solve.groups import bits, fusible_neighbours


@dataclass(frozen=True, slots=True)
class _Use:
    """An operation's operand: elements it reads at least, and those beyond reading each once."""

    op: int
    role: int
    once: float
    again: float

    @property
    def elements(self) -> float:
        return self.once + self.again


@dataclass(frozen=True)
class Forced:
    """Compute (units of time) and traffic (elements) that no schedule avoids, by component.

    `components` are the operations of each component, in index order; `single` is what one subgraph
    takes (units of time).
    """

    components: tuple[tuple[int, ...], ...]
    compute: tuple[float, ...]
    traffic: tuple[float, ...]
    single: float = 0.0

    def latencies(self, bandwidth: float) -> list[float]:
        """The bound of each component, units of time."""
        return [max(c, t / bandwidth) for c, t in zip(self.compute, self.traffic, strict=True)]


def forced(problem: Problem, readings: Readings) -> list[Forced]:
    """Forced costs, one entry for each case; some case applies to every schedule.

    The second case, where there is one, is that of premise 6: some subgraph serves more operations
    with a large operand than it has tiles.
    """
    without = _Account(problem, readings, sharing=False)
    if math.isinf(without.crowded):
        return [without.forced(0.0)]
    return [without.forced(0.0), _Account(problem, readings, sharing=True).forced(without.crowded)]


class _Account:
    """Adds up what is forced; `sharing` allows passes over a large operand that serve many."""

    def __init__(self, problem: Problem, readings: Readings, sharing: bool):
        self.problem = problem
        self.readings = readings
        self.sharing = sharing
        self.near = fusible_neighbours(problem, readings)
        self.component = _components(self.near)
        self.company = _Neighbours(problem, self.near, self.component)
        self.compute: dict[int, float] = defaultdict(float)
        self.traffic: dict[int, float] = defaultdict(float)
        self.crowded = math.inf
        self.chained: set[int] = set()
        self._operations()
        for (tensor, _), users in self.uses.items():
            self._reads(tensor, users)

    def forced(self, single: float) -> Forced:
        members: dict[int, list[int]] = defaultdict(list)
        for op, home in enumerate(self.component):
            members[home].append(op)
        return Forced(
            tuple(tuple(ops) for ops in members.values()),
            tuple(self.compute[home] for home in members),
            tuple(self.traffic[home] for home in members),
            single,
        )

    def _operations(self) -> None:
        """Compute, writes, chains; collects the reads in `uses`."""
        problem = self.problem
        readings = self.readings
        near = self.near
        self.uses: dict[tuple[int, int], list[_Use]] = defaultdict(list)
        outputs = set(problem.graph_outputs)
        in_part = _asked_in_part(problem, near)
        reads: list[tuple[int, list[_Use]]] = []
        for index, op in enumerate(problem.ops):
            home = self.component[index]
            inner = in_part[index]
            self.compute[home] += least_compute(problem, readings, index, inner)
            users = problem.consumers[op.output]
            if op.output in outputs or any(
                _from_outside(problem, near, op.output, user) for user in users
            ):
                self.traffic[home] += problem.tensors[op.output].size
            chained = None
            if inner and op.is_matmul:
                chained = _least_chain_traffic(problem, readings, near, self.company, index)
            if chained is not None:
                self.traffic[home] += chained
                self.chained.add(index)
            else:
                reads.append((index, _least_reads(problem, readings, near, index, inner)))
        late = _Late(problem, near, self.company, self.chained)
        for index, uses in reads:
            for tensor, use in zip(problem.ops[index].inputs, uses, strict=True):
                once = use.once or late.elements(tensor, index)
                fits = _may_stay(problem, tensor)
                merged = fits or readings.sharing != "same-slice"
                kind = -1 if merged else (1 + use.role if problem.ops[index].is_matmul else 0)
                self.uses[tensor, kind].append(replace(use, once=once))

    def _reads(self, tensor: int, users: list[_Use]) -> None:
        """Reads of one tensor by uses that may share a buffer."""
        problem = self.problem
        readings = self.readings
        if readings.sharing == "once-per-tensor" and len(users) > 1:
            return  # where one use has the larger slice, the other's elements need not be there
        fits = _may_stay(problem, tensor)
        if fits and readings.retainable == "loaded-too":
            return  # read once in all, wherever that costs nothing
        for group in self.company.groups(users):
            if fits and len({u.op for u in group}) > 1:  # one may hold it whole, and serve all
                group = [replace(u, again=0.0) for u in group]
            together = math.fsum(u.elements * self._share(group, u) for u in group)
            self.traffic[self.component[group[0].op]] += max(
                together, max(u.elements for u in group)
            )

    def _share(self, group: list[_Use], use: _Use) -> float:
        """Share of one reading of a large operand that a MatMul needs."""
        share = _least_share(
            self.problem, self.readings, self.near, self.company, group, use.op, use.role
        )
        if share in (0.0, 1.0) or self.sharing or len(group) == 1:
            return share
        crowd = _least_crowd(self.problem, self.readings, self.component, group, use)
        if crowd is None:
            return share
        self.crowded = min(self.crowded, crowd)
        return 1.0


def _components(near: tuple[int, ...]) -> list[int]:
    component = [-1] * len(near)
    for seed in range(len(near)):
        stack = [seed]
        while stack:
            op = stack.pop()
            if component[op] < 0:
                component[op] = seed
                stack.extend(bits(near[op]))
    return component


MOST_WORK = 60_000
"""Steps in search of which operations may be together; beyond, all of a component may."""


class _Neighbours:
    """Operations that may be in one subgraph."""

    def __init__(self, problem: Problem, near: tuple[int, ...], component: list[int]):
        self.near = near
        self.work = 0
        self.component = component
        self.whole: dict[int, int] = defaultdict(int)
        for op, home in enumerate(component):
            self.whole[home] |= 1 << op
        self.never: set[tuple[int, int, int]] = set()
        """MatMuls (first, second, third), each feeding the next, that never are together.

        Whatever the third asks for, the second is inner and asks the first for a whole row or
        column of its product.  So the first holds one operand as a whole: the right one if its
        product is the left operand of the second, else the left one.
        """
        feeds = [
            [
                u
                for u in problem.consumers[op.output]
                if near[index] >> u & 1 and problem.ops[u].is_matmul
            ]
            if op.is_matmul
            else []
            for index, op in enumerate(problem.ops)
        ]
        for first, op in enumerate(problem.ops):
            for second in feeds[first]:
                whole = op.inputs[1 if problem.ops[second].inputs[0] == op.output else 0]
                if (
                    problem.producer[whole] is None
                    and problem.tensors[whole].size > problem.capacity
                ):
                    self.never.update((first, second, third) for third in feeds[second])
        self._known: dict[tuple[int, int], int] = {}

    def of(self, op: int, without: int = 0) -> int:
        """The mask of operations that may share a subgraph with `op` which has none of the mask
        `without`.
        """
        if self.work > MOST_WORK or not (self.never or without):
            return self.whole[self.component[op]]
        if (op, without) not in self._known:
            mask = 1 << op
            stack = [(-1, op)]
            seen = {(-1, op)}
            while stack:
                self.work += 1
                before, at = stack.pop()
                mask |= 1 << at
                rest = self.near[at] & ~without
                if not self.never:
                    rest &= ~mask
                for other in bits(rest):
                    step = at, other
                    if (
                        step not in seen
                        and (before, *step) not in self.never
                        and (*step[::-1], before) not in self.never
                    ):
                        seen.add(step)
                        stack.append(step)
            self._known[op, without] = mask
        return self._known[op, without]

    def groups(self, users: list[_Use]) -> list[list[_Use]]:
        """Uses parted so that operations of different parts are never together."""
        groups: list[list[_Use]] = []
        for use in users:
            mask = self.of(use.op)
            joined = [g for g in groups if any(mask >> other.op & 1 for other in g)]
            groups = [g for g in groups if g not in joined] + [
                [use, *(u for g in joined for u in g)]
            ]
        return groups


class _Late:
    """Premise 5: what reading a fusible producer's tensor costs where it ran elsewhere before."""

    def __init__(
        self, problem: Problem, near: tuple[int, ...], company: _Neighbours, chained: set[int]
    ):
        self.problem = problem
        self.near = near
        self.company = company
        self.chained = chained
        self.outside = [0] * len(problem.ops)
        """Operations with a path to each one on which two neighbours are never in one subgraph."""
        above = problem.ancestors
        for op in problem.topological:
            for tensor in problem.ops[op].inputs:
                maker = problem.producer[tensor]
                if maker is not None:
                    self.outside[op] |= self.outside[maker]
                    if not near[maker] >> op & 1:
                        self.outside[op] |= above[maker] | 1 << maker

    def elements(self, tensor: int, user: int) -> float:
        """Elements read at least; 0 where the argument does not hold."""
        maker = self.problem.producer[tensor]
        if maker is None or _may_stay(self.problem, tensor) or not self.outside[user] >> maker & 1:
            return 0.0
        return min(float(self.problem.tensors[tensor].size), self._again(maker, user, 0))

    def _again(self, maker: int, user: int, depth: int) -> float:
        """Elements read to run `maker` again in the subgraph of `user`."""
        problem = self.problem
        if maker in self.chained or depth > 8:
            return 0.0
        operands = [
            self._operand(t, maker, user, depth) for t in dict.fromkeys(problem.ops[maker].inputs)
        ]
        return sum(operands) if problem.ops[maker].is_matmul else max(operands)

    def _operand(self, tensor: int, maker: int, user: int, depth: int) -> float:
        problem = self.problem
        company = self.company.of(user)
        if any(company >> other & 1 for other in problem.consumers[tensor] if other != maker):
            return 0.0  # read with another's
        if _may_stay(problem, tensor):
            return 0.0
        size = float(problem.tensors[tensor].size)
        before = problem.producer[tensor]
        if before is not None and self.near[before] >> maker & 1:
            return min(size, self._again(before, user, depth + 1))
        return size


def _may_stay(problem: Problem, tensor: int) -> bool:
    """True if the tensor fits as a whole beside at least one element of something else."""
    return problem.tensors[tensor].size < problem.capacity


def _asked_in_part(problem: Problem, near: tuple[int, ...]) -> list[bool]:
    """Result of `_may_be_inner` for each operation, all in linear time."""
    ops = problem.ops
    in_part = [False] * len(ops)
    for op in reversed(problem.topological):
        in_part[op] = any(
            near[op] >> user & 1 and (ops[user].is_matmul or in_part[user])
            for user in problem.consumers[ops[op].output]
        )
    return in_part


def _may_be_inner(
    problem: Problem,
    near: tuple[int, ...],
    op: int,
    company: _Neighbours | None = None,
    feeder: int = -1,
) -> bool:
    """True if a MatMul's product can be asked for in part: an operand of a MatMul, directly or
    through pointwise ones.

    With `feeder`, in a subgraph that holds this producer too.
    """
    seen = {op}
    stack = [op]
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
    """True if `user` can only read the tensor from slow memory."""
    producer = problem.producer[tensor]
    if producer is None:
        return True
    return not near[producer] >> user & 1 and not _may_stay(problem, tensor)


def _least_reads(
    problem: Problem, readings: Readings, near: tuple[int, ...], index: int, inner: bool
) -> list[_Use]:
    """Least reads from slow memory, one entry per operand, in order."""
    op = problem.ops[index]
    outside = [_from_outside(problem, near, t, index) for t in op.inputs]
    once = [
        float(problem.tensors[t].size) if out else 0.0
        for t, out in zip(op.inputs, outside, strict=True)
    ]
    again = [0.0] * len(once)
    if op.is_matmul and _restreams(readings) and not inner:
        shape = problem.tensors[op.output]
        depth = problem.reduction(index)
        columns = math.ceil(shape.width / problem.native[0])
        rows = math.ceil(shape.height / problem.native[1])
        if depth > problem.native_depth:
            again = [(columns - 1) * once[0], (rows - 1) * once[1]]
        elif all(outside) and op.inputs[0] != op.inputs[1]:
            along_rows = (rows - 1) * max(0, shape.width - problem.native[0]) * depth
            along_columns = (columns - 1) * max(0, shape.height - problem.native[1]) * depth
            again = [along_columns, 0.0] if along_columns <= along_rows else [0.0, along_rows]
    if readings.retainable == "loaded-too":
        again = [0.0 if _may_stay(problem, t) else a for t, a in zip(op.inputs, again, strict=True)]
    return [_Use(index, role, a, b) for role, (a, b) in enumerate(zip(once, again, strict=True))]


def _restreams(readings: Readings) -> bool:
    """True if the readings force an operand split over k to be read anew for every tile."""
    return (
        readings.above_native == "refused"
        and readings.reuse == "previous-step"
        and readings.split_k_lhs == "streamed"
        and readings.sharing == "same-slice"
    )


def _least_chain_traffic(
    problem: Problem, readings: Readings, near: tuple[int, ...], company: _Neighbours, index: int
) -> float | None:
    """Elements moved for a MatMul that only feeds outer MatMuls; None where the argument does not
    hold.

    Its operands must come from outside and be shared with no operation of the same subgraph, and
    the consumers' reductions must be split. If it is outer anywhere, its operands are streamed, and
    its product is retained if that fits; else it is written, and a consumer either reads it (once
    at least where it can be inner itself, else once per column or row of its tiles) or holds this
    MatMul as inner.  If it is inner, one operand is read once at least and the other, sliced along
    the consumer's reduction, once per tile of the consumer.
    """
    op = problem.ops[index]
    product = problem.tensors[op.output]
    users = problem.consumers[op.output]
    own = op.inputs[0] != op.inputs[1] and all(
        _from_outside(problem, near, t, index)
        and not any(
            company.of(index) >> other & 1 for other in problem.consumers[t] if other != index
        )
        for t in op.inputs
    )
    if not (
        own
        and _restreams(readings)
        and readings.inner_retention == "refused"
        and readings.retainable == "produced"
    ):
        return None
    if any(
        not problem.ops[u].is_matmul
        or problem.reduction(u) <= problem.native_depth
        or _may_be_inner(problem, near, u, company, index)
        for u in users
    ):
        return None
    left, right = (float(problem.tensors[t].size) for t in op.inputs)
    as_outer = sum(
        use.elements for use in _least_reads(problem, readings, near, index, inner=False)
    )
    spilled = 0 if _may_stay(problem, op.output) else product.size
    best = 0.0
    for user in users:
        shape = problem.tensors[problem.ops[user].output]
        columns = math.ceil(shape.width / problem.native[0])
        rows = math.ceil(shape.height / problem.native[1])
        once = _may_be_inner(problem, near, user)  # elsewhere, without this MatMul
        options = []
        if op.output == problem.ops[user].inputs[0]:
            options += [
                as_outer + spilled + (1 if once else columns) * spilled,
                left + columns * rows * right,
            ]
        if op.output == problem.ops[user].inputs[1]:
            options += [
                as_outer + spilled + (1 if once else rows) * spilled,
                columns * rows * left + right,
            ]
        best = max(best, min(options))
    return best


def _least_share(
    problem: Problem,
    readings: Readings,
    near: tuple[int, ...],
    company: _Neighbours,
    group: list[_Use],
    index: int,
    role: int,
) -> float:
    """Share of one reading of a large operand that a MatMul needs, however many others read it with
    it.

    If its product is not asked for in the subgraph, it has to be on its own there.  If a MatMul
    with a split reduction asks for it, the operand passes by once for every tile, and each
    operation that takes from the passing slice holds its other operand's rows (columns) of that
    tile in full.  Together these fit in fast memory, so one pass serves at most as many rows as
    fit, and all rows of all operations are served.
    """
    op = problem.ops[index]
    if not (op.is_matmul and _restreams(readings) and op.inputs[0] != op.inputs[1]):
        return 0.0
    large = op.inputs[role]
    other = op.inputs[1 - role]
    users = problem.consumers[op.output]
    takers = {use.op for use in group}
    if (
        problem.tensors[large].size <= problem.capacity
        or sum(problem.ops[u].inputs[1 - role] == other for u in takers) > 1
    ):
        return 0.0
    for user in users:
        asks = problem.ops[user].inputs
        if (
            not problem.ops[user].is_matmul
            or asks[role] == op.output
            or problem.reduction(user) <= problem.native_depth
        ):
            return 0.0
        maker = problem.producer[other]
        if (
            maker is not None
            and near[maker] >> index & 1
            and (maker, index, user) not in company.never
        ):
            return 0.0
    alone = company.of(index, without=sum(1 << user for user in users))
    if any(alone >> u & 1 for u in takers if u != index):
        return 0.0
    return min(1.0, problem.tensors[other].size / problem.capacity)


def _least_crowd(
    problem: Problem, readings: Readings, component: list[int], group: list[_Use], use: _Use
) -> float | None:
    """Least compute of a subgraph in which a pass serves more of these operations than there are
    tiles.

    Each of them holds h rows (columns) of its other operand and, as its consumer is an outer
    MatMul, an h x v tile of that one's product. None unless they are alike, and no product of the
    component has smaller tiles.
    """
    like = {_alike(problem, taker) for taker in group}
    if len(like) > 1 or not problem.consumers[problem.ops[use.op].output]:
        return None
    (lines, depth, across, length, cost), role = like.pop(), use.role
    for op in (op for op, home in enumerate(component) if home == component[use.op]):
        shape = problem.tensors[problem.ops[op].output]
        if (shape.height, shape.width)[1 - role] < lines or (shape.height, shape.width)[
            role
        ] < across:
            return None
    native = problem.native[::-1]  # rows, columns
    per_tile = cost * length / native[role]
    if readings.matmul_cost == "native-k":
        per_tile *= depth / problem.native_depth
    least = math.inf
    for down in range(1, len(group)):
        for right in range(1, (len(group) - 1) // down + 1):
            h = math.ceil(lines / down)
            v = math.ceil(across / right)
            tiles = down * right
            if (
                h <= native[1 - role]
                and v <= native[role]
                and (tiles + 1) * h * (depth + v) <= problem.capacity
            ):
                least = min(least, (tiles + 1) * tiles * per_tile)
    return least


def _alike(problem: Problem, use: _Use) -> tuple[int, int, int, int, float]:
    """Lines of the other operand, depth, least lines across of a consumer's product, the product's
    length, cost.
    """
    op = problem.ops[use.op]
    role = use.role
    product = problem.tensors[op.output]
    users = [problem.tensors[problem.ops[u].output] for u in problem.consumers[op.output]]
    across = min(((t.height, t.width)[role] for t in users), default=0)
    return (
        (product.height, product.width)[1 - role],
        problem.reduction(use.op),
        across,
        (product.height, product.width)[role],
        op.cost,
    )
