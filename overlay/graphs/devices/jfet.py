"""Junction field-effect transistor."""

import sympy as sy

from ..equations import Equations
from .parts import junction_current


def equations() -> Equations:
    """Channel current in both directions, and the two gate junctions."""
    eq = Equations(
        "jfet",
        "Junction FET after Shichman and Hodges (1968), channel-length modulation, symmetric in "
        "drain and source, two gate diodes",
    )
    vgs = eq.bias("vgs", -4.0, 0.75, -0.5)
    vgd = eq.bias("vgd", -4.0, 0.75, -2.5)
    vto, beta, lam, sat, vt, gmin = eq.param(
        vto=-2.0, beta=1.3e-3, lam=0.02, isat=1e-14, vt=0.02585, gmin=1e-12
    )
    vds = eq.let("vds", vgs - vgd)
    turned = vds < 0
    across = eq.let("across", sy.Piecewise((-vds, turned), (vds, True)))
    over = eq.let("over", sy.Piecewise((vgd, turned), (vgs, True)) - vto)
    gain = eq.let("gain", beta * (1 + lam * across))
    channel = eq.let(
        "channel",
        sy.Piecewise(
            (0, over <= 0),
            (gain * over * over, over <= across),
            (gain * across * (2 * over - across), True),
        ),
    )
    drain = eq.let("drain", sy.Piecewise((-channel, turned), (channel, True)))
    igs = eq.out("igs", junction_current(eq, "source_diode", vgs, sat, vt) + gmin * vgs)
    igd = eq.let("igd", junction_current(eq, "drain_diode", vgd, sat, vt) + gmin * vgd)
    eq.out("ig", igs + igd)
    eq.out("id", drain - igd)
    return eq
