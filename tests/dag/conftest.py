"""Compile the tiling search once, so that the time budgets of the tests measure the solver."""

import sys
from pathlib import Path

import pytest
from dag_cases import EXAMPLES

from penstock.scheduler.dag.solve.tiles import compile_search

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "dag"))  # the checker and the trial


@pytest.fixture(scope="session", autouse=True)
def compiled():
    compile_search(EXAMPLES[4])
