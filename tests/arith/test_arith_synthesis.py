"""Every arithmetic block goes through Yosys synthesis and comes out as gates and flip-flops."""

import json

import pytest
from amaranth.back import rtlil
from penstock.hw import functions
from penstock.hw.arith.add import Add
from penstock.hw.arith.div import DigitDiv
from penstock.hw.arith.dot import Dot
from penstock.hw.arith.format import FP64
from penstock.hw.arith.log import Log
from penstock.hw.arith.mul import Mul
from penstock.hw.arith.sqrt import Sqrt
from penstock.hw.yosys import yosys

BLOCKS = {
    **functions.DATAPATHS,
    **{f"dot4_{dtype}": (lambda dtype=dtype: Dot(t=4, dtype=dtype)) for dtype in ("bf16", "fp32")},
    "log": Log,
    "sqrt": Sqrt,
    "log_unpipelined": lambda: Log(pipelined=False),
    **{
        f"{lane.__name__.lower()}_fp64": (lambda lane=lane: lane(form=FP64, pipelined=True))
        for lane in (Add, Mul, DigitDiv)
    },
}


QUICK = ("add", "dot4_bf16", "log_unpipelined")
"""Blocks of each way of building: a lane, a tree of lanes, and one that is used again and again."""


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.deep) for name in BLOCKS],
)
def test_synthesises(name, tmp_path):
    (tmp_path / "in.il").write_text(rtlil.convert(BLOCKS[name](), name="block", emit_src=False))
    done = yosys(
        "read_rtlil in.il; synth -noabc -flatten -top block; delete t:$scopeinfo; check -assert; "
        "tee -q -o stat.json stat -json",
        tmp_path,
    )
    assert not done.returncode, done.stdout + done.stderr
    cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
    assert all(cell.startswith("$_") for cell in cells)
    assert not any("LATCH" in cell for cell in cells)
