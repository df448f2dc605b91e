"""The arithmetic's definition against exact numbers, the tile kernels against it."""

from fractions import Fraction

import numpy as np
import ml_dtypes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.frontend.functions.tiles import float64_of
from penstock.machine import arith
from penstock.machine.functions import FUNCTIONS, Function, UnknownFunctionError, lookup, register
from penstock.model import functions, tile_kernels
from penstock.testing.arith_vectors import CORNERS, assert_same_bits, pairs, random_bits
from penstock.testing.strategies import tiles, words


def floats(*bits):
    return np.array(bits, np.uint32).view(np.float32)


def rounded(exact: Fraction) -> np.float32:
    """The rule in words, on exact numbers: nearest even with gradual underflow, then flushed."""
    size = abs(exact)
    if size == 0:
        return np.float32(0)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    size = round(size / unit) * unit  # Python rounds halves to even
    value = np.float32(np.inf) if size >= 2**128 else np.float32(float(size))
    value = np.float32(0) if value < np.float32(2**-126) else value
    return -value if exact < 0 else value


@settings(max_examples=300, deadline=None)
@given(a=words, b=words)
def test_definition_is_the_rule_on_exact_numbers(a, b):
    x = floats(a)
    y = floats(b)
    if not (np.isfinite(x[0]) and np.isfinite(y[0])):
        return
    exact = [
        Fraction(float(v)) if abs(v) >= np.float32(2**-126) else Fraction(0) for v in (x[0], y[0])
    ]
    assert arith.add(x, y)[0] == rounded(exact[0] + exact[1])
    assert arith.sub(x, y)[0] == rounded(exact[0] - exact[1])
    assert arith.mul(x, y)[0] == rounded(exact[0] * exact[1])
    if exact[1]:
        assert arith.div(x, y)[0] == rounded(exact[0] / exact[1])


def test_flush_boundary_of_a_product():
    # (1 - 2**-24) * 2**-126 rounds up to the least normal number; one unit less is flushed.
    least = floats(0x00800000)
    assert_same_bits(arith.mul(floats(0x3F7FFFFF), least), least)
    assert_same_bits(arith.mul(floats(0xBF7FFFFE), least), floats(0x80000000))


@pytest.mark.parametrize(
    "x, expected",
    [
        (0x7F800000, 0x7F800000),
        (0xFF800000, 0x80000000),
        (0x00000000, 0x00000000),
        (0x80000000, 0x80000000),
        (0xFFC12345, 0x7FC00000),
        (0x00000001, 0x00000000),
        (0xF149F2CA, 0x80000000),
        (0x7149F2CA, 0x7149F2CA),
    ],
)
def test_limits_of_silu(x, expected):
    assert_same_bits(arith.silu(floats(x)), floats(expected))


@pytest.mark.parametrize(
    "x, expected",
    [
        (0x7F800000, 0x7F800000),
        (0xFF800000, 0x00000000),
        (0x80000000, 0x3F800000),
        (0x7F800001, 0x7FC00000),
        (0x42B17218, 0x7F800000),
        (0x7149F2CA, 0x7F800000),
        (0xF149F2CA, 0x00000000),
    ],
)
def test_limits_of_exp(x, expected):
    assert_same_bits(arith.exp(floats(x)), floats(expected))


def test_cast_agrees_with_ml_dtypes():
    x = floats(*random_bits(np.random.default_rng(1), 20000))
    x = x[~np.isnan(x)]
    expected = arith.canonical(x).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert_same_bits(arith.cast_bf16(x), expected, x)
    assert_same_bits(arith.cast_fp32(expected), expected)


def test_products_of_bf16_are_exact():
    x, y = (
        arith.cast_bf16(np.random.default_rng(s).standard_normal(10000).astype(np.float32))
        for s in (1, 2)
    )
    assert (arith.mul(x, y).astype(np.float64) == x.astype(np.float64) * y.astype(np.float64)).all()


def test_matmul_sums_as_a_balanced_tree():
    # 1 + 2**-24 is 1, so ((a + b) + (c + d)) and (((a + b) + c) + d) differ.
    a = np.ones((4, 4), np.float32)
    b = np.array([1, 2**-24, 2**-24, 2**-24], np.float32)[:, None].repeat(4, 1)
    assert (arith.matmul(a, b) == np.float32(1 + 2**-23)).all()


def ulp(got, exact):
    """Largest error in units of the last place of the exact result, where it is normal."""
    shown = (np.abs(exact) >= 2.0**-126) & (np.abs(exact) < np.finfo(np.float32).max)
    error = np.abs(got[shown].astype(np.float64) - exact[shown])
    return (error / 2.0 ** (np.floor(np.log2(np.abs(exact[shown]))) - 23)).max()


def sweep(n):
    """All numbers of bf16 with every n-th of the others: the whole range, evenly in bits; random
    ones; dense ones where functions bend.
    """
    rng = np.random.default_rng(2)
    walk = np.arange(0, 1 << 32, 8191 * n, dtype=np.uint64).astype(np.uint32)
    bf16 = np.arange(1 << 16, dtype=np.uint32) << 16
    x = np.concatenate(
        [
            np.concatenate([walk, random_bits(rng, 300_000 // n), bf16]).view(np.float32),
            rng.uniform(-104, 90, 1_000_000 // n).astype(np.float32),
            rng.uniform(-14, 14, 500_000 // n).astype(np.float32),
            np.linspace(-2, 2, 500_000 // n, dtype=np.float32),
        ]
    )
    return arith.canonical(x[np.isfinite(x)])


BOUNDS = {"recip": 0.5, "sqrt": 0.5, "rsqrt": 0.52, "log": 0.53, "tanh": 0.79} | dict.fromkeys(
    ("exp", "exp2", "sigmoid", "silu", "gelu", "gelu_tanh"), 0.58
)


@pytest.mark.parametrize("n", [40, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", BOUNDS)
def test_function_is_within_its_bound(name, n):
    x = sweep(n)
    with np.errstate(all="ignore"):
        exact = float64_of(name)(x.astype(np.float64))
    got = getattr(arith, name)(x)
    assert ulp(got, exact) <= BOUNDS[name]
    beyond = ~(np.abs(exact) >= 2.0**-127)  # NaN, or a zero
    assert_same_bits(got[beyond], arith.canonical(exact[beyond].astype(np.float32)), x[beyond])


LIMITS = {  # of +0, -0, +inf, -inf, a subnormal, -1
    "recip": "inf -inf 0 -0 inf -1",
    "sqrt": "0 -0 inf nan 0 nan",
    "rsqrt": "inf -inf 0 nan inf nan",
    "log": "-inf -inf inf nan -inf nan",
    "exp2": "1 1 inf 0 1 0.5",
    "tanh": "0 -0 1 -1 0 -0.7615942",
    "sigmoid": "0.5 0.5 1 0 0.5 0.26894143",
    "gelu": "0 -0 inf -0 0 -0.15865526",
    "gelu_tanh": "0 -0 inf -0 0 -0.15880801",
    "relu": "0 0 inf 0 0 0",
    "abs": "0 0 inf inf 0 1",
    "square": "0 0 inf inf 0 1",
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    x = floats(0, 1 << 31, 0x7F800000, 0xFF800000, 1, 0xBF800000, 0xFFC12345)
    expected = np.array([*LIMITS[name].split(), "nan"], np.float32)
    assert_same_bits(getattr(arith, f"{name}_" if name == "abs" else name)(x), expected, x)


def test_comparisons_and_choices_of_zeros_and_nans():
    zero, minus, nan = floats(0), floats(1 << 31), floats(0xFFC12345)
    assert arith.eq(minus, zero) == arith.le(zero, minus) == 1
    assert arith.lt(minus, zero) == arith.eq(nan, nan) == arith.ge(nan, zero) == 0
    assert_same_bits(arith.min_(zero, minus), minus)
    assert_same_bits(arith.min_(zero, nan), floats(0x7FC00000))
    assert_same_bits(arith.select(nan, floats(0x80000001)), zero)
    assert_same_bits(arith.select(nan, nan), floats(0x7FC00000))


@pytest.mark.parametrize("name", functions.VALUES)
def test_kernel_is_the_definition_in_every_bit(name):
    values = functions.lookup(name)
    arity = lookup(name).arity
    corners = np.array(np.meshgrid(CORNERS, CORNERS), np.uint32).reshape(2, -1)
    spread = np.array(pairs(np.random.default_rng(3), 1 << 16))
    for operands in (corners, spread):
        operands = [np.resize(x, (len(x) // 4, 4)).view(np.float32) for x in operands[:arity]]
        out = np.empty_like(operands[0])
        values.tile(*operands, out)
        assert_same_bits(out, values.reference(*operands), *operands)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), t=st.sampled_from([2, 4, 8, 16]))
def test_matmul_kernels_are_the_definition_in_every_bit(data, t):
    a = data.draw(tiles(t))
    b = data.draw(tiles(t))
    out = np.empty((t, t), np.float32)
    tile_kernels.matmul_tile(a, b, out)
    assert_same_bits(out, arith.matmul(a, b))
    tile_kernels.matmul_bt_tile(a, b, out)
    assert_same_bits(out, arith.matmul_bt(a, b))


def test_unknown_function_lists_the_known_ones():
    with pytest.raises(UnknownFunctionError, match=r"'mish' is not known.*known are .*exp.*silu"):
        functions.lookup("mish")


def test_a_user_adds_a_function(monkeypatch):
    monkeypatch.setattr("penstock.machine.functions.FUNCTIONS", dict(FUNCTIONS))
    monkeypatch.setattr("penstock.model.functions.VALUES", dict(functions.VALUES))
    register(Function("twice", 1, 1, 1, "2 * x."))
    with pytest.raises(LookupError, match=r"register\('twice'"):
        functions.lookup("twice")
    functions.register(
        "twice",
        reference=lambda a: arith.add(a, a),
        tile=lambda a, out: tile_kernels.add_tile(a, a, out),
    )
    assert functions.lookup("twice").reference(np.float32([1.5])) == 3
    with pytest.raises(ValueError, match="already registered"):
        register(Function("twice", 2, 1, 1, "2 * x."))
