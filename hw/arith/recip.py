"""1/d in fixed point: the steps that division and SiLU share."""

from types import SimpleNamespace

from amaranth.hdl import Module, Value, ValueLike

from ...machine.approximation import RECIP_SLOPE, RECIP_TABLE
from .exp2 import rom
from .lane import Stages, Through, carried, let
from .product import products


def reciprocal_steps(
    m: Module, stages: Stages | Through, d: Value, **keep: ValueLike
) -> SimpleNamespace:
    """1/d, at most 2 units too small and never too large, in three stages (deep: seven), the last
    one open.

    A line per 1/128 of the range gives 16 bits, one step of Newton's iteration doubles them.

    Parameters
    ----------
    m, stages : Module, Stages or Through
        Where the steps go.
    d : Value
        The operand, 1 <= d < 2 with 30 fraction bits, in the first stage.
    keep : ValueLike
        Values carried along to the last stage.

    Returns
    -------
    SimpleNamespace
        ``reciprocal`` (32 fraction bits) and the kept values.
    """
    index = d[23:30]
    s = stages.fine(
        slope=rom(m, "slope", index, 12, RECIP_SLOPE),
        left=rom(m, "left", index, 20, RECIP_TABLE),
        d=d,
        **keep,
    )
    factors = {"fall": (s.slope, s.d[11:23])}
    s = products(m, stages, factors, left=s.left, d=s.d, **carried(s, keep))
    y = let(m, "seed", (s.left - s.fall[11:])[2:20])
    s = stages.cut(y=y, d=s.d, **carried(s, keep))

    s = products(m, stages, {"back": (s.d, s.y)}, y=s.y, **carried(s, keep))
    error = let(m, "error", ((1 << 48) - s.back).as_signed()[14:].as_signed())
    s = stages.cut(y=s.y, error=error[:20].as_signed(), **carried(s, keep))

    s = products(m, stages, {"step": (s.y, s.error)}, y=s.y, **carried(s, keep))
    step = let(m, "step", s.step.as_signed()[20:].as_signed())
    reciprocal = let(m, "reciprocal", ((s.y << 14) + step)[:32])
    return SimpleNamespace(reciprocal=reciprocal, **carried(s, keep))
