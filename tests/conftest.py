"""Fixtures that all tests share: registries as they were, files kept together, the cost of a
run.
"""

import functools
import gc
import os
import resource
import signal
import time
from importlib import import_module

import penstock
import pytest
from hypothesis import settings
from penstock.machine.errors import PenstockError
from penstock.runs.executors import end_server
from penstock.system.collector import RARELY
from penstock.tb.environment import asked

gc.set_threshold(*RARELY)  # as in a command

if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # a run in the background: its commands would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("anew", deadline=None)  # `nox -s draw`
settings.load_profile("same")

REGISTRIES = {
    "penstock.machine.functions": ("FUNCTIONS",),
    "penstock.machine.kinds": ("KINDS",),
    "penstock.model.functions": ("VALUES",),
    "penstock.hw.functions": ("DATAPATHS",),
    "penstock.model.units.state": ("KINDS",),
    "penstock.hw.registry": ("UNITS",),
    "penstock.frontend.graph": ("OPERATORS", "FUNCTIONAL"),
}
TOGETHER = ("dag",)  # compiles its search once
FIRST = (
    "dag",
    "array",
    "rtl-small",
    "tests/tb/test_units.py",
    "tests/token/test_overlay_regression.py",
    "fuzz_rtl",
    "tests/token/test_overlay_watch.py",
    "tests/token/test_overlay_hardware.py",
)
"""Groups that take long, or compile what others find: dag its search and array the engine, each in
one worker. Short ones come last, so that no worker waits long for the other.
"""
STARTED = time.monotonic()
MOST_CPU = 60 * 12
"""Seconds that all tests which are not deep take at most together, on the machine of
docs/contributing.md. Others differ by a factor of three: it is shown, and fails no run.
"""


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


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Programs of few tiles as `penstock verilog` writes them: of a name the folder, to which a
    bench may add files, and the sizes.
    """
    sizes = {
        "swiglu": {"batch": 4, "dim": 8, "inter": 8, "tile_b": 4, "tile_inter": 8},
        "simple_moe": {"rows": 3, "dim": 8, "out": 8, "tiles": 2},
    }

    @functools.cache
    def export(name):
        folder = tmp_path_factory.mktemp(name)
        penstock.verilog(name, "small_fpga", sizes[name], out=folder)
        return folder, sizes[name]

    return export


def group_of(item):
    """The tests of a file run in one worker: its fixtures and benches are built once. So do those
    of a room of `TOGETHER`.
    """
    file = item.nodeid.partition("::")[0]
    room = file.split("/")[1]
    return room if room in TOGETHER else file


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """Tests of the mark `data` run where PENSTOCK_DATA names a folder. Groups that begin with
    `FIRST` come first.
    """
    if "PENSTOCK_DATA" not in os.environ:
        left = [item for item in items if item.get_closest_marker("data")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("data")]
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
    groups = {item: item.get_closest_marker("xdist_group").args[0] for item in items}
    items.sort(key=lambda item: FIRST.index(groups[item]) if groups[item] in FIRST else len(FIRST))


def pytest_configure(config):
    try:
        asked()
    except PenstockError as e:
        raise pytest.UsageError(str(e)) from None
    config.addinivalue_line("markers", "xdist_group(name): tests of one worker; xdist's own")
    if "loadscopereorder" in config.option:
        config.option.loadscopereorder = False  # groups come in the order of the items
    if config.option.markexpr == "not deep":  # short runs: building takes longer than running
        os.environ.setdefault("OPT_FAST", "-O0")
        os.environ.setdefault("OPT_GLOBAL", "-O0")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    """xdist 3.8 puts a group behind a test's name, which pytest 9.2 does not let it: each test
    would be a group, without a word.
    """
    if node.config.getvalue("dist") == "loadgroup" and any("@" not in name for name in ids):
        pytest.exit("xdist has lost the groups of the tests: pytest < 9.2 is needed", 1)


def pytest_terminal_summary(terminalreporter, config):
    """Print the cost of the run, and the limit of all tests."""
    most = f" of at most {MOST_CPU:,.0f} s" if is_whole(config) else ""
    wall = time.monotonic() - STARTED
    if config.option.markexpr == "not deep":
        data = "" if "PENSTOCK_DATA" in os.environ else "; data (PENSTOCK_DATA names no folder)"
        terminalreporter.write_line(f"left out by their marks: deep (`nox -s deep` has them){data}")
    terminalreporter.write_line(
        f"{cpu_seconds():,.0f} s of CPU (user and system){most}, {wall:,.0f} s of wall time"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish():
    """Processes that sweeps were forked from end: their CPU time counts in the summary."""
    end_server()
    return (yield)


def is_whole(config):
    """True if all tests run that are not deep."""
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return False
    if config.option.markexpr != "not deep":
        return False
    choosing = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "collectonly")
    option = config.option
    return not any(getattr(option, name, None) for name in choosing)


def cpu_seconds():
    """Workers count as children, and have ended at the summary."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(w) for w in who]
    return sum(u.ru_utime + u.ru_stime for u in used)
