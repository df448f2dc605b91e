"""The operations of the token overlay's ALU: codes, operands, formats, and every result bit for
bit.

Arithmetic is that of ``docs/arithmetic.md`` (nearest even, subnormals flushed, canonical NaN), in
fp32 and, without sqrt, exp and log, in fp64.

* ``LT``, ``LE``, ``EQ`` give 1.0 or +0.0; a NaN operand gives +0.0, a subnormal one compares as
  zero, -0 equals +0.
* ``GATE(c, x)`` is x's word, untouched, unless c is a zero (or subnormal): then it is the all-zero
  word. A NaN c lets x through.
* ``JOIN(a, b)`` is the bitwise or of the two words.
* ``THEN(c, x)`` is x, and is sent only if c is not zero; ``ELSE(c, x)`` only if c is a zero (or
  subnormal). ``MERGE(a, b)`` is the one of both that comes. Between them lie conditional regions
  (:mod:`.regions`).

So ``JOIN(GATE(c, x), GATE(EQ(c, 0), y))`` is exactly x or y, whatever the other one is (a NaN does
not leak through a closed gate). Negation is ``SUB(-0.0, x)``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from ...machine import arith
from ...machine.errors import ProgramError


class Op(enum.IntEnum):
    """Operation of a node; INPUT and CONST are sources."""

    INPUT = 0
    CONST = 1
    ADD = 2
    SUB = 3
    MUL = 4
    DIV = 5
    SQRT = 6
    EXP = 7
    LOG = 8
    LT = 9
    LE = 10
    EQ = 11
    GATE = 12
    JOIN = 13
    THEN = 14
    ELSE = 15
    MERGE = 16


OP_CLASS: dict[Op, str] = {
    Op.ADD: "add",
    Op.SUB: "add",
    Op.MUL: "mul",
    Op.DIV: "div",
    Op.SQRT: "sqrt",
    Op.EXP: "exp",
    Op.LOG: "log",
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ, Op.GATE, Op.JOIN), "compare"),
    **dict.fromkeys((Op.THEN, Op.ELSE, Op.MERGE), "switch"),
}
"""The unit of the ALU that does an operation."""

ARITY: dict[Op, int] = {
    op: 0 if op < Op.ADD else 1 if op in (Op.SQRT, Op.EXP, Op.LOG) else 2 for op in Op
}
"""Number of operands."""

COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.EQ, Op.JOIN, Op.MERGE})
"""Operations whose operands may be exchanged without changing a bit of the result."""


@dataclass(frozen=True)
class Format:
    """A number format: NumPy types of value and word, and the operations the ALU has in it."""

    name: str
    dtype: np.dtype
    word: np.dtype
    ops: frozenset[Op]


FORMATS: dict[str, Format] = {
    "fp32": Format("fp32", np.dtype(np.float32), np.dtype(np.uint32), frozenset(Op)),
    "fp64": Format(
        "fp64", np.dtype(np.float64), np.dtype(np.uint64), frozenset(Op) - {Op.SQRT, Op.EXP, Op.LOG}
    ),
}


def format_of(name: str) -> Format:
    """The format called ``name``; ProgramError if there is none."""
    if name not in FORMATS:
        raise ProgramError(
            f"unknown number format {name!r}", remedy=f"use one of {', '.join(FORMATS)}"
        )
    return FORMATS[name]


_UNARY = {Op.SQRT: arith.sqrt, Op.EXP: arith.exp, Op.LOG: arith.log}
_BINARY = {Op.ADD: arith.add, Op.SUB: arith.sub, Op.MUL: arith.mul, Op.DIV: arith.div}
_COMPARE = {Op.LT: np.less, Op.LE: np.less_equal, Op.EQ: np.equal}


def apply(op: Op, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """The result of ``op`` on arrays of one shape and one format's dtype (float32 or float64);
    ``b`` is not read by unary operations.

    Raises ProgramError for a source, a merge, which has one operand at a time, or an operation that
    the format does not have.
    """
    op = Op(op)
    a = np.asarray(a)
    known = next((f for f in FORMATS.values() if f.dtype == a.dtype), None)
    if known is None or op not in known.ops or not ARITY[op] or op is Op.MERGE:
        raise ProgramError(
            f"{op.name} has no meaning on {a.dtype} values",
            rule="fp64 has add, sub, mul, div and the comparisons only",
        )
    if op in _UNARY:
        return _UNARY[op](a)
    b = np.asarray(b)
    if op in _BINARY:
        return _BINARY[op](a, b)
    if op in _COMPARE:
        with np.errstate(invalid="ignore"):
            return _COMPARE[op](arith.canonical(a), arith.canonical(b)).astype(a.dtype)
    words = np.ascontiguousarray(b).view(known.word)
    if op in (Op.THEN, Op.ELSE):
        return words.view(known.dtype)
    if op is Op.GATE:
        words = np.where(arith.canonical(a) != 0, words, known.word.type(0))
    else:
        words = words | np.ascontiguousarray(a).view(known.word)
    return words.view(known.dtype)
