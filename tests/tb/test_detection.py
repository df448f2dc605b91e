"""Mutants: one netlist with all of them; a planted one is found, and none where none is on."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from penstock import model
from penstock.machine.errors import LoweringError, RunError
from penstock.machine.stimulus import Point
from penstock.runs import regress
from penstock.tb import detection
from penstock.tb.mutants import KINDS, Mutant, candidates, drawn
from penstock.testing.graphs import Build, configuration

CONFIG = configuration()


@pytest.fixture(scope="module")
def case():
    b = Build(2)
    x = b.tensor("x", 8, 8)
    y = b.tensor("y", 8, 8, "fp32", "output")
    walk = {"rank": 2, "shape": [2, 2], "row_step": [4, 0], "col_step": [0, 4]}
    load = b.off_chip("load", x, 4, 4, **walk)
    b.link(load, b.off_chip("store", y, 4, 4))
    graph = b.graph()
    tensors = {"x": np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)}
    run = model.run(graph, CONFIG, tensors, trace=True)
    return detection.Case("copy", Point(graph, tensors), run)


@pytest.fixture(scope="module")
def source(case):
    return detection.annotated(case.point.graph, CONFIG)


def test_a_draw_is_even_over_files_and_kinds(source):
    found = candidates(source.rtlil)
    assert {m.kind for m in found} == set(KINDS)
    groups = {(m.file, m.kind) for m in found}
    once = drawn(found, len(groups), seed=1)
    assert {(m.file, m.kind) for m in once} == groups
    assert once == drawn(found, len(groups), seed=1) != drawn(found, len(groups), seed=2)


def test_a_planted_netlist_finds_its_mutants_and_nothing_else(case, source):
    kinds = {m.kind: m for m in drawn(candidates(source.rtlil), 400, seed=3)[::-1]}
    fifo = [m for m in candidates(source.rtlil) if m.file == "hw/units/fifo.py"]
    numbers = {m: k for k, m in enumerate([*kinds.values(), *fifo], 1)}
    design = detection.netlist(source, numbers)
    found = detection.found(design, [case], CONFIG, sorted(numbers.values()), lambda _line: None)
    surely = {m for m in fifo if m.kind == "condition" and m.form == "inverted"}
    assert surely and sum(numbers[m] in found for m in surely) > len(surely) / 2
    assert set(found) <= set(numbers.values())


@pytest.mark.deep
def test_a_netlist_that_differs_without_a_mutant_is_refused(case, source):
    place = next(m for m in sorted(candidates(source.rtlil)) if m.kind == "latency")
    design = detection.netlist(source, {place: 1})
    right = design.verilog["fabric.v"]
    always = right.replace("16'h0001", "16'h0000")
    assert always != right
    wrong = replace(design, verilog=design.verilog | {"fabric.v": always})
    with pytest.raises(RunError, match="no mutant is on, and it differs"):
        detection.found(wrong, [case], CONFIG, [], lambda _line: None)


def test_the_designs_that_are_left_out_have_no_form_at_this_size():
    made = importlib.import_module("made.detection")
    refused = [design for design in regress.DESIGNS if design.name in made.REFUSED]
    assert len(refused) == len(made.REFUSED)
    for design in refused:
        with pytest.raises(LoweringError):
            next(made.of_design(design))


def test_a_mutant_says_where_it_is():
    mutant = Mutant("hw/units/fifo.py:12", "operator", "$add", "as $sub")
    assert mutant.file == "hw/units/fifo.py"
    assert str(mutant) == "hw/units/fifo.py:12 $add as $sub"
