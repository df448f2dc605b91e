"""Heterojunction bipolar transistor."""

import sympy as sy

from ..equations import Equations, limexp, softplus
from .bjt import core
from .parts import Depletion


def equations() -> Equations:
    """The bipolar core with self-heating, base push-out, avalanche, tunnelling leakage and
    temperature-dependent charges.
    """
    eq = Equations(
        "hbt",
        "Heterojunction bipolar transistor: Gummel-Poon core extended by self-heating "
        "(temperature rise a third unknown), a barrier at "
        "high current after Tiwari (1988), Kirk's base push-out, avalanche, and leakage with two "
        "idealities",
    )
    vbe = eq.bias("vbe", -1.0, 0.85, 0.72)
    vbc = eq.bias("vbc", -6.0, 0.6, -2.0)
    rise = eq.bias("rise", 0.0, 120.0, 20.0)
    t0, vt0, eg, xti, sat0 = eq.param(t0=300.0, vt0=0.02585, eg=1.12, xti=3.0, isat=1e-17)
    ratio = eq.let("ratio", 1 + rise / t0)
    vt = eq.let("vt", vt0 * ratio)
    lnr = eq.let("lnr", sy.log(ratio))
    warm = eq.let("warm", eg * rise / t0 / vt)  # eg/vt0 - eg/vt
    sat = eq.let("sat", sat0 * sy.exp(xti * lnr + warm))
    forward, reverse, qb = core(eq, vbe, vbc, vt, sat)

    # a barrier at the collector side appears when the current density passes a knee that rises with
    # the collector voltage
    ik0, rc, vx, soft, ebar = eq.param(ik0=0.02, rci=30.0, vlim=0.8, soft=0.1, ebar=0.06)
    away = eq.let("away", vt * softplus((vx - vbc - sy.Rational(1, 2)) / vt))  # > 0
    knee = eq.let("knee", ik0 * (1 + away / (rc * ik0 + vx)))
    load = eq.let("load", forward / (knee * qb) - 1)
    push = eq.let("push", (load + sy.sqrt(load * load + soft * soft)) / 2)
    barrier = eq.let("barrier", 1 + push * sy.exp(-ebar / vt))
    transport = eq.let("transport", (forward - reverse) / (qb * barrier))

    # avalanche in the base-collector depletion layer
    avc1, avc2, vci, mc = eq.param(avc1=1.5, avc2=14.0, vci=0.75, mc=0.3)
    open_ = eq.let("open", sy.Piecewise((vci - vbc, vbc < 0), (vci, True)))
    avalanche = eq.let(
        "avalanche",
        sy.Piecewise(
            (
                transport * avc1 * open_ * sy.exp(-avc2 * open_ ** (mc - 1)),
                sy.And(vbc < 0, transport > 0),
            ),
            (0, True),
        ),
    )

    # base currents, each with its own activation energy
    bf, br, xtb, gmin = eq.param(bf=150.0, br=3.0, xtb=-1.1, gmin=1e-12)
    gain = eq.let("gain", sy.exp(xtb * lnr))
    leaks = []
    for name, v, i0, n, ea in (
        ("be_n", vbe, 2e-15, 1.9, 1.0),
        ("bc_n", vbc, 5e-15, 1.95, 1.0),
        ("be_t", vbe, 1e-18, 1.15, 1.3),
        ("bc_t", vbc, 4e-18, 1.2, 1.3),
    ):
        i0, n, ea = eq.param(**{f"i_{name}": i0, f"n_{name}": n, f"ea_{name}": ea})
        scale = eq.let(f"s_{name}", i0 * sy.exp(ea / n * rise / t0 / vt + xti / n * lnr))
        leaks.append(eq.let(f"leak_{name}", scale * (limexp(v / (n * vt)) - 1)))
    be_n, bc_n, be_t, bc_t = leaks
    ibc = eq.let("ibc", reverse / (br * gain) + bc_n + bc_t + gmin * vbc)
    ib = eq.out("ib", forward / (bf * gain) + be_n + be_t + gmin * vbe + ibc - avalanche)
    ic = eq.out("ic", transport - ibc + avalanche)
    rb, rbm, re, xr = eq.param(rb=60.0, rbm=9.0, re=4.0, xr=0.4)
    hot = eq.let("hot", sy.exp(xr * lnr))
    rbb = eq.out("rbb", hot * (rbm + (rb - rbm) / qb))
    eq.out("power", ic * (vbe - vbc) + ib * vbe + rbb * ib * ib + hot * re * (ic + ib) ** 2)

    # charges: junctions whose built-in voltage falls with temperature; transit time with push-out
    tf, tk, tr, xt, vtf = eq.param(tf=1.5e-12, tkirk=4e-12, tr=1e-9, xt=0.8, vtf=3.0)
    slope_e, slope_c = eq.param(dve=1.1e-3, dvc=9e-4)
    qje = Depletion(6e-14, 0.9, 0.3).charge(eq, "je", eq.let("vbe_t", vbe + slope_e * rise))
    qjc = Depletion(4e-14, 0.7, 0.32).charge(eq, "jc", eq.let("vbc_t", vbc + slope_c * rise))
    width = eq.let("width", push / (1 + push))
    transit = eq.let(
        "transit", sy.exp(xt * lnr) * (tf * (1 + limexp(vbc / vtf)) + tk * width * width)
    )
    eq.out("qbe", transit * transport + qje)
    eq.out("qbc", tr * reverse / qb + qjc)
    return eq
