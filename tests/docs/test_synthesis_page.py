"""What a preset says of its size is what the record says."""

import tomllib
from pathlib import Path

import pytest
import synthesis_report
from made import synthesis
from penstock.hw.parts import Part
from penstock.hw.synthesis import Cells

ROOT = Path(synthesis_report.__file__).parents[1]
PRESET = ROOT / "sim_configs" / "small_fpga.toml"


def described() -> str:
    return tomllib.loads(PRESET.read_text())["description"]


def test_the_smallest_machine_says_what_it_takes():
    assert described() == synthesis_report.description()


def test_a_description_that_is_not_of_the_record_is_seen(monkeypatch):
    monkeypatch.setitem(synthesis_report.DEVICE, "LUT", 1)
    assert described() != synthesis_report.description()


def test_units_that_are_not_synthesised_are_told(monkeypatch):
    rows = [row for row in synthesis_report.RECORD.rows("unit ") if row["name"] != "store"]
    monkeypatch.setattr(
        type(synthesis_report.RECORD),
        "rows",
        lambda self, begin="": rows if begin != "fabric" else [],
    )
    taken, missing = synthesis_report.alone(2, "LUT")
    assert missing == ["store"]
    costs = {row["name"]: row["lut"] for row in rows if row["t"] == 2}
    counted = synthesis_report.parts(2)
    assert taken == sum(costs.get(name, 0) * n for name, n in counted.items())
    assert "without store, take" in synthesis_report.fit()
    with pytest.raises(KeyError):
        synthesis_report.alone(2, "gates")


def test_a_fabric_that_is_made_by_parts_is_told_as_such(monkeypatch):
    row = synthesis_report.whole(2)
    assert row
    own = row | {"t": 4, "group": synthesis.BY_PARTS}
    rows = {"fabric": [own, row]}
    kind = type(synthesis_report.RECORD)
    monkeypatch.setattr(kind, "rows", lambda self, begin="": rows[begin])
    _, _, *table = synthesis_report.fabrics().splitlines()
    assert ["as a whole" in line for line in table] == [True, False]
    assert ["part by part" in line for line in table] == [False, True]
    whole, parts = synthesis_report.fit().splitlines()
    assert "the fabric takes" in whole and "the parts of the fabric" in parts


def test_a_fabric_by_parts_has_each_part_as_often_as_it_has_units(monkeypatch):
    made = [Part("load", ["a", "b", "c"], lambda: 100), Part("store", ["d"], lambda: 7)]
    monkeypatch.setattr(synthesis, "parts", lambda _: made)
    monkeypatch.setattr(synthesis, "synthesise", lambda n, _: Cells({"LUT4": n}, str(n)))
    assert synthesis.by_parts(None).cells == {"LUT4": 307}


def test_the_lean_memory_side_is_small():
    """A load with its ring, of which the interconnect has four, a store, and the fabric."""
    rows = {row["name"]: row for row in synthesis_report.RECORD.rows("lean ")}
    load, rings, store = (rows[name] for name in ("load", "interconnect", "store"))
    assert load["lut"] + rings["lut"] / 4 <= 3_500
    assert load["bram"] + rings["bram"] / 4 <= 4
    assert store["lut"] <= 3_000
    assert rows["fabric of swiglu"]["lut"] <= 0.65 * synthesis_report.DEVICE["LUT"]
