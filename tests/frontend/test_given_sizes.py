"""Elements of sources against the shapes that the program states: one message before the run."""

import numpy as np
import pytest
from penstock.frontend import Graph, Source
from penstock.frontend.meaning.given import check_sizes
from penstock.machine.errors import ProgramError


def two(most=None, ragged=False):
    """Sources [N] and [N, 2, M], M ragged where it is asked for."""
    g = Graph("two")
    n = g.dynamic("N", most=most)
    m = g.dynamic("M", ragged=ragged, most=most)
    Source(graph=g, shape=(n,), scalar=8, name="a")
    Source(graph=g, shape=(n, 2, m), scalar=8, name="b")
    return g


def rows(*lengths):
    return [[[0] * k, [1] * k] for k in lengths]


@pytest.mark.parametrize(
    ("graph", "a", "b", "message"),
    [
        (two(), [1, 2, 3], rows(4, 4), r"operator b .* given 2 elements .* N, and a 3"),
        (two(), [1, 2], rows(4, 5), r"b .* given 5 elements in dimension M, and b 4"),
        (two(2), [1, 2, 3], rows(1, 1, 1), r"a .* given 3 elements in dimension N, .* most 2"),
        (two(2, True), [1], rows(3), r"b .* given 3 elements in dimension M, .* most 2"),
        (two(), [1], [[[0], [1], [2]]], r"b .* given 3 elements in dimension 2;"),
    ],
)
def test_sizes_that_do_not_suit_are_refused(graph, a, b, message):
    with pytest.raises(ProgramError, match=message):
        check_sizes(graph, {"a": a, "b": b})


def test_sizes_that_suit():
    check_sizes(two(), {"a": np.arange(2), "b": np.zeros((2, 2, 7), int)})
    check_sizes(two(3, True), {"a": [1, 2], "b": rows(0, 3)})
    check_sizes(two(), {"a": [], "b": []})
