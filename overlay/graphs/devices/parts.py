"""Equations that several devices share: junction current and junction charge, as in the SPICE 2/3
reports.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sy

from ..equations import Equations, limexp


def junction_current(eq: Equations, name: str, v, saturation, thermal):
    """saturation * (e**(v / thermal) - 1); the exponential continues linearly where it would
    overflow.
    """
    e = eq.let(f"e_{name}", limexp(v / thermal))
    return eq.let(name, saturation * (e - 1))


@dataclass(frozen=True)
class Depletion:
    """Depletion charge of a junction: c0, built-in voltage vj, grading m; linear capacitance above
    fc * vj.

    What does not depend on the voltage is worked out on the host, and a parameter of the graph.
    """

    c0: float
    vj: float
    m: float
    fc: float = 0.5

    def charge(self, eq: Equations, name: str, v):
        vj, order, whole, edge, base, slope, bend = eq.param(
            **{f"{name}_{k}": x for k, x in self.constants().items()}
        )
        share = eq.let(f"{name}_share", 1 - v / vj)
        lower = eq.let(f"{name}_lower", whole * (1 - share**order))
        beyond = eq.let(f"{name}_beyond", v - edge)
        upper = eq.let(f"{name}_upper", base + beyond * (slope + bend * beyond))
        return eq.let(name, sy.Piecewise((lower, v < edge), (upper, True)))

    def constants(self) -> dict[str, float]:
        order = 1 - self.m
        whole = self.c0 * self.vj / order
        left = 1 - self.fc
        return {
            "vj": self.vj,
            "order": order,
            "whole": whole,
            "edge": self.fc * self.vj,
            "base": whole * (1 - left**order),
            "slope": self.c0 * left**-self.m,
            "bend": self.c0 * self.m / (2 * self.vj) * left ** -(1 + self.m),
        }
