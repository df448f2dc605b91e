"""What one test registers (functions, kinds, components, operators) no other test sees."""

import signal
from importlib import import_module

import pytest

if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # a run in the background: its commands would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

REGISTRIES = {
    "penstock.machine.functions": ("FUNCTIONS",),
    "penstock.machine.kinds": ("KINDS",),
    "penstock.model.functions": ("VALUES",),
    "penstock.hw.functions": ("DATAPATHS",),
    "penstock.model.golden.core": ("UNITS",),
    "penstock.model.units.state": ("KINDS",),
    "penstock.hw.registry": ("UNITS",),
    "penstock.frontend.graph": ("OPERATORS", "FUNCTIONAL"),
}


@pytest.fixture(autouse=True)
def registries():
    """Takes back what the test added."""
    held = [
        (r, dict(r))
        for module, names in REGISTRIES.items()
        for r in (getattr(import_module(module), n) for n in names)
    ]
    yield
    for registry, before in held:
        for name in set(registry) - set(before):
            del registry[name]
