"""Attention with the online softmax: one pass, a loop that rescales, on the model and on RTL."""

import pytest
from penstock.runs import api

SMALL = dict(requests=6, regions=2, heads=4, head_dim=8, kv_tile=4, most=3, softmax="online")


@pytest.mark.parametrize(
    "params",
    [
        dict(parallel="coarse"),
        dict(parallel="interleaved"),
        dict(parallel="dynamic"),
        dict(heads=12, head_dim=12),
    ],
)
def test_the_model_has_the_values_of_numpy(params):
    """Also where a sum takes several physical tiles, which are in the loop at a time."""
    (r,) = api.run("attention", "small_fpga", SMALL | params, seed=2)
    assert r.values_ok and r.max_rel_err < 3e-2


@pytest.mark.deep
@pytest.mark.xdist_group("rtl-online")
def test_the_rtl_takes_the_same_cycles_and_beats():
    model, rtl = api.run("attention", "small_fpga", SMALL, on="both")
    assert (
        rtl.values_ok
        and rtl.cycles == model.cycles
        and rtl.mismatches == 0
        and rtl.channels_observed == rtl.channels_total
    )
