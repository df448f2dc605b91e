"""MOS field-effect transistor with the physics of the BSIM3v3 generation: the currents."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sy

from ..equations import Equations
from .mos_charge import Channel, charges, smooth_min
from .mos_threshold import (
    HALF,
    Bias,
    Geometry,
    Surface,
    biases,
    gate_drive,
    gate_voltage,
    geometry,
    subthreshold,
    surface,
    threshold,
)
from .parts import junction_current


@dataclass(frozen=True)
class Drive:
    """Oxide capacitance, gate drive, effective width, series resistance and bulk charge."""

    cox: sy.Symbol
    vgst: sy.Symbol
    width: sy.Symbol
    rds: sy.Symbol
    bulk: sy.Symbol


@dataclass(frozen=True)
class Mobility:
    """Low-field mobility, its degradation, saturation velocity, and the voltage at which the field
    along the channel reaches it.
    """

    u0: sy.Symbol
    degraded: sy.Symbol
    vsat: sy.Symbol
    esatl: sy.Symbol


@dataclass(frozen=True)
class Saturation:
    """Saturation voltage, effective drain voltage, what is beyond it, and terms they share."""

    vdsat: sy.Symbol
    vdseff: sy.Symbol
    beyond: sy.Symbol
    delta: sy.Symbol
    wvcr: sy.Symbol
    vg2: sy.Symbol
    excess: sy.Symbol
    bw: sy.Symbol
    bv: sy.Symbol


@dataclass(frozen=True)
class Output:
    """Early voltage, drain voltage past saturation, and the substrate current's inverse voltage."""

    va: sy.Symbol
    past: sy.Symbol
    inverse_vascbe: sy.Symbol


def _width(eq: Equations, s: Surface, g: Geometry, vgst: sy.Symbol) -> tuple[sy.Symbol, sy.Symbol]:
    """Effective width, series resistance."""
    dwg, dwb, rdsw, prwg, prwb = eq.param(dwg=-5e-9, dwb=3e-9, rds=180.0, prwg=0.01, prwb=-0.02)
    width = eq.let(
        "width",
        eq.fixed("width0", g.weff + 2 * dwb * s.sqrt_phi)
        - eq.fixed("dwg2", 2 * dwg) * vgst
        - eq.fixed("dwb2", 2 * dwb) * s.root,
    )
    rds_raw = eq.let(
        "rds_raw",
        eq.fixed("rds0", rdsw * (1 - prwb * s.sqrt_phi))
        + eq.fixed("rdsg", rdsw * prwg) * vgst
        + eq.fixed("rdsb", rdsw * prwb) * s.root,
    )
    rds_least = eq.fixed("rds_least", rdsw / 2)
    rds = eq.let("rds_v", sy.Piecewise((rds_raw, rds_raw > rds_least), (rds_least, True)))
    return width, rds


def _bulk_charge(
    eq: Equations, s: Surface, g: Geometry, vgst: sy.Symbol
) -> tuple[sy.Symbol, sy.Symbol]:
    """The bulk's charge as a factor of the drain voltage, and half the body factor."""
    a0, ags, b0, b1, keta, xj = eq.param(a0=1.1, ags=0.15, b0=1e-8, b1=1e-8, keta=-0.03, xj=1.5e-7)
    deep = eq.let("deep", g.leff / (g.leff + 2 * sy.sqrt(xj * s.xdep)))
    k1half = eq.fixed("k1half", g.k1 / 2)
    bulk_raw = eq.let(
        "bulk_raw",
        1
        + (a0 * deep * (1 - ags * vgst * deep * deep) + eq.fixed("b_narrow", b0 / (g.weff + b1)))
        * k1half
        / (s.root * (1 + keta * s.vbseff)),
    )
    (floor,) = eq.param(floor=0.1)
    bulk = eq.let(
        "bulk",
        sy.Piecewise(
            (bulk_raw, bulk_raw > floor),
            (
                (eq.fixed("floor2", 2 * floor) - bulk_raw)
                * floor
                / (eq.fixed("floor3", 3 * floor) - 2 * bulk_raw),
                True,
            ),
        ),
    )
    return bulk, k1half


def _mobility(eq: Equations, s: Surface, g: Geometry, vth: sy.Symbol, vgst: sy.Symbol) -> Mobility:
    """Mobility, velocity saturation."""
    u0, ua, ub, uc, vsat = eq.param(u0=0.038, ua=1.2e-9, ub=1.6e-18, uc=-4e-11, vsat=9e4)
    field = eq.let("field", (vgst + 2 * vth) * eq.fixed("tox_r", 1 / g.tox))
    degraded_raw = eq.let("degraded_raw", 1 + field * (ua + uc * s.vbseff + ub * field))
    degraded = eq.let("degraded", sy.Piecewise((degraded_raw, degraded_raw > HALF), (HALF, True)))
    esatl = eq.let("esatl", eq.fixed("esatl0", 2 * vsat / u0 * g.leff) * degraded)
    return Mobility(u0, degraded, vsat, esatl)


def _saturation(eq: Equations, bias: Bias, d: Drive, m: Mobility) -> Saturation:
    """Saturation voltage with series resistance."""
    a1, a2 = eq.param(a1=0.02, a2=0.95)
    lam_raw = eq.let("lam_raw", a2 + a1 * d.vgst)
    lam = eq.let("lam", sy.Piecewise((lam_raw, lam_raw < 1), (1, True)))
    wvcr = eq.let("wvcr", eq.fixed("vsatcox", m.vsat * d.cox) * d.width * d.rds)
    vg2 = eq.let("vg2", d.vgst + eq.fixed("vt2", 2 * bias.vt))
    inverse = eq.let("inverse_lam", 1 / lam)
    excess = eq.let("excess", 2 * inverse - 1)
    bw = eq.let("bw", d.bulk * wvcr)
    vw = eq.let("vw", vg2 * wvcr)
    qa = eq.let("sat_a", d.bulk * (bw - 1 + inverse))
    qb = eq.let("sat_b", vg2 * excess + d.bulk * (m.esatl + 3 * vw))
    qc2 = eq.let("sat_c2", 2 * vg2 * (m.esatl + 2 * vw))
    vdsat = eq.let("vdsat", qc2 / (sy.sqrt(qb * qb - 2 * qa * qc2) + qb))
    bv = eq.let("bulk_drop", d.bulk * vdsat)
    (delta,) = eq.param(delta=0.01)
    vdseff = smooth_min(eq, "vdseff", vdsat, bias.vd, delta, vdsat)
    beyond_raw = eq.let("beyond_raw", bias.vd - vdseff)
    beyond = eq.let("beyond", sy.Piecewise((beyond_raw, beyond_raw > 0), (0, True)))
    return Saturation(vdsat, vdseff, beyond, delta, wvcr, vg2, excess, bw, bv)


def _output(
    eq: Equations, s: Surface, g: Geometry, lt0: sy.Expr, d: Drive, m: Mobility, at: Saturation
) -> Output:
    """Output resistance: Early voltage in saturation, channel-length modulation, DIBL, substrate
    current.
    """
    pclm, pdiblc1, pdiblc2, pdiblcb, drout, pscbe1, pscbe2, pvag, litl = eq.param(
        pclm=1.3,
        pdiblc1=0.39,
        pdiblc2=0.0086,
        pdiblcb=-0.1,
        drout=0.56,
        pscbe1=4.2e8,
        pscbe2=1e-8,
        pvag=0.1,
        litl=5.6e-8,
    )
    vasat = eq.let(
        "vasat",
        (m.esatl + at.vdsat + at.wvcr * d.vgst * (2 - at.bv / at.vg2)) / (at.excess + at.bw),
    )
    gate_help = eq.let("gate_help", 1 + pvag * d.vgst / m.esatl)
    past = eq.let("past", at.beyond + at.delta)
    bulk_field = eq.let("bulk_field", d.bulk * m.esatl)
    clm = eq.let(
        "va_clm",
        gate_help
        * (bulk_field + d.vgst)
        * past
        / (eq.fixed("pclml", pclm * litl / g.leff) * bulk_field),
    )
    drain_short = sy.exp(-drout * g.leff / (2 * lt0))
    theta_rout = eq.fixed(
        "theta_rout", 1 / (pdiblc1 * drain_short * (1 + 2 * drain_short) + pdiblc2)
    )
    va_dibl = eq.let(
        "va_dibl",
        gate_help * at.vg2 * at.vg2 * theta_rout / ((1 + pdiblcb * s.vbseff) * (at.bv + at.vg2)),
    )
    va = eq.let("va", vasat + clm * va_dibl / (clm + va_dibl))
    inverse_vascbe = eq.let(
        "inverse_vascbe",
        eq.fixed("pscbe2l", pscbe2 / g.leff) * sy.exp(-eq.fixed("pscbe1l", pscbe1 * litl) / past),
    )
    return Output(va, past, inverse_vascbe)


def _drain_current(
    eq: Equations, bias: Bias, g: Geometry, d: Drive, m: Mobility, at: Saturation, r: Output
) -> tuple[sy.Symbol, sy.Symbol]:
    """The channel's current into the drain, and the impact ionisation's."""
    gche = eq.let(
        "gche",
        eq.fixed("gain", m.u0 * d.cox / g.leff)
        * d.width
        * d.vgst
        * (1 - d.bulk * at.vdseff / (2 * at.vg2))
        / (m.degraded * (1 + at.vdseff / m.esatl)),
    )
    idl = eq.let("idl", gche * at.vdseff / (1 + d.rds * gche))
    saturated = eq.let("saturated", idl * (1 + at.beyond / r.va))
    channel = eq.let("channel", saturated * (1 + at.beyond * r.inverse_vascbe))
    alpha0, beta0 = eq.param(alpha0=2e-8, beta0=18.0)
    impact = eq.let(
        "impact", eq.fixed("alpha", alpha0 / g.leff) * r.past * sy.exp(-beta0 / r.past) * saturated
    )
    ids = eq.let("ids", sy.Piecewise((-channel, bias.turned), (channel, True)))
    return ids, impact


def _currents(eq: Equations, bias: Bias, ids: sy.Symbol, impact: sy.Symbol) -> sy.Symbol:
    """Currents into drain, bulk and source, those of the junctions among them; the voltage from
    drain to bulk.
    """
    js, gmin = eq.param(js=1e-15, gmin=1e-12)
    vbd = eq.let("vbd", bias.vbs - bias.vds)
    ibs = eq.let("ibs", junction_current(eq, "diode_s", bias.vbs, js, bias.vt) + gmin * bias.vbs)
    ibd = eq.let("ibd", junction_current(eq, "diode_d", vbd, js, bias.vt) + gmin * vbd)
    isub_s = eq.let("isub_s", sy.Piecewise((impact, bias.turned), (0, True)))
    isub_d = eq.let("isub_d", sy.Piecewise((0, bias.turned), (impact, True)))
    drain = eq.out("id", ids + isub_d - ibd)
    substrate = eq.out("ib", ibs + ibd - isub_s - isub_d)
    eq.out("is", -(drain + substrate))
    return vbd


def equations() -> Equations:
    """Currents into drain, bulk and source, charges of gate, bulk, drain and source (each of them
    sum to zero), and all slopes to vgs, vds, vbs.
    """
    eq = Equations(
        "mos",
        "MOS transistor after the published equations of BSIM3v3 (Cheng, Hu 1999): body effect, "
        "narrow and short channels, DIBL, subthreshold "
        "smoothing, mobility and velocity saturation, source/drain resistance, channel-length "
        "modulation, DIBL and substrate effects on the output resistance, charges and junctions",
    )
    bias, phi, sqrt_phi = biases(eq)
    s = surface(eq, bias, phi, sqrt_phi)
    g = geometry(eq)
    barrier = threshold(eq, bias, s, g)
    n, cox = subthreshold(eq, bias, s, barrier.theta)
    vgate = gate_voltage(eq, bias, phi)
    vgst = gate_drive(eq, vgate - barrier.vth, n, bias.vt, cox)
    width, rds = _width(eq, s, g, vgst)
    bulk, k1half = _bulk_charge(eq, s, g, vgst)
    d = Drive(cox, vgst, width, rds, bulk)
    m = _mobility(eq, s, g, barrier.vth, vgst)
    at = _saturation(eq, bias, d, m)
    r = _output(eq, s, g, barrier.lt0, d, m, at)
    vbd = _currents(eq, bias, *_drain_current(eq, bias, g, d, m, at, r))
    charges(eq, bias, vbd, Channel(s, g.k1, barrier.vth, vgate, vgst, k1half, bulk))
    return eq
