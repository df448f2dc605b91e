"""Powers in fixed point: the steps that exp, exp2, sigmoid, SiLU and GELU share."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Value, ValueLike
from amaranth.lib.memory import Memory

from ...machine.approximation import EXP2_C1, EXP2_C2, EXP2_TABLE, LOG2E
from ..ram import read_port
from .lane import Stages, Through, carried, let
from .product import products


def rom(m: Module, name: str, index: Value, width: int, table: tuple[int, ...]) -> Value:
    """``table[index]``, read in the same cycle; every value of ``index`` has a word."""
    if len(table) != 1 << len(index):
        raise ValueError(f"Table must have {1 << len(index)} words, not {len(table)!r}")
    memory = Memory(shape=width, depth=len(table), init=table)
    m.submodules[name] = memory
    port = read_port(memory, name, domain="comb")
    m.d.comb += port.addr.eq(index)
    return port.data


def exp2_steps(
    m: Module,
    stages: Stages | Through,
    x: Value,
    negative: Value,
    factor: int = LOG2E,
    **keep: ValueLike,
) -> SimpleNamespace:
    """2**(x * factor) as ``mantissa * 2**(k - 30)``, in four stages (deep: 14), the last one open.

    Parameters
    ----------
    m, stages : Module, Stages or Through
        Where the steps go.
    x : Value
        The low 31 bits of the fp32 operand, in the first stage.
    negative : Value
        Its sign.
    factor : int
        36 fraction bits.
    keep : ValueLike
        Values carried along to the last stage.

    Returns
    -------
    SimpleNamespace
        ``mantissa`` (32 bits; 1 to 2 with 30 fraction bits), ``k`` (signed) and the kept values.
    """
    exponent = x[23:31]
    significand = Mux(exponent.any(), Cat(x[:23], Const(1, 1)), 0)
    s = stages.fine(significand=significand, exponent=exponent, negative=negative, **keep)
    factors = {"product": (s.significand, Const(factor))}
    also = {"exponent": s.exponent, "negative": s.negative}
    s = products(m, stages, factors, **also, **carried(s, keep))
    s = stages.cut(product=s.product, exponent=s.exponent, negative=s.negative, **carried(s, keep))

    # 156 - exponent, at most 62 and, unless the operand is too large, at least 22.
    shift = let(m, "shift", Mux(s.exponent < 94, 62, 156 - s.exponent)[:6])
    large = let(m, "large", s.exponent > 134)
    s = stages.fine(
        product=s.product, shift=shift, large=large, negative=s.negative, **carried(s, keep)
    )
    size = let(m, "size", Mux(s.large, (1 << 39) - 1, (s.product >> s.shift)[:39]))
    s = stages.fine(size=size, negative=s.negative, **carried(s, keep))
    t = let(m, "t", Mux(s.negative, -s.size, s.size)[:40].as_signed())
    s = stages.fine(t=t, **carried(s, keep))
    return power_steps(m, stages, s.t, **carried(s, keep))


def power_steps(
    m: Module, stages: Stages | Through, t: Value, **keep: ValueLike
) -> SimpleNamespace:
    """2**t likewise, t (signed) with 30 fraction bits; in three stages, the last one open."""
    low = t[:23]
    base = rom(m, "base", t[23:30], 31, EXP2_TABLE)
    values = {"k": t[30:].as_signed(), "r": low, "base": base}
    s = products(m, stages, {"bend": (Const(EXP2_C2), low[7:])}, **values, **keep)
    s = stages.cut(k=s.k, r=s.r, base=s.base, bend=s.bend[15:], **carried(s, keep))

    line = let(m, "line", EXP2_C1 + s.bend)
    s = stages.fine(k=s.k, r=s.r, base=s.base, line=line, **carried(s, keep))
    s = products(m, stages, {"p": (s.line, s.r)}, k=s.k, base=s.base, **carried(s, keep))
    s = stages.cut(k=s.k, base=s.base, p=s.p[24:], **carried(s, keep))

    s = products(m, stages, {"more": (s.base, s.p)}, k=s.k, base=s.base, **carried(s, keep))
    mantissa = let(m, "mantissa", (s.base + s.more[32:])[:32])
    return SimpleNamespace(k=s.k, mantissa=mantissa, **carried(s, keep))


def pack(
    m: Module, stages: Stages | Through, mantissa: Value, exponent: Value, **keep: ValueLike
) -> SimpleNamespace:
    """``mantissa`` (1 to 2 with 30 fraction bits) rounded to the fp32 number with that biased
    exponent: its ``magnitude``, infinity or zero where it is out of range; a deep pipeline has
    three stages for it, the last one open.
    """
    rounded = let(m, "pack_rounded", (mantissa + 63 + mantissa[7])[7:])
    s = stages.fine(rounded=rounded, exponent=exponent, **keep)
    whole = Cat(Const(0, 23), s.exponent).as_signed()
    total = let(m, "pack_total", whole + s.rounded - (1 << 23))
    s = stages.fine(total=total, **carried(s, keep))
    tiny = let(m, "pack_tiny", s.total < 0x00800000)
    huge = let(m, "pack_huge", s.total > 0x7F800000)
    magnitude = let(m, "packed", Mux(tiny, 0, Mux(huge, 0x7F800000, s.total[:31]))[:31])
    return SimpleNamespace(magnitude=magnitude, **carried(s, keep))
