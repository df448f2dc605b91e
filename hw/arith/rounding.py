"""The common end of multiplication and division."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .format import Format
from .lane import Stages, Through, let


class Special(NamedTuple):
    """True if a result is no common number, in this order of precedence: nan, inf, zero."""

    nan: Value
    zero: Value
    inf: Value


def round_steps(
    m: Module,
    stages: Stages | Through,
    form: Format,
    *,
    sign: Value,
    biased: Value,
    mantissa: Value,
    half: Value,
    below: Value,
    special: Special,
    name: str,
) -> Signal:
    """A result with biased exponent ``biased`` (signed) and ``fraction`` bits ``mantissa``, rounded
    to nearest even; a deep pipeline has three stages for it, the last one open.

    ``half`` is the first bit below the last place, ``below`` whether anything is under it.
    ``special`` says what is no common number.
    """
    nan, zero, inf = special
    f = form.fraction
    e = form.exponent
    # At exponent 0 the result is subnormal and flushed, unless it rounds to the least normal
    # number: when all bits of the mantissa are ones, so that adding one carries into the exponent.
    up = (biased == 0) | (half & (below | mantissa[0]))
    flags = {"sign": sign, "nan": nan, "zero": zero, "inf": inf, "negative": biased < 0}
    s = stages.fine(whole=Cat(mantissa, biased[: e + 1]), up=up, **flags)
    flags = {name: getattr(s, name) for name in flags}
    rounded = let(m, f"{name}_rounded", (s.whole + s.up)[: f + e + 1])
    s = stages.fine(rounded=rounded, **flags)
    rounded = s.rounded
    tiny = let(m, f"{name}_tiny", s.zero | s.negative | ~rounded[f:].any())
    huge = let(m, f"{name}_huge", s.inf | (~s.negative & (rounded[f:] >= form.top)))
    magnitude = Mux(s.inf, form.inf, Mux(tiny, 0, Mux(huge, form.inf, rounded[: f + e])))
    return let(m, f"{name}_out", Mux(s.nan, form.nan, Cat(magnitude[: f + e], s.sign)))
