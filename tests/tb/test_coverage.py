"""Coverage: a cover statement in each branch changes no cycle, and counts what a run enters."""

import numpy as np
import pytest
from penstock import model
from penstock.machine.errors import RunError
from penstock.machine.stimulus import Point
from penstock.tb import api, check, coverage
from penstock.testing.graphs import Build, configuration

CONFIG = configuration()
FLOOR = 0.5
"""Share of branches that the copy enters."""


@pytest.fixture(scope="module")
def point():
    """A copy of a tensor of two rows of tiles; whole tiles alone."""
    b = Build(2)
    x = b.tensor("x", 4, 4)
    y = b.tensor("y", 4, 4, "fp32", "output")
    walk = {"rank": 2, "shape": [2, 2], "row_step": [2, 0], "col_step": [0, 2]}
    b.link(b.off_chip("load", x, 2, 2, **walk), b.off_chip("store", y, 2, 2))
    values = np.random.default_rng(1).standard_normal((4, 4))
    return Point(b.graph(), {"x": values.astype(np.float32)})


@pytest.fixture(scope="module")
def reached(point):
    design = coverage.design(point.graph, CONFIG)
    (run,) = api.simulate(design, [point], CONFIG)
    told = model.run(point.graph, CONFIG, point.tensors, trace=True)
    assert check.compare(told, run, point.graph).ok
    return design


def test_branches_are_those_of_the_components(reached):
    files = {place.rpartition(":")[0].rpartition("/")[2] for place in reached.branches.values()}
    assert {"load.py", "store.py", "fifo.py"} <= files


def test_a_run_enters_more_branches_than_the_floor_and_not_all(reached):
    """No tile is partial: in a load, no line is cut."""
    there = set(reached.branches.values())
    assert FLOOR < len(reached.entered) / len(there) < 1


def test_a_launch_without_counts_is_an_error(point, tmp_path):
    design = coverage.CoveredDesign(point.graph, {}, coverage.TOP)
    with pytest.raises(RunError, match="counted nothing"):
        design.collect(tmp_path)
