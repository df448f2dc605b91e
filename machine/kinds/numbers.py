"""Kinds that make tokens, addresses and selectors."""

from __future__ import annotations

from ..beat import Payload, Scalar, Selector, Tile
from ..limits import ADDRESS_BITS, ADDRESSES
from .kind import Combinational, In, Out, Payloads, need, param, register
from .setting import Level

GENERATORS = {
    "address": "inputs a, n: a * stride + i for i < n",
    "expert": "input one-hot selector: index * count + i for i < count",
    "elements": "input tile of one row: its elements, 32 bits each",
    "last": "input n: selectors of 2 bits, 0b10 n - 1 times, then 0b01",
}


REDUCERS = ("add", "mul", "max", "min", "or")
"""Functions by which `signal` reduces numbers; ``or``: the union of selectors."""
ARITHMETIC = {
    "add": "x + y",
    "min": "the smaller of x and y",
    "max": "the larger",
    "less": "1 where x < y, else 0",
    "equal": "1 where x = y, else 0",
    "hot": "the selector of target x + y",
    "place": "x + (x // divisor) y",
}
"""Functions of `address`, x = a * stride and y = b, or the constant."""


def _scalars(inputs: Payloads) -> None:
    need(
        all(isinstance(x, Scalar) and x.width <= ADDRESS_BITS for x in inputs),
        f"its inputs are scalars of at most {ADDRESS_BITS} bits",
    )


@register
class Signal(Combinational):
    """One token for each element of some inner dimensions, or the numbers in it reduced to one.

    Beats within an element are taken without a slot of the output.
    """

    name = "signal"
    level: int = param("dimensions of an element", setting=Level())
    fn: str | None = param(
        f"None: tokens; or one of {', '.join(REDUCERS)}, of numbers", default=None
    )
    init: int = param("state before the first number", default=0)
    scan: bool = param("whether the state leaves after every number", default=False)
    data = In("beats")
    tokens = Out("the number 1 for each element, or the state")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        if self.fn is None:
            return (Scalar(1),)
        need(self.fn in REDUCERS, f"fn is one of {', '.join(REDUCERS)}")
        word = isinstance(inputs[0], Selector) if self.fn == "or" else isinstance(inputs[0], Scalar)
        need(word, "its input is a selector for `or`, else a scalar")
        most = 128 if self.fn == "or" else ADDRESS_BITS
        need(inputs[0].bits <= most, "a scalar has at most 32 bits, a selector 128")
        return inputs

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return inputs if self.scan else (max(inputs[0] - self.level, 0),)


@register
class Generate(Combinational):
    """A new inner dimension for each element.

    A beat a cycle leaves while the output has a slot; the inputs are taken with the last.
    """

    name = "generate"
    fn: str = param(f"one of {', '.join(GENERATORS)}")
    stride: int = param("factor of `address`", ADDRESSES, runtime=True, default=0)
    count: int = param("elements of `expert`", ADDRESSES, runtime=True, default=0)
    a = In("of `address`: what `stride` multiplies", when=lambda kind: kind.fn == "address")
    n = In(
        "of `address` and `last`: how many beats to make",
        when=lambda kind: kind.fn in ("address", "last"),
    )
    selector = In(
        "of `expert`: one bit is set",
        when=lambda kind: kind.fn not in ("address", "last", "elements"),
    )
    tile = In("of `elements`", when=lambda kind: kind.fn == "elements")
    result = Out("addresses, or selectors of `last`")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        need(self.fn in GENERATORS, f"fn is one of {', '.join(GENERATORS)}")
        if self.fn == "expert":
            need(isinstance(inputs[0], Selector), "its input is a selector")
            return (Scalar(ADDRESS_BITS),)
        if self.fn == "elements":
            tiles = isinstance(inputs[0], Tile) and inputs[0].element_bits == ADDRESS_BITS
            need(tiles, "its input is a tile of elements of 32 bits")
            return (Scalar(ADDRESS_BITS),)
        _scalars(inputs)
        return (Selector(2) if self.fn == "last" else Scalar(ADDRESS_BITS),)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (max(inputs) + 1,)


@register
class Address(Combinational):
    """a * stride + b, or another function of a * stride and b, or a constant.

    Waits for a beat of its inputs, of equal stop.
    """

    name = "address"
    beat_for_beat = True
    stride: int = param("factor of a", ADDRESSES, runtime=True)
    fn: str = param(f"one of {', '.join(ARITHMETIC)}", default="add")
    alone: bool = param("whether the constant stands in the place of b", default=False)
    constant: int = param("the constant", default=0)
    divisor: int = param("of `place`", default=1)
    targets: int = param("of the selectors of `hot`", default=0)
    a = In("what `stride` multiplies")
    b = In("the second operand, without `alone`", when=lambda kind: not kind.alone)
    result = Out("the results")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        _scalars(inputs)
        need(self.fn in ARITHMETIC, f"fn is one of {', '.join(ARITHMETIC)}")
        need(self.divisor in ADDRESSES[1:], "divisor is a number of 1 to 32 bits, not 0")
        return (Selector(self.targets) if self.fn == "hot" else Scalar(ADDRESS_BITS),)
