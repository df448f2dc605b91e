"""The workloads of dynamic sizes and dynamic parallelisation on RTL, at t = 2: every beat and the
values.
"""

from dataclasses import replace

import pytest
from penstock.machine.config import Config, check, load
from penstock.runs import api

MOE = {"tile_rows": 0, "tokens": 6, "experts": 2, "dim": 4, "inter": 4, "tile_inter": 4}
ATTENTION = {"requests": 4, "regions": 2, "heads": 2, "head_dim": 2, "kv_tile": 2, "most": 2}
DYNAMIC = {"moe": MOE, "attention": {"parallel": "dynamic", "softmax": "published", **ATTENTION}}


def smallest() -> Config:
    """``small_fpga`` with tiles of 2 x 2."""
    small = load("small_fpga")
    m = small.machine
    lanes = {name: min(n, 4) for name, n in m.lanes.items()}
    return check(replace(small, machine=replace(m, t=2, rows_per_cycle=2, lanes=lanes)))


@pytest.mark.deep  # routing on RTL: tests/fuzz/test_fuzz_rtl.py
@pytest.mark.parametrize("program", DYNAMIC)
def test_rtl_takes_the_models_cycles(program):
    model, rtl = api.run(program, smallest(), DYNAMIC[program], on="both")
    assert rtl.cycles == model.cycles
    assert rtl.mismatches == 0
    assert rtl.channels_observed == rtl.channels_total > 100
    assert rtl.values_ok
