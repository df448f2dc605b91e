"""Equality of the bench's simulated design with that of `penstock verilog`, module by module; the
top has probes besides.
"""

import re

import penstock
import pytest
from penstock.frontend import build, lower
from penstock.hw.yosys import yosys
from penstock.machine.config import load
from penstock.tb.design import BEGIN, design_of

pytestmark = pytest.mark.xdist_group("written")
CONFIG = load("small_fpga")
MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.M | re.S)


def modules(verilog):
    return {found[1]: found[0] for found in MODULE.finditer(verilog)}


def without_probes(text, folder):
    """The lines of a module without probes, and without what they alone read."""
    (folder / "in.v").write_text(text)
    done = yosys(
        "read_verilog in.v; "
        "delete t:penstock_probe t:penstock_post_probe t:penstock_fault_probe; "
        "proc; opt_clean -purge; "
        r"rename -hide w:\$* w:*$func$*; rename -enumerate -pattern net_% w:$*; "
        "rename -enumerate -pattern cell_% c:$*; write_verilog -noattr out.v",
        folder,
    )
    assert not done.returncode, done.stdout + done.stderr
    return sorted((folder / "out.v").read_text().splitlines())


@pytest.mark.parametrize("name", ["swiglu", pytest.param("simple_moe", marks=pytest.mark.deep)])
def test_modules_of_one_design_are_equal(name, written, tmp_path):
    folder, size = written(name)
    check_modules((folder / "penstock_fabric.v").read_text(), name, size, CONFIG, tmp_path)


@pytest.mark.deep
def test_modules_of_the_machine_of_figure_8_are_equal(tmp_path):
    """Tiles of 16 x 16."""
    config = load("fig8")
    penstock.verilog("swiglu", config, out=tmp_path)
    check_modules((tmp_path / "penstock_fabric.v").read_text(), "swiglu", {}, config, tmp_path)


def check_modules(verilog, name, size, config, tmp_path):
    design = design_of(lower(build(name, size, config).graph, config), config)
    exported = modules(verilog)
    (text,) = design.verilog.values()
    simulated = modules(text)
    tops = exported.pop(design.top), simulated.pop(design.top)
    assert exported == simulated and any(m.startswith("penstock_dot") for m in exported)
    assert "penstock_probe" in tops[1]
    first, second = (without_probes(BEGIN.sub(r"\1", top), tmp_path) for top in tops)
    assert first == second
