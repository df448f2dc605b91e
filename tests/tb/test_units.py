"""Every unit kind, model against RTL on every beat, under every pair of stall patterns."""

from dataclasses import replace

import pytest

from penstock import model
from penstock.machine import config as configs
from penstock.tb import api, check, units


def machine(t, dtype, **dram):
    base = configs.load("small_fpga")
    m = replace(base.machine, t=t, dtype=dtype, rows_per_cycle=t, lanes={"default": t * t}, port_lanes=min(2, t), load_lines=32)
    return configs.check(replace(base, machine=replace(m, dram=replace(m.dram, **dram)) if dram else m))


def agree(zoo, config, points):
    for case, rtl in zip(points, api.run_many(points, config)):
        want = model.run(case.graph, config, case.tensors, trace=True, sources=case.sources, sinks=case.sinks)
        report = check.compare(want, rtl, case.graph)
        assert report.ok, f"{zoo.name} at {case.graph.units[0].params}\n{report}"


@pytest.mark.parametrize("make, t, dtype", [
    (units.shapes, 2, "fp32"),
    (units.arithmetic, 2, "fp32"),
    (units.buffers, 2, "fp32"),
    (units.memory, 2, "fp32"),
    pytest.param(units.arithmetic, 4, "bf16", marks=pytest.mark.deep),
    pytest.param(units.buffers, 4, "bf16", marks=pytest.mark.deep),
    pytest.param(units.memory, 4, "bf16", marks=pytest.mark.deep),
])
def test_model_and_rtl_agree(make, t, dtype):
    zoo = make(t, dtype)
    config = machine(t, dtype, kind="pipe", channels=4)
    agree(zoo, config, zoo.points())
