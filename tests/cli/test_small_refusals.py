"""Input that has to be refused in one message of what is wrong, and where."""

import os
import subprocess
import sys

from penstock.cli import MOST_MESSAGE, main


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
