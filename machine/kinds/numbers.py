"""Kinds that make tokens, addresses and selectors."""

from __future__ import annotations

from ..beat import Payload, Scalar, Selector
from ..limits import ADDRESS_BITS, ADDRESSES
from .kind import Combinational, In, Out, Payloads, need, param, register
from .setting import Level

GENERATORS = {
    "address": "inputs a, n: a * stride + i for i < n",
    "expert": "input one-hot selector: index * count + i for i < count",
    "last": "input n: selectors of 2 bits, 0b10 n - 1 times, then 0b01",
}


def _scalars(inputs: Payloads) -> None:
    need(
        all(isinstance(x, Scalar) and x.width <= ADDRESS_BITS for x in inputs),
        f"its inputs are scalars of at most {ADDRESS_BITS} bits",
    )


@register
class Signal(Combinational):
    """One token for each element of some inner dimensions.

    Beats within an element are taken without a slot of the output.
    """

    name = "signal"
    level: int = param("dimensions of an element", setting=Level())
    data = In("beats")
    tokens = Out("the number 1 for each element")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        return (Scalar(1),)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (max(inputs[0] - self.level, 0),)


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
        "of `expert`: one bit is set", when=lambda kind: kind.fn not in ("address", "last")
    )
    result = Out("addresses, or selectors of `last`")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        need(self.fn in GENERATORS, f"fn is one of {', '.join(GENERATORS)}")
        if self.fn == "expert":
            need(isinstance(inputs[0], Selector), "its input is a selector")
            return (Scalar(ADDRESS_BITS),)
        _scalars(inputs)
        return (Selector(2) if self.fn == "last" else Scalar(ADDRESS_BITS),)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (max(inputs) + 1,)


@register
class Address(Combinational):
    """a * stride + b.

    Waits for a beat of both inputs, of equal stop.
    """

    name = "address"
    beat_for_beat = True
    stride: int = param("factor of a", ADDRESSES, runtime=True)
    a = In("what `stride` multiplies")
    b = In("what is added")
    result = Out("the sums")

    def payloads(self, inputs: Payloads) -> tuple[Payload, ...]:
        _scalars(inputs)
        return (Scalar(ADDRESS_BITS),)
