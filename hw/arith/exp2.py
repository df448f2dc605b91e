"""e**x in fixed point: the steps that exp and SiLU share."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib.memory import Memory

from ...machine.approximation import EXP2_C1, EXP2_C2, EXP2_TABLE, LOG2E
from ..ram import read_port
from .lane import Stages, Through, let

__all__ = ["exp2_steps", "pack", "rom"]


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
    m: Module, stages: Stages | Through, x: Value, negative: Value, **keep: ValueLike
) -> SimpleNamespace:
    """e**x as ``mantissa * 2**(k - 30)``, in four stages, the last one open.

    Parameters
    ----------
    m, stages : Module, Stages or Through
        Where the steps go.
    x : Value
        The low 31 bits of the fp32 operand, in the first stage.
    negative : Value
        Its sign.
    keep : ValueLike
        Values carried along to the last stage.

    Returns
    -------
    SimpleNamespace
        ``mantissa`` (32 bits; 1 to 2 with 30 fraction bits), ``k`` (signed) and the kept values.

    """
    exponent = x[23:31]
    significand = Mux(exponent.any(), Cat(x[:23], Const(1, 1)), 0)
    s = stages.cut(product=significand * LOG2E, exponent=exponent, negative=negative, **keep)

    # 156 - exponent, at most 62 and, unless the operand is too large, at least 22.
    shift = let(m, "shift", Mux(s.exponent < 94, 62, 156 - s.exponent)[:6])
    size = let(m, "size", Mux(s.exponent > 134, (1 << 39) - 1, (s.product >> shift)[:39]))
    t = let(m, "t", Mux(s.negative, -size, size)[:40].as_signed())
    low = t[:23]
    s = stages.cut(
        k=t[30:].as_signed(),
        r=low,
        base=rom(m, "base", t[23:30], 31, EXP2_TABLE),
        bend=(EXP2_C2 * low[7:])[15:],
        **_kept(s, keep),
    )

    s = stages.cut(k=s.k, base=s.base, p=((EXP2_C1 + s.bend) * s.r)[24:], **_kept(s, keep))

    mantissa = let(m, "mantissa", (s.base + (s.base * s.p)[32:])[:32])
    return SimpleNamespace(k=s.k, mantissa=mantissa, **_kept(s, keep))


def _kept(s: SimpleNamespace, keep: dict) -> dict:
    return {name: getattr(s, name) for name in keep}


def pack(m: Module, sign: Value, exponent: Value, mantissa: Value) -> Signal:
    """``mantissa`` (1 to 2 with 30 fraction bits) rounded to the fp32
    number with that biased exponent.

    Infinity or zero where it is out of range.
    """
    rounded = let(m, "pack_rounded", (mantissa + 63 + mantissa[7])[7:])
    total = let(m, "pack_total", Cat(Const(0, 23), exponent).as_signed() + rounded - (1 << 23))
    tiny = let(m, "pack_tiny", total < 0x00800000)
    huge = let(m, "pack_huge", total > 0x7F800000)
    return let(m, "packed", Cat(Mux(tiny, 0, Mux(huge, 0x7F800000, total[:31])), sign))
