"""Operands that arithmetic gets wrong, as bit patterns and as Hypothesis strategies."""

import numpy as np

CORNERS = np.array(
    [
        0x00000000,
        0x00000001,
        0x00400000,
        0x007FFFFF,  # zero, subnormals
        0x00800000,
        0x00800001,
        0x00FFFFFF,
        0x01000000,  # around the least normal number
        0x1FFFFFFF,
        0x20000000,
        0x1F800001,
        0x1F7FFFFF,  # products around it
        0x3F7FFFFF,
        0x3F800000,
        0x3F800001,
        0x3FFFFFFF,
        0x40000000,
        0x33800000,
        0x34000000,
        0x34000001,
        0x33FFFFFF,  # half a unit in the last place of 1, and around it
        0x42B17217,
        0x42B17218,
        0x42AEAC50,
        0x42CE8ED0,  # where exp leaves the range
        0x3F808000,
        0x3F818000,
        0x3F807FFF,
        0x7F7F8000,  # ties of bf16
        0x7F7FFFFF,
        0x7F000000,
        0x7F800000,
        0x7F800001,
        0x7FC00000,
        0x7FFFFFFF,
    ],
    np.uint32,
)
CORNERS = np.concatenate([CORNERS, CORNERS | np.uint32(0x80000000)])


def random_bits(rng: np.random.Generator, n: int) -> np.ndarray:
    """n bit patterns: any, common numbers, corners, products at the flush boundary, and the range
    of exp.
    """
    parts = [
        rng.integers(0, 1 << 32, n, np.uint32),
        rng.standard_normal(n).astype(np.float32).view(np.uint32),
        rng.choice(CORNERS, n),
        (rng.standard_normal(n) * 2.0 ** rng.integers(-66, -60, n))
        .astype(np.float32)
        .view(np.uint32),
        rng.uniform(-105, 90, n).astype(np.float32).view(np.uint32),
    ]
    return np.where(
        rng.random(n) < 0.1,
        rng.choice(CORNERS, n),
        np.choose(rng.integers(0, len(parts), n), parts),
    ).astype(np.uint32)


def pairs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of two-operand functions; a quarter nearly cancel."""
    a = random_bits(rng, n)
    b = random_bits(rng, n)
    near = (a ^ np.uint32(0x80000000)) + rng.integers(-3, 4, n).astype(np.uint32)
    return a, np.where(rng.random(n) < 0.25, near, b).astype(np.uint32)


def assert_same_bits(got: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    """Equality of bit patterns; the message shows the first operands that differ."""
    got, expected = (np.ascontiguousarray(x).view(np.uint32).ravel() for x in (got, expected))
    wrong = np.flatnonzero(got != expected)
    if wrong.size:
        i = wrong[0]
        shown = ", ".join(
            f"{int(x.view(np.uint32).ravel()[i]):#010x}" for x in operands if x.size == got.size
        )
        raise AssertionError(
            f"{wrong.size} of {got.size} differ; first at {i}: ({shown}) gave {got[i]:#010x}, "
            f"not {expected[i]:#010x}"
        )
