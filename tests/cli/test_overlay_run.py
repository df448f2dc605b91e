"""Output of `penstock overlay run` for a run on a board."""

import json

import numpy as np
import pytest
from penstock.board.device import Loaded
from penstock.cli import main
from penstock.overlay.commands.board import SHOWN
from penstock.overlay.graphs.source import graph_from
from penstock.overlay.runs import board as boards

CLEAN = Loaded(frames=0, reloads=0)
FORMATS = {"fp32": (np.float32, np.uint32), "fp64": (np.float64, np.uint64)}


@pytest.fixture
def graph(tmp_path):
    """A graph of more outputs than are printed: input k is k + 0.5."""
    lines = ["graph many"]
    lines += [f"x{k} = input {k}.5" for k in range(SHOWN + 2)]
    lines += [f"output y{k} = x{k}" for k in range(SHOWN + 2)]
    path = tmp_path / "many.dfg"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def ran(monkeypatch):
    """Stands in for the run: it reads back the words that are given."""

    def stands_in(words, loaded=CLEAN):
        def run(source, *_, **__):
            done = ("many", "2x2", "sim", 7, words, loaded)
            return boards.OverlayRun(*done, graph_from(source), 7)

        monkeypatch.setattr(boards, "run", run)

    return stands_in


@pytest.mark.parametrize("form", FORMATS)
def test_outputs_are_printed_by_name(graph, ran, capsys, tmp_path, form):
    numbers = np.arange(SHOWN + 2) + 0.5
    float_, word = FORMATS[form]
    words = numbers.astype(float_).view(word)
    ran(words.astype(np.uint64))
    out = tmp_path / "run.json"
    assert main(["overlay", "run", graph, "--format", form, "--json", str(out), "--quiet"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [
        "many on 2x2, board sim: 7 cycles",
        f"equal to the model: cycles, {SHOWN + 2} values",
    ]
    assert printed[2:-1] == [f"y{k} = {k}.5" for k in range(SHOWN)]
    assert printed[-1] == "... and 2 more outputs; --json OUT has all"
    record = json.loads(out.read_text())
    assert record["outputs"] == {f"y{k}": k + 0.5 for k in range(SHOWN + 2)}
    assert record["values"] == [f"{word:#x}" for word in words.tolist()]


def test_an_input_that_underflows_is_reported(tmp_path, ran, capsys):
    graph = tmp_path / "tiny.dfg"
    graph.write_text("graph tiny\nx = input 1e-46\noutput y = x\n")
    ran(np.zeros(1, np.uint64))
    assert main(["overlay", "run", str(graph), "--quiet"]) == 0
    line = "underflow: 1 inputs or constants, x the first, are 0 in fp32, and not in float64\n"
    assert line in capsys.readouterr().out


def test_cycles_of_loading_are_printed(graph, ran, capsys):
    ran(np.zeros(SHOWN + 2, np.uint64), Loaded(frames=3, reloads=1))
    assert main(["overlay", "run", graph, "--quiet"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "3 frames sent again, 1 loads begun again"
