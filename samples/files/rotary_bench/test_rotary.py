"""The unit of rotary.py beside the fast model: each beat in its cycle, under pairs of stalls."""

import cocotb
import pytest
import rotary  # registers the kind, its values, its component
from penstock.machine.beat import Tile
from penstock.tb.tops import UnitTop, simulate, small
from penstock.testing.patterns import PAIRS
from penstock.testing.stimulus import ragged_stream
from penstock.testing.zoo import Zoo

TILE = Tile(4, "fp32")


def units():
    zoo = Zoo("rotary", t=4)
    streams = [(TILE, ragged_stream(TILE, rank=2, most=5, bare=0.2))]
    zoo.add(rotary.RotateKind(), streams, [TILE])
    return zoo


UNITS = UnitTop(units, small(t=4))


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, UNITS.design)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stalls=PAIRS)
async def test_beats_equal_the_models(dut, stalls):
    await UNITS.agree(dut, "rotate", *stalls)
