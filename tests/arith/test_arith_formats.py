"""The scalar units' lanes: every operation in every format and form, against the definition, in
Amaranth's simulator.
"""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.hw import functions
from penstock.hw.arith.add import Add, Sub
from penstock.hw.arith.div import DigitDiv, Div
from penstock.hw.arith.exp import Exp
from penstock.hw.arith.format import FP32, FP64
from penstock.hw.arith.log import Log
from penstock.hw.arith.mul import Mul
from penstock.hw.arith.sqrt import Sqrt
from penstock.machine import arith
from penstock.testing.arith_vectors import assert_same_bits, pairs, random_bits
from penstock.testing.lane_bench import run

CORNERS64 = """
    0000000000000000 0000000000000001 000FFFFFFFFFFFFF 0010000000000000 0010000000000001
    001FFFFFFFFFFFFF 0020000000000000 3FEFFFFFFFFFFFFF 3FF0000000000000 3FF0000000000001
    3FFFFFFFFFFFFFFF 4000000000000000 3CA0000000000000 3CB0000000000000 3CB0000000000001
    1FF0000000000000 1FFFFFFFFFFFFFFF 2000000000000001 7FEFFFFFFFFFFFFF 7FE0000000000000
    7FF0000000000000 7FF0000000000001 7FF8000000000000 7FFFFFFFFFFFFFFF
"""
CORNERS64 = np.array([int(word, 16) for word in CORNERS64.split()], np.uint64)
CORNERS64 = np.concatenate([CORNERS64, CORNERS64 | np.uint64(1 << 63)])


def bits64(rng, n):
    parts = [
        rng.integers(0, 1 << 64, n, np.uint64),
        rng.standard_normal(n).view(np.uint64),
        rng.choice(CORNERS64, n),
        (rng.standard_normal(n) * 2.0 ** rng.integers(-514, -508, n)).view(np.uint64),
    ]
    return np.choose(rng.integers(0, len(parts), n), parts)


def pairs64(rng, n):
    a = bits64(rng, n)
    b = bits64(rng, n)
    near = (a ^ np.uint64(1 << 63)) + rng.integers(-3, 4, n).astype(np.uint64)
    return a, np.where(rng.random(n) < 0.25, near, b)


LANES = {
    "add": (Add, arith.add),
    "sub": (Sub, arith.sub),
    "mul": (Mul, arith.mul),
    "div": (Div, arith.div),
    "sqrt": (Sqrt, arith.sqrt),
    "exp": (Exp, arith.exp),
    "log": (Log, arith.log),
}
LANES64 = {
    "add": (Add, arith.add),
    "sub": (Sub, arith.sub),
    "mul": (Mul, arith.mul),
    "div": (DigitDiv, arith.div),
}


HOW = {
    "latency1": {"pipelined": False},
    "pipelined": {"pipelined": True},
    "deep": {"pipelined": True, "deep": True},
}
MANY = pytest.mark.parametrize("n", [150, pytest.param(1500, marks=pytest.mark.deep)])
"""Vectors of a lane, simulated one a cycle."""


@MANY
@pytest.mark.parametrize(
    ("name", "how"),
    [(n, h) for n in LANES for h in HOW if h != "pipelined" or n not in functions.DATAPATHS],
)
def test_fp32_lane_is_the_definition_in_every_bit(name, how, n):
    component, reference = LANES[name]
    dut = component(**HOW[how])
    rng = np.random.default_rng(15)
    if "b" in dut.signature.members:
        operands = pairs(rng, n)
    else:
        mask = 0x7FFFFFFF if name in ("log", "sqrt") else 0xFFFFFFFF
        operands = (random_bits(rng, n) & np.uint32(mask),)
    if name == "log":  # half of them close to one, where results are small
        operands = (
            np.where(
                rng.random(n) < 0.5,
                np.uint32(0x3F800000) + rng.integers(-70000, 70000, n),
                operands[0],
            ).astype(np.uint32),
        )
    operands[0][:4] = [0xBF800000, 0xFF800000, 0x80000000, 0x80000001]
    gaps = np.where(np.arange(n) < n - 100, 0, rng.integers(0, 4, n))
    got = run(dut, list(zip(*(x.tolist() for x in operands), strict=True)), gaps)
    operands = [x.view(np.float32) for x in operands]
    assert_same_bits(got, reference(*operands), *operands)


@MANY
@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(n, h, marks=[pytest.mark.deep] * (h == "pipelined" or n + h == "divlatency1"))
        for n in LANES64
        for h in HOW
    ],
)
def test_fp64_lane_is_the_definition_in_every_bit(name, how, n):
    component, reference = LANES64[name]
    dut = component(form=FP64, **HOW[how])
    rng = np.random.default_rng(16)
    operands = pairs64(rng, n)
    gaps = np.where(np.arange(n) < n - 100, 0, rng.integers(0, 4, n))
    got = run(dut, list(zip(*(x.tolist() for x in operands), strict=True)), gaps)
    expected = reference(*(x.view(np.float64) for x in operands)).view(np.uint64)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, [
        (f"{int(v[i]):#018x}") for i in wrong[:1] for v in (*operands, got, expected)
    ]


def test_digit_division_agrees_with_the_reciprocal_one():
    rng = np.random.default_rng(17)
    n = 200
    a, b = pairs(rng, n)
    got = run(DigitDiv(form=FP32), list(zip(a.tolist(), b.tolist(), strict=True)), np.zeros(n, int))
    assert_same_bits(got, arith.div(a.view(np.float32), b.view(np.float32)), a, b)


def rounded64(exact: Fraction) -> float:
    """Nearest even with gradual underflow, then flushed, on exact numbers."""
    size = abs(exact)
    if size == 0:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, -1022) - 52)
    size = round(size / unit) * unit
    value = np.inf if size >= 2**1024 else float(size)
    value = 0.0 if value < 2.0**-1022 else value
    return -value if exact < 0 else value


@settings(max_examples=200, deadline=None)
@given(
    *[
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from(CORNERS64.view(np.float64).tolist()),
        )
    ]
    * 2
)
def test_fp64_definition_is_the_rule_on_exact_numbers(x, y):
    if not (np.isfinite(x) and np.isfinite(y)):
        return
    a, b = (Fraction(v) if abs(v) >= 2.0**-1022 else Fraction(0) for v in (x, y))
    x = np.float64([x])
    y = np.float64([y])
    assert arith.add(x, y)[0] == rounded64(a + b)
    assert arith.sub(x, y)[0] == rounded64(a - b)
    assert arith.mul(x, y)[0] == rounded64(a * b)
    if b:
        assert arith.div(x, y)[0] == rounded64(a / b)


@settings(max_examples=300, deadline=None)
@given(st.floats(min_value=0, width=32, allow_infinity=False))
def test_square_root_is_the_rule_on_exact_numbers(x):
    value = np.float32(x)
    if value < np.float32(2**-126):
        return
    exact = Fraction(float(value))
    exponent = (isqrt(int(exact * 2**300)).bit_length() - 150) - 1  # of the root
    scaled = exact * Fraction(2) ** (2 * (24 - exponent))  # its root has 25 bits
    root = isqrt(int(scaled))
    root = (
        root + 1 if root & 1 and (root * root != scaled or root & 2) else root
    )  # the 25th bit rounds
    expected = np.float32(float(Fraction(root // 2) * Fraction(2) ** (exponent - 23)))
    assert arith.sqrt(np.array([value]))[0] == expected
