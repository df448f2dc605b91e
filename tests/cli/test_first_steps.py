"""A user's first commands: what there is, which version, and a program to start from."""

import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest
from penstock import cli
from penstock.frontend import build
from penstock.runs import api
from penstock.samples import SAMPLES


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_penstock_alone_says_what_there_is_and_where_to_begin():
    done = subprocess.run([sys.executable, "-m", "penstock"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert all(f"\n  {name} " in done.stdout for name in cli.COMMANDS)
    assert "penstock new" in done.stdout.partition("begin with:")[2]


def test_version():
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"penstock {version('penstock')}\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_taken_by_the_command_that_goes_with_it(name, tmp_path, capsys):
    sample = SAMPLES[name]
    assert cli.main(["new", name, "--out", f"mine_{sample.file}"]) == 0
    then = capsys.readouterr().out.rpartition("next: ")[2]
    assert f"mine_{sample.file}" in then
    command, *rest = shlex.split(then)
    assert command == "pytest" or callable(cli.parser().parse_args(rest).handler)
    assert cli.main(["new", "--list"]) == 0
    assert f"{sample.file}: {sample.what}" in capsys.readouterr().out


def test_the_program_to_start_from_runs(capsys):
    assert cli.main(["new"]) == 0
    for config in ("small_fpga", "fig8"):
        (record,) = api.run("program.py", config)
        assert record.values_ok and record.max_rel_err < 1e-2
    (record,) = api.run("program.py", "small_fpga", {"rows": 13, "dim": 19, "out": 6})
    assert record.values_ok and record.max_rel_err < 1e-2


def test_new_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "program.py").write_text("mine")
    assert cli.main(["new"]) == 1
    assert "program.py is there already; give another path with --out" in capsys.readouterr().err
    assert cli.main(["new", "traces", "--out", "absent/t"]) == 1
    assert "no such folder absent" in capsys.readouterr().err
    assert cli.main(["new", "programme"]) == 1
    assert "no sample named 'programme'; known: program, top2" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["program.py"] and (
        tmp_path / "program.py"
    ).read_text() == "mine"


PROGRAM = """
from beside import ROWS
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore
def program():
    from later import COLUMNS
    g = Graph("mine")
    x, y = g.input("x", (ROWS, COLUMNS), "fp32"), g.output("y", (ROWS, COLUMNS), "fp32")
    LinearOffChipStore(LinearOffChipLoad(x, tile=(ROWS, COLUMNS)), y)
    return g
"""


def sizes(file):
    """Sizes of the tensor that the program loads."""
    x = build(str(file)).graph.tensors["x"]
    return x.rows, x.cols


def test_a_module_beside_the_program_can_be_imported(tmp_path, monkeypatch):
    """Each program gets the modules of its own folder, and an edited one anew."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    for folder, rows in (("a", 4), ("b", 8)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program.py").write_text(PROGRAM)
        (tmp_path / folder / "beside.py").write_text(f"ROWS = {rows}\n")
        (tmp_path / folder / "later.py").write_text(f"COLUMNS = {rows + 1}\n")
    a, b = (tmp_path / folder / "program.py" for folder in "ab")
    assert sizes(a) == (4, 5)
    assert sizes(b) == (8, 9)
    (tmp_path / "a" / "beside.py").write_text("ROWS = 1024\n")
    assert sizes(a) == (1024, 5)
