"""The timing `stepsim` was called `published`: what was written by that name is read on."""

import dataclasses
import json

import pytest
from penstock.cli import main
from penstock.machine import record
from penstock.machine.config import from_dict, load, to_dict
from penstock.machine.errors import ConfigError

SMALL = load("small_fpga")


def test_a_table_of_a_configuration():
    stored = to_dict(SMALL)
    del stored["name"]
    stored["published"] = stored.pop("stepsim")
    assert from_dict(stored, SMALL.name) == SMALL
    with pytest.raises(ConfigError, match=r"\[stepsim\] and \[published\]; keep \[stepsim\]"):
        from_dict(stored | {"stepsim": {}}, "both")


def test_a_run_and_its_record(tmp_path, capsys):
    sizes = dict(tile_b=2, tile_inter=4)
    sizes = [x for k, v in sizes.items() for x in ("--set", f"{k}={v}")]
    out = tmp_path / "new.json"
    run = ["run", "swiglu", "--config", "small_fpga", *sizes, "--no-values", "--json", str(out)]
    assert main([*run, "--timing", "published"]) == 0
    (new,) = record.load(out)
    assert new.timing == "stepsim" and "stepsim" in capsys.readouterr().out
    old = dataclasses.asdict(new) | {"timing": "published"}
    (tmp_path / "old.json").write_text(json.dumps([old]))
    assert record.load(tmp_path / "old.json") == [new]
