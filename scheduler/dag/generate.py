"""Seeded problems: random graphs, the graphs people run (MLP, attention, mixture of experts,
residual blocks), and twins, whose best groups are large and make a tensor twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...machine.errors import PenstockError
from .problem import Op, OpType, Problem, Tensor


def generate(kind: str, ops: int, seed: int = 0, scale: int = 1) -> Problem:
    """A problem with at least one and about `ops` operations; equal arguments give equal problems.

    `scale` (1 to 32) divides every length, and capacity and costs by its square.
    """
    if kind not in KINDS:
        raise PenstockError(f"no generator is called {kind!r}", rule="one of: " + ", ".join(KINDS))
    if ops < 1:
        raise PenstockError(f"ops must be at least 1, not {ops}")
    if not 1 <= scale <= 32:
        raise PenstockError(f"scale must be in 1..32, not {scale}")
    chance = random.Random(f"{kind}-{ops}-{seed}")
    build = _Builder(chance, scale)
    KINDS[kind](build, ops)
    return build.problem(f"{kind}-{ops}-{seed}" + (f"-{scale}" if scale > 1 else ""))


@dataclass(frozen=True, slots=True)
class Machine:
    """Native tile (width = height), capacity (elements), bandwidth (elements per unit of time)."""

    native: int
    capacity: float
    bandwidth: float


@dataclass
class _Builder:
    """Collects tensors and operations; tensor handles are indices."""

    chance: random.Random
    scale: int = 1
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    machine: Machine | None = None

    def tensor(self, width: int, height: int) -> int:
        self.tensors.append(Tensor(width, height))
        return len(self.tensors) - 1

    def matmul(self, left: int, right: int, cost: float | None = None) -> int:
        out = self.tensor(self.tensors[right].width, self.tensors[left].height)
        self.ops.append(Op(OpType.MATMUL, (left, right), out, self._cost(cost, 500, 10_000)))
        return out

    def pointwise(self, *inputs: int, cost: float | None = None) -> int:
        shape = self.tensors[inputs[0]]
        out = self.tensor(shape.width, shape.height)
        self.ops.append(Op(OpType.POINTWISE, inputs, out, self._cost(cost, 50, 1_000)))
        return out

    def dense(self, x: int, width: int, cost: float | None = None) -> int:
        """x times a weight of `width` columns."""
        return self.matmul(x, self.tensor(width, self.tensors[x].width), cost)

    def size(self, least: int = 0) -> int:
        return self.chance.choice((64, 96, 128, 128, 192, 256, 384, 512, 1024)[least:])

    def _cost(self, cost: float | None, low: int, high: int) -> float:
        return cost if cost is not None else float(self.chance.randrange(low, high, 50))

    def problem(self, name: str) -> Problem:
        if self.machine is not None:
            size = self.machine.native, self.machine.native
            return Problem(
                tuple(self.tensors),
                tuple(self.ops),
                self.machine.capacity,
                self.machine.bandwidth,
                size,
                name,
            )
        native = self.chance.choice((64, 128, 128, 128))
        capacity = self.chance.choice((2, 3, 4, 8, 16, 32)) * native * native - self.chance.choice(
            (0, 0, 1000)
        )
        bandwidth = float(self.chance.choice((5, 10, 20, 50, 100)))
        if self.scale > 1:
            area = self.scale * self.scale
            self.tensors = [
                Tensor(t.width // self.scale, t.height // self.scale) for t in self.tensors
            ]
            self.ops = [replace(op, cost=op.cost / area) for op in self.ops]
            capacity = capacity // area
            native = native // self.scale
        return Problem(
            tuple(self.tensors), tuple(self.ops), float(capacity), bandwidth, (native, native), name
        )


def _random(b: _Builder, ops: int) -> None:
    """Operations on tensors chosen at random, recent ones more often."""
    live = [b.tensor(b.size(), b.size()) for _ in range(2)]
    for _ in range(ops):
        x = live[max(b.chance.randrange(len(live)), b.chance.randrange(len(live)))]
        shape = b.tensors[x]
        equal = [t for t in live if b.tensors[t] == shape]
        rights = [t for t in live if b.tensors[t].height == shape.width]
        draw = b.chance.random()
        if draw < 0.35:
            live.append(b.pointwise(x))
        elif draw < 0.6:
            live.append(b.pointwise(x, b.chance.choice(equal)))
        elif draw < 0.7 and rights:
            live.append(b.matmul(x, b.chance.choice(rights)))
        else:
            live.append(b.dense(x, b.size()))


def _mlp(b: _Builder, ops: int) -> None:
    """Layers of matmul and activation, some gated."""
    x = b.tensor(b.size(), b.size(2))
    while len(b.ops) < ops:
        width = b.size(2)
        if b.chance.random() < 0.3:
            x = b.pointwise(b.pointwise(b.dense(x, width)), b.dense(x, width))
        else:
            x = b.pointwise(b.dense(x, width))


def _attention(b: _Builder, ops: int) -> None:
    """Heads of (query x key) x value, summed through an output projection."""
    rows = b.size(2)
    model = b.size(1)
    head = b.chance.choice((32, 64, 128))
    x = b.tensor(model, rows)

    def one() -> int:
        query = b.dense(x, head)
        key = b.matmul(b.tensor(model, head), b.tensor(rows, model))
        value = b.dense(x, head)
        weights = b.pointwise(b.matmul(query, key))
        return b.dense(b.matmul(weights, value), model)

    total = one()
    while len(b.ops) < ops:
        total = b.pointwise(total, one())
    b.pointwise(total, x)


def _moe(b: _Builder, ops: int) -> None:
    """Experts side by side, each a gated feed-forward network, weighted and summed."""
    rows = b.size(2)
    model = b.size(1)
    hidden = b.size(3)
    x = b.tensor(model, rows)
    total = None
    while len(b.ops) < ops:
        up = b.pointwise(
            b.pointwise(b.dense(x, hidden, 2000.0), cost=200.0),
            b.dense(x, hidden, 2000.0),
            cost=100.0,
        )
        out = b.pointwise(b.dense(up, model, 2000.0), b.tensor(model, rows), cost=100.0)
        total = out if total is None else b.pointwise(total, out, cost=100.0)


def _residual(b: _Builder, ops: int) -> None:
    """Blocks that add their input to their output."""
    model = b.size(1)
    x = b.tensor(model, b.size(2))
    while len(b.ops) < ops:
        inner = b.pointwise(b.dense(x, b.size(2)))
        x = b.pointwise(b.dense(inner, model), x)
        if b.chance.random() < 0.3:
            x = b.pointwise(x, x)


def _twins(b: _Builder, ops: int) -> None:
    """Layers, then an activation that two branches of six pointwise operations read.

    Each branch has six operands of its own, and a native tile of seven operations (the activation
    made anew) fills fast memory: two groups of seven are best, one of thirteen has to halve its
    tiles, and handing the activation over costs more traffic than making it twice.
    """
    b.machine = Machine(native=128, capacity=8 * 128 * 128, bandwidth=100.0)
    rows = 512
    width = b.chance.choice((512, 640, 768))
    x = b.tensor(width, rows)
    while len(b.ops) + 14 < ops:
        x = b.pointwise(b.dense(x, width, 4000.0), cost=100.0)
    shared = b.pointwise(x, cost=120.0)
    for _ in range(2):
        branch = shared
        for place in b.chance.sample(range(6), 6):
            own = b.tensor(width, rows)
            more = (shared,) if place < 2 and branch != shared else ()
            branch = b.pointwise(branch, own, *more, cost=120.0)
        x = branch


KINDS: dict[str, Callable[[_Builder, int], None]] = {
    "random": _random,
    "mlp": _mlp,
    "attention": _attention,
    "moe": _moe,
    "residual": _residual,
    "twins": _twins,
}
"""The generators by name."""
