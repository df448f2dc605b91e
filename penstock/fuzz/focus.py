"""What the next program is built around."""

from __future__ import annotations

from collections import Counter

from .coverage import Coverage, wanted

__all__ = ["Focus"]

EXPECTED = 3
"""Hits that a program and its variants are expected to bring; what brings fewer has its turn later."""
CLEARED = {"a stream without elements": (0,), "an empty dimension": (1, 2)}
"""Ways of being empty, and the depths of sources that make them."""


class Focus:
    """Each of ``names`` (of :data:`penstock.fuzz.draw.VARIANTS`) once, then what ``coverage`` has met least.

    Attributes
    ----------
    clear
        Depths at which variants of the program should lose all elements.
    """

    def __init__(self, coverage: Coverage, names: list[str]):
        self.coverage, self.names, self.clear = coverage, names, ()
        self._first = list(reversed(names))
        self._turns: Counter[tuple[str, str]] = Counter()
        self._around = {key: found for key in wanted() if key[0] != "stop" and (found := self._variants(key))}

    def _variants(self, key: tuple[str, str]) -> list[str]:
        """Names of steps that can bring a hit."""
        group, what = key
        kind = what.partition(":")[0] if group == "empty" else what
        exact = [n for n in self.names if n == kind] if group == "operator" else []
        return exact or [n for n in self.names if n.split()[0] == kind.split()[0]]

    def next(self) -> str:
        self.clear = ()
        if self._first or not self._around:
            self._first = self._first or list(reversed(self.names))
            return self._first.pop()
        key = min(self._around, key=lambda k: self.coverage.hits[k] + EXPECTED * self._turns[k])
        self._turns[key] += 1
        self.clear = CLEARED.get(key[1].partition(": ")[2], ())
        around = self._around[key]
        return around[self._turns[key] % len(around)]
