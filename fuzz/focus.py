"""The feature that the next program is built around."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .coverage import Coverage, wanted
from .draw import Goal

EXPECTED = 1
"""Hits that a turn counts for, besides those it brings: what is hard to meet does not take all
turns.
"""
GOALS = 9
"""Most goals that one program is built around."""
CLEARED = {"a stream without elements": (0,), "an empty dimension": (1, 2)}
"""Ways of being empty, and the depths of sources that make them."""


@dataclass(frozen=True)
class Aim:
    """Desired features of a program, the most important first; ``clear``: depths at which its
    variants should lose all elements.
    """

    goals: tuple[Goal, ...]
    clear: tuple[int, ...] = ()


class Focus:
    """Each of ``names`` (of :data:`penstock.fuzz.draw.VARIANTS`) once, and what ``coverage`` has
    met least: together, up to ``goals`` at a time.

    Attributes
    ----------
    around
        What is to be met, by group and name: names of steps that can bring it.
    """

    def __init__(self, coverage: Coverage, names: list[str], goals: int = GOALS):
        self.coverage = coverage
        self.names = names
        self.goals = goals
        self._first = list(reversed(names))
        self._turns: Counter[tuple[str, str]] = Counter()
        self.around = {
            key: found
            for key in wanted()
            if key[0] not in ("stop", "empty part", "tensor", "spilled")
            and (found := self._variants(key))
        }

    def _variants(self, key: tuple[str, str]) -> list[str]:
        """Names of steps that can bring a hit."""
        group, what = key
        name = what if group in ("operator", "port") else what.partition(":")[0]
        exact = (
            [n for n in self.names if n == name]
            if (group in ("operator", "form") and " " in name) or group == "operator"
            else []
        )
        return exact or [n for n in self.names if n.split()[0] == name.split()[0]]

    def next(self) -> Aim:
        if not self.around:
            self._first = self._first or list(reversed(self.names))
        goals = [Goal((self._first.pop(),))] if self._first else []
        clear = ()
        for key in sorted(
            self.around, key=lambda k: self.coverage.hits[k] + EXPECTED * self._turns[k]
        )[: self.goals - len(goals)]:
            self._turns[key] += 1
            group, what = key
            clear = clear or CLEARED.get(what.partition(": ")[2], ())
            around = self.around[key]
            goals.append(
                Goal(tuple(around), what)
                if group == "form"
                else Goal((around[self._turns[key] % len(around)],))
            )
        return Aim(tuple(goals), clear)
