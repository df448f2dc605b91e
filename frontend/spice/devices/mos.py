"""MOS field-effect transistor with the physics of the BSIM3v3 generation."""

import sympy as sy

from ..equations import Equations, softplus
from .parts import Depletion, junction_current

HALF = sy.Rational(1, 2)


def _smooth_min(eq: Equations, name: str, limit, x, delta, spread):
    """The smaller of limit and x, smooth: limit - (d + sqrt(d**2 + 4 delta spread)) / 2 with d =
    limit - x - delta.
    """
    d = eq.let(f"{name}_d", limit - x - delta)
    root = eq.let(f"{name}_root", sy.sqrt(d * d + 4 * delta * spread))
    return eq.let(name, limit - (d + root) * HALF)


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
    vgs = eq.bias("vgs", -0.5, 3.0, 1.2)
    vds = eq.bias("vds", -0.6, 3.0, 1.5)
    vbs = eq.bias("vbs", -3.0, 0.15, -0.5)
    vt, phi, sqrt_phi = eq.param(vt=0.02585, phi=0.82, sqrtphi=0.9055)

    # drain and source change roles when vds is negative
    turned = vds < 0
    vd = eq.let("vd", sy.Piecewise((-vds, turned), (vds, True)))
    vg = eq.let("vg", sy.Piecewise((vgs - vds, turned), (vgs, True)))
    vb = eq.let("vb", sy.Piecewise((vbs - vds, turned), (vbs, True)))

    # effective bulk voltage and the square root of the surface potential
    vbc, delta1 = eq.param(vbc=-12.0, delta1=1e-3)
    d = eq.let("vbseff_d", vb - vbc - delta1)
    vbe0 = eq.let("vbe0", vbc + (d + sy.sqrt(d * d - 4 * delta1 * vbc)) * HALF)
    vbseff = eq.let("vbseff", sy.Piecewise((vbe0, vbe0 < 0), (phi * vbe0 / (phi + vbe0), True)))
    surface = eq.let("surface", phi - vbseff)
    root = eq.let("rootphi", sy.sqrt(surface))
    (xdep0,) = eq.param(xdep0=5.5e-8)
    xdep = eq.let("xdep", eq.fixed("xdep_scale", xdep0 / sqrt_phi) * root)

    # threshold: body effect, lateral doping, narrow width, short channel (two exponentials), DIBL
    vth0, k1, k2, k3, k3b, w0, tox, weff, leff, nlx = eq.param(
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
    t_body = eq.let("body_scale", 1 + dvt2 * vbseff)
    lt = eq.let("lt", sy.sqrt(eq.fixed("lratio", tox_ratio * tox) * xdep))
    lt1 = eq.let("lt1", lt * t_body)
    short = eq.let("short", sy.exp(-eq.fixed("dvt1l", dvt1 * leff / 2) / lt1))
    theta = eq.let("theta", short * (1 + 2 * short))
    ltw = eq.let("ltw", lt * (1 + dvt2w * vbseff))
    narrow = eq.let("narrow", sy.exp(-eq.fixed("dvt1wl", dvt1w * weff * leff / 2) / ltw))
    theta_w = eq.let("theta_w", narrow * (1 + 2 * narrow))
    lt0 = sy.sqrt(tox_ratio * xdep0 * tox)
    thin = sy.exp(-dsub * leff / (2 * lt0))
    thin2 = thin * (1 + 2 * thin)
    dibl = eq.let(
        "dibl", eq.fixed("dibl0", thin2 * eta0) + eq.fixed("diblb", thin2 * etab) * vbseff
    )
    drop = vbi - phi
    edge = tox * phi / (weff + w0)
    base = eq.fixed(
        "vth_base", vth0 - k1 * sqrt_phi + k1 * (sy.sqrt(1 + nlx / leff) - 1) * sqrt_phi + k3 * edge
    )
    vth = eq.let(
        "vth",
        base
        + k1 * root
        - eq.fixed("vth_bulk", k2 - k3b * edge) * vbseff
        - (eq.fixed("dvt0d", dvt0 * drop) * theta + eq.fixed("dvt0wd", dvt0w * drop) * theta_w)
        - dibl * vd,
    )

    # subthreshold swing
    nfactor, cdsc, cdscb, cdscd, cit, cox, esi = eq.param(
        nfactor=1.1, cdsc=2.4e-4, cdscb=1e-5, cdscd=2e-5, cit=1e-5, cox=4.93e-3, esi=1.04e-10
    )
    swing = eq.let(
        "swing",
        eq.fixed("swing0", 1 + cit / cox)
        + eq.fixed("swing_d", nfactor * esi / cox) / xdep
        + (
            eq.fixed("cdsc_r", cdsc / cox)
            + eq.fixed("cdscd_r", cdscd / cox) * vd
            + eq.fixed("cdscb_r", cdscb / cox) * vbseff
        )
        * theta,
    )
    n = eq.let("n", sy.Piecewise((swing, swing > 1), (1, True)))

    # poly-gate depletion
    ngate, vfb = eq.param(poly=2.4, vfb=-0.55)
    flat = eq.fixed("flat", vfb + phi)
    vpoly = eq.let("vpoly", vg - flat)
    depleted = eq.let(
        "depleted", flat + ngate * (sy.sqrt(1 + vpoly * eq.fixed("poly_r", 2 / ngate)) - 1)
    )
    vgate = eq.let("vgate", sy.Piecewise((depleted, vpoly > 0), (vg, True)))

    # effective gate drive: from exponential below threshold to linear above
    voff, cdep0 = eq.param(voff=-0.08, cdep0=1.7e-3)
    over = eq.let("over", vgate - vth)
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
    vgst = eq.let("vgst", top / tail)

    # effective width, series resistance
    dwg, dwb, rdsw, prwg, prwb = eq.param(dwg=-5e-9, dwb=3e-9, rds=180.0, prwg=0.01, prwb=-0.02)
    width = eq.let(
        "width",
        eq.fixed("width0", weff + 2 * dwb * sqrt_phi)
        - eq.fixed("dwg2", 2 * dwg) * vgst
        - eq.fixed("dwb2", 2 * dwb) * root,
    )
    rds_raw = eq.let(
        "rds_raw",
        eq.fixed("rds0", rdsw * (1 - prwb * sqrt_phi))
        + eq.fixed("rdsg", rdsw * prwg) * vgst
        + eq.fixed("rdsb", rdsw * prwb) * root,
    )
    rds_least = eq.fixed("rds_least", rdsw / 2)
    rds = eq.let("rds_v", sy.Piecewise((rds_raw, rds_raw > rds_least), (rds_least, True)))

    # bulk charge
    a0, ags, b0, b1, keta, xj = eq.param(a0=1.1, ags=0.15, b0=1e-8, b1=1e-8, keta=-0.03, xj=1.5e-7)
    deep = eq.let("deep", leff / (leff + 2 * sy.sqrt(xj * xdep)))
    k1half = eq.fixed("k1half", k1 / 2)
    bulk_raw = eq.let(
        "bulk_raw",
        1
        + (a0 * deep * (1 - ags * vgst * deep * deep) + eq.fixed("b_narrow", b0 / (weff + b1)))
        * k1half
        / (root * (1 + keta * vbseff)),
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

    # mobility, velocity saturation
    u0, ua, ub, uc, vsat = eq.param(u0=0.038, ua=1.2e-9, ub=1.6e-18, uc=-4e-11, vsat=9e4)
    field = eq.let("field", (vgst + 2 * vth) * eq.fixed("tox_r", 1 / tox))
    degraded_raw = eq.let("degraded_raw", 1 + field * (ua + uc * vbseff + ub * field))
    degraded = eq.let("degraded", sy.Piecewise((degraded_raw, degraded_raw > HALF), (HALF, True)))
    esatl = eq.let("esatl", eq.fixed("esatl0", 2 * vsat / u0 * leff) * degraded)

    # saturation voltage with series resistance
    a1, a2 = eq.param(a1=0.02, a2=0.95)
    lam_raw = eq.let("lam_raw", a2 + a1 * vgst)
    lam = eq.let("lam", sy.Piecewise((lam_raw, lam_raw < 1), (1, True)))
    wvcr = eq.let("wvcr", eq.fixed("vsatcox", vsat * cox) * width * rds)
    vg2 = eq.let("vg2", vgst + eq.fixed("vt2", 2 * vt))
    inverse = eq.let("inverse_lam", 1 / lam)
    excess = eq.let("excess", 2 * inverse - 1)
    bw = eq.let("bw", bulk * wvcr)
    vw = eq.let("vw", vg2 * wvcr)
    qa = eq.let("sat_a", bulk * (bw - 1 + inverse))
    qb = eq.let("sat_b", vg2 * excess + bulk * (esatl + 3 * vw))
    qc2 = eq.let("sat_c2", 2 * vg2 * (esatl + 2 * vw))
    vdsat = eq.let("vdsat", qc2 / (sy.sqrt(qb * qb - 2 * qa * qc2) + qb))
    bv = eq.let("bulk_drop", bulk * vdsat)
    (delta,) = eq.param(delta=0.01)
    vdseff = _smooth_min(eq, "vdseff", vdsat, vd, delta, vdsat)
    beyond_raw = eq.let("beyond_raw", vd - vdseff)
    beyond = eq.let("beyond", sy.Piecewise((beyond_raw, beyond_raw > 0), (0, True)))

    # output resistance: Early voltage in saturation, channel-length modulation, DIBL, substrate
    # current
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
    vasat = eq.let("vasat", (esatl + vdsat + wvcr * vgst * (2 - bv / vg2)) / (excess + bw))
    gate_help = eq.let("gate_help", 1 + pvag * vgst / esatl)
    past = eq.let("past", beyond + delta)
    bulk_field = eq.let("bulk_field", bulk * esatl)
    clm = eq.let(
        "va_clm",
        gate_help
        * (bulk_field + vgst)
        * past
        / (eq.fixed("pclml", pclm * litl / leff) * bulk_field),
    )
    drain_short = sy.exp(-drout * leff / (2 * lt0))
    theta_rout = eq.fixed(
        "theta_rout", 1 / (pdiblc1 * drain_short * (1 + 2 * drain_short) + pdiblc2)
    )
    va_dibl = eq.let(
        "va_dibl", gate_help * vg2 * vg2 * theta_rout / ((1 + pdiblcb * vbseff) * (bv + vg2))
    )
    va = eq.let("va", vasat + clm * va_dibl / (clm + va_dibl))
    inverse_vascbe = eq.let(
        "inverse_vascbe",
        eq.fixed("pscbe2l", pscbe2 / leff) * sy.exp(-eq.fixed("pscbe1l", pscbe1 * litl) / past),
    )

    # drain current
    gche = eq.let(
        "gche",
        eq.fixed("gain", u0 * cox / leff)
        * width
        * vgst
        * (1 - bulk * vdseff / (2 * vg2))
        / (degraded * (1 + vdseff / esatl)),
    )
    idl = eq.let("idl", gche * vdseff / (1 + rds * gche))
    saturated = eq.let("saturated", idl * (1 + beyond / va))
    channel = eq.let("channel", saturated * (1 + beyond * inverse_vascbe))
    alpha0, beta0 = eq.param(alpha0=2e-8, beta0=18.0)
    impact = eq.let(
        "impact", eq.fixed("alpha", alpha0 / leff) * past * sy.exp(-beta0 / past) * saturated
    )
    ids = eq.let("ids", sy.Piecewise((-channel, turned), (channel, True)))

    # junctions
    js, gmin = eq.param(js=1e-15, gmin=1e-12)
    vbd = eq.let("vbd", vbs - vds)
    ibs = eq.let("ibs", junction_current(eq, "diode_s", vbs, js, vt) + gmin * vbs)
    ibd = eq.let("ibd", junction_current(eq, "diode_d", vbd, js, vt) + gmin * vbd)
    isub_s = eq.let("isub_s", sy.Piecewise((impact, turned), (0, True)))
    isub_d = eq.let("isub_d", sy.Piecewise((0, turned), (impact, True)))
    drain = eq.out("id", ids + isub_d - ibd)
    substrate = eq.out("ib", ibs + ibd - isub_s - isub_d)
    eq.out("is", -(drain + substrate))

    # intrinsic charges: accumulation and depletion of the bulk, inversion split 40/60 between drain
    # and source
    coxwl, acde, cgso, cgdo, ckappa = eq.param(
        coxwl=7.9e-15, acde=0.03, cgso=1.2e-15, cgdo=1.2e-15, ckappa=0.6
    )
    vfbx = eq.let("vfbx", vth - phi - k1 * root)
    vfbeff_d = eq.let("vfbeff_d", vfbx - vgate + vbseff - sy.Rational(1, 50))
    vfbeff = eq.let(
        "vfbeff", vfbx - (vfbeff_d + sy.sqrt(vfbeff_d * vfbeff_d + sy.Rational(8, 100))) * HALF
    )
    qacc = eq.let("qacc", coxwl * (vfbeff - vfbx))
    under = eq.let("under", vgate - vfbeff - vbseff - vgst)
    qdep_root = eq.let(
        "qdep_root",
        sy.sqrt(eq.fixed("k1sq", k1 * k1 / 4) + sy.Piecewise((under, under > 0), (0, True))),
    )
    qsub0 = eq.let("qsub0", eq.fixed("coxwlk1", coxwl * k1) * (qdep_root - k1half))
    vgcv = eq.let("vgcv", vgst / (1 + acde * vgst))
    vdsat_cv = eq.let("vdsat_cv", vgcv / bulk + vt)
    vdcv = _smooth_min(eq, "vdcv", vdsat_cv, vd, sy.Rational(1, 50), vdsat_cv)
    half = eq.let("half_drop", bulk * vdcv * HALF)
    mean = eq.let("mean_drive", vgcv - half + sy.Rational(1, 10**6))
    bent = eq.let("bent", half * half / (3 * mean))
    qinv = eq.let("qinv", -coxwl * (vgcv - half + bent))
    dqsub = eq.let("dqsub", coxwl * (1 / bulk - 1) * (half - bent))
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

    # overlap, with a bias-dependent part at the drain, and junction charges
    vgd = eq.let("vgd", vgs - vds)
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
    q_gs = eq.let("q_gs", cgso * vgs)
    qjs = Depletion(4e-15, 0.8, 0.45).charge(eq, "js_q", vbs)
    qjd = Depletion(4e-15, 0.8, 0.45).charge(eq, "jd_q", vbd)
    charges = [
        eq.out("qg", -(qinv + qb) + q_gd + q_gs),
        eq.out("qb", qb + qjs + qjd),
        eq.out("qd", sy.Piecewise((q_source, turned), (q_drain, True)) - q_gd - qjd),
    ]
    eq.out("qs", -sum(charges))
    return eq
