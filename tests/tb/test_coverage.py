"""Coverage: a cover statement in each branch changes no cycle, and counts
what a run enters.
"""

from pathlib import Path

import numpy as np
import penstock.hw
import pytest
from penstock import model
from penstock.machine.errors import RunError
from penstock.machine.stimulus import Point
from penstock.tb import api, check, coverage
from penstock.testing.graphs import Build, configuration

CONFIG = configuration()
SOURCE = """
with m.If(self.go):
    m.d.comb += out.eq(1)
with m.Elif(late):
    m.d.sync += out.eq(Mux(a, b, c))
m.d.comb += [
    x.eq(1),
    y.eq(2),
]
"""


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
    return design.reached()


def ways(places, file):
    return {place.rpartition(":")[2] for place in places if place.startswith(f"{file}:")}


def test_sources_say_what_there_is():
    found = coverage.branches_of(SOURCE)
    assert found.ways == {"2", "4", "5.0", "5.1"}
    assert found.statements == {"3", "5", "7", "8"}


def test_every_branch_is_one_of_the_sources(reached):
    root = Path(penstock.hw.__file__).parent.parent
    files = {place.rpartition(":")[0] for place in reached.there if place.startswith("hw/")}
    assert {"hw/memory/load.py", "hw/memory/store.py", "hw/units/fifo.py"} <= files
    for file in files:
        there = coverage.branches_of((root / file).read_text())
        bodies = {way for way in ways(reached.there, file) if not way.endswith("none")}
        assert bodies <= there.ways
        assert bodies, file


def test_every_assignment_is_one_of_the_sources(reached):
    """Those to views too, whose place Amaranth has in its own library."""
    assert all(place.startswith("hw/") for place in reached.statements)
    ring = (Path(penstock.hw.__file__).parent / "memory/ring.py").read_text()
    there = coverage.branches_of(ring).statements
    assert ways(reached.statements, "hw/memory/ring.py") == there
    assert "payload.eq(" in ring


def test_a_run_enters_what_it_needs_and_no_more(reached):
    """No tile is partial: in a load, no line is cut."""
    assert reached.entered < reached.there
    assert reached.executed < reached.statements
    fifo = ways(reached.there, "hw/units/fifo.py")
    assert len(ways(reached.entered, "hw/units/fifo.py")) > len(fifo) / 2


def test_a_launch_without_counts_is_an_error(point, tmp_path):
    design = coverage.CoveredDesign(point.graph, {}, coverage.TOP)
    with pytest.raises(RunError, match="counted nothing"):
        design.collect(tmp_path)
