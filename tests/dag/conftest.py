"""Compile the tiling search once, so that the time budgets of the tests measure the solver."""

import pytest
from penstock.scheduler.dag.solve.tiles import compile_search
from penstock.testing.dag_cases import EXAMPLES


@pytest.fixture(scope="session", autouse=True)
def compiled():
    compile_search(EXAMPLES[4])
