"""Traffic by tensor and in lines, as formulas and of a run."""

import re

import penstock
import pytest
from penstock import cli
from penstock.frontend import build
from penstock.machine.config import load

SMALL = load("small_fpga")


@pytest.mark.parametrize(
    "program, params",
    [("swiglu", {}), ("swiglu", {"dim": 10, "inter": 12, "tile_inter": 6}), ("simple_moe", {})],
)
def test_lines_of_the_formulas_are_those_that_a_run_moves(program, params):
    built = build(program, params, SMALL)
    lines = built.analysis("published", SMALL).lines
    (record,) = penstock.run(program, SMALL, params)
    if lines.value is not None:
        assert lines.value * SMALL.machine.dram.line_bytes == record.dram_bytes
    moved = {t["name"]: t["read_bytes"] + t["written_bytes"] for t in record.tensors}
    assert sum(moved.values()) == record.dram_bytes and all(moved.values())
    assert sum(t["offchip_bytes"] for t in record.tensors) == record.offchip_bytes
    assert {t["name"] for t in record.tensors if t["written_bytes"]} == {"y"}


NARROW = """
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore

def program(n=64):
    g = Graph("narrow")  # a row of 4 B lies in a line of its own
    x, y = g.input("x", (n, 2), "bf16"), g.output("y", (n, 2), "bf16")
    LinearOffChipStore(LinearOffChipLoad(x, tile=(1, 2)), y)
    return g
"""


def test_the_bound_by_lines_counts_lines(tmp_path, capsys):
    program = tmp_path / "narrow.py"
    program.write_text(NARROW)
    assert cli.main(["show", str(program), "--config", "small_fpga", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"off-chip lines of 64 B: +128\n", shown)
    assert "traffic of y: 256 B, 64 lines" in shown
    (record,) = penstock.run(str(program), "small_fpga")
    least = int(re.search(r"cycles at least: (\d+), by", shown)[1])
    assert record.bound_cycles == least <= record.cycles < 1.1 * least


def test_ragged_sizes_are_said_to_be_means(capsys):
    words = ["attention", "--config", "small_fpga", "--quiet"]
    assert cli.main(["show", *words]) == 0
    assert "ragged, each the mean over its groups: " in capsys.readouterr().out
    assert cli.main(["run", *words]) == 0
    assert "lines moved by tensor, B: " in capsys.readouterr().out
