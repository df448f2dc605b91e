"""Waveforms of `penstock regress` and `penstock dag run`."""

import functools
import re
from dataclasses import replace

import pytest
from penstock import cli
from penstock.runs import regress
from penstock.scheduler.dag import Schedule, Subgraph, evaluate
from penstock.testing.dag_cases import PW, problem
from pywellen import Waveform

pytestmark = pytest.mark.deep  # each builds a simulator of its own

COPY = """
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore

def program(rows=8):
    g = Graph("copy")
    x = g.input("x", (rows, 4), "bf16")
    y = g.output("y", (rows, 4), "bf16")
    LinearOffChipStore(LinearOffChipLoad(x, tile=(rows, 4), name="load"), y, name="store")
    return g
"""


def shows(stem, text):
    """A waveform with changes, and a layout that names what is seen."""
    (dump,) = (
        path for path in stem.parent.glob(f"{stem.name}.*") if path.suffix in (".vcd", ".fst")
    )
    assert dump.suffix in (".vcd", ".fst") and dump.stat().st_size > 1000
    if dump.suffix == ".vcd":
        assert sum(line.startswith("#") for line in dump.read_text().splitlines()) > 50
    layout = stem.with_suffix(".gtkw").read_text()
    there = Waveform(str(dump)).all_vars()
    names = {v.full_name + (f"[{v.bitwidth - 1}:0]" if v.bitwidth > 1 else "") for v in there}
    assert set(re.findall(r"^penstock_bench\.\S+$", layout, re.M)) <= names
    assert text in layout


def test_waves_of_a_design_of_the_regression(tmp_path, monkeypatch):
    (tmp_path / "copy.py").write_text(COPY)
    program = str(tmp_path / "copy.py")
    design = regress.Design("small copy", "small_fpga", ({}, {"rows": 12}), program=program)
    monkeypatch.setattr(regress, "run", functools.partial(regress.run, designs=(design,)))
    assert cli.main(["regress", "--waves", str(tmp_path / "w"), "--quiet"]) == 0
    shows(tmp_path / "w_small_copy", "load:data->store:data: ")


def test_waves_of_each_program_of_a_schedule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shapes = [(16, 16)] * 3
    case = problem([([0], 1), ([1], 2)], [10, 10], [PW, PW], shapes, capacity=10_000)
    steps = Schedule((Subgraph((0,), (16, 16, 1)), Subgraph((1,), (16, 16, 1))))
    costs = evaluate(case, steps, check_latencies=False).subgraphs
    stated = zip(steps.subgraphs, costs, strict=True)
    Schedule(tuple(replace(s, latency=cost.latency) for s, cost in stated)).save("out.json")
    case.save("in.json")
    argv = ["dag", "run", "in.json", "out.json", "--config", "dag_tiny", "--on", "rtl"]
    assert cli.main([*argv, "--waves", "w", "--quiet"]) == 0
    for first in (0, 1):
        shows(tmp_path / f"w_{first}", ": ")
