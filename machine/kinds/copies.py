"""Kinds that copy, deal and collect beats."""

from __future__ import annotations

from ..beat import Tuple
from ..limits import COUNTS, REPEATS
from .kind import Combinational, In, Out, Payloads, param, register
from .setting import Given, Level, Ports


@register
class Broadcast(Combinational):
    """Copies each beat to n outputs.

    Waits until every output has a slot. A copy of a reference counts in its scratchpad.
    """

    name = "broadcast"
    beat_for_beat = True
    posts = "scratchpad"
    n: int = param("outputs", COUNTS, setting=Ports())
    scratchpad: int | None = param(
        "unit id that a reference belongs to, or None", setting=Given(), default=None
    )
    data = In("beats")
    copies = Out("each beat, on all at once", many="n")


@register
class Hop(Combinational):
    """Copies each beat to n outputs, in the network of an array.

    Waits until every output has a slot.
    """

    name = "hop"
    beat_for_beat = True
    n: int = param("outputs", COUNTS, setting=Ports())
    data = In("beats")
    copies = Out("each beat, on all at once", many="n")


@register
class Repeat(Combinational):
    """Repeats each beat.

    A copy a cycle leaves while the output has a slot; the beat is taken with the last.
    """

    name = "repeat"
    count: int = param("copies", REPEATS, runtime=True)
    data = In("beats")
    copies = Out("each beat as a new innermost dimension")

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (inputs[0] + 1,)


@register
class Expand(Combinational):
    """Copies each element along the reference stream's inner dimensions.

    Waits for both heads and a slot; the element is taken with its last copy.
    """

    name = "expand"
    posts = "scratchpad"
    drops = True
    level: int = param("dimensions that are expanded", setting=Level())
    scratchpad: int | None = param(
        "unit id that the references in the data belong to, or None", setting=Given(), default=None
    )
    data = In("elements")
    reference = In("whose stops the copies have")
    result = Out("the copies")

    def payloads(self, inputs: Payloads) -> Payloads:
        return inputs[:1]

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return inputs[1:]


@register
class Split(Combinational):
    """Deals beats round robin.

    Waits for a slot of the output whose turn it is; Done for a slot of all.
    """

    name = "split"
    n: int = param("outputs", COUNTS, setting=Ports())
    data = In("beats")
    parts = Out("every n-th beat", many="n")


@register
class Merge(Combinational):
    """Collects beats round robin.

    Waits for a beat of the input whose turn it is; Done for that of all.
    """

    name = "merge"
    any_input = True
    n: int = param("inputs", COUNTS, setting=Ports())
    parts = In("every n-th beat", many="n")
    result = Out("beats")


@register
class Zip(Combinational):
    """Joins two streams into tuples.

    Waits for a beat of both, of equal stop.
    """

    name = "zip"
    beat_for_beat = True
    a = In("the first members")
    b = In("the second members")
    pair = Out("tuples")

    def payloads(self, inputs: Payloads) -> Payloads:
        return (Tuple(inputs),)
