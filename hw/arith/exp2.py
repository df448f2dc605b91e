"""Powers in fixed point: the steps that exp, exp2, sigmoid, SiLU and GELU share."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Value, ValueLike
from amaranth.lib.memory import Memory

from ...machine.approximation import EXP2_C1, EXP2_C2, EXP2_TABLE, LOG2E
from ..ram import read_port
from .lane import Stages, Through, joined, let
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
    s = stages.cut(products(m, stages, s, product=(s.significand, Const(factor))))

    # 156 - exponent, at most 62 and, unless the operand is too large, at least 22.
    shift = let(m, "shift", Mux(s.exponent < 94, 62, 156 - s.exponent)[:6])
    large = let(m, "large", s.exponent > 134)
    s = stages.fine(s, shift=shift, large=large)
    size = let(m, "size", Mux(s.large, (1 << 39) - 1, (s.product >> s.shift)[:39]))
    s = stages.fine(s, size=size)
    t = let(m, "t", Mux(s.negative, -s.size, s.size)[:40].as_signed())
    s = stages.fine(s, t=t)
    return power_steps(m, stages, s)


def power_steps(m: Module, stages: Stages | Through, s: SimpleNamespace) -> SimpleNamespace:
    """2**t likewise, of ``s.t`` (signed, 30 fraction bits); in three stages, the last one open."""
    low = s.t[:23]
    base = rom(m, "base", s.t[23:30], 31, EXP2_TABLE)
    s = joined(s, k=s.t[30:].as_signed(), r=low, base=base)
    s = products(m, stages, s, bend=(Const(EXP2_C2), low[7:]))
    s = stages.cut(s, bend=s.bend[15:])

    s = stages.fine(s, line=let(m, "line", EXP2_C1 + s.bend))
    s = products(m, stages, s, p=(s.line, s.r))
    s = stages.cut(s, p=s.p[24:])

    s = products(m, stages, s, more=(s.base, s.p))
    return joined(s, mantissa=let(m, "mantissa", (s.base + s.more[32:])[:32]))


def pack(
    m: Module, stages: Stages | Through, s: SimpleNamespace, mantissa: Value, exponent: Value
) -> SimpleNamespace:
    """``mantissa`` (1 to 2 with 30 fraction bits) rounded to the fp32 number with that biased
    exponent: its ``magnitude``, infinity or zero where it is out of range; a deep pipeline has
    three stages for it, the last one open.
    """
    rounded = let(m, "pack_rounded", (mantissa + 63 + mantissa[7])[7:])
    s = stages.fine(s, rounded=rounded, exponent=exponent)
    whole = Cat(Const(0, 23), s.exponent).as_signed()
    s = stages.fine(s, total=let(m, "pack_total", whole + s.rounded - (1 << 23)))
    tiny = let(m, "pack_tiny", s.total < 0x00800000)
    huge = let(m, "pack_huge", s.total > 0x7F800000)
    magnitude = let(m, "packed", Mux(tiny, 0, Mux(huge, 0x7F800000, s.total[:31]))[:31])
    return joined(s, magnitude=magnitude)
