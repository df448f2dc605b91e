"""Layers of transformers and others, as torch.export writes them: imported, and run."""

import os
import re
from pathlib import Path

import pytest
from penstock.cli import main

pytestmark = pytest.mark.data

ARCHIVES = (
    "llama_decode",
    "llama_prefill",
    "llama_prefill_bf16",
    "qwen2_bias_decode",
    "routed_experts",
    "mixtral_prefill",
    "qwen3_moe_decode",
)


@pytest.fixture
def models():
    return Path(os.environ["PENSTOCK_DATA"]) / "models"


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_layer_of_an_archive_is_right_on_the_model(name, models, tmp_path, capsys):
    layer = tmp_path / "layer.py"
    assert main(["import", str(models / f"{name}.pt2"), "--out", str(tmp_path / "layer")]) == 0
    arrays = str(models / f"{name}.npz")
    assert main(["run", str(layer), "--inputs", arrays, "--expect", arrays, "--quiet"]) == 0
    assert re.search("values right +yes", capsys.readouterr().out)
