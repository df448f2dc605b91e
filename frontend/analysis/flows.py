"""Facts about a channel's beats without a run: how many there are before Done, and where groups
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ...machine.trace import Shape


@dataclass(frozen=True)
class Flow:
    """The beats of a channel, Done left out."""

    # trips of a regular stream, outermost first; None where they are not known, or not regular.
    # Every element of such a stream is a beat with data.
    dims: tuple[int, ...] | None = None
    ends: np.ndarray | None = None  # stops of the beats, where these are given
    plain: bool = False  # whether every beat is known to have data
    total: int | None = None  # how many there are, where only that is known

    @staticmethod
    def of(dims: Sequence[int]) -> Flow:
        """A regular stream; nothing is known of an empty one."""
        dims = tuple(int(n) for n in dims)
        return Flow(dims, None, True) if all(n > 0 for n in dims) else UNKNOWN

    @staticmethod
    def seen(stop: np.ndarray, data: np.ndarray) -> Flow:
        """Beats that are given, Done among them."""
        ends = np.asarray(stop)[:-1]
        plain = bool(np.all(data[:-1]))
        return Flow(_trips(ends) if plain else None, ends, plain)

    def summed(self) -> Flow:
        """Remainder of the flow without each beat."""
        return Flow(self.dims, None, self.plain, self.count)

    @staticmethod
    def ran(shape: Shape) -> Flow:
        """The beats of a channel in a run."""
        return Flow(shape.trips if shape.plain else None, None, shape.plain, shape.count)

    @cached_property
    def count(self) -> int | None:
        """Beats; None where that is not known."""
        if self.ends is not None:
            return len(self.ends)
        return self.total if self.dims is None else prod(self.dims)

    @property
    def some(self) -> bool:
        """True if there are beats, each with data."""
        return self.plain and bool(self.count)

    def head(self, level: int) -> int:
        """Beats of the first group that ends with a stop of a level, 1 where that is not known."""
        if self.ends is not None:
            found = np.flatnonzero(self.ends >= level)
            return int(found[0]) + 1 if len(found) else 1
        return self._group(level)

    def tail(self, level: int) -> int:
        """Beats of the last group, likewise."""
        if self.ends is not None:
            found = np.flatnonzero(self.ends >= level)
            if len(found) and found[-1] == len(self.ends) - 1:
                before = int(found[-2]) if len(found) > 1 else -1
                return len(self.ends) - 1 - before
            return 1
        return self._group(level)

    def _group(self, level: int) -> int:
        if self.dims is None or level > len(self.dims):
            return 1
        return prod(self.dims[len(self.dims) - level :])

    def inner(self, n: int) -> tuple[int, ...] | None:
        """The innermost ``n`` dimensions."""
        if self.dims is None or n > len(self.dims):
            return None
        return self.dims[len(self.dims) - n :]

    def outer(self, n: int) -> tuple[int, ...] | None:
        """All but the innermost ``n`` dimensions."""
        if self.dims is None or n > len(self.dims):
            return None
        return self.dims[: len(self.dims) - n]


UNKNOWN = Flow()
"""A stream of which nothing is known."""


def _trips(ends: np.ndarray) -> tuple[int, ...] | None:
    """Trips of a stream with these stops, None where they are not regular."""
    if not len(ends) or ends[-1] < ends.max():
        return None
    trips = []
    for level in range(1, int(ends[-1]) + 1):
        at = np.flatnonzero(ends >= level)
        each = int(at[0]) + 1
        if len(ends) % each or not np.array_equal(at, np.arange(each - 1, len(ends), each)):
            return None
        trips.append(each)
        ends = ends[at]
    return (len(ends), *reversed(trips))
