"""What a preset says of its size is what the record says."""

import tomllib
from pathlib import Path

import pytest
import synthesis_report
from amaranth.hdl import Fragment
from made import clocks, synthesis
from penstock.hw.parts import Part
from penstock.hw.synthesis import Cells
from penstock.machine.functions import FUNCTIONS
from penstock.machine.kinds import KINDS

ROOT = Path(synthesis_report.__file__).parents[1]
PRESET = ROOT / "sim_configs" / "small_fpga.toml"
OF_ARRAYS = {"hop"}
"""Kinds that no dedicated fabric has."""


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
    """A load with its ring, of which the interconnect has four, a
    store, and the fabric.
    """
    rows = {row["name"]: row for row in synthesis_report.RECORD.rows("lean ") if row["t"] == 2}
    load, rings, store = (rows[name] for name in ("load", "interconnect", "store"))
    assert load["lut"] + rings["lut"] / 4 <= 3_500
    assert load["bram"] + rings["bram"] / 4 <= 4
    assert store["lut"] <= 3_000
    assert rows["fabric of swiglu"]["lut"] <= 0.65 * synthesis_report.DEVICE["LUT"]


def missing(names):
    """Kinds, and functions of `map`, that are not among names."""
    kinds = {name.partition(" ")[0] for name in names}
    functions = {f"map {fn}" for fn in FUNCTIONS}
    return [*sorted(KINDS.keys() - OF_ARRAYS - kinds), *sorted(functions - set(names))]


@pytest.mark.parametrize("t", synthesis.EDGES)
def test_every_kind_and_function_is_synthesised(t):
    names = {
        about["name"]
        for _, about in synthesis.MADE.values()
        if about["group"] == "unit"
        if about["t"] == t
    }
    assert not missing(names)


@pytest.mark.parametrize("speed", [clocks.SLOW, clocks.FAST])
def test_every_kind_and_function_has_a_clock(speed):
    names = {
        case.name
        for case in clocks.CASES.values()
        if case.machine == clocks.LEAN
        if case.speed == speed
    }
    assert not missing(names)


def test_a_kind_without_a_case_is_told():
    functions = FUNCTIONS.keys() - {"max"}
    names = {f"map {fn}" for fn in functions}
    names |= KINDS.keys() - {"expand", "map"}
    assert missing(names) == ["expand", "map max"]


@pytest.mark.parametrize("name", synthesis.ALONE)
def test_a_unit_that_is_made_by_itself_is_of_its_machine(name):
    made = clocks.made(clocks.CASES[f"{name} on lean_fpga"])
    Fragment.get(made, None)
    assert (made.t, made.kind) == (2, name.split()[0])


def test_a_fabric_is_beside_its_aim_at_both_grades(monkeypatch):
    row = {
        "name": clocks.FABRIC,
        "program": "swiglu",
        "machine": clocks.LEAN,
        "pipelines": "deep",
        "speed": "6",
        "seeds": "1: 50",
    }
    rows = [
        row | {"mhz": 50.0},
        row | {"mhz": 70.0, "speed": "8", "seeds": "1: 60, 2: 70"},
        row | {"mhz": 65.0, "bare": True},
        row | {"mhz": 1.0, "program": "simple_moe"},
        row | {"mhz": 66.4, "program": "", "name": "map max"},
    ]
    kind = type(clocks.RECORD)
    monkeypatch.setattr(kind, "rows", lambda self, begin="": rows)
    _, _, *table = synthesis_report.fabric_clocks().splitlines()
    assert table == [
        "| `fabric` | 60 | 50.0 | 70.0 | 1: 50 | 1: 60, 2: 70 |",
        "| `fabric`, without counters and registers | 60 | 65.0 |  | 1: 50 |  |",
    ]
    *_, units, below = synthesis_report.missed().splitlines()
    assert units == "* Below 80 MHz: `map max` 66.4 MHz."
    assert below == "* Below 60 MHz: `fabric` (swiglu) 50.0 MHz."
