"""A problem at a machine's own rates.

The contest gives each operation a cost, and its machine a bandwidth. Here both are those of a
configuration, which is chosen before any schedule is seen; a unit of time is a cycle:

- *MatMul*: a native output tile over the whole reduction takes its products of physical tiles,
  each the interval of a matmul unit.
- *Pointwise*: a native tile takes its physical tiles, each the interval of the unit of its
  function; a sum of n operands is n - 1 sums, and a product for each that occurs several times.
- *Bandwidth*: the peak of the off-chip memory, in fp32 elements a cycle.

Tensors, capacity and native sizes stay the problem's.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ....frontend import ceil_div
from ....machine.beat import LINE_BYTES
from ....machine.config import Config, Machine
from ....machine.errors import ConfigError
from ..problem import Op, Problem

ELEMENT_BYTES = 4
LINE_ELEMENTS = LINE_BYTES // ELEMENT_BYTES
T = TypeVar("T")


class Parts(Protocol[T]):
    """Stand-ins for operands and functions: streams of a program, or the cycles that they take."""

    def operand(self, tensor: int) -> T: ...

    def silu(self, value: T) -> T: ...

    def scaled(self, value: T, times: int) -> T: ...

    def sum(self, left: T, right: T) -> T: ...


def made_of(inputs: Sequence[int], parts: Parts[T]) -> T:
    """SiLU of one operand, the sum of several; an operand that occurs n times is scaled by n, so
    that its stream need not part and join again.
    """
    if len(inputs) == 1:
        return parts.silu(parts.operand(inputs[0]))
    terms = (
        parts.scaled(parts.operand(tensor), times) if times > 1 else parts.operand(tensor)
        for tensor, times in Counter(inputs).items()
    )
    return functools.reduce(parts.sum, terms)


@dataclass(frozen=True)
class Cycles:
    """Cycles of a physical tile in the units of a pointwise operation."""

    machine: Machine

    def unit(self, fn: str) -> int:
        return self.machine.t**2 // self.machine.lanes_for(fn)

    def operand(self, tensor: int) -> int:
        return 0

    def silu(self, value: int) -> int:
        return value + self.unit("silu")

    def scaled(self, value: int, times: int) -> int:
        return value + self.unit("mul")

    def sum(self, left: int, right: int) -> int:
        return left + right + self.unit("add")


def at_rates_of(config: Config, problem: Problem) -> Problem:
    """The problem with the costs and the bandwidth of a machine, in cycles.

    Raises
    ------
    ConfigError
        The machine does not move fp32.
    """
    machine = config.machine
    if machine.dtype != "fp32":
        raise ConfigError(
            f"moves {machine.dtype}",
            f"config {config.name}: machine.dtype",
            "the operations of a schedule are in fp32",
            "choose another configuration, such as dag",
        )
    t = machine.t
    width, height = problem.native
    area = ceil_div(width, t) * ceil_div(height, t)

    def cost(index: int, op: Op) -> float:
        if op.is_matmul:
            products = area * ceil_div(problem.reduction(index), t)
            return products * (t // machine.rows_per_cycle) / machine.units_for("matmul")
        return area * made_of(op.inputs, Cycles(machine)) / machine.units_for("map")

    ops = tuple(replace(op, cost=float(cost(i, op))) for i, op in enumerate(problem.ops))
    bandwidth = machine.dram.bytes_per_cycle / ELEMENT_BYTES
    return replace(problem, ops=ops, bandwidth=float(bandwidth))


def text(config: Config) -> str:
    """One line: tiles, bandwidth, scratchpads."""
    m = config.machine
    return (
        f"{config.name}, {m.t} x {m.t} tiles of {m.dtype}, "
        f"{m.dram.bytes_per_cycle:g} B/cycle off chip, scratchpads of up to "
        f"{m.pages * m.frames * m.t * m.t * ELEMENT_BYTES // 1024} KiB"
    )
