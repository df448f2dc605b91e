"""Device models and matrices on the RTL: the model's cycles, the ALU's values, and for static PEs
the scheduled cycles. All variants: `nox -s measure -- overlay_cycles`.
"""

import numpy as np
import pytest
from penstock.overlay.core.config import Overlay
from penstock.overlay.runs.regression import Case, run
from scipy.io import mmwrite
from scipy.sparse import diags

QUICK = ("device:diode", "device:jfet", "device:diode*5", "gen:gates:25", "lu:ladder.mtx")


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """A folder with the matrix of a ladder of resistors whose every third node drives the first."""
    n = 14
    matrix = diags(
        [np.full(n - 1, -1.0), np.arange(2.5, 2.5 + n), np.full(n - 1, -1.0)], [-1, 0, 1]
    )
    matrix = matrix.tolil()
    matrix[0, 3::3] = 0.25
    folder = tmp_path_factory.mktemp("matrices")
    mmwrite(folder / "ladder.mtx", matrix.tocsc())
    return folder


def check(case, matrices):
    outcomes = run(case, matrices)
    assert [o for o in outcomes if not o.equal] == []
    return len(outcomes)


@pytest.mark.parametrize("mesh", [(1, 1), (2, 2), (4, 4)], ids=lambda m: f"{m[0]}x{m[1]}")
@pytest.mark.parametrize("pe", ["dynamic", "static"])
def test_devices_and_circuits(ladder, pe, mesh):
    case = Case("quick", Overlay(rows=mesh[0], cols=mesh[1], pe=pe), QUICK)
    assert check(case, ladder) == len(QUICK)
