"""Junction diode."""

import sympy as sy

from ..equations import Equations
from .parts import Depletion, junction_current


def equations() -> Equations:
    """Current (exponential forward, breakdown in reverse) and charge (transit time, depletion)."""
    eq = Equations(
        "diode",
        "Junction diode after the SPICE 2 report (Nagel 1975): current, breakdown, transit time "
        "and depletion charge",
    )
    v = eq.bias("v", -6.0, 0.85, 0.65)
    sat, nvt, bv, tt, gmin = eq.param(isat=1e-14, nvt=0.02585, bv=5.0, tt=1e-9, gmin=1e-12)
    forward = junction_current(eq, "forward", v, sat, nvt)
    reverse = junction_current(eq, "reverse", -(bv + v), sat, nvt)
    i = eq.out("i", sy.Piecewise((-reverse, v < -bv), (forward, True)) + gmin * v)
    q = Depletion(2e-12, 0.75, 0.4).charge(eq, "depletion", v)
    eq.out("q", tt * i + q)
    return eq
