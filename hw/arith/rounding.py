"""The common end of multiplication and division."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .format import Format
from .lane import Stages, Through, let


def round_steps(
    m: Module,
    stages: Stages | Through,
    form: Format,
    s: SimpleNamespace,
    *,
    biased: Value,
    mantissa: Value,
    half: Value,
    below: Value,
    name: str,
) -> Signal:
    """A result with biased exponent ``biased`` (signed) and ``fraction`` bits ``mantissa``, rounded
    to nearest even; a deep pipeline has three stages for it, the last one open.

    ``half`` is the first bit below the last place, ``below`` whether anything is under it; ``s``
    has its ``sign``, and in order of precedence whether it is ``nan``, ``inf``, ``zero``.
    """
    f = form.fraction
    e = form.exponent
    # At exponent 0 the result is subnormal and flushed, unless it rounds to the least normal
    # number: when all bits of the mantissa are ones, so that adding one carries into the exponent.
    up = (biased == 0) | (half & (below | mantissa[0]))
    s = stages.fine(s, whole=Cat(mantissa, biased[: e + 1]), up=up, negative=biased < 0)
    rounded = let(m, f"{name}_rounded", (s.whole + s.up)[: f + e + 1])
    s = stages.fine(s, rounded=rounded)
    rounded = s.rounded
    tiny = let(m, f"{name}_tiny", s.zero | s.negative | ~rounded[f:].any())
    huge = let(m, f"{name}_huge", s.inf | (~s.negative & (rounded[f:] >= form.top)))
    magnitude = Mux(s.inf, form.inf, Mux(tiny, 0, Mux(huge, form.inf, rounded[: f + e])))
    return let(m, f"{name}_out", Mux(s.nan, form.nan, Cat(magnitude[: f + e], s.sign)))
