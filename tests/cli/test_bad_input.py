"""Bad input, as a new user would meet it: one message that says what, where and the remedy; exit 1;
nothing half-written.
"""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from penstock import cli
from penstock.cli import MOST_MESSAGE, main


def run(capsys, *argv):
    """Exit code and the text on stderr."""
    code = cli.main(list(argv))
    return code, capsys.readouterr().err


SYNTH = "synth swiglu --config small_fpga --quiet --json parts.json"
LADDER = "overlay compare gen:ladder:12 --quiet"
GOOD = """
from penstock.frontend import *
def program(n=8):
    g = Graph("mine")
    x, y = g.input("x", (n, 8), "fp32"), g.output("y", (n, 8), "fp32")
    {body}
    return g
"""


@pytest.mark.parametrize(
    ("argv", "message"),
    {
        "run swigl": "no program named 'swigl'; did you mean 'swiglu'? known: swiglu",
        "run swiglu --config nope": "no configuration named 'nope'; ",
        "run swiglu --set tile_c=3": "unknown parameter 'tile_c'; did you mean 'tile_b'? "
        "parameters are batch, dim",
        "run swiglu --timing stepsim --on rtl": "the `stepsim` timing has no RTL",
        "run swiglu --json absent/x.json": "no such folder absent",
        "run swiglu --waves w": "only the RTL has waveforms",
        "run swiglu --json .": "it is a folder",
        "regress zzz": "no design's name contains 'zzz'",
        "run swiglu --json /proc/x.json": "cannot write /proc/x.json",
        "run swiglu --seed -1": "seed must be an integer from 0 to 2147483647, not -1",
        "run swiglu --set tile_b=16,32": "--set tile_b takes one value here, not 2; `penstock "
        "sweep`",
        "run swiglu --onchip-rule machine --timing stepsim": "counts pages of scratchpads, the "
        "timing `stepsim` has none",
        "show swiglu --png x.txt": "cannot draw to 'x.txt'",
        "run swiglu --machine chanel_depth=4": "--machine: unknown field 'chanel_depth'; did you "
        "mean 'channel_depth'? known fields:",
        "sweep swiglu --machine channel_depth=2,0": "fig8.toml with --machine channel_depth=0: "
        "machine: channel_depth must be an integer",
        "run swiglu --seed 1 --seed 2 --timeline x.json": "--timeline: is for one run; give one "
        "machine, by one --config, and one --seed",
        "explain x.json --machine channel_depth=4": "--machine: is of a program, not of a record",
        f"run swiglu --set dim={'9' * 5000}": "--set dim takes numbers of at most "
        "9223372036854775807",
        "deadlock swiglu --depth 1000000000": "depth must be an integer from 1 to 65536, not "
        "1000000000",
        "fuzz --time nan": "--time must be from 0 to 10000000 seconds, not nan",
        "fuzz --array array_tiny --form deep": "do not go with --array",
        "overlay compare gen:gates:10000000": "needs from 3 to 10000 elements",
        "run swiglu --outputs o.npz --no-values": "--outputs writes values, and none are computed",
        "run swiglu --tolerance nan": "tolerance must be a number of at least 0, not nan",
        "figures fig11 --out o": "no figure 'fig11'; did you mean ",
        "figures fig9 --traces nowhere --out o": "no such folder: nowhere",
        f"{SYNTH} --only nothing": "no part's name contains 'nothing'; parts: load, broadcast, ",
        "synth overlay --set t=2": "an overlay has no parameters and no configuration",
        "synth overlay --whole --kinds specialised": "which PE does what depends on the graph",
        "synth swiglu --only zzz --fifo-depth 4 --pe static": "--pe, --fifo-depth: of an overlay, "
        "not of a",
        f"{LADDER} --mesh 4x17": "--mesh: columns must be an integer from 1 to 16, not 17",
        f"{LADDER} --pe static --local forward": "--local is of dynamic PEs only",
        f"{LADDER} --steps 3 --objective cut": "improve a placement for time, not for cut",
        f"{LADDER} --fifo-depth 1": "fifo_depth must be an integer from 2 to 65536, not 1",
        "verilog swiglu --out o --host axi": "moves 4 lines and answers 8 in a cycle",
        "array verilog --out o --set inter=8": "--set is of --bench PROGRAM",
        "verilog swiglu --out o --host axi --bench": "--bench is of the fabric alone",
        "overlay compare device:dioed": "there is no device 'dioed'; did you mean 'diode'?",
    }.items(),
)
def test_one_message(capsys, monkeypatch, tmp_path, argv, message):
    monkeypatch.chdir(tmp_path)
    code, err = run(capsys, *shlex.split(argv))
    assert code == 1
    shown = "\n".join(
        line for line in err.splitlines() if not line.startswith("[")
    )  # but for the progress that a slow machine prints
    assert message in shown and shown.startswith("penstock: ") and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


COPY = "LinearOffChipStore(LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(1,)), y)"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("def inputs(seed, **kw): raise ValueError('no data')", "raises ValueError: no data"),
        ("def inputs(seed, **kw): return 3", "inputs() returns int, not a dict of arrays"),
        (
            "def inputs(seed, **kw): return {'x': x, 'xx': x}\nx = [[1] * 8] * 8",
            "inputs() gives 'xx', which is no input of the program; did you mean 'x'?",
        ),
        (
            "def streams(seed, **kw): return {'src': [1]}",
            "streams() gives 'src', which is no source of the program",
        ),
        (
            "def reference(z): return {'y': z}",
            "mine.py:8): reference() cannot be called with x: missing a required argument: 'z'",
        ),
        ("def reference(x): return {'y': x * 1j}", "reference() gives 'y' as no array of numbers"),
        (
            "def inputs(seed, **kw): return {'x': [[1, 2]]}",
            "has shape [1, 2], the program says [8, 8]",
        ),
        ("def reference(x): return x", "reference() gives no tensor 'y'"),
        ("def inputs(seed, **kw): raise MemoryError", "a run without values (--no-values)"),
        ("import sim", "mine.py:8): raises ModuleNotFoundError: No module named 'sim'; install"),
    ],
)
def test_inputs_and_references_of_a_program(capsys, tmp_path, more, message):
    path = tmp_path / "mine.py"
    path.write_text(GOOD.format(body=COPY) + more)
    code, err = run(capsys, "run", str(path), "--quiet")
    assert code == 1
    assert message in err and "Traceback" not in err


def test_missing_compiler(capsys, monkeypatch):
    from penstock.tb import toolchain

    monkeypatch.setattr(toolchain.shutil, "which", lambda tool, *a, **kw: None)
    toolchain.compiler_in_use.cache_clear()
    code, err = run(
        capsys,
        *"run swiglu --config small_fpga --set batch=4 --set dim=4 --set inter=4 --on rtl".split(),
        *"--set tile_b=4 --set tile_inter=4".split(),
    )
    toolchain.compiler_in_use.cache_clear()
    assert code == 1
    assert "not found" in err and "install it" in err


def test_records_and_reports(capsys, tmp_path, monkeypatch):
    out = tmp_path / "a.json"
    assert (
        cli.main(
            [
                *"run swiglu --set batch=16 --set dim=32 --set inter=32".split(),
                *"--set tile_b=16 --set tile_inter=16 --json".split(),
                str(out),
            ]
        )
        == 0
    )
    record = json.loads(out.read_text())[0]
    assert record["values_ok"] is True and record["max_rel_err"] < 1e-5
    capsys.readouterr()
    assert cli.main(["explain", str(out)]) == 0
    whole = capsys.readouterr().out
    assert "bounding chain" in whole and "busiest" not in whole
    monkeypatch.setattr("penstock.runs.explain.MOST_UNITS", 3)
    assert cli.main(["explain", str(out)]) == 0
    assert (
        f"the busiest 3 of {len(record['units'])} units (all of them: --all)"
        in capsys.readouterr().out
    )
    assert cli.main(["explain", str(out), "--all"]) == 0 and capsys.readouterr().out == whole
    assert cli.main(["diff", str(out), str(out)]) == 0


def test_verilog_in_a_folder_that_holds_other_things(monkeypatch, tmp_path):
    program = tmp_path / "mine.py"
    program.write_text(GOOD.format(body=COPY).replace("fp32", "bf16"))
    (tmp_path / "penstock").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["verilog", "mine.py", "--config", "small_fpga", "--out", ".", "--quiet"]) == 0
    found = {p.name for p in tmp_path.iterdir()}
    assert found - {"__pycache__"} == {
        "mine.py",
        "penstock",
        "penstock_fabric.v",
        "penstock_fabric.json",
    }
    assert "module penstock_fabric" in (tmp_path / "penstock_fabric.v").read_text()
    sidecar = json.loads((tmp_path / "penstock_fabric.json").read_text())
    assert {"ports", "registers", "streams", "versions"} <= set(sidecar)


def test_show_and_timeline_of_the_default_sizes(capsys, tmp_path):
    swiglu = ["swiglu", "--config", "small_fpga"]
    assert cli.main(["show", *swiglu, "--units", "--png", str(tmp_path / "p.png")]) == 0
    shown = capsys.readouterr().out
    assert "off-chip traffic" in shown and "matmul(" in shown
    assert cli.main(["run", *swiglu, "--timeline", str(tmp_path / "t.json")]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert any(e["ph"] == "X" for e in events)


def test_the_error_against_float64_counts_what_is_finite():
    from penstock.runs.check import max_error

    inf = np.inf
    nan = np.nan
    assert max_error(np.array([[1.5, nan, inf]]), np.array([[2.0, nan, inf]])) == 0.25
    assert (
        max_error(np.array([[1.0, nan]]), np.array([[1.0, 2.0]]))
        == max_error(np.array([[1.0, 2.0]]), np.array([[1.0, -inf]]))
        == inf
    )
    assert max_error(np.array([[nan]]), np.array([[nan]])) == 0


@pytest.mark.parametrize(
    "line, message",
    [
        (
            "Sink(RandomOffChipLoad(a, tensor=x, tile=(4, 8), name='rows'))",
            "unit rows at {line}: reads row 4, column 0, which lies outside tensor x of 4 rows "
            "and 8 columns, "
            "both counted from 0; check the addresses, which number the tensor's tiles",
        ),
        (
            "Sink(a), Sink(Expand(LinearOffChipLoad(x, tile=(4, 8)), count=1 << 20, name='held'))",
            "unit held at {line}: repeat is 1048576 (rule: repeat of a scratchpad is from 0 to "
            "1048575)",
        ),
    ],
)
def test_an_error_of_a_unit_names_the_line_of_its_operator(capsys, tmp_path, line, message):
    path = tmp_path / "p.py"
    path.write_text(
        "from penstock.frontend import *\n\ndef program(dtype='bf16'):\n    g = Graph('p')\n    "
        "x = g.input('x', (4, 8), dtype)\n    a = Source(graph=g, shape=(2,), scalar=32)\n"
        f"    {line}\n    return g\n\ndef streams(seed, **_):\n    return {{'a': [0, 1]}}\n"
    )
    code, err = run(capsys, "run", str(path), "--config", "small_fpga", "--quiet")
    assert (code, err) == (1, f"penstock: {message.format(line=f'{path}:7')}\n")


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
