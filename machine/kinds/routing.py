"""Kinds that send units of a stream where selectors say, and collect them."""

from __future__ import annotations

from ..beat import Payload, Selector, Tile
from ..limits import COUNTS
from .kind import Combinational, In, Kind, Out, Payloads, need, param, register, same
from .setting import Given, Level, Ports


def _selects(n: int, selector: Payload) -> None:
    need(selector == Selector(n), f"the selector has one bit for each of {n} streams")


@register
class Partition(Combinational):
    """Sends units of the data to the outputs that a selector names.

    Waits for both heads and a slot of every selected output; the selector is taken with its unit's
    last beat.
    """

    name = "partition"
    posts = "scratchpad"
    drops = True
    n: int = param("outputs", COUNTS, setting=Ports())
    rank: int = param("dimensions of a unit", setting=Level(most=13))
    scratchpad: int | None = param(
        "unit id that the references in the data belong to, or None", setting=Given(), default=None
    )
    data = In("units")
    selector = In("one bit for each output, for each unit")
    parts = Out("the units whose selector has the output's bit", many="n")

    def payloads(self, inputs: Payloads) -> Payloads:
        _selects(self.n, inputs[1])
        return inputs[:1] * self.n

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (min(inputs[0], self.rank),) * self.n


@register
class Reassemble(Combinational):
    """Collects units from the inputs that a selector names, as they arrive.

    Waits for the first of the units that the selector names. After the selector's Done it waits for
    that of every input.
    """

    name = "reassemble"
    any_input = True
    by_arrival = True
    n: int = param("data inputs", COUNTS, setting=Ports())
    rank: int = param("dimensions of a unit", setting=Level(most=12))
    parts = In("units", many="n")
    selector = In("one bit for each input")
    result = Out("the units of each selector as a dimension")

    def payloads(self, inputs: Payloads) -> Payloads:
        _selects(self.n, inputs[-1])
        return same(inputs[:-1])

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (self.rank + 1 + inputs[-1],)


@register
class EagerMerge(Combinational):
    """Passes units on as they arrive and says whence.

    The first beat of a unit needs a slot of both outputs.
    """

    name = "eager_merge"
    any_input = True
    by_arrival = True
    n: int = param("inputs", COUNTS, setting=Ports())
    rank: int = param("dimensions of a unit", setting=Level())
    parts = In("units", many="n")
    result = Out("the units")
    selector = Out("the input that each unit came from, one-hot")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        return (*same(inputs), Selector(self.n))

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (max(inputs), 0)


@register
class TopK(Kind):
    """Selectors of the k largest elements of each row.

    Takes a column a cycle; a row waits with its last column until the results of the one before
    have left, which takes k cycles.
    """

    name = "top_k"
    n: int = param("bits of a selector", range(1, 257))
    k: int = param("elements chosen", range(1, 9))
    rank: int = param("dimensions of a row of several tiles: 2, of one tile: 0", range(3))
    data = In("rows, fp32: the first of each tile")
    selector = Out("all that are chosen")
    order = Out("each of them, one-hot, the largest first")
    value = Out("their elements, tiles of one")

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        x = inputs[0]
        need(isinstance(x, Tile) and x.dtype == "fp32", "its input is a tile of fp32")
        return (Selector(self.n), Selector(self.n), x)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        s = max(inputs[0] - self.rank, 0)
        return (s, s + 1, s + 1 + self.rank)
