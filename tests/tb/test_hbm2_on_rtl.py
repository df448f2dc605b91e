"""HBM2 behind the RTL: the model's cycles, and the model's counts of rows and channels."""

from dataclasses import replace

import pytest
from penstock.machine.config import Config, check, load
from penstock.machine.hbm2 import Hbm2
from penstock.runs import api


def with_hbm2() -> Config:
    """``small_fpga`` with one stack, whose responses come on as many lanes as the pipe's."""
    small = load("small_fpga")
    lanes = small.machine.response_lanes
    dram = replace(small.machine.dram, kind="hbm2", hbm2=Hbm2(responses=lanes))
    machine = replace(small.machine, dram=dram)
    return check(replace(small, name="small_hbm2", machine=machine))


@pytest.mark.xdist_group("rtl-small")  # the simulator of small_fpga: no memory is in it
def test_rtl_with_hbm2_takes_the_models_cycles():
    model, rtl = api.run("swiglu", with_hbm2(), on="both")
    assert rtl.cycles == model.cycles and rtl.mismatches == 0
    assert rtl.values_ok
    assert rtl.dram == model.dram
    assert sum(model.dram["hits"]) and sum(model.dram["misses"])
    lines = sum(model.dram["read"]) + sum(model.dram["wrote"])
    assert 64 * lines == model.dram_bytes
