"""Compile the tiling search once, so that the time budgets of the tests measure the solver."""

import pytest
from dag_cases import EXAMPLES

from penstock.scheduler.dag.solve.tiles import compile_search


@pytest.fixture(scope="session", autouse=True)
def compiled():
    compile_search(EXAMPLES[4])
