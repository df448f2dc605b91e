"""`penstock array`: what it prints, draws and refuses."""

import json

import pytest
from penstock.cli import main

pytestmark = pytest.mark.xdist_group("array")  # compiles once
AROUND = 4
"""Words of an image's file around those that are loaded: head and checksum."""
TINY_MOE = [f"--set={x}" for x in ("dim=4", "out=4", "tiles=1", "dtype=bf16")]
SWIGLU = ["swiglu", "--array", "array_tiny", "--quiet"]


def test_map_reports_and_writes_the_placement(capsys, tmp_path):
    out = tmp_path / "a.json"
    assert main(["array", "map", *SWIGLU, "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("swiglu on array_tiny: 22 units in 25 slots of 2 x 4 sites")
    assert "3 feedback loops, 0 of them through switches" in text
    written = json.loads(out.read_text())
    assert len(written["placement"]["slots"]) == len(written["program"]["units"])


def test_an_image_loads_in_a_cycle_a_word(capsys, tmp_path):
    out = tmp_path / "a.image"
    assert main(["array", "map", *SWIGLU, "--image", str(out)]) == 0
    words = (len(out.read_bytes()) - 4 * AROUND) // 4
    text = capsys.readouterr().out
    assert f"an image of {words:,} words, which load in as many cycles" in text


def test_show_draws_a_picture(tmp_path):
    out = tmp_path / "a.png"
    assert main(["array", "show", *SWIGLU, "--png", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_run_compares_with_the_programs_own_fabric(capsys):
    assert main(["array", "run", *SWIGLU]) == 0
    text = capsys.readouterr().out
    assert text.count("equal to NumPy's") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["swiglu", "--array", "small_fpga"], "has no table [array]"),
        (["simple_moe", "--array", "array_tiny", *TINY_MOE], "has no slot for"),
        (["swiglu", "--array", "array_none"], "no configuration named 'array_none'"),
        ([*SWIGLU, "--effort", "-1"], "effort must be"),
    ],
)
def test_bad_input_is_one_message(words, said, capsys):
    assert main(["array", "map", *words, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "swiglu.image"
    assert main(["array", "map", "swiglu", "--array", "array_tiny", "--image", str(path)]) == 0
    return path


def test_dump_explains_every_slot(image, capsys):
    assert main(["array", "dump", str(image), "--array", "array_tiny"]) == 0
    text = capsys.readouterr().out
    assert "matmul_1_0 at" in text
    assert "  count = 2" in text
    assert text.startswith("image of array_tiny: ")


def test_a_configuration_without_an_array_is_refused(image, capsys):
    assert main(["array", "dump", str(image), "--array", "small_fpga"]) == 1
    assert "has no table [array]" in capsys.readouterr().err
