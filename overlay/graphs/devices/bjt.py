"""Bipolar transistor."""

import sympy as sy

from ..equations import Equations
from .parts import Depletion, junction_current


def core(eq: Equations, vbe, vbc, vt, sat):
    """The Gummel-Poon transport core: forward and reverse current, base charge; returns (forward,
    reverse, qb).
    """
    nf, nr, vaf, var, ikf, ikr = eq.param(nf=1.0, nr=1.0, vaf=80.0, var=12.0, ikf=0.05, ikr=0.01)
    forward = junction_current(eq, "forward", vbe, sat, nf * vt)
    reverse = junction_current(eq, "reverse", vbc, sat, nr * vt)
    q1 = eq.let("q1", 1 / (1 - vbc / vaf - vbe / var))
    q2 = eq.let("q2", forward / ikf + reverse / ikr)
    root = eq.let("root", sy.sqrt(1 + 4 * sy.Piecewise((q2, q2 > 0), (0, True))))
    return forward, reverse, eq.let("qb", q1 * (1 + root) / 2)


def equations() -> Equations:
    """Currents, base resistance, diffusion and depletion charges."""
    eq = Equations(
        "bjt",
        "Bipolar transistor after Gummel and Poon (1970), as the SPICE 2 report states it: Early "
        "effect, high injection, leakage, base resistance, charges",
    )
    vbe = eq.bias("vbe", -1.0, 0.85, 0.7)
    vbc = eq.bias("vbc", -5.0, 0.7, -2.0)
    sat, vt, bf, br, ise, ne, isc, nc, gmin = eq.param(
        isat=1e-16, vt=0.02585, bf=120.0, br=4.0, ise=1e-15, ne=1.8, isc=2e-15, nc=1.9, gmin=1e-12
    )
    forward, reverse, qb = core(eq, vbe, vbc, vt, sat)
    leak_e = junction_current(eq, "leak_e", vbe, ise, ne * vt)
    leak_c = junction_current(eq, "leak_c", vbc, isc, nc * vt)
    transport = eq.let("transport", (forward - reverse) / qb)
    ibc = eq.let("ibc", reverse / br + leak_c + gmin * vbc)
    eq.out("ic", transport - ibc)
    eq.out("ib", forward / bf + leak_e + gmin * vbe + ibc)
    rb, rbm = eq.param(rb=90.0, rbm=12.0)
    eq.out("rbb", rbm + (rb - rbm) / qb)
    tf, tr, xtf, vtf, itf = eq.param(tf=1.2e-11, tr=2e-9, xtf=3.0, vtf=4.0, itf=0.03)
    share = eq.let("share", forward / (forward + itf))
    lift = eq.let("lift", xtf * share * share * sy.exp(vbc / (sy.Float(1.44) * vtf)))
    transit = eq.let("transit", tf * sy.Piecewise((1 + lift, forward > 0), (1, True)))
    eq.out("qbe", transit * forward / qb + Depletion(3e-13, 0.8, 0.35).charge(eq, "je", vbe))
    eq.out("qbc", tr * reverse + Depletion(1.5e-13, 0.65, 0.33).charge(eq, "jc", vbc))
    return eq
