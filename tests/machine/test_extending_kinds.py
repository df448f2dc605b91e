"""A unit kind from outside the tree: the example of docs/extending.md, on model and RTL."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from penstock.hw.registry import UNITS as COMPONENTS
from penstock.machine.beat import Tile
from penstock.machine.errors import LoweringError
from penstock.machine.kinds import KINDS, kind_of
from penstock.machine.unitgraph import validate
from penstock.model import precompile
from penstock.model.units.state import KINDS as STEPS
from penstock.tb import api
from penstock.tb.tops import small
from penstock.testing import graphs, stimulus, zoo

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PLACES = {"declaration": KINDS, "model": STEPS, "rtl": COMPONENTS}


@pytest.fixture
def code(tmp_path, monkeypatch):
    """The example as a module of a user."""
    section = PAGE.read_text().split("## A unit kind")[1].split("\n## ")[0]
    text = "\n\n".join(re.findall(r"```python\n(.*?)```", section, re.S))
    path = tmp_path / "hold_example.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    before = {place: dict(names) for place, names in PLACES.items()}
    spec.loader.exec_module(module)
    new = {place: set(names) - set(before[place]) for place, names in PLACES.items()}
    yield text, new


def test_a_kind_takes_three_places(code):
    text, new = code
    assert new == {place: {"hold"} for place in PLACES}
    assert len(re.findall(r"^@?[\w.]*\b(?:register|acts)\b", text, re.M)) == len(PLACES)


def chain(cycles, stops=(0, 0, 1, 0, 2), late=()):
    b = graphs.Build()
    source = b.source([(s, graphs.FULL) for s in stops])
    unit = b.unit(kind_of("hold")(cycles=cycles))
    sink = b.sink(list(late))
    b.link(source, unit)
    b.link(unit, sink)
    return b


def test_a_wrong_parameter_is_refused_by_its_rule(code):
    with pytest.raises(LoweringError, match="cycles of a hold is from 0 to 65535"):
        validate(chain(-1).graph())


@pytest.mark.parametrize("cycles", [0, 1, 5, 2000])
def test_beats_pass_at_the_interval(code, cycles):
    run = graphs.run(chain(cycles), graphs.configuration(), values=False, trace=True)
    passed = run.channels[1].accept
    assert (passed[1:5] - passed[:4] == cycles + 1).all()


def test_a_step_from_outside_is_not_compiled_ahead(code):
    assert "unit:hold" not in precompile._units([chain(1).graph()])


def test_the_rtl_keeps_the_models_cycles(code):
    payload = Tile(2, "fp32")
    z = zoo.Zoo("hold", 2)
    z.add(kind_of("hold")(cycles=3), [(payload, stimulus.ragged_stream(payload, 2, 3))], [payload])
    config = small(2)
    points = [api.with_model(p, config) for p in z.points()]
    for rtl in api.run_many(points, config):
        assert rtl.extra["report"].ok, str(rtl.extra["report"])
