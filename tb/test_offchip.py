"""Loads, stores, random stores and their interconnect before the fast model's DRAM."""

from functools import partial

import cocotb
import pytest
from penstock.machine.config import Dram
from penstock.tb.tops import UnitTop, simulate, small
from penstock.testing.offchip import offchip
from penstock.testing.patterns import PAIRS

PIPE = UnitTop(offchip, small(dram=Dram(kind="pipe", channels=4)))
IDEAL = UnitTop(
    partial(offchip, 4, "bf16"),
    small(
        4,
        "bf16",
        port_lanes=4,
        pipelines="deep",
        arbitration="round_robin",
        dram=Dram(kind="ideal", latency=5),
    ),
)
TOPS = {"pipe": PIPE, "ideal": IDEAL}


@pytest.mark.cocotb_runner
@pytest.mark.parametrize("top", TOPS)
def test_simulate(hdl, top):
    simulate(hdl, TOPS[top].design, plusargs=[f"+top={top}"])


def chosen() -> UnitTop:
    """The top that is simulated."""
    return TOPS[str(cocotb.plusargs["top"])]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=PIPE.kinds, stalls=PAIRS)
async def test_beats_and_lines_equal_the_models(dut, kind, stalls):
    await chosen().agree(dut, kind, *stalls, seed=PAIRS.index(stalls))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_reset_and_a_second_use_begin_anew(dut):
    await chosen().agree_again(dut, use_twice=False)
