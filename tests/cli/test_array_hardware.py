"""`penstock array map --image` and `dump`, and what they refuse."""

import pytest
from penstock.cli import main


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


def test_an_image_of_another_array_is_refused(image, capsys):
    assert main(["array", "dump", str(image), "--array", "array_small"]) == 1
    assert "is of another array" in capsys.readouterr().err


def test_a_cut_image_is_refused(image, tmp_path, capsys):
    path = tmp_path / "cut"
    path.write_bytes(image.read_bytes()[:-4])
    assert main(["array", "dump", str(path), "--array", "array_tiny"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "bytes, and its head says" in told


def test_a_configuration_without_an_array_is_refused(image, capsys):
    assert main(["array", "dump", str(image), "--array", "small_fpga"]) == 1
    assert "has no table [array]" in capsys.readouterr().err
