"""Device models and matrices by the compiled bench: cycles, writes, tokens and values are the
model's. All variants: `nox -s measure -- overlay_cycles`.
"""

import numpy as np
import pytest
from penstock.overlay.core.config import Overlay
from penstock.overlay.runs.regression import Case, run
from scipy.io import mmwrite
from scipy.sparse import diags

GRAPHS = ("device:diode", "device:jfet", "device:diode*5", "gen:gates:25", "lu:ladder.mtx")


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


def test_devices_and_circuits(ladder):
    outcomes = run(Case("quick", Overlay(rows=2, cols=2, local="forward"), GRAPHS), ladder)
    assert [o.graph for o in outcomes if o.equal] == list(GRAPHS)
