"""Images of `penstock array map`, explained by `dump`."""

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


def test_a_configuration_without_an_array_is_refused(image, capsys):
    assert main(["array", "dump", str(image), "--array", "small_fpga"]) == 1
    assert "has no table [array]" in capsys.readouterr().err
