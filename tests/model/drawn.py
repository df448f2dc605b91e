"""Random streams for tests of the compiled engine against the contract."""

import numpy as np
from hypothesis import HealthCheck, reject, settings
from hypothesis import strategies as st
from penstock.testing.graphs import T, compare, configuration

many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
counts = st.tuples(st.integers(0, T), st.integers(0, T))


def regular(shape):
    """Stops of a regular stream, innermost dimension last; the last beat closes every dimension."""
    stops = []
    for at in np.ndindex(*shape):
        s = 0
        while s < len(shape) and at[len(shape) - 1 - s] == shape[len(shape) - 1 - s] - 1:
            s += 1
        stops.append(s)
    return stops


@st.composite
def ragged(draw, rank, closed=True):
    stops = draw(st.lists(st.integers(0, rank), max_size=12))
    return [*stops, rank] if closed or not stops else stops


@st.composite
def with_bare(draw, stops, numbers):
    """Beats (stop, numbers) of a stream, some of them for empty tensors."""
    return [(s, None if s and draw(st.integers(0, 3)) == 0 else draw(numbers)) for s in stops]


def compare_writable(b):
    """`compare`, for streams that can be written."""
    try:
        return compare(b, configuration())
    except AssertionError as e:
        if "an empty group at the end of a merged dimension" not in str(e):
            raise
        reject()


def listed(data, places):
    """A listed order of logical tiles, or none."""
    return {"order": [list(p) for p in places]} if data.draw(st.booleans()) else {}
