"""Sizes that only the run knows: symbols of a program, their bounds, and expressions of them."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

import sympy

from ..machine.errors import ProgramError
from .types import Dim, DimKind


def count_symbol(name: str) -> sympy.Symbol:
    """The symbol of a size."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


class Symbols:
    """The symbols of a program.

    Attributes
    ----------
    symbols
        Dimensions by name.
    derived_symbols
        Names of those that the shape rules made.
    bounds, leasts
        Most that a symbol can be, where known; least, where above 0.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, Dim] = {}
        self.derived_symbols: set[str] = set()
        self.bounds: dict[str, int] = {}
        self.leasts: dict[str, int] = {}
        self._most: dict[sympy.Expr, int] = {}
        self._derived: dict[tuple, Dim] = {}

    def dynamic(
        self, name: str, *, ragged: bool = False, most: int | None = None, least: int = 0
    ) -> Dim:
        """A dimension whose size the data decide; ``most``, ``least``: bounds that the program
        guarantees. With ``least=1`` no group is empty, so Flatten need not hold a beat back.
        """
        return self.symbol(name, DimKind.of(dynamic=True, ragged=ragged), most, least)

    def ragged(self, name: str, most: int | None = None, least: int = 0) -> Dim:
        """A static-ragged dimension; ``most``, ``least``: the largest and smallest of its sizes."""
        return self.symbol(name, DimKind.STATIC_RAGGED, most, least)

    def symbol(self, name: str, kind: DimKind, most: int | None = None, least: int = 0) -> Dim:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ProgramError(f"a symbol's name must be an identifier, not {name!r}")
        if name in self.symbols:
            raise ProgramError(f"symbol {name!r} is declared twice", remedy="choose another name")
        if most is not None:
            if isinstance(most, bool) or not isinstance(most, int) or most < 1:
                raise ProgramError(
                    f"most must be an integer of at least 1, not {most!r}", f"symbol {name}"
                )
            self.bounds[name] = most
        if (
            isinstance(least, bool)
            or not isinstance(least, int)
            or not 0 <= least <= (most or least)
        ):
            raise ProgramError(
                f"least must be an integer from 0 to most, not {least!r}", f"symbol {name}"
            )
        if least:
            self.leasts[name] = least
        self.symbols[name] = Dim(count_symbol(name), kind)
        return self.symbols[name]

    def derived(self, expr: sympy.Expr, *parts: Dim) -> Dim:
        """A dimension of size ``expr`` over ``parts``: a ragged symbol if one of them is ragged
        (ragged absorbs), the same for the same expression.
        """
        kind = DimKind.STATIC_REGULAR
        for p in parts:
            kind = kind.join(p.kind)
        if not kind.ragged:
            return Dim(sympy.sympify(expr), kind)
        if sum(p.size != 1 for p in parts) == 1 and expr in [p.size for p in parts]:
            return next(p for p in parts if p.size == expr)
        whole = Dim(expr, kind)
        return self.fresh("R", (expr, kind), kind, self.most(whole), self.least(whole))

    def fresh(
        self, stem: str, key: object, kind: DimKind, most: int | None = None, least: int = 0
    ) -> Dim:
        """A symbol that a shape rule makes: a new one for each ``key``."""
        if (stem, key) not in self._derived:
            i = 0
            while f"{stem}{i}" in self.symbols:
                i += 1
            self.derived_symbols.add(f"{stem}{i}")
            self._derived[stem, key] = self.symbol(f"{stem}{i}", kind, most or None, least)
        return self._derived[stem, key]

    def most(self, d: Dim) -> int | None:
        """The most that a size can be, or None: sizes grow with their symbols."""
        if d.size not in self._most:
            free = d.size.free_symbols
            if any(str(x) not in self.bounds for x in free):
                return None
            self._most[d.size] = int(
                d.size.xreplace({x: sympy.Integer(self.bounds[str(x)]) for x in free})
            )
        return self._most[d.size]

    def least(self, d: Dim) -> int:
        """The least that a size can be: sizes grow with their symbols."""
        if d.value is not None:
            return d.value
        free = d.size.free_symbols
        return int(d.size.xreplace({x: sympy.Integer(self.leasts.get(str(x), 0)) for x in free}))

    def holds(self, shape: Sequence[Dim], lo: int, hi: int) -> bool:
        """True if a merge of dimensions ``lo`` to ``hi`` holds a beat back: a part of a group may
        be empty, so that only what follows tells which element is the group's last.
        """
        parts = shape[len(shape) - hi : len(shape) - lo]
        return hi < len(shape) - 1 and any(self.least(d) < 1 for d in parts)
