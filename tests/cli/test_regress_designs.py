"""Coverage of `penstock regress`: every operator and every workload, each design on the model, one
of the small ones on RTL.
"""

import pytest
from penstock.frontend import build
from penstock.frontend.graph import OPERATORS
from penstock.frontend.operators.higher_order import HigherOrder
from penstock.runs import api, regress
from penstock.workloads import WORKLOADS

FUNCTIONS = """
    retile_row retile_col retile_streamify row_append row_offset address address_range
    expert_addresses last_tile_filter all_read matmul scale row_sum row_max add sub mul div max exp
    silu
"""
SMALL = [d for d in regress.DESIGNS if not d.deep]


def test_every_operator_and_workload_is_covered():
    assert {d.program for d in regress.DESIGNS} == set(WORKLOADS)
    used = {
        type(node).__name__
        for d in SMALL
        for p in d.points
        for node in build(d.program, p, d.machine()).graph.nodes
    }
    of_package = {n for n, cls in OPERATORS.items() if cls.__module__.startswith("penstock.")}
    assert of_package - {"TopK"} <= used  # TopK: tests/frontend/test_top_k.py runs the router
    functions = {
        node.args.fn.name
        for d in SMALL
        for p in d.points
        for node in build(d.program, p, d.machine()).graph.nodes
        if isinstance(node, HigherOrder)
    }
    assert set(FUNCTIONS.split()) <= functions


@pytest.mark.parametrize(
    "design", [d for d in SMALL if d.program != "swiglu"], ids=lambda d: d.name
)
def test_a_design_computes_what_numpy_does(design):
    found = api.outcomes(design.program, design.machine(), list(design.points) * 2, seed=[0, 7])
    assert [o.error for o in found] == [None, None] and all(o.model.values_ok for o in found)
