"""Linear and integer programs by HiGHS."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from penstock.scheduler.dag.solve.program import Rows, minimise


def a_cover(cost, whole):
    """The least cost of two columns that add up to 3/2 at least."""
    rows = Rows(columns=2)
    rows.add([(0, 2.0), (1, 2.0)], 3.0)
    return minimise(np.array(cost), rows, time.monotonic() + 60, whole=whole)


@pytest.mark.parametrize(("whole", "least"), [(0, 1.5), (2, 2.0)])
def test_the_least_cost(whole, least):
    found = a_cover([1.0, 4.0], whole)
    assert found.optimal
    assert found.objective == pytest.approx(least)


def test_standard_output_is_left_to_results():
    """A schedule may go there; HiGHS 1.16 begins with a banner."""
    program = f"from {Path(__file__).stem} import a_cover; a_cover([1.0, 1.0], 2)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, check=True
    )
    assert done.stdout == b""
