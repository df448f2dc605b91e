"""DC operating points in float64, apart from the overlay's: equations by region, as SPICE manuals
print them, derivatives by a complex step.
"""

import numpy as np

from ..overlay.graphs.circuit import Circuit, Element

VT = 1.38064852e-23 * 300.15 / 1.6021766208e-19
GMIN = 1e-12
STEP = 1e-30
MOST_STEPS = 60


def error(found: dict[str, float], wanted: dict[str, float]) -> float:
    """Largest error, in units of the larger of 1e-4 of the value and 1 uV or 1 nA."""
    least = {"v": 1e-6, "i": 1e-9}
    return max(
        abs(x - wanted[u]) / max(1e-4 * abs(wanted[u]), least[u[0]]) for u, x in found.items()
    )


def refined(circuit: Circuit, start: dict[str, float]) -> dict[str, float]:
    """The solution next to ``start`` by Newton's method; AssertionError if there is none."""
    names = list(start)
    x = np.array([start[name] for name in names])
    for _ in range(MOST_STEPS):
        f = np.real(_residual(circuit, names, x))
        shifts = STEP * 1j * np.eye(len(x))
        jacobian = np.array([np.imag(_residual(circuit, names, x + d)) / STEP for d in shifts]).T
        step = np.linalg.solve(jacobian, -f)
        x = x + step
        if (np.abs(step) <= 1e-9 * np.abs(x) + 1e-11).all():
            return dict(zip(names, x.tolist(), strict=True))
    raise AssertionError(f"{circuit.title}: no solution near the overlay's")


def _residual(circuit: Circuit, names: list[str], x: np.ndarray) -> np.ndarray:
    """Currents out of each node, then errors of the sources' voltages."""
    at = {name: k for k, name in enumerate(names)}
    v = {"0": 0.0 + 0j} | {name[2:-1]: x[k] for name, k in at.items() if name[0] == "v"}
    f = np.zeros(len(x), complex)

    def flow(p: str, n: str, i: complex) -> None:
        for node, sign in ((p, 1), (n, -1)):
            if node != "0":
                f[at[f"v({node})"]] += sign * i

    for e in circuit.elements:
        p, n = e.nodes[:2]
        if e.kind == "v":
            flow(p, n, x[at[f"i({e.name})"]])
            f[at[f"i({e.name})"]] = v[p] - v[n] - e.values["value"]
        elif e.kind == "r":
            flow(p, n, (v[p] - v[n]) / e.values["value"])
        elif e.kind == "i":
            flow(p, n, e.values["value"])
        elif e.kind == "d":
            flow(p, n, _diode(v[p] - v[n], e.values["is"], e.values["n"]) + GMIN * (v[p] - v[n]))
        else:
            for node, i in zip(
                e.nodes, (_bipolar if "bf" in e.values else _mos)(e, v), strict=True
            ):
                flow(node, "0", i)
    return f


def _diode(v: complex, saturation: float, n: float = 1.0) -> complex:
    return saturation * np.expm1(v / (n * VT))


def _bipolar(e: Element, v: dict[str, complex]) -> tuple[complex, ...]:
    """Currents into collector, base and emitter."""
    p = e.values
    t = 1 if e.kind == "npn" else -1
    vc, vb, ve = (t * v[node] for node in e.nodes)
    forward = _diode(vb - ve, p["is"], p["nf"])
    reverse = _diode(vb - vc, p["is"], p["nr"])
    transport = (forward - reverse) * (1 - (vb - vc) / p["vaf"])
    base_emitter = forward / p["bf"] + GMIN * (vb - ve)
    base_collector = reverse / p["br"] + GMIN * (vb - vc)
    ib = base_emitter + base_collector
    ic = transport - base_collector
    leak = GMIN * (vc if t == 1 else vb)
    return (t * (ic + (leak if t == 1 else 0)), t * (ib + (leak if t == -1 else 0)), -t * (ic + ib))


def _mos(e: Element, v: dict[str, complex]) -> tuple[complex, ...]:
    """Currents into drain, gate, source and bulk."""
    p = e.values
    t = 1 if e.kind == "nmos" else -1
    vd, vg, vs, vb = (t * v[node] for node in e.nodes)
    swapped = vd.real < vs.real
    low, high = (vd, vs) if swapped else (vs, vd)
    vgs, vds, vbs = vg - low, high - low, vb - low
    root = np.sqrt(p["phi"])
    body = np.sqrt(p["phi"] - vbs) if vbs.real <= 0 else root - vbs / (2 * root)
    drive = vgs - (t * p["vto"] + p["gamma"] * (body - root))
    beta = p["kp"] * p["w"] / p["l"] * (1 + p["lambda"] * vds)
    if drive.real <= 0:
        i = 0.0
    elif drive.real <= vds.real:
        i = beta / 2 * drive**2
    else:
        i = beta * vds * (drive - vds / 2)
    i = -i if swapped else i
    source, drain = (_diode(vb - x, p["is"]) + GMIN * (vb - x) for x in (vs, vd))
    return t * (i - drain), 0.0, t * (-i - source), t * (source + drain)
