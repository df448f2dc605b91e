"""Input that has to be refused in one message of what is wrong, and where."""

import os
import re
import subprocess
import sys

import pytest
from penstock.cli import MOST_MESSAGE, main
from penstock.frontend import Fifo, Graph, Scan, Source, retile_row
from penstock.machine.errors import ProgramError


@pytest.mark.parametrize(
    ("files", "words", "message"),
    [
        ({"b.py": b"x = 1\0\n"}, ["show", "b.py"], r"program b\.py: is not Python"),
        ({"f.json": b"null"}, ["fuzz", "--replay", "f.json"], "it holds no object"),
        (
            {"c.toml": b"[defaults.swigul]\nn = 3\n"},
            ["show", "swiglu", "--config", "c.toml"],
            r"defaults\.swigul: no program 'swigul'.*did you mean 'swiglu'",
        ),
        (
            {"c.toml": b"[machine.dram.hbm2]\nstacks = -1\n"},
            ["show", "swiglu", "--config", "c.toml"],
            "stacks must be an integer from 1 to 16, not -1",
        ),
    ],
)
def test_a_file_is_refused(files, words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert main(words) == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_rate_of_0_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["board", "run", "swiglu", "--baud", "0"])
    assert "--baud: must be from 1" in capsys.readouterr().err


def test_operators_are_refused_with_advice_that_holds():
    x = Source(graph=Graph("g"), shape=(2, 3), tile=(4, 8), name="x")
    with pytest.raises(ProgramError, match="depth must be at most 65536"):
        Fifo(x, depth=10**9)
    with pytest.raises(
        ProgramError, match=r"reduce with add\(\), maximum\(\), mul\(\), matmul\(\)$"
    ):
        Scan(x, fn=retile_row(), rank=1)


def test_a_closed_standard_output_takes_no_file_in(tmp_path):
    """A file opened in its place would get the printed text."""
    record = tmp_path / "r.json"
    words = ["run", "swiglu", "--config", "small_fpga", "--no-values", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words, "--json", str(record)],
        preexec_fn=lambda: os.close(1),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert record.read_text().startswith("[")


def test_a_long_line_is_quoted_in_part(tmp_path, capsys):
    file = tmp_path / "long.dfg"
    file.write_text("a" * 1_000_000)
    assert main(["overlay", "verilog", str(file), "--out", str(tmp_path / "o")]) == 1
    error = capsys.readouterr().err
    assert "long.dfg:1: cannot read" in error and "rule: a line is NAME" in error
    assert len(error) < 2 * MOST_MESSAGE
