"""Device models and matrices on the RTL: the model's cycles, the ALU's values, and for static PEs
the scheduled cycles.
"""

from pathlib import Path

import pytest
from penstock.machine.overlay import Overlay
from penstock.overlay.regression import SUITES, Case, run

MATRICES = Path(__file__).parents[3] / "shared" / "data" / "matrices"
QUICK = ("device:diode", "device:jfet", "device:diode*5", "gen:gates:25", "lu:mna_s27.mtx")


def check(case):
    outcomes = run(case, MATRICES).outcomes
    assert [o for o in outcomes if not o.equal] == []
    return len(outcomes)


@pytest.mark.parametrize("mesh", [(1, 1), (2, 2), (4, 4)], ids=lambda m: f"{m[0]}x{m[1]}")
@pytest.mark.parametrize("pe", ["dynamic", "static"])
def test_devices_and_circuits(pe, mesh):
    assert check(Case("quick", Overlay(rows=mesh[0], cols=mesh[1], pe=pe), QUICK)) >= len(QUICK) - 1


@pytest.mark.deep
@pytest.mark.parametrize(
    "case", [c for cases in SUITES.values() for c in cases], ids=lambda c: c.name
)
def test_every_variant(case):
    if any(g.startswith("lu:") for g in case.graphs) and not MATRICES.is_dir():
        pytest.skip("needs ../shared/data/matrices")
    assert check(case) == len(case.graphs) * max(1, len(case.traffic))
