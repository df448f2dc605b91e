"""cocotb's variables: a simulator is given its own; a regression reads the user's."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import cocotb_tools.config
import find_libpython

from ..machine.errors import PenstockError

OWN = re.compile(
    r"(COCOTB|GPI|PYGPI)_.*|COVERAGE(_RCFILE)?|GUI|MODULE|RANDOM_SEED|SIM_CMD_(PREFIX|SUFFIX)"
    r"|TESTCASE|TOPLEVEL(_LANG)?|WAVES|PYTEST_CURRENT_TEST"
)
"""Names of variables that cocotb and its runner read."""
TRUE = ("1", "y", "yes", "t", "true", "on")
FALSE = ("", "0", "n", "no", "f", "false", "off")


def without_cocotb(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without cocotb's variables."""
    return {name: text for name, text in environment.items() if not OWN.fullmatch(name)}


def of_simulator(top: str, module: str, seed: int) -> dict[str, str]:
    """The environment of a simulator whose cocotb runs the tests of a module on ``top``."""
    python = os.environ.get("LIBPYTHON_LOC") or find_libpython.find_libpython()
    path = os.pathsep.join([os.environ.get("PATH", ""), str(cocotb_tools.config.libs_dir)])
    return without_cocotb(os.environ) | {
        "PATH": path,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONWARNINGS": "",
        "PYGPI_PYTHON_BIN": sys.executable,
        "GPI_USERS": f"{python};{cocotb_tools.config.pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": top,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_LOG_LEVEL": os.environ.get("COCOTB_LOG_LEVEL", "WARNING"),
        "COCOTB_ANSI_OUTPUT": "0",
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        # pytest would rewrite every module that the bench imports, numba among them
        "COCOTB_REWRITE_ASSERTION_FILES": "",
    }


@dataclass(frozen=True)
class RegressionSettings:
    """A regression as cocotb's variables want it."""

    seed: int = 0  # ``COCOTB_RANDOM_SEED`` or ``RANDOM_SEED``: the first draw of inputs
    waves: bool = False  # ``WAVES``
    # ``COCOTB_TEST_FILTER``, an expression that names match, or ``COCOTB_TESTCASE``, names
    tests: re.Pattern[str] | None = None


def asked(environment: Mapping[str, str] = os.environ) -> RegressionSettings:
    """Environment settings of a regression; PenstockError where a value is none."""
    waves = _truth(environment, "WAVES")
    for name in ("COCOTB_USER_COVERAGE", "GUI"):
        _truth(environment, name)
    seeds = [
        _seed(environment, n) for n in ("COCOTB_RANDOM_SEED", "RANDOM_SEED") if environment.get(n)
    ]
    names = environment.get("COCOTB_TESTCASE", "").split(",")
    either = "|".join(re.escape(name.strip()) for name in names if name.strip())
    wanted = environment.get("COCOTB_TEST_FILTER") or (f"^({either})$" if either else "")
    try:
        tests = re.compile(wanted) if wanted else None
    except re.error as e:
        raise _refused("COCOTB_TEST_FILTER", wanted, f"a regular expression ({e})") from None
    return RegressionSettings(seeds[0] if seeds else 0, waves, tests)


def _truth(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "")
    if text.lower() not in (*TRUE, *FALSE):
        raise _refused(name, text, "0 or 1")
    return text.lower() in TRUE


def _seed(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise _refused(name, text, "a whole number of at most nine digits")
    return int(text)


def _refused(name: str, text: str, rule: str) -> PenstockError:
    return PenstockError(
        f"{name}={text!r} is not understood", "environment", f"it is {rule}", f"unset {name}"
    )
