"""Hypothesis strategies for benches; the one module that needs the extra `test`."""

import numpy as np
from hypothesis import strategies as st

from .arith_vectors import CORNERS


@st.composite
def waits(draw, n):
    """Release cycles of n beats: none, random gaps, or late."""
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return [0] * n
    if kind == 1:
        return np.cumsum(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))).tolist()
    return [draw(st.integers(0, 40))] * n


words = st.one_of(
    st.sampled_from(CORNERS.tolist()),
    st.integers(0, 2**32 - 1),
    st.floats(-200, 200, width=32).map(lambda x: int(np.float32(x).view(np.uint32))),
)


def tiles(t: int) -> st.SearchStrategy:
    """Tiles of t x t float32 numbers."""
    return st.lists(words, min_size=t * t, max_size=t * t).map(
        lambda bits: np.array(bits, np.uint32).view(np.float32).reshape(t, t)
    )
