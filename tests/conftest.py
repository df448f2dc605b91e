"""What all tests share: registries as they were, files kept together,
the cost of a run.
"""

import os
import resource
import signal
import time
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
STARTED = time.monotonic()


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


def pytest_collection_modifyitems(config, items):
    """Tests of the mark `data` run where PENSTOCK_DATA names a folder.
    The tests of a file run in one worker: its fixtures and benches are
    built once.
    """
    if "PENSTOCK_DATA" not in os.environ:
        left = [item for item in items if item.get_closest_marker("data")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("data")]
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_terminal_summary(terminalreporter):
    """What the run cost: workers have ended by then, and count as
    children.
    """
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(u.ru_utime + u.ru_stime for u in used)
    wall = time.monotonic() - STARTED
    terminalreporter.write_line(f"{cpu:.0f} s of CPU (user and system), {wall:.0f} s of wall time")
