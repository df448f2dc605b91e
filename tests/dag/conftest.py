"""Compile the tiling search once, so that the time budgets of the tests measure the solver."""

import pytest
from dag_cases import EXAMPLES

from penstock.scheduler.dag.solve import solve


@pytest.fixture(scope="session", autouse=True)
def compiled():
    solve(EXAMPLES[4], seconds=300)
