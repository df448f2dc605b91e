"""The published simulator's cycles of figure 8, all 15 points, exactly."""

import pytest
from penstock.figures.published import fig8
from penstock.machine import config
from penstock.model.stepsim import run
from penstock.testing.stepsim_graphs import swiglu


@pytest.mark.parametrize("row", fig8(), ids=lambda r: f"{r.tile_b}x{r.tile_inter}")
def test_cycles_and_traffic_equal_the_published(row):
    result = run(swiglu(row.tile_b, row.tile_inter), config.load("fig8"))
    assert result.cycles == row.step_cycles
    assert 64 * (result.lines_read + result.lines_written) == row.offchip_bytes
