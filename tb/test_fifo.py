"""Channels of other depths than two slots: one of registers, one of block RAM."""

import cocotb
import pytest
from penstock.machine.beat import Scalar
from penstock.machine.kinds.copies import Broadcast
from penstock.tb.tops import UnitTop, simulate
from penstock.testing.patterns import PAIRS
from penstock.testing.stimulus import ragged_stream
from penstock.testing.zoo import Zoo

WORD = Scalar(16)


def fifos() -> Zoo:
    """Channels of depth 1, 3, 8, 9 and 21 on both sides of a unit without state."""
    z = Zoo("fifos", 2)
    for depth in (1, 3, 8, 9, 21):
        z.depth = depth
        z.add(Broadcast(n=1), [(WORD, ragged_stream(WORD, 3, 5, bare=0.1))], [WORD])
    return z


UNITS = UnitTop(fifos)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, UNITS.design)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stalls=PAIRS)
async def test_beats_equal_the_models(dut, stalls):
    await UNITS.agree(dut, "broadcast", *stalls)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_reset_and_a_second_use_begin_anew(dut):
    await UNITS.agree_again(dut)
