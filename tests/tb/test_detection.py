"""Mutants: one netlist with all of them; a planted one is found, and none where none is on."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from penstock import model
from penstock.machine.errors import LoweringError, RunError
from penstock.machine.stimulus import Point
from penstock.runs import regress
from penstock.system.sources import PACKAGE as ROOT
from penstock.tb import detection, mutants
from penstock.tb.mutants import KINDS, Mutant, candidates, drawn
from penstock.testing.graphs import Build, configuration

CONFIG = configuration()
WALK = {"rank": 2, "shape": [2, 2], "row_step": [4, 0], "col_step": [0, 4]}


@pytest.fixture(scope="module")
def case():
    b = Build(2)
    x = b.tensor("x", 8, 8)
    y = b.tensor("y", 8, 8, "fp32", "output")
    load = b.off_chip("load", x, 4, 4, **WALK)
    b.link(load, b.off_chip("store", y, 4, 4))
    graph = b.graph()
    rng = np.random.default_rng(1)
    values = rng.standard_normal((8, 8))
    given = {"x": values.astype(np.float32)}
    run = model.run(graph, CONFIG, given, trace=True)
    return detection.Case("copy", Point(graph, given), run)


@pytest.fixture(scope="module")
def source(case):
    return detection.annotated(case.point.graph, CONFIG)


def ignored(_line):
    """Discard a line of progress."""


def test_a_draw_is_even_over_files_and_kinds(source):
    found = candidates(source.rtlil)
    assert {m.kind for m in found} == set(KINDS)
    groups = {(m.file, m.kind) for m in found}
    once = drawn(found, len(groups), seed=1)
    assert {(m.file, m.kind) for m in once} == groups
    assert once == drawn(found, len(groups), seed=1)
    assert once != drawn(found, len(groups), seed=2)


def test_a_line_that_moves_is_drawn_as_before(source, monkeypatch):
    """Lines of one file are three further down, and say what they said."""
    found = candidates(source.rtlil)
    file = "hw/memory/walk.py"

    def moved(mutant, by):
        at = mutant.place.rpartition(":")[2]
        place = f"{file}:{int(at) + by}"
        return replace(mutant, place=place) if mutant.file == file else mutant

    before = drawn(found, 100, seed=1)
    assert file in {mutant.file for mutant in before}
    says = mutants.line_of
    monkeypatch.setattr(
        mutants, "line_of", lambda place: says(moved(Mutant(place, "", "", ""), -3).place)
    )
    assert drawn({moved(m, 3) for m in found}, 100, seed=1) == [moved(m, 3) for m in before]


def test_equal_lines_of_a_file_are_distinguished():
    lines = (ROOT / "hw/units/fifo.py").read_text().splitlines()
    names = {mutants.line_of(f"hw/units/fifo.py:{n}") for n in range(1, len(lines) + 1)}
    assert len(names) == len(lines)


def test_a_planted_netlist_finds_its_mutants_and_nothing_else(case, source):
    found = candidates(source.rtlil)
    fifo = [m for m in found if m.file == "hw/units/fifo.py"]
    kinds = {m.kind: m for m in drawn(found, 400, seed=3)[::-1]}
    chosen = [*kinds.values(), *fifo]
    numbers = {m: k for k, m in enumerate(chosen, 1)}
    every = sorted(numbers.values())
    design = detection.netlist(source, numbers)
    seen = detection.found(design, [case], CONFIG, every, ignored)
    surely = [numbers[m] for m in fifo if (m.kind, m.form) == ("condition", "inverted")]
    assert surely
    assert sum(n in seen for n in surely) > len(surely) / 2
    assert set(seen) <= set(every)


@pytest.mark.deep
def test_a_netlist_that_differs_without_a_mutant_is_refused(case, source):
    found = sorted(m for m in candidates(source.rtlil) if m.file == "hw/memory/interconnect.py")
    late = next(m for m in found if m.kind == "latency")
    design = detection.netlist(source, {late: 1})
    right = design.verilog["fabric.v"]
    always = right.replace("16'h0001", "16'h0000")
    assert always != right
    verilog = design.verilog | {"fabric.v": always}
    wrong = replace(design, verilog=verilog)
    message = "no mutant is on, and it differs"
    with pytest.raises(RunError, match=message):
        detection.found(wrong, [case], CONFIG, [], ignored)


def test_the_designs_that_are_left_out_have_no_form_at_this_size():
    made = importlib.import_module("detection")
    refused = [d for d in regress.DESIGNS if d.name in made.REFUSED]
    assert len(refused) == len(made.REFUSED)
    for design in refused:
        with pytest.raises(LoweringError):
            next(made.of_design(design))


def test_a_mutant_says_where_it_is():
    place = "hw/units/fifo.py:12"
    mutant = Mutant(place, "operator", "$add", "as $sub")
    assert mutant.file == "hw/units/fifo.py"
    assert str(mutant) == f"{place} $add as $sub"
