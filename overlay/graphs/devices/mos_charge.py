"""MOS transistor: charges of gate, bulk, drain and source."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sy

from ..equations import Equations
from .mos_threshold import HALF, Bias, Surface
from .parts import Depletion


@dataclass(frozen=True)
class Channel:
    """Quantities that the charges take from the current: gate and drive voltages, threshold, bulk
    charge.
    """

    surface: Surface
    k1: sy.Symbol
    vth: sy.Symbol
    vgate: sy.Symbol
    vgst: sy.Symbol
    k1half: sy.Symbol
    bulk: sy.Symbol


def smooth_min(eq: Equations, name: str, limit, x, delta, width):
    """The smaller of limit and x, smooth: limit - (d + sqrt(d**2 + 4 delta width)) / 2 with d =
    limit - x - delta.
    """
    d = eq.let(f"{name}_d", limit - x - delta)
    root = eq.let(f"{name}_root", sy.sqrt(d * d + 4 * delta * width))
    return eq.let(name, limit - (d + root) * HALF)


def _intrinsic(
    eq: Equations, bias: Bias, c: Channel, coxwl: sy.Symbol, acde: sy.Symbol
) -> tuple[sy.Symbol, sy.Symbol, sy.Symbol, sy.Symbol]:
    """Charges of inversion and bulk, and the shares of source and drain: accumulation and depletion
    of the bulk, inversion split 40/60 between drain and source.
    """
    s = c.surface
    vfbx = eq.let("vfbx", c.vth - s.phi - c.k1 * s.root)
    vfbeff_d = eq.let("vfbeff_d", vfbx - c.vgate + s.vbseff - sy.Rational(1, 50))
    vfbeff = eq.let(
        "vfbeff", vfbx - (vfbeff_d + sy.sqrt(vfbeff_d * vfbeff_d + sy.Rational(8, 100))) * HALF
    )
    qacc = eq.let("qacc", coxwl * (vfbeff - vfbx))
    under = eq.let("under", c.vgate - vfbeff - s.vbseff - c.vgst)
    qdep_root = eq.let(
        "qdep_root",
        sy.sqrt(eq.fixed("k1sq", c.k1 * c.k1 / 4) + sy.Piecewise((under, under > 0), (0, True))),
    )
    qsub0 = eq.let("qsub0", eq.fixed("coxwlk1", coxwl * c.k1) * (qdep_root - c.k1half))
    vgcv = eq.let("vgcv", c.vgst / (1 + acde * c.vgst))
    vdsat_cv = eq.let("vdsat_cv", vgcv / c.bulk + bias.vt)
    vdcv = smooth_min(eq, "vdcv", vdsat_cv, bias.vd, sy.Rational(1, 50), vdsat_cv)
    half = eq.let("half_drop", c.bulk * vdcv * HALF)
    mean = eq.let("mean_drive", vgcv - half + sy.Rational(1, 10**6))
    bent = eq.let("bent", half * half / (3 * mean))
    qinv = eq.let("qinv", -coxwl * (vgcv - half + bent))
    dqsub = eq.let("dqsub", coxwl * (1 / c.bulk - 1) * (half - bent))
    qb = eq.let("qbulk", -(qacc + qsub0) + dqsub)
    u = eq.let("u", vgcv / mean)
    h = eq.let("h", half / mean)
    split = eq.let(
        "split",
        u * (u * (u - sy.Rational(4, 3) * h) + sy.Rational(2, 3) * h * h)
        - sy.Rational(2, 15) * h * h * h,
    )
    q_source = eq.let("q_source", -eq.fixed("coxwlhalf", coxwl / 2) * mean * split)
    q_drain = eq.let("q_drain", qinv - q_source)
    return qinv, qb, q_source, q_drain


def charges(eq: Equations, bias: Bias, vbd: sy.Symbol, c: Channel) -> None:
    """Charges into gate, bulk, drain and source, which sum to zero: intrinsic ones, overlap with a
    bias-dependent part at the drain, and those of the junctions.
    """
    coxwl, acde, cgso, cgdo, ckappa = eq.param(
        coxwl=7.9e-15, acde=0.03, cgso=1.2e-15, cgdo=1.2e-15, ckappa=0.6
    )
    qinv, qb, q_source, q_drain = _intrinsic(eq, bias, c, coxwl, acde)
    vgd = eq.let("vgd", bias.vgs - bias.vds)
    lap = eq.let("lap", vgd + sy.Rational(1, 50))
    lap_neg = eq.let("lap_neg", (lap - sy.sqrt(lap * lap + sy.Rational(8, 100))) * HALF)
    q_gd = eq.let(
        "q_gd",
        cgdo
        * (
            vgd
            - lap_neg
            - eq.fixed("ckappahalf", ckappa / 2)
            * (sy.sqrt(1 - lap_neg * eq.fixed("ckappa4", 4 / ckappa)) - 1)
        ),
    )
    q_gs = eq.let("q_gs", cgso * bias.vgs)
    qjs = Depletion(4e-15, 0.8, 0.45).charge(eq, "js_q", bias.vbs)
    qjd = Depletion(4e-15, 0.8, 0.45).charge(eq, "jd_q", vbd)
    others = [
        eq.out("qg", -(qinv + qb) + q_gd + q_gs),
        eq.out("qb", qb + qjs + qjd),
        eq.out("qd", sy.Piecewise((q_source, bias.turned), (q_drain, True)) - q_gd - qjd),
    ]
    eq.out("qs", -sum(others))
