"""`penstock demo` to its end."""

import json
import re

import pytest
from penstock import cli
from penstock.runs import api


@pytest.mark.xdist_group("rtl-small")
def test_the_demonstration_ends_with_all_that_it_shows(tmp_path, capsys):
    """A run on model and RTL that are equal in every beat, Verilog, a timeline, and figure 8."""
    out = tmp_path / "shown"
    assert cli.main(["demo", "--out", str(out), "--quiet"]) == 0
    printed = capsys.readouterr().out
    model, rtl = api.load_records(out / "demo.json")
    assert (model.backend, rtl.backend) == ("model", "rtl") and model.cycles == rtl.cycles
    assert rtl.values_ok and rtl.mismatches == 0
    every = f"{rtl.channels_total}/{rtl.channels_total}"
    assert f"model = RTL: {every} channels observed, 0 mismatched beats" in printed
    assert re.findall(r"^(\d of \d)  .*\n +then: (.*)$", printed, re.MULTILINE) == [
        ("1 of 3", "export Verilog and timeline; figure 8 of the paper"),
        ("2 of 3", "figure 8 of the paper"),
        ("3 of 3", "nothing"),
    ]
    made = {path.name for path in out.iterdir()}
    verilog = {"penstock_fabric.v", "penstock_fabric.json"}
    assert made == {"demo.json", "timeline.json", "fig8.csv", "fig8.png", *verilog}
    assert "\nmodule penstock_fabric(" in (out / "penstock_fabric.v").read_text()
    assert json.loads((out / "timeline.json").read_text())
    assert (out / "fig8.csv").read_text().count("\n") == 16
    assert all(str(out / name) in printed for name in made)
