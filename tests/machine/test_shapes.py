"""Shapes read off the stops of a stream."""

import pytest
from penstock.machine.shapes import sizes

DONE = (15, 0)


@pytest.mark.parametrize(
    "beats, inner, dims, want",
    [
        (
            [(0, 1), (1, 1), (0, 1), (2, 1), (1, 1), (0, 1), (0, 1), (2, 1), DONE],
            0,
            3,
            [{2}, {2}, {1, 2, 3}],
        ),  # the paper's example, one row longer
        ([(0, 1), (0, 1), (0, 1), DONE], 0, 1, [{3}]),
        ([DONE], 0, 2, [{0}, set()]),
        (
            [(0, 1), (2, 1), (0, 1), (3, 1), (0, 1), (3, 1), DONE],
            2,
            2,
            [{2}, {1, 2}],
        ),  # logical tiles of two physical ones
        ([(1, 1), (1, 0), (1, 1), DONE], 0, 2, [{3}, {0, 1}]),  # an empty row between two
        (
            [(2, 0), (1, 1), (2, 0), DONE],
            0,
            3,
            [{2}, {0, 2}, {0, 1}],
        ),  # a group without rows; one whose last row is empty
        ([(2, 0), (3, 1), DONE], 2, 2, [{1}, {2}]),  # a tile without rows is a tile
    ],
)
def test_sizes(beats, inner, dims, want):
    stops, data = zip(*beats, strict=True)
    assert sizes(stops, data, inner, dims) == want
