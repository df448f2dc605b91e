"""Cubic polynomials on 256 segments: the steps that rsqrt, tanh and GELU share."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Value, ValueLike

from ...machine.segments import Table
from .exp2 import rom
from .lane import Stages, Through, joined, let
from .product import products


def cubic_steps(
    m: Module, stages: Stages | Through, table: Table, index: Value, r: Value, **keep: ValueLike
) -> SimpleNamespace:
    """The polynomial of segment ``index`` at place ``r`` in it: ``value`` (signed), and the kept
    values; in three stages, the last one open.
    """
    widths = [max(row[k].bit_length() for row in table) + 1 for k in range(4)]
    words = []
    for row in table:
        word = 0
        for c, width in zip(reversed(row), reversed(widths), strict=True):
            word = word << width | c & (1 << width) - 1
        words.append(word)
    word = rom(m, "row", index, sum(widths), tuple(words))
    at = [sum(widths[:k]) for k in range(4)]
    c0, c1, c2, y = (word[a : a + w].as_signed() for a, w in zip(at, widths, strict=True))
    s = stages.fine(c0=c0, c1=c1, c2=c2, y=y, r=r, **keep)
    for power, constant in enumerate(("c2", "c1", "c0")):
        s = products(m, stages, s, step=(s.y, s.r))
        y = let(m, f"y{power}", getattr(s, constant) + (s.step >> len(r)))
        if power < 2:
            s = stages.cut(s, y=y)
    return joined(s, value=y)


def magnitude_steps(
    m: Module, stages: Stages | Through, table: Table, x: Value, **keep: ValueLike
) -> SimpleNamespace:
    """The table's function of the magnitude of ``x``, if that is below 16, likewise."""
    exponent = x[23:31]
    far = let(m, "far", Mux(exponent > 130, 0, Mux(exponent < 67, 63, 130 - exponent))[:6])
    significand = Mux(exponent.any(), Cat(Const(0, 8), x[:23], Const(1, 1)), 0)
    place = let(m, "place", (significand >> far)[:32])
    s = stages.fine(place=place, **keep)
    return cubic_steps(m, stages, table, s.place[24:], s.place[:24], **vars(s))
