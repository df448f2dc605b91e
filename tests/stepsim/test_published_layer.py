"""The decoder layer of figure 17 at a small size: its values."""

import pytest
from penstock.machine.config import load
from penstock.machine.errors import ProgramError
from penstock.runs import api
from penstock.workloads.published_layer import program

SMALL = {"requests": 8, "dim": 32, "heads": 4, "kv_heads": 2, "head_dim": 16, "chunks": 2}
SMALL |= {"tile_out": 16, "rows_out": 4, "kv_tile": 8, "most": 4, "skew": 0.3}
SMALL |= {"inter": 32, "experts": 4, "top_k": 2, "tile_inter": 16, "regions": 0}


@pytest.mark.parametrize(
    "tiles", [{}, {"parallel": "interleaved", "tile_rows": 2}], ids=["dynamic", "static"]
)
def test_a_layer_equals_numpy_and_appends_to_its_caches(tiles):
    """Values are bit-equal to their NumPy meaning, and those of float64 within a hundredth."""
    (record,) = api.run("published_layer", load("small_fpga"), SMALL | tiles)
    assert record.values_ok and record.max_rel_err < 0.01


def test_a_layer_asks_for_requests_in_chunks():
    with pytest.raises(ProgramError, match="a larger multiple of the chunks"):
        program(requests=6, chunks=4)
