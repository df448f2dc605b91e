"""Code that a first run compiles beside the build of its simulator."""

import pytest
from penstock.machine.config import load
from penstock.model import acts, precompile, units
from penstock.model.layout import Layout
from penstock.runs.point import Point


@pytest.mark.parametrize("program", ["swiglu", "simple_moe", "moe", "attention"])
def test_the_units_compiled_beside_are_those_of_the_run(program, monkeypatch):
    point = Point(program, load("small_fpga"), {})
    used = set()
    monkeypatch.setattr(acts, "address", lambda name: used.add(f"unit:{name}") or 0)
    Layout(point.graph, point.config, None, False, point.source_beats(), {}, frozenset())
    assert precompile._units([point.graph]) == used


def test_a_run_compiles_no_unit_that_it_has_not():
    point = Point("swiglu", load("small_fpga"), {})
    assert len(precompile._units([point.graph])) < len(units.KINDS) / 2
