"""The rewriting of choices in exported Verilog changes no value: proved by Yosys."""

import pytest
from amaranth.hdl import unsigned
from penstock.hw import export
from penstock.hw.export.rewrite import with_bits, with_cases
from penstock.hw.noc.switch import Select
from penstock.hw.yosys import yosys

INPUTS = 5
PROOF = (
    "read_verilog gold.v; read_verilog gate.v; proc; "
    "miter -equiv -flatten gold gate miter; sat -verify -prove trigger 0 miter"
)


@pytest.fixture(scope="module")
def written():
    """A choice as Yosys writes it."""
    rtlil = export.annotated_rtlil(Select(shape=unsigned(70), inputs=INPUTS), "gold")
    return export.verilog_of(rtlil)


def equal(gold, gate, folder):
    (folder / "gold.v").write_text(gold)
    (folder / "gate.v").write_text(gate.replace("module gold(", "module gate("))
    return yosys(PROOF, folder).returncode == 0


def test_a_choice_becomes_a_case_of_the_same_values(written, tmp_path):
    bits = with_bits(written)
    cases = with_cases(bits, ["gold"])
    assert "casez" in written
    assert "casez" not in bits
    assert "function" not in cases
    assert cases.count("o = i") == INPUTS
    assert equal(written, bits, tmp_path)
    assert equal(written, cases, tmp_path)


def test_values_that_are_exchanged_are_found(written, tmp_path):
    """A planted fault."""
    cases = with_cases(with_bits(written), ["gold"])
    wrong = cases.replace("o = i1;", "o = i2;", 1)
    assert wrong != cases
    assert not equal(written, wrong, tmp_path)
