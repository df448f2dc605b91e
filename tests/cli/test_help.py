"""The command line loads what a command needs, and no more."""

import resource
import subprocess
import sys

import pytest
from penstock import cli

HEAVY = {"sympy", "numba", "scipy", "networkx", "matplotlib", "amaranth", "cocotb", "rich"}


def test_help_loads_no_model():
    code = (
        "import sys\n"
        "from penstock.cli import parser\n"
        f"for name in {['', *cli.COMMANDS]!r}: parser(name).format_help()\n"
        f"sys.exit(' '.join({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.stderr.strip() == ""


def test_help_takes_three_tenths_of_a_second_of_cpu():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "penstock.cli", "--help"], check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


def test_the_whole_tree_has_every_command():
    text = cli.parser().format_help()
    assert all(f"\n    {name} " in text for name in cli.COMMANDS)


@pytest.mark.parametrize("name", ["explain", "diff"])
def test_records_are_read_without_the_model(name, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[]")
    argv = [name] + [str(path)] * (1 + (name == "diff"))
    code = (
        "import sys\n"
        "from penstock import cli\n"
        f"cli.main({argv!r})\n"
        f"print('loaded', *{HEAVY - {'rich'}!r} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded", done.stderr
