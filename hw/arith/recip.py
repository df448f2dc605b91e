"""1/d in fixed point: the steps that division and SiLU share."""

from types import SimpleNamespace

from amaranth.hdl import Module, Value, ValueLike

from ...machine.approximation import RECIP_SLOPE, RECIP_TABLE
from .exp2 import rom
from .lane import Stages, Through, joined, let
from .product import products


def reciprocal_steps(
    m: Module, stages: Stages | Through, d: Value, **keep: ValueLike
) -> SimpleNamespace:
    """1/d, at most 2 units too small and never too large, in three stages (deep: seven), the last
    one open.

    A line per 1/128 of the range gives 16 bits, one step of Newton's iteration doubles them.

    ``d``: 1 <= d < 2 with 30 fraction bits, in the first stage. Returned are ``reciprocal`` (32
    fraction bits) and the values of ``keep``.
    """
    index = d[23:30]
    s = stages.fine(
        slope=rom(m, "slope", index, 12, RECIP_SLOPE),
        left=rom(m, "left", index, 20, RECIP_TABLE),
        d=d,
        **keep,
    )
    s = products(m, stages, s, fall=(s.slope, s.d[11:23]))
    s = stages.cut(s, y=let(m, "seed", (s.left - s.fall[11:])[2:20]))

    s = products(m, stages, s, back=(s.d, s.y))
    error = let(m, "error", ((1 << 48) - s.back).as_signed()[14:].as_signed())
    s = stages.cut(s, error=error[:20].as_signed())

    s = products(m, stages, s, step=(s.y, s.error))
    step = let(m, "step", s.step.as_signed()[20:].as_signed())
    return joined(s, reciprocal=let(m, "reciprocal", ((s.y << 14) + step)[:32]))
