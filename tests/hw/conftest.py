import gc
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable


@pytest.fixture(autouse=True)
def refused_components_are_no_mistake():
    """A constructor that raises leaves a component that is never elaborated, which Amaranth warns of when it is collected."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        gc.collect()
