"""Devices on the nodes of a graph: diode, bipolar transistor (Gummel-Poon without high injection),
MOS transistor (level 1, Shichman and Hodges).

Equations are those of the SPICE 2 report (Nagel 1975), at 27 C and with GMIN across each junction.
"""

from __future__ import annotations

import math

from ..builder import Value, exp, log, merge, sqrt, where
from .netlist import Element
from .stamps import Number, Pair, Stamps, minus, plus, times

THERMAL = 1.38064852e-23 * 300.15 / 1.6021766208e-19
"""kT/q at 27 C, in volts."""
GMIN = 1e-12
"""Conductance across every junction, in siemens."""


def stamp(s: Stamps, e: Element) -> None:
    """Add an element to the equations."""
    p, n, *_ = e.nodes
    match e.kind:
        case "r":
            _conductance(s, (p, n), 1 / e.values["value"])
        case "i":
            s.current((p, n), e.values["value"], {})
        case "v":
            s.source(e.name, (p, n), e.values["value"])
        case "d":
            i, slope = _junction(s, e.name, (p, n), e.values["is"], e.values["n"])
            s.current((p, n), i, {(p, n): slope})
        case "npn" | "pnp":
            _bipolar(s, e)
        case _:
            _mos(s, e)


def _junction(
    s: Stamps, name: str, pair: Pair, saturation: float, emission: float
) -> tuple[Number, Number]:
    """Current and conductance of a junction from p to n, without GMIN, which is added beside it.

    The exponential is taken at a limited voltage, and goes on from there by its tangent; the limit
    grows with the logarithm of the voltage, from the one of the iteration before. That work is a
    conditional region, for few junctions need it, and in few iterations.
    """
    if pair[0] == pair[1]:
        return 0.0, 0.0
    thermal = emission * THERMAL
    _conductance(s, pair, GMIN)
    u = s.voltage(pair) * (1 / thermal)  # in units of the thermal voltage
    before = s.g.input(f"{name}.u")
    critical = math.log(thermal / (math.sqrt(2) * saturation))
    limited = (critical < u) & (before + 2.0 < u)
    s.limited.append(limited)
    high, low = s.g.switch(limited, u)
    base = (0.0 < before) & before
    at = merge(base + log(high - base + 1.0), low)
    s.g.output(f"{name}.u", at)
    e = exp(at)
    return (e + e * (u - at) - 1.0) * saturation, e * (saturation / thermal)


def _conductance(s: Stamps, pair: Pair, g: float) -> None:
    s.current(pair, times(g, s.voltage(pair)), {pair: g})


def _bipolar(s: Stamps, e: Element) -> None:
    """Currents base to emitter, base to collector, and of transport from collector to emitter."""
    collector, base, emitter = e.nodes
    par = e.values
    be, bc, ce = (base, emitter), (base, collector), (collector, emitter)
    if e.kind == "pnp":
        be, bc, ce = (emitter, base), (collector, base), (emitter, collector)
    forward, gf = _junction(s, f"{e.name}.be", be, par["is"], par["nf"])
    reverse, gr = _junction(s, f"{e.name}.bc", bc, par["is"], par["nr"])
    s.current(be, times(1 / par["bf"], forward), {be: times(1 / par["bf"], gf)})
    s.current(bc, times(1 / par["br"], reverse), {bc: times(1 / par["br"], gr)})
    # as ngspice has it at the substrate
    _conductance(s, (collector if e.kind == "npn" else base, "0"), GMIN)
    i = minus(forward, reverse)
    early = 1 / par["vaf"]
    share = minus(1.0, times(early, s.voltage(bc)))
    bend = plus(times(share, gr), times(early, i))
    s.current(ce, times(share, i), {be: times(share, gf), bc: minus(0.0, bend)})


def _mos(s: Stamps, e: Element) -> None:
    """Channel current from drain to source, by the charge at both ends, and two junctions.

    With a and b the voltages above the threshold at source and drain (0 where below it), the
    current is beta / 2 (a**2 - b**2) (1 + lambda |vds|): the level-1 equations of cut-off, linear
    and saturated region, in either direction.
    """
    drain, gate, source, bulk = e.nodes
    par = e.values
    gs, gd, ds, bs, bd = (
        (gate, source),
        (gate, drain),
        (drain, source),
        (bulk, source),
        (bulk, drain),
    )
    sign = 1.0
    if e.kind == "pmos":
        gs, gd, ds = (source, gate), (drain, gate), (source, drain)
        bs, bd = (source, bulk), (drain, bulk)
        sign = -1.0
    for name, pair in (("bs", bs), ("bd", bd)):
        i, slope = _junction(s, f"{e.name}.{name}", pair, par["is"], 1.0)
        s.current(pair, i, {pair: slope})
    if drain == source:
        return
    vds = s.voltage(ds)
    assert isinstance(vds, Value)
    way = 1.0 - (vds < 0.0) * 2.0
    threshold: Number = sign * par["vto"]
    turn: Number = 0.0
    if par["gamma"]:
        threshold, turn = _body(par, where(vds < 0.0, s.voltage(bd), s.voltage(bs)), threshold)
    a = _above(s.voltage(gs), threshold)
    b = _above(s.voltage(gd), threshold)
    beta = par["kp"] * par["w"] / par["l"]
    longer = plus(1.0, times(par["lambda"], way * vds))
    apart = minus(a, b)
    area = times(beta / 2, times(apart, plus(a, b)))
    steep = times(beta, longer)
    slopes = {
        gs: times(steep, a),
        gd: minus(0.0, times(steep, b)),
        ds: times(par["lambda"], times(way, area)),
    }
    if par["gamma"]:
        pull = times(turn, times(steep, apart))
        slopes[bd] = (vds < 0.0) & pull
        slopes[bs] = (0.0 <= vds) & pull
    s.current(ds, times(longer, area), slopes)


def _above(v: Number, threshold: Number) -> Number:
    """Voltage above the threshold, or 0."""
    x = minus(v, threshold)
    return (0.0 < x) & x if isinstance(x, Value) else max(x, 0.0)


def _body(par: dict[str, float], v: Value, least: float) -> tuple[Value, Value]:
    """Threshold at a voltage from the lower end of the channel to the bulk, and minus its slope."""
    root = math.sqrt(par["phi"])
    bent = where(0.0 < v, root - v * (0.5 / root), sqrt(par["phi"] - v))
    return (bent - root) * par["gamma"] + least, (par["gamma"] / 2) / bent
