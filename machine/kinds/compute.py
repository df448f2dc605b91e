"""Kinds that compute on tiles in a pipeline (docs/timing.md section 2)."""

from __future__ import annotations

from collections.abc import Mapping

from ..beat import Payload, Tile, Tuple, beat_bits
from ..functions import dot_stages, lookup, reducing_stages
from ..widths import Widths
from .kind import In, Kind, Out, Payloads, need, param, queue_entries, register, tile
from .setting import OneOf, Optional, UpTo
from .uses import QUEUES

DEEP = "whether its arithmetic has the deep pipelines"


def log2(n: int) -> int:
    """The logarithm of a power of two."""
    return n.bit_length() - 1


def tiles_only(inputs: Payloads) -> None:
    """The rule of units on tiles, or on tuples of them."""
    for x in inputs:
        members = x.members if isinstance(x, Tuple) else (x,)
        need(all(isinstance(m, Tile) for m in members), "its inputs are tiles")


class Pipelined(Kind):
    """Base of the kinds with a queue behind their pipeline (docs/timing.md section 2)."""

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        return {QUEUES: queue_entries(*self.pipeline(t)) * beat_bits(outputs[0])}


@register
class Map(Pipelined):
    """Element-wise function on tiles.

    Takes a beat of each operand together. It stalls while its output queue is full, and between
    tiles where it has fewer lanes than a tile has elements.
    """

    name = "map"
    computes = True
    fn: str = param("name in machine/functions.py")
    arity: int = param("operands")
    lanes: int = param("elements a cycle")
    tuple_in: bool = param("whether the operands come as one tuple stream", default=False)
    spread: str | None = param(
        "how the second operand's tile is repeated over the first's: 'cols' (of its first column), "
        "'rows' (of its first row) or 'both'",
        setting=OneOf(None, "cols", "rows", "both"),
        default=None,
    )
    first: str | None = param("likewise of the first operand over the second", default=None)
    constant: int | None = param(
        "fp32 bits of a second operand that is the same everywhere",
        setting=Optional(adds_port=False),
        default=None,
    )
    deep: bool = param(DEEP, default=False)
    operands = In("tuples of the operands, with `tuple_in`", when=lambda kind: kind.tuple_in)
    a = In("the first operand, without `tuple_in`", when=lambda kind: not kind.tuple_in)
    b = In(
        "the second operand of a function of two, likewise",
        when=lambda kind: kind.arity > 1 and not kind.tuple_in and kind.constant is None,
    )
    result = Out("the function of each element")

    def latency(self, t: int) -> int:
        return lookup(self.fn).depth(self.deep) + self.interval(t) - 1

    def interval(self, t: int) -> int:
        return t * t // self.lanes

    def flops_per_cycle(self, t: int) -> int:
        return self.lanes * lookup(self.fn).flops_per_element

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        tiles_only(inputs)
        return (None,)


@register
class RowReduce(Pipelined):
    """Reduction of each row of a tile to one column.

    Stalls only while its output queue is full.
    """

    name = "row_reduce"
    fn: str = param("function with an identity: add, max", setting=OneOf())
    deep: bool = param(DEEP, default=False)
    tile = In("tiles")
    column = Out("tiles of one column")

    def latency(self, t: int) -> int:
        return log2(t) * reducing_stages(self.deep)

    def interval(self, t: int) -> int:
        return 1

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        return (Tile(tile(inputs[0], "its input is a tile").t, "fp32"),)


@register
class Matmul(Pipelined):
    """Product of two physical tiles, fp32 out.

    Takes a tile of each operand together. It stalls while its output queue is full, and between
    tiles where it makes fewer rows a cycle than a tile has.
    """

    name = "matmul"
    computes = True
    rows_per_cycle: int = param("rows of the product a cycle")
    transposed: bool = param("whether B is transposed", setting=UpTo(True), default=False)
    deep: bool = param(DEEP, default=False)
    a = In("A")
    b = In("B, of A's element type")
    product = Out("A B, or A times B transposed")

    def latency(self, t: int) -> int:
        return dot_stages(t, self.deep) + self.interval(t) - 1

    def interval(self, t: int) -> int:
        return t // self.rows_per_cycle

    def flops_per_cycle(self, t: int) -> int:
        return 2 * t * t * self.rows_per_cycle

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        rule = "A and B are tiles of one element type"
        need(inputs[0] == inputs[1], rule)
        return (Tile(tile(inputs[0], rule).t, "fp32"),)
