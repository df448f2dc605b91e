"""What one test registers (functions, kinds, components, operators) no other test sees."""

from importlib import import_module

import pytest

REGISTRIES = {
    "penstock.machine.functions": ("FUNCTIONS",),
    "penstock.machine.kinds": ("KINDS",),
    "penstock.model.functions": ("VALUES",),
    "penstock.hw.functions": ("DATAPATHS",),
    "penstock.hw.registry": ("UNITS",),
    "penstock.frontend.graph": ("OPERATORS", "FUNCTIONAL"),
}


@pytest.fixture(autouse=True)
def registries():
    """Takes back what the test added."""
    held = [(r, dict(r)) for module, names in REGISTRIES.items() for r in (getattr(import_module(module), n) for n in names)]
    yield
    for registry, before in held:
        for name in set(registry) - set(before):
            del registry[name]
