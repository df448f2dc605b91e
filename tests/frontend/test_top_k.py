"""TopK: its order, what it refuses, and a mixture of experts whose router runs in the fabric."""

from pathlib import Path

import numpy as np
import penstock
import pytest
from penstock import frontend as f
from penstock.machine.errors import ProgramError

ROUTER = str(Path(__file__).parents[2] / "samples/files/router.py")


def rows(n):
    """The rows of a tensor of n columns."""
    x = f.Graph("top").input("x", (3, n), "fp32")
    return f.LinearOffChipLoad(x, tile=(1, n), shape=(3,), stride=(1,))


ROWS = [
    ([1, -0.0, np.nan, 0, np.inf, 1], [2, 4, 0, 5, 1]),
    ([-1, -2, -3, 1e-45, -0.0, -np.inf], [3, 4, 0, 1, 2]),
    ([np.nan, 2, -np.nan, 2, np.inf, 2], [0, 2, 4, 1, 3]),
]


@pytest.mark.parametrize("row, order", ROWS)
def test_nan_is_above_all_and_equal_elements_come_in_order(row, order):
    x = np.array([row] * 3, np.float32)
    loaded = rows(6)
    top = f.TopK(loaded, k=5)
    for name, s in zip(("selector", "order", "value"), top, strict=True):
        f.Sink(s, name=name)
    given = [v for port, v, _ in top.evaluate(None, iter([(x[:1], 0)])) if port == 1]
    assert given == [frozenset({i}) for i in order]
    program = penstock.frontend.Program("top", {}, loaded.graph, lambda seed: {"x": x})
    (r,) = penstock.run(program, "dag_tiny")
    assert r.values_ok


def test_more_than_the_columns_are_refused():
    with pytest.raises(ProgramError, match="chooses 3 of 2 columns"):
        f.TopK(rows(2)[0], k=3)
    with pytest.raises(ProgramError, match="takes tiles of one row, fp32"):
        f.TopK(f.cast(rows(2)[0], "bf16"), k=1)


@pytest.mark.parametrize("on", ["model", pytest.param("both", marks=pytest.mark.deep)])
def test_router_in_the_fabric_is_numpys(on):
    for r in penstock.run(ROUTER, "small_fpga", on=on):
        assert r.values_ok and r.max_rel_err < 0.01
