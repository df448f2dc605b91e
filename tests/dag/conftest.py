"""Compile the tiling search once, so that the time budgets of the tests measure the solver."""

import pytest

from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.solve import solve

@pytest.fixture(scope="session", autouse=True)
def compiled():
    solve(generate("random", 5, 0), seconds=300)
