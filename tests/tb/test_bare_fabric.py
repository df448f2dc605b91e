"""Fabrics without counters, and without registers for the sizes and addresses of their programs."""

import re
from dataclasses import replace

import pytest
from penstock.frontend import build, lower
from penstock.machine import config as configs
from penstock.machine.errors import ConfigError
from penstock.tb import api
from penstock.tb.design import design_of

TINY = "tests/board/tiny.py"
SIZES = ({"rows": 6, "cols": 8, "beats": 0}, {"rows": 4, "cols": 6, "beats": 0})


def machine(**fields):
    base = configs.load("small_board")
    return configs.check(replace(base, machine=replace(base.machine, **fields)))


def point(params, config):
    program = build(TINY, params, config)
    return api.Point(lower(program.graph, config), program.inputs(0))


def test_each_program_runs_as_on_the_model_on_hardware_of_its_own():
    config = machine(counters=False, registers=False)
    points = [point(params, config) for params in SIZES]
    for rtl in api.run_many([api.with_model(p, config) for p in points], config):
        report = rtl.extra["report"]
        assert report.ok and report.coverage == 1.0, str(report)
        assert not rtl.counted and not len(rtl.busy) and not rtl.peak_pages


@pytest.mark.parametrize(
    ("fields", "lost"),
    [({"counters": False}, r"\bstat\d+_busy\b"), ({"registers": False}, r"\bcfg\d+_\w+ <=")],
)
def test_the_verilog_has_what_is_wanted(fields, lost):
    designs = [design_of(point(SIZES[0], c).graph, c) for c in (machine(), machine(**fields))]
    text, less = ("\n".join(design.verilog.values()) for design in designs)
    assert re.search(lost, text) and not re.search(lost, less)
    assert len(less) < len(text)


def test_parts_are_the_same_modules():
    graph = point(SIZES[0], machine()).graph
    shared = [design_of(graph, machine(**{name: False})).shared for name in configs.OF_TOP]
    assert set(shared) == {design_of(graph, machine()).shared}


@pytest.mark.parametrize("name", configs.OF_TOP)
def test_an_array_has_both(name):
    array = configs.load("array_tiny")
    with pytest.raises(ConfigError, match=f"{name} must be true: an array is for all programs"):
        configs.check(replace(array, machine=replace(array.machine, **{name: False})))
