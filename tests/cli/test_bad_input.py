"""Bad input, as a new user would meet it: one message that says what, where and the remedy; exit 1; nothing half-written."""

import json

import pytest

from penstock import cli


def run(capsys, *argv):
    """Exit code and the text on stderr."""
    code = cli.main(list(argv))
    return code, capsys.readouterr().err


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
    [
        (["run", "swigl"], "no program named 'swigl'; known: swiglu"),
        (["run", "swiglu", "--config", "nope"], "no configuration named 'nope'; known: fig8"),
        (["run", "swiglu", "--set", "tile_c=3"], "unknown parameter 'tile_c'; parameters are batch, dim"),
        (["run", "swiglu", "--set", "tile_b"], "--set takes NAME=VALUE, not 'tile_b'"),
        (["run", "swiglu", "--set", "tile_b=0"], "into parts of 0"),
        (["run", "swiglu", "--set", "dim=0"], "must be integers of at least 1, not [64, 0]"),
        (["run", "swiglu", "--set", "dtype=int8"], "dtype must be"),
        (["run", "swiglu", "--timing", "published", "--on", "rtl"], "the `published` timing has no RTL"),
        (["run", "swiglu", "--json", "absent/x.json"], "no such folder absent"),
        (["explain", "absent.json"], "no such file: absent.json"),
        (["run", "swiglu", "--waves", "w"], "only the RTL has waveforms"),
        (["run", "swiglu", "--json", "."], "it is a folder"),
        (["run", "swiglu", "--config", "x.toml"], "no such file: x.toml"),
        (["regress", "--only", "zzz"], "no design's name contains 'zzz'"),
    ],
)
def test_one_message(capsys, monkeypatch, tmp_path, argv, message):
    monkeypatch.chdir(tmp_path)
    code, err = run(capsys, *argv)
    assert code == 1
    assert message in err and err.startswith("penstock: ") and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1 / 0", "division by zero"),
        ("LinearOffChipStore(Accum(LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(1,)), LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(1,)),"
         " fn=matmul(), rank=1), y)", "A has 8 columns, B has 4 rows"),
        ("LinearOffChipLoad(x, tile=(4, 8), shape=(0,), stride=(1,))", "shape"),
    ],
)
def test_program_files(capsys, tmp_path, body, message):
    path = tmp_path / "mine.py"
    path.write_text(GOOD.format(body=body))
    code, err = run(capsys, "run", str(path), "--no-values")
    assert code == 1
    assert message in err and "mine.py" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[machine]\nt = 12\n", "t must be a power of two"),
        ("[machine]\ntt = 4\n", "unknown field 'tt'"),
        ("[machine]\npages = 1\nframes = 1\n", "scratchpad"),
    ],
)
def test_machines(capsys, tmp_path, toml, message):
    path = tmp_path / "mine.toml"
    path.write_text(toml)
    code, err = run(capsys, "run", "swiglu", "--config", str(path), "--no-values")
    assert code == 1
    assert message in err


def test_missing_compiler(capsys, monkeypatch):
    from penstock.tb import runner

    monkeypatch.setattr(runner.shutil, "which", lambda tool, *a, **kw: None)
    runner._compiler.cache_clear()
    code, err = run(capsys, "run", "swiglu", "--config", "small_fpga", "--set", "batch=4", "--set", "dim=4", "--set", "inter=4", "--set", "tile_b=4", "--set",
                    "tile_inter=4", "--on", "rtl")
    runner._compiler.cache_clear()
    assert code == 1
    assert "not found" in err and "install it" in err


def test_records_and_reports(capsys, tmp_path):
    out = tmp_path / "a.json"
    assert cli.main(["run", "swiglu", "--set", "batch=16", "--set", "dim=32", "--set", "inter=32", "--set", "tile_b=16", "--set", "tile_inter=16",
                     "--json", str(out)]) == 0
    record = json.loads(out.read_text())[0]
    assert record["values_ok"] is True and record["max_rel_err"] < 1e-5
    assert cli.main(["explain", str(out)]) == 0
    assert "bounding chain" in capsys.readouterr().out
    assert cli.main(["diff", str(out), str(out)]) == 0


def test_verilog_and_show_of_the_default_sizes(capsys, tmp_path):
    assert cli.main(["verilog", "swiglu", "--config", "small_fpga", "--out", str(tmp_path)]) == 0
    assert "module penstock_fabric" in (tmp_path / "penstock_fabric.v").read_text()
    sidecar = json.loads((tmp_path / "penstock_fabric.json").read_text())
    assert {"ports", "registers", "streams", "versions"} <= set(sidecar)
    assert cli.main(["show", "swiglu", "--config", "small_fpga", "--units", "--png", str(tmp_path / "p.png")]) == 0
    shown = capsys.readouterr().out
    assert "off-chip traffic" in shown and "matmul(" in shown
    assert cli.main(["run", "swiglu", "--config", "small_fpga", "--timeline", str(tmp_path / "t.json")]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert any(e["ph"] == "X" for e in events)


def test_a_folder_that_is_a_file(capsys, tmp_path):
    (tmp_path / "f").write_text("")
    code, err = run(capsys, "verilog", "swiglu", "--config", "small_fpga", "--out", str(tmp_path / "f"))
    assert code == 1 and "Traceback" not in err
