"""Tiling and lowering: unit graphs mean what their programs mean, stop for stop and bit for bit."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from penstock import model
from penstock.frontend import *
from penstock.machine.config import load
from penstock.machine.unitgraph import UnitGraph, validate
from penstock.runs.expected import evaluate

FIG8 = load("fig8")
SMALL = load("small_fpga")
FP32 = replace(SMALL, machine=replace(SMALL.machine, dtype="fp32"))
POINTS = [(b, i) for b in (16, 32, 64) for i in (16, 32, 64, 128, 256)]
GOLDEN = Path(__file__).with_name("golden")


def check(program_graph, config=FP32, tensors=None, seed=0):
    """The unit graph stores what the program's NumPy meaning says."""
    rng = np.random.default_rng(seed)
    tensors = tensors or {
        t.name: rng.standard_normal((t.rows, t.cols)).astype(np.float32)
        for t in program_graph.tensors.values()
        if t.role == "input"
    }
    units = lower(program_graph, config)
    validate(units)
    assert UnitGraph.from_dict(units.to_dict()) == units
    got = model.run(units, config, tensors).outputs
    want = evaluate(program_graph, tensors, config.machine.t)
    assert got.keys() == want.keys()
    for name, values in want.items():
        ours = got[name].astype(np.float32)
        assert ours.tobytes() == values.astype(np.float32).tobytes(), name
    return units


def golden(name: str, text: str):
    path = GOLDEN / name
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; PENSTOCK_UPDATE_GOLDEN=1 rewrites it"


def test_printed_unit_graph_of_a_small_swiglu():
    program = build("swiglu", dict(batch=8, dim=8, inter=16, tile_b=4, tile_inter=8), SMALL)
    golden(
        "swiglu_small_fpga.txt",
        f"{lower(program.graph, SMALL)}\nports {lower(program.graph, SMALL).ports}\n",
    )
    golden("swiglu_stepsim.txt", f"{lower(program.graph, SMALL, 'stepsim')}\n")


def test_figure_8_has_one_structure():
    structures = [
        lower(build("swiglu", dict(tile_b=b, tile_inter=i), FIG8).graph, FIG8).structure()
        for b, i in POINTS
    ]
    assert all(s == structures[0] for s in structures)


def test_ports_are_in_order_of_need():
    units = lower(build("swiglu", {}, FIG8).graph, FIG8)
    assert [units.units[p].kind.tensor for p in units.ports] == ["y", "x", "gate", "up", "down"]


def tiles(g, name, rows, cols, tile, shape=None, stride=None):
    return LinearOffChipLoad(g.input(name, (rows, cols)), tile=tile, shape=shape, stride=stride)


def test_buffers_with_several_readers():
    g = Graph()
    s = tiles(g, "a", 12, 5, (3, 5), (2, 2), (2, 1))  # [1, 2, 2]
    buffers = Bufferize(s, rank=1)
    once = Streamify(buffers)
    thrice = Streamify(buffers, repeat=3)
    LinearOffChipStore(Map(once, fn=exp()), g.output("y", (12, 5)))
    LinearOffChipStore(Accum(thrice, fn=add(), rank=2), g.output("z", (6, 5)))
    units = check(g)
    pads = [u for u in units.units if u.kind.name == "scratchpad"]
    assert len(pads) == 1 and pads[0].kind.repeat == [0, 3]
    assert [u.kind.scratchpad for u in units.units if u.kind.name == "broadcast"] == [pads[0].id]


def test_asserted_shapes_reach_the_run():
    g = Graph()
    s = tiles(g, "a", 8, 8, (4, 4))
    s.stream.assert_shape([1, 2, 2])
    LinearOffChipStore(s, g.output("y", (8, 8)))
    units = lower(g, FP32)
    (a,) = units.meta["asserted"]
    assert (a["stream"], a["shape"], a["inner"]) == ("LinearOffChipLoad", [1, 2, 2], 2)
    assert units.channels[a["channel"]].src == (0, 0)


def test_tiles_in_a_listed_order_with_listed_repeats():
    # Tiles of x, in an order with a repeat and one outside, each read as often as listed; stored
    # back to front.
    from penstock.frontend.show.text import read_graph

    g = Graph("listed")
    x = g.input("x", (10, 40), "fp32")
    y = g.output("y", (12, 40), "fp32")
    order = [(0, 0), (4, 20), (4, 20), (12, 0), (8, 0)]
    tiles = LinearOffChipLoad(x, tile=(4, 20), order=order)
    use = Streamify(Bufferize(tiles, rank=0), repeat=[1, 2, 1, 1, 1])
    once = LinearOffChipLoad(x, tile=(4, 20), order=[order[i] for i in (0, 1, 1, 2, 3, 4)])
    places = [(8, 20), (8, 0), (4, 20), (0, 20), (4, 0), (0, 0)]
    LinearOffChipStore(Map(use, once, fn=add()), y, order=places)
    assert str(read_graph(str(g))) == str(g)
    values = {"x": np.random.default_rng(0).standard_normal((10, 40)).astype(np.float32)}
    run = model.run(lower(g, FP32), FP32, values)
    want = np.zeros((12, 40), np.float32)
    for (r, c), (i, j) in zip([order[k] for k in (0, 1, 1, 2, 3, 4)], places, strict=True):
        tile = np.zeros((4, 20), np.float32)
        part = values["x"][r : r + 4, c : c + 20]
        tile[: part.shape[0], : part.shape[1]] = part
        want[i : i + 4, j : j + 20] = 2 * tile
    assert np.array_equal(run.outputs["y"], evaluate(g, values, 4)["y"]) and np.array_equal(
        run.outputs["y"], want
    )
    assert run.cycles > 6 * 5 * 2.5  # 6 tiles of 5 physical tiles, 2.5 cycles each


def test_a_listed_store_visits_every_tile_once():
    g = Graph("twice")
    x = g.input("x", (8, 4), "fp32")
    y = g.output("y", (8, 4), "fp32")
    tiles = LinearOffChipLoad(x, tile=(4, 4), order=[(0, 0), (4, 0)])
    with pytest.raises(ProgramError, match="each of the 2 tiles of tensor y once"):
        LinearOffChipStore(tiles, y, order=[(0, 0), (0, 0)])
