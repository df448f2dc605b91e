"""A bench that leaves with an export: it runs where no Penstock is."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import penstock
import pytest
from penstock import cli
from penstock.machine.config import load
from penstock.machine.errors import PenstockError
from penstock.runs import array_rtl, leaving
from penstock.runs.array import place
from penstock.tb import toolchain

TOP2 = str(Path(__file__).parents[2] / "samples/files/top2.py")
"""A program with memory, and streams from and to outside."""
STREAMED = str(Path(__file__).parents[1] / "array" / "stream_program.py")
"""A program without memory."""
SIZE = {"most": 4, "dim": 4, "out": 4, "experts": 2}
BASE = load("small_fpga")
MACHINES = ("fig8", "paper_hdl_bf16")
"""Arrays of 16 x 16 x 16 products, in fp32 and in bf16."""
CONFIG = replace(BASE, machine=replace(BASE.machine, t=2, rows_per_cycle=2, lanes={}))


def made(folder: Path, simulator: str, **variables: str) -> tuple[int, str]:
    """Exit status and output of a bench's Makefile, without Penstock."""
    none = folder / "none"
    none.mkdir(exist_ok=True)
    (none / "penstock.py").write_text("raise ImportError('no Penstock here')\n")
    tools = [Path(sys.executable).parent, Path(toolchain.verilator_command()).parent]
    path = os.pathsep.join([*map(str, tools), os.environ["PATH"]])
    env = {"PATH": path, "PYTHONPATH": str(none), "HOME": str(folder), **variables}
    command = ["make", f"SIM={simulator}"]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=900
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.deep)])
def test_an_exported_bench_passes_and_names_a_beat_that_differs(simulator, tmp_path):
    if simulator == "icarus" and not shutil.which("iverilog"):
        pytest.skip("no Icarus Verilog")
    penstock.verilog(TOP2, CONFIG, SIZE, out=tmp_path, bench=True)
    status, text = made(tmp_path, simulator)
    assert status == 0 and "PASS=1 FAIL=0" in text, text[-2000:]
    table, *_ = sorted((tmp_path / "expected").glob("*matmul_product*.csv"))
    lines = table.read_text().splitlines()
    digit = f"{int(lines[2][-1], 16) ^ 1:x}"
    table.write_text("\n".join([*lines[:2], lines[2][:-1] + digit, *lines[3:]]) + "\n")
    status, text = made(tmp_path, simulator)
    assert status != 0 and "beat 1, accepted in cycle" in text, text[-2000:]
    assert "elements[0][0] model" in text
    status, text = made(tmp_path, simulator, PORTS_ONLY="1")
    assert status == 0 and "PASS=1 FAIL=0" in text, text[-2000:]


def test_a_bench_of_too_many_beats_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(leaving, "MOST_BEATS", 100)
    with pytest.raises(PenstockError, match=r"a bench would have .* beats and lines"):
        penstock.verilog(TOP2, CONFIG, SIZE, out=tmp_path / "out", bench=True)
    assert not (tmp_path / "out").exists()


FEW = {"rows": 3, "dim": 8, "out": 8, "tiles": 2}
WIDE = {"batch": 16, "dim": 16, "inter": 16, "tile_b": 16, "tile_inter": 16}


@pytest.mark.parametrize(
    ("program", "config", "size"),
    [
        (STREAMED, CONFIG, {}),
        pytest.param("simple_moe", BASE, FEW, marks=pytest.mark.deep),
        *(pytest.param("swiglu", load(m), WIDE, marks=pytest.mark.deep) for m in MACHINES),
    ],
)
def test_a_bench_passes(program, config, size, tmp_path):
    if not shutil.which("iverilog"):
        pytest.skip("no Icarus Verilog")
    penstock.verilog(program, config, size, out=tmp_path, bench=True)
    status, text = made(tmp_path, "icarus")
    assert status == 0 and "PASS=1 FAIL=0" in text, text[-2000:]


@pytest.mark.deep
def test_a_bench_of_an_array_passes_and_names_a_line_that_differs(tmp_path):
    if not shutil.which("iverilog"):
        pytest.skip("no Icarus Verilog")
    size = {"batch": 4, "dim": 4, "inter": 4, "tile_b": 2, "tile_inter": 2}
    placed = place("swiglu", "array_tiny", size)
    array_rtl.verilog("array_tiny", out=tmp_path, bench=placed)
    status, text = made(tmp_path, "icarus")
    assert status == 0 and "PASS=1 FAIL=0" in text, text[-2000:]
    lines = tmp_path / "expected" / "memory.csv"
    head, first, *rest = lines.read_text().splitlines()
    cycle, _, more = first.partition(",")
    lines.write_text("\n".join([head, f"{int(cycle) + 1},{more}", *rest]) + "\n")
    status, text = made(tmp_path, "icarus")
    assert status != 0 and "memory line 0" in text, text[-2000:]


@pytest.mark.parametrize(
    "kind",
    [
        ["--pe", "static"],
        pytest.param(["--pe", "dynamic"], marks=pytest.mark.deep),
        pytest.param(["--network", "hoplite", "--local", "forward"], marks=pytest.mark.deep),
    ],
    ids=" ".join,
)
def test_a_bench_of_an_overlay_passes_and_names_a_move_that_differs(kind, tmp_path):
    if not shutil.which("iverilog"):
        pytest.skip("no Icarus Verilog")
    words = ["overlay", "verilog", "device:diode", "--mesh", "2x2", "--bench", "--quiet"]
    assert cli.main([*words, *kind, "--out", str(tmp_path)]) == 0
    status, text = made(tmp_path, "icarus")
    assert status == 0 and "PASS=1 FAIL=0" in text, text[-2000:]
    for end in (" write", "_o"):
        table = tmp_path / "expected" / "moves.csv"
        good = table.read_text()
        row = next(line for line in good.splitlines() if f"{end}," in line)
        digit = f"{int(row[-1], 16) ^ 1:x}"
        table.write_text(good.replace(row, row[:-1] + digit))
        cycle, where, _ = row.split(",")
        status, text = made(tmp_path, "icarus")
        assert status != 0 and f"{where}, cycle {cycle}: model " in text, text[-2000:]
        table.write_text(good)
    status, text = made(tmp_path, "icarus", PORTS_ONLY="1")
    assert status == 0 and "PASS=1 FAIL=0" in text, text[-2000:]
