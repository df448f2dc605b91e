"""The designs of `penstock regress` in the forms of a machine."""

import pytest
from penstock.cli import main
from penstock.machine.errors import RunError
from penstock.machine.forms import FORMS
from penstock.runs import array_rtl, regress

SMALL = [d for d in regress.DESIGNS if not d.deep]
BOTH = FORMS[-1]


def test_a_design_has_the_form_that_is_asked_for():
    narrow = next(d for d in SMALL if d.name == "swiglu small_fpga narrow")
    machines = {form: narrow.machine(form).machine for form in FORMS}
    assert {form for form, m in machines.items() if m.deep} == {"deep", BOTH}
    assert {form for form, m in machines.items() if m.dram.line_bytes < 64} == {"lean", BOTH}
    assert {m.rows_per_cycle for m in machines.values()} == {2}
    assert len({narrow.machine(form).name for form in FORMS}) == len(FORMS)


def test_an_array_has_the_form_that_it_has(capsys):
    assert main(["regress", "--array", "array_tiny", "--form", "lean"]) == 1
    assert "--form: is for fabrics of their own" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("WAVES", "1", "WAVES: is for fabrics of their own"),
        ("COCOTB_RANDOM_SEED", "abc", "COCOTB_RANDOM_SEED='abc' is not understood"),
        ("COCOTB_TESTCASE", "nobody", "no design has the name that was asked"),
    ],
)
def test_variables_of_cocotb_are_read_for_an_array(name, text, message, monkeypatch, capsys):
    monkeypatch.setenv(name, text)
    assert main(["regress", "--array", "array_tiny"]) == 1
    assert message in capsys.readouterr().err


def test_runs_on_an_array_have_the_seed_that_is_asked_for_and_are_judged(monkeypatch):
    monkeypatch.setenv("RANDOM_SEED", "7")
    given = {}

    def outcomes(placed, **options):
        given.update(options, seeds={x.point.seed for x in placed})
        return [(None, None, RunError("not run")) for _ in placed]

    monkeypatch.setattr(array_rtl, "outcomes", outcomes)
    small = {"batch": 4, "dim": 4, "inter": 4, "tile_b": 4, "tile_inter": 4}
    regress.run_on_array("array_tiny", designs=(regress.Design("one", "small_fpga", (small,)),))
    assert given["seeds"] == {7} and given["judge"]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("design", "form"),
    [(d, f) for d in SMALL for f in FORMS[1:] if f == BOTH or d.program == "operators"],
    ids=lambda given: getattr(given, "name", given),
)
def test_a_design_in_another_form_on_rtl(design, form):
    _, rows = regress.run(designs=(design,), form=form)
    assert all("failed" not in row and not row["differ"] for row in rows)
    assert rows[-1]["cycles RTL"] == rows[-1]["cycles model"]
