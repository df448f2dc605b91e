"""Scratchpads: writers and readers, references copied and dropped, buffers off-chip."""

from functools import partial

import cocotb
import pytest
from penstock.machine.config import Dram
from penstock.tb.tops import UnitTop, simulate, small
from penstock.testing.buffers import buffers, spilled
from penstock.testing.patterns import PAIRS

UNITS = UnitTop(buffers)
SMALL = small(spill=4096, dram=Dram(channels=4, line_bytes=16))
SPILLED = UnitTop(partial(spilled, SMALL.machine), SMALL)
TOPS = {"on_chip": UNITS, "spilled": SPILLED}


@pytest.mark.cocotb_runner
@pytest.mark.parametrize("top", TOPS)
def test_simulate(hdl, top):
    hdl.plusargs.append(f"+top={top}")
    simulate(hdl, TOPS[top].design)


def chosen() -> UnitTop:
    """The top that is simulated."""
    return TOPS[str(cocotb.plusargs.get("top", "on_chip"))]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=UNITS.kinds, stalls=PAIRS)
async def test_beats_equal_the_models(dut, kind, stalls):
    await chosen().agree(dut, kind, *stalls)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_reset_and_a_second_use_begin_anew(dut):
    await chosen().agree_again(dut, use_twice=False)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def test_a_damaged_beat_is_found_in_its_cycle(dut):
    await chosen().agree_on_damage(dut)
