"""`penstock synth`: what parts cost, and what it refuses."""

import json

import pytest
from penstock.cli import main

SWIGLU = ["synth", "swiglu", "--config", "small_fpga", "--quiet"]


def test_a_part_of_a_program_and_its_cost(tmp_path, capsys):
    out = tmp_path / "parts.json"
    assert main([*SWIGLU, "--only", "broadcast", "--json", str(out)]) == 0
    (part,) = json.loads(out.read_text())["parts"]
    assert (part["part"], part["count"], part["units"]) == ("broadcast", 1, "x.broadcast")
    assert part["lut"] > 0 and part["ff"] == part["bram"] == part["dsp"] == 0
    assert "x.broadcast" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, message",
    [
        (["--only", "nothing"], "no part's name contains 'nothing'; parts: load, broadcast, "),
        (["--family", "ice40"], "unknown FPGA family 'ice40'; use one of xc7, ecp5"),
    ],
)
def test_what_cannot_be_synthesised_is_one_message(words, message, tmp_path, capsys):
    out = tmp_path / "parts.json"
    assert main([*SWIGLU, *words, "--json", str(out)]) == 1
    assert capsys.readouterr().err.startswith(f"penstock: {message}")
    assert not out.exists()
