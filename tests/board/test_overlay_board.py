"""An overlay on a board in simulation, line and all."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hardware import mesh
from penstock.board import simulator
from penstock.board.device import Device
from penstock.board.link import Link, open_line
from penstock.cli import main
from penstock.machine.errors import RunError
from penstock.overlay.core.config import Overlay
from penstock.overlay.graphs.source import graph_from
from penstock.overlay.runs import board as boards
from penstock.scheduler.token import map_graph
from penstock.tb.program import Verilated

GRAPH = """
graph sums
a = input 1.5
b = input -2.0
c = mul a b
d = add c a
e = sub d c
output e = e
"""
SMALL = Overlay(rows=1, cols=2, kinds="specialised")
AS_BUILT = replace(mesh(2), rows=1)
"""The mesh of the measured bitstreams, made smaller."""
WIDE = Overlay(rows=1, cols=2, kinds="specialised", pe="static", format="fp64")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "sums.dfg"
    path.write_text(GRAPH)
    return str(path)


@pytest.mark.parametrize(
    "overlay",
    [SMALL, *(pytest.param(overlay, marks=pytest.mark.deep) for overlay in (AS_BUILT, WIDE))],
    ids=lambda o: f"{o.pe} {o.alu} {o.format}",
)
def test_a_run_equals_the_models(graph, overlay):
    found = boards.run(graph, overlay, on="both")
    assert found.cycles == found.model_cycles > 0
    format_ = np.float32 if overlay.format == "fp32" else np.float64
    bits = found.values.astype(np.uint32 if overlay.format == "fp32" else np.uint64)
    assert list(bits.view(format_)) == [1.5, -2.0, -3.0, -1.5, 1.5]


def test_a_simulator_that_is_built_is_the_one_that_runs(graph, tmp_path, monkeypatch, capsys):
    words = [graph, "--mesh", "1x2", "--kinds", "specialised", "--board", "sim", "--quiet"]
    assert main(["overlay", "build", *words, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"wrote {tmp_path / 'sim'}"
    monkeypatch.setattr(Verilated, "compile", lambda *_: pytest.fail("built again"))
    assert main(["overlay", "run", *words, "--on", "both"]) == 0
    with simulator.simulation(tmp_path / "sim") as board:
        assert Path(board.path).exists()


def test_a_bitstream_needs_a_folder(graph, capsys):
    assert main(["overlay", "build", graph, "--board", "ulx3s"]) != 0
    assert "give it with --out" in capsys.readouterr().err


def test_a_difference_from_the_model_is_reported(graph):
    image = map_graph(graph_from(graph), SMALL, 0).image
    outcome = boards.model.simulate(image)
    values = boards.model.values(image, outcome)
    assert boards._compare("sums", image, outcome.cycles, values, "sim") == outcome.cycles
    with pytest.raises(RunError, match=r"1 of 5 values"):
        boards._compare("sums", image, outcome.cycles, values ^ (np.arange(5) == 3), "sim")
    with pytest.raises(RunError, match=rf"the model's {outcome.cycles}; 0 of 5"):
        boards._compare("sums", image, outcome.cycles + 1, values, "sim")


def test_a_reset_in_mid_load_is_loaded_again_and_runs(graph, monkeypatch):
    monkeypatch.setattr(boards, "LOOK_EVERY", 1)
    image = map_graph(graph_from(graph), SMALL, 0).image
    design = boards.overlay_design(image, divisor=simulator.DIVISOR)
    with simulator.simulation(simulator.build(design)) as board:
        with contextlib.closing(open_line(board.path, 115_200)) as line:
            device = Device(Link(line, board.path, 115_200, 2.0), design.number)
            fills = []

            def fill():
                fills.append(len(fills))
                boards._fill(device, image)
                if len(fills) == 1:
                    board.reset()

            assert device.filled(fill).reloads == 1
            cycles = [device.run(0, 30.0).cycles for _ in range(2)]
            values = boards._values(device, image)
    assert boards._compare("sums", image, cycles[0], values, "sim") == cycles[1]
