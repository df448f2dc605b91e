"""The dot products of exported Verilog: against the definition under Verilator, and against their
Amaranth description by proof.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from penstock.hw.arith.dot import Dot
from penstock.hw.export import directed, export
from penstock.hw.export.rewrite import with_functions
from penstock.hw.yosys import yosys
from penstock.machine import arith
from penstock.machine.functions import dot_stages
from penstock.tb.toolchain import verilator_command
from penstock.testing.arith_vectors import assert_same_bits, pairs


def exported(t, dtype, name):
    return export(Dot(t=t, dtype=dtype), name, prefix=name).verilog


TOP = """
module top(input clk, rst, en, input [48*{t}-1:0] a, b, output [31:0] fp32, bf16);
  dot_fp32 wide(.clk, .rst, .en, .a(a[0+:32*{t}]), .b_0(b[0+:32*{t}]), .o_0(fp32));
  dot_bf16 narrow(.clk, .rst, .en, .a(a[48*{t}-1:32*{t}]), .b_0(b[48*{t}-1:32*{t}]), .o_0(bf16));
endmodule
"""


def operands(rng, n, t):
    """Vectors of common numbers, one in five of corners, for else nearly every sum is NaN."""
    corners = rng.random((n, 1)) < 0.2
    return [
        np.where(
            corners, x.reshape(n, t), rng.standard_normal((n, t)).astype(np.float32).view(np.uint32)
        )
        for x in pairs(rng, n * t)
    ]


@pytest.mark.parametrize("t", [4, pytest.param(16, marks=pytest.mark.deep)])
def test_exported_dots_are_the_definition_in_every_bit(t, tmp_path):
    verilog = "".join(exported(t, dtype, f"dot_{dtype}") for dtype in ("fp32", "bf16"))
    assert verilog.count("_operator_fp32_add(") == 2 * (t - 1)
    (tmp_path / "top.sv").write_text(verilog + TOP.format(t=t))
    fast = os.environ.get("OPT_FAST", "-O1")
    environment = {
        **os.environ,
        "MAKEFLAGS": f"CFG_CXXFLAGS_PCH_I=-include OPT_FAST={fast} OPT_SLOW=-O0 OPT_GLOBAL=-O0",
    }
    subprocess.run(
        [
            verilator_command(),
            *"--cc --exe --build -j 2 -Wno-fatal -Wno-lint".split(),
            *"--top-module top --Mdir obj top.sv".split(),
            Path(__file__).resolve().with_name("dot.cpp"),
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        env=environment,
    )

    rng = np.random.default_rng(8)
    n = 1250 * t
    wide = operands(rng, n, t)
    narrow = [x & np.uint32(0xFFFF0000) for x in operands(rng, n, t)]
    words = [
        np.hstack([x, (y >> 16).astype(np.uint16).view(np.uint32)])
        for x, y in zip(wide, narrow, strict=True)
    ]
    gaps = np.where(rng.random(n) < 0.3, rng.integers(1, 7, n), 0)
    lines = "".join(
        f"{g:x} " + " ".join(f"{w:x}" for w in (*x, *y)) + "\n"
        for g, x, y in zip(gaps, *words, strict=True)
    )
    done = subprocess.run(
        [tmp_path / "obj" / "Vtop", str(words[0].shape[1]), str(dot_stages(t))],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    got = np.array(
        [[int(x, 16) for x in line.split()] for line in done.stdout.splitlines()], np.uint32
    )
    for results, (a, b) in zip(got.T, (wide, narrow), strict=True):
        assert_same_bits(
            results, arith.matmul(a.view(np.float32)[:, None, :], b.view(np.float32)[:, :, None])
        )


def test_an_operator_with_a_clock_is_no_function():
    verilog = export(Dot(t=2, dtype="fp32"), "dot").verilog
    with pytest.raises(ValueError, match="dot has more than declarations and assignments"):
        with_functions(verilog, ["dot"])


def differences(t, dtype, folder, change=lambda verilog: verilog):
    """Differences that Yosys finds between the export and the Amaranth description; empty if they
    are equal.
    """
    dot = Dot(t=t, dtype=dtype)
    (folder / "gold.il").write_text(
        rtlil.convert(dot, name="gold", ports=directed(dot), emit_src=False)
    )
    (folder / "gate.v").write_text(change(exported(t, dtype, "gate")))
    done = yosys(
        "read_rtlil gold.il; flatten; read_verilog gate.v; setattr -mod -unset top gold; proc; "
        "opt -full; wreduce; opt -full; opt_dff; opt_clean -purge; "
        "equiv_make gold gate equal; hierarchy -top equal; cd equal; opt_clean; equiv_struct; "
        "equiv_simple -undef; equiv_induct -undef; equiv_status -assert",
        folder,
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.deep
@pytest.mark.parametrize("t, dtype", [(2, "fp32"), (4, "bf16"), (4, "fp32")])
def test_exported_dot_is_proved_equal(t, dtype, tmp_path):
    assert not differences(t, dtype, tmp_path)


@pytest.mark.deep
def test_the_proof_sees_a_wrong_operator(tmp_path):
    shown = differences(2, "bf16", tmp_path, lambda verilog: verilog.replace("8'hff", "8'hfe", 1))
    assert "unproven $equiv cells" in shown
