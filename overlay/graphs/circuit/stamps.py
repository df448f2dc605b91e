"""Modified nodal analysis: currents and conductances of elements, added up as matrix and right
side of a Newton step.

The step is in residual form: J dx = r, where r are the currents that flow into each node at the
voltages at hand. So the accuracy of a solution is that of r, whatever the rounding of J.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...core.ops import Op
from ..builder import Builder, Depth, Value

Number = Value | float
"""A node of the graph, or what is known when the graph is made."""
Pair = tuple[str, str]
"""Two nodes of a circuit: a voltage or a current from the first to the second."""


def plus(x: Number, y: Number) -> Number:
    """x + y, without an operation where one of them is 0."""
    return y if _is(x, 0) else x if _is(y, 0) else x + y


def minus(x: Number, y: Number) -> Number:
    """x - y, likewise."""
    return x if _is(y, 0) else x - y


def times(x: Number, y: Number) -> Number:
    """x * y, without an operation where one of them is 0 or 1."""
    if _is(x, 0) or _is(y, 0):
        return 0.0
    return y if _is(x, 1) else x if _is(y, 1) else x * y


def _is(x: Number, value: float) -> bool:
    return not isinstance(x, Value) and x == value


class Sum:
    """Terms of a sum, and what is subtracted."""

    def __init__(self):
        self.known = 0.0
        self.terms: tuple[list[Value], list[Value]] = ([], [])

    def add(self, x: Number, sign: int = 1) -> None:
        """Add x, or subtract it."""
        if isinstance(x, Value):
            self.terms[sign < 0].append(x)
        else:
            self.known += sign * x

    def total(self, depth: Depth) -> Number:
        """The sum; what is there first is joined first."""
        more, less = self.terms
        if not more:
            known = self.known
            return minus(known, depth.join(Op.ADD, less)) if less else known
        whole = (
            minus(depth.join(Op.ADD, more), depth.join(Op.ADD, less))
            if less
            else depth.join(Op.ADD, more)
        )
        return plus(whole, self.known)


class Stamps:
    """Matrix and right side; unknowns are node voltages, then currents of voltage sources.

    The last column is ground's: so the entries of a row in columns of voltages add up to 0.
    """

    def __init__(self, g: Builder, unknowns: Iterable[str]):
        self.g = g
        self.x = {name: g.input(name) for name in unknowns}
        self.index = {name: k for k, name in enumerate([*self.x, "v(0)"])}
        self.right = [Sum() for _ in self.x]
        self.matrix: dict[tuple[int, int], Sum] = {}
        self.limited: list[Value] = []

    def voltage(self, pair: Pair) -> Number:
        """Voltage between two nodes."""
        p, n = (self.x.get(f"v({node})", 0.0) for node in pair)
        return 0.0 if pair[0] == pair[1] else minus(p, n)

    def current(self, pair: Pair, i: Number, slopes: Mapping[Pair, Number]) -> None:
        """A current from node to node, and its derivatives with respect to voltages."""
        for node, sign in zip(pair, (-1, 1), strict=True):
            if node == "0":
                continue
            row = self.index[f"v({node})"]
            self.right[row].add(i, sign)
            for control, slope in slopes.items():
                for name, way in zip(control, (-sign, sign), strict=True):
                    self.entry(row, f"v({name})", slope, way)

    def source(self, name: str, pair: Pair, volts: float) -> None:
        """A voltage source; its current, from the first node to the second, is an unknown."""
        unknown = f"i({name})"
        self.current(pair, self.x[unknown], {})
        row = self.index[unknown]
        self.right[row].add(volts)
        for node, sign in zip(pair, (1, -1), strict=True):
            self.entry(row, f"v({node})", 1.0, sign)
            if node != "0":
                self.entry(self.index[f"v({node})"], unknown, 1.0, sign)
        self.right[row].add(self.voltage(pair), -1)

    def entry(self, row: int, column: str, value: Number, sign: int) -> None:
        """Add to an entry of the matrix."""
        self.matrix.setdefault((row, self.index[column]), Sum()).add(value, sign)
