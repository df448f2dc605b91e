"""The common end of multiplication and division."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .format import Format
from .lane import let

__all__ = ["Special", "round_steps"]


class Special(NamedTuple):
    """Whether a result is no common number, in this order of precedence: nan, inf, zero."""

    nan: Value
    zero: Value
    inf: Value


def round_steps(
    m: Module,
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
    """A result with biased exponent ``biased`` (signed) and
    ``fraction`` bits ``mantissa``, rounded to nearest even.

    ``half`` is the first bit below the last place, ``below`` whether
    anything is under it. ``special`` says what is no common number.
    """
    nan, zero, inf = special
    f = form.fraction
    e = form.exponent
    # At exponent 0 the result is subnormal and flushed, unless it rounds to the least normal
    # number:
    # when all bits of the mantissa are ones, so that adding one carries into the exponent.
    up = (biased == 0) | (half & (below | mantissa[0]))
    rounded = let(m, f"{name}_rounded", (Cat(mantissa, biased[: e + 1]) + up)[: f + e + 1])
    tiny = let(m, f"{name}_tiny", zero | (biased < 0) | ~rounded[f:].any())
    huge = let(m, f"{name}_huge", inf | ((biased >= 0) & (rounded[f:] >= form.top)))
    magnitude = Mux(inf, form.inf, Mux(tiny, 0, Mux(huge, form.inf, rounded[: f + e])))
    return let(m, f"{name}_out", Mux(nan, form.nan, Cat(magnitude[: f + e], sign)))
