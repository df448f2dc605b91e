"""MOS transistor: bias, surface potential, threshold and gate drive."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sy

from ..equations import Equations, softplus

HALF = sy.Rational(1, 2)


@dataclass(frozen=True)
class Bias:
    """Terminal voltages, those of a transistor that is not ``turned``, and the thermal voltage.

    Drain and source change roles when vds is negative.
    """

    vgs: sy.Symbol
    vds: sy.Symbol
    vbs: sy.Symbol
    vt: sy.Symbol
    turned: sy.Basic
    vd: sy.Symbol
    vg: sy.Symbol
    vb: sy.Symbol


@dataclass(frozen=True)
class Surface:
    """Effective bulk voltage, surface potential phi and square roots of it, depletion width."""

    phi: sy.Symbol
    sqrt_phi: sy.Symbol
    vbseff: sy.Symbol
    root: sy.Symbol
    xdep0: sy.Symbol
    xdep: sy.Symbol


@dataclass(frozen=True)
class Geometry:
    """Oxide thickness tox, effective width and length, and factors of the threshold."""

    vth0: sy.Symbol
    k1: sy.Symbol
    k2: sy.Symbol
    k3: sy.Symbol
    k3b: sy.Symbol
    w0: sy.Symbol
    tox: sy.Symbol
    weff: sy.Symbol
    leff: sy.Symbol
    nlx: sy.Symbol


@dataclass(frozen=True)
class Threshold:
    """Threshold voltage, the short channel's share theta, and its length lt0 at no bulk voltage."""

    vth: sy.Symbol
    theta: sy.Symbol
    lt0: sy.Expr


def biases(eq: Equations) -> tuple[Bias, sy.Symbol, sy.Symbol]:
    """Terminal voltages, as those of a transistor with vds of at least 0; phi and its root."""
    vgs = eq.bias("vgs", -0.5, 3.0, 1.2)
    vds = eq.bias("vds", -0.6, 3.0, 1.5)
    vbs = eq.bias("vbs", -3.0, 0.15, -0.5)
    vt, phi, sqrt_phi = eq.param(vt=0.02585, phi=0.82, sqrtphi=0.9055)
    turned = vds < 0
    vd = eq.let("vd", sy.Piecewise((-vds, turned), (vds, True)))
    vg = eq.let("vg", sy.Piecewise((vgs - vds, turned), (vgs, True)))
    vb = eq.let("vb", sy.Piecewise((vbs - vds, turned), (vbs, True)))
    return Bias(vgs, vds, vbs, vt, turned, vd, vg, vb), phi, sqrt_phi


def surface(eq: Equations, bias: Bias, phi: sy.Symbol, sqrt_phi: sy.Symbol) -> Surface:
    """Effective bulk voltage and the square root of the surface potential."""
    vbc, delta1 = eq.param(vbc=-12.0, delta1=1e-3)
    d = eq.let("vbseff_d", bias.vb - vbc - delta1)
    vbe0 = eq.let("vbe0", vbc + (d + sy.sqrt(d * d - 4 * delta1 * vbc)) * HALF)
    vbseff = eq.let("vbseff", sy.Piecewise((vbe0, vbe0 < 0), (phi * vbe0 / (phi + vbe0), True)))
    bent = eq.let("surface", phi - vbseff)
    root = eq.let("rootphi", sy.sqrt(bent))
    (xdep0,) = eq.param(xdep0=5.5e-8)
    xdep = eq.let("xdep", eq.fixed("xdep_scale", xdep0 / sqrt_phi) * root)
    return Surface(phi, sqrt_phi, vbseff, root, xdep0, xdep)


def geometry(eq: Equations) -> Geometry:
    """Parameters of the threshold that the current and the charges use, too."""
    return Geometry(
        *eq.param(
            vth0=0.42,
            k1=0.55,
            k2=-0.02,
            k3=2.0,
            k3b=0.5,
            w0=2.5e-6,
            tox=7e-9,
            weff=5e-6,
            leff=3.2e-7,
            nlx=1.7e-7,
        )
    )


def threshold(eq: Equations, bias: Bias, s: Surface, g: Geometry) -> Threshold:
    """Threshold: body effect, lateral doping, narrow width, short channel (two exponentials),
    DIBL.
    """
    dvt0, dvt1, dvt2, dvt0w, dvt1w, dvt2w, dsub, eta0, etab, vbi, tox_ratio = eq.param(
        dvt0=2.2,
        dvt1=0.53,
        dvt2=-0.032,
        dvt0w=0.05,
        dvt1w=5.3e6,
        dvt2w=-0.032,
        dsub=0.56,
        eta0=0.08,
        etab=-0.07,
        vbi=0.95,
        tox_ratio=3.0,
    )
    t_body = eq.let("body_scale", 1 + dvt2 * s.vbseff)
    lt = eq.let("lt", sy.sqrt(eq.fixed("lratio", tox_ratio * g.tox) * s.xdep))
    lt1 = eq.let("lt1", lt * t_body)
    short = eq.let("short", sy.exp(-eq.fixed("dvt1l", dvt1 * g.leff / 2) / lt1))
    theta = eq.let("theta", short * (1 + 2 * short))
    ltw = eq.let("ltw", lt * (1 + dvt2w * s.vbseff))
    narrow = eq.let("narrow", sy.exp(-eq.fixed("dvt1wl", dvt1w * g.weff * g.leff / 2) / ltw))
    theta_w = eq.let("theta_w", narrow * (1 + 2 * narrow))
    lt0 = sy.sqrt(tox_ratio * s.xdep0 * g.tox)
    thin = sy.exp(-dsub * g.leff / (2 * lt0))
    thin2 = thin * (1 + 2 * thin)
    dibl = eq.let(
        "dibl", eq.fixed("dibl0", thin2 * eta0) + eq.fixed("diblb", thin2 * etab) * s.vbseff
    )
    drop = vbi - s.phi
    edge = g.tox * s.phi / (g.weff + g.w0)
    lateral = g.k1 * (sy.sqrt(1 + g.nlx / g.leff) - 1) * s.sqrt_phi
    base = eq.fixed("vth_base", g.vth0 - g.k1 * s.sqrt_phi + lateral + g.k3 * edge)
    vth = eq.let(
        "vth",
        base
        + g.k1 * s.root
        - eq.fixed("vth_bulk", g.k2 - g.k3b * edge) * s.vbseff
        - (eq.fixed("dvt0d", dvt0 * drop) * theta + eq.fixed("dvt0wd", dvt0w * drop) * theta_w)
        - dibl * bias.vd,
    )
    return Threshold(vth, theta, lt0)


def subthreshold(
    eq: Equations, bias: Bias, s: Surface, theta: sy.Symbol
) -> tuple[sy.Symbol, sy.Symbol]:
    """Subthreshold swing, at least 1, and the oxide's capacitance."""
    nfactor, cdsc, cdscb, cdscd, cit, cox, esi = eq.param(
        nfactor=1.1, cdsc=2.4e-4, cdscb=1e-5, cdscd=2e-5, cit=1e-5, cox=4.93e-3, esi=1.04e-10
    )
    swing = eq.let(
        "swing",
        eq.fixed("swing0", 1 + cit / cox)
        + eq.fixed("swing_d", nfactor * esi / cox) / s.xdep
        + (
            eq.fixed("cdsc_r", cdsc / cox)
            + eq.fixed("cdscd_r", cdscd / cox) * bias.vd
            + eq.fixed("cdscb_r", cdscb / cox) * s.vbseff
        )
        * theta,
    )
    n = eq.let("n", sy.Piecewise((swing, swing > 1), (1, True)))
    return n, cox


def gate_voltage(eq: Equations, bias: Bias, phi: sy.Symbol) -> sy.Symbol:
    """The gate's voltage less what its own depletion takes."""
    ngate, vfb = eq.param(poly=2.4, vfb=-0.55)
    flat = eq.fixed("flat", vfb + phi)
    vpoly = eq.let("vpoly", bias.vg - flat)
    depleted = eq.let(
        "depleted", flat + ngate * (sy.sqrt(1 + vpoly * eq.fixed("poly_r", 2 / ngate)) - 1)
    )
    return eq.let("vgate", sy.Piecewise((depleted, vpoly > 0), (bias.vg, True)))


def gate_drive(
    eq: Equations, excess: sy.Expr, n: sy.Symbol, vt: sy.Symbol, cox: sy.Symbol
) -> sy.Symbol:
    """Effective gate drive: from exponential below threshold to linear above."""
    voff, cdep0 = eq.param(voff=-0.08, cdep0=1.7e-3)
    over = eq.let("over", excess)
    nvt = eq.let("nvt", n * vt)
    nvt2 = eq.let("nvt2", 2 * nvt)
    drive = eq.let("drive", over / nvt2)
    top = eq.let("drive_top", nvt2 * softplus(drive))
    below = eq.let("below", (eq.fixed("voff2", 2 * voff) - over) / nvt2)
    tail = eq.let(
        "drive_tail",
        1
        + eq.fixed("cox2", 2 * cox / cdep0)
        * n
        * sy.exp(sy.Piecewise((below, below < 30), (30, True))),
    )
    return eq.let("vgst", top / tail)
