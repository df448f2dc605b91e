"""Kinds that change where the dimensions of a stream end, and how fast it goes."""

from __future__ import annotations

from ..beat import Payload, Scalar
from ..limits import REPEATS, TILE_SIDES
from .kind import Combinational, In, Out, Payloads, need, param, register, same
from .setting import Level, Optional, UpTo


@register
class Flatten(Combinational):
    """Merges dimensions lo..hi.

    With `hold` a beat that ends a part waits until the next shows whether its group goes on.
    """

    name = "flatten"
    lo: int = param("innermost dimension merged", setting=Level())
    hi: int = param("outermost dimension merged", setting=Level())
    hold: bool = param(
        "whether a part of a group may be empty, so that a beat is held back",
        setting=UpTo(True),
        default=False,
    )
    data = In("beats")
    result = Out("the beats, with fewer stop levels")

    def payloads(self, inputs: Payloads) -> Payloads:
        need(self.lo <= self.hi, "lo is at most hi")
        return same(inputs)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        (top,) = inputs
        return (top if top <= self.lo else max(self.lo, top - (self.hi - self.lo)),)


@register
class Promote(Combinational):
    """Inserts a dimension of size 1 at a level.

    As the outermost one it holds a beat back until the next is visible, and its Done a cycle more.
    """

    name = "promote"
    level: int = param("stop level inserted", setting=Level())
    outermost: bool = param(
        "whether it is the stream's new outermost dimension", setting=UpTo(True), default=False
    )
    data = In("beats")
    result = Out("the beats, with a stop level more")

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        (top,) = inputs
        if self.outermost:
            return (max(top, self.level),)
        return (top + 1 if top >= self.level else top,)


@register
class Reshape(Combinational):
    """Splits a dimension into chunks.

    Pads leave one a cycle, and nothing is taken meanwhile.
    """

    name = "reshape"
    dim: int = param("dimension split", setting=Level(most=13))
    chunk: int = param("size of a chunk", REPEATS, runtime=True)
    pad: bool = param("whether a partial chunk is padded", setting=UpTo(True), default=False)
    pad_rows: int | None = param(
        "physical tile rows of a pad unit", TILE_SIDES, runtime=True, default=None
    )
    pad_cols: int | None = param(
        "physical tile columns of a pad unit", TILE_SIDES, runtime=True, default=None
    )
    flags: int | None = param(
        "there is a second output, the padding stream: dimensions of an element, which one flag "
        "stands for",
        setting=Optional(adds_port=True),
        default=None,
    )
    bare: bool = param(
        "whether a pad unit is a bare beat, as an empty element may be", default=False
    )
    value: int | None = param(
        "word of each number, or of each valid element, of a pad unit (None: it has no value)",
        default=None,
    )
    extent: list[int] = param(
        "valid rows and columns of a pad unit with a value, in elements", default=[0, 0]
    )
    data = In("beats")
    result = Out("the beats, with a stop level more")
    padding = Out(
        "whether an element is a pad, with `flags`", when=lambda kind: kind.flags is not None
    )

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        return (*same(inputs), Scalar(1))[: len(self.outputs())]

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        top = max(inputs[0], self.dim) + 1
        return (top,) if self.flags is None else (top, max(top - self.flags, 0))
