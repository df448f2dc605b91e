"""Parts of a pointwise operation on a machine."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

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
