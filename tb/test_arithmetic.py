"""Maps, products, reductions and accumulators."""

import cocotb
import pytest
from penstock.tb.tops import UnitTop, simulate
from penstock.testing import units
from penstock.testing.patterns import PAIRS

UNITS = UnitTop(units.arithmetic)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, UNITS.design)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=UNITS.kinds, stalls=PAIRS)
async def test_beats_equal_the_models(dut, kind, stalls):
    await UNITS.agree(dut, kind, *stalls)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_reset_and_a_second_use_begin_anew(dut):
    await UNITS.agree_again(dut)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def test_a_damaged_beat_is_found_in_its_cycle(dut):
    await UNITS.agree_on_damage(dut)
