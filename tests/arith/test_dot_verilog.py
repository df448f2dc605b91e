"""The dot products of exported Verilog are proved equal to their Amaranth description."""

import pytest
from amaranth.back import rtlil
from penstock.hw.arith.dot import Dot
from penstock.hw.export import directed, export
from penstock.hw.export.rewrite import with_functions
from penstock.hw.yosys import yosys


def exported(t, dtype, name):
    return export(Dot(t=t, dtype=dtype), name, prefix=name).verilog


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
