"""Extensions of docs/extending.md from outside the tree: a function, an operator, a figure."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pytest
from penstock import figures, frontend
from penstock.frontend import *
from penstock.fuzz import campaign, steps
from penstock.hw.functions import DATAPATHS
from penstock.machine.functions import FUNCTIONS
from penstock.model.functions import VALUES

CALLS: Any = frontend  # its functions are made when they are asked for
PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
REGISTRIES = {
    "definition": FUNCTIONS,
    "kernel": VALUES,
    "datapath": DATAPATHS,
    "operator": OPERATORS,
    "call": FUNCTIONAL,
    "step": steps.VARIANTS,
    "figure": figures.FIGURES,
}


@pytest.fixture
def example(request, tmp_path, monkeypatch):
    """The registries that the example of a section adds to, and what; it is gone afterwards."""
    section = PAGE.read_text().split(f"## {request.param}\n")[1].split("\n## ")[0]
    path = tmp_path / "extending_example.py"
    path.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", section, re.S)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    before = {place: dict(names) for place, names in REGISTRIES.items()}
    spec.loader.exec_module(module)
    new = {place: set(names) - set(before[place]) for place, names in REGISTRIES.items()}
    yield {place: names for place, names in new.items() if names}
    for place, names in new.items():
        for name in names:
            del REGISTRIES[place][name]


def program(of):
    """One tensor through an operator."""
    g = Graph("example")
    loaded = LinearOffChipLoad(g.input("x", (32, 32), "fp32"), tile=(16, 16))
    LinearOffChipStore(of(loaded), g.output("y", (32, 32), "fp32"))
    return Program("example", {}, g, None, None)


@pytest.mark.parametrize("example", ["A function on elements"], indirect=True)
def test_a_function_takes_a_definition_a_kernel_a_datapath_and_this_test(example):
    assert example == {"definition": {"ramp"}, "kernel": {"ramp"}, "datapath": {"ramp"}}
    (r,) = penstock.run(program(lambda x: Map(x, fn="ramp")), "paper_hdl")
    assert r.values_ok and np.all(r.outputs["y"] >= 0) and np.any(r.outputs["y"] > 0)
    assert '| `"ramp"` | Map |' in operator_reference()


@pytest.mark.parametrize("example", ["An operator"], indirect=True)
def test_an_operator_takes_a_class_and_a_step_of_the_fuzzer(example):
    assert example == {"operator": {"Slack"}, "call": {"slack"}, "step": {"Slack"}}
    (r,) = penstock.run(program(lambda x: CALLS.slack(x, beats=4)), "paper_hdl")
    assert r.values_ok
    assert "Example: `Slack(x, beats=8)`" in operator_reference()
    found = campaign.Campaign()
    campaign.run_programs(found, 3, 1, only=["Slack"])
    assert found.failures == []


@pytest.mark.parametrize("example", ["A figure"], indirect=True)
def test_a_figure_takes_its_declaration(example, tmp_path):
    assert example == {"figure": {"small"}}
    rows, *_ = figures.write(figures.FIGURES["small"], tmp_path, figures.Traces(None))
    assert [r["tile_b"] for r in rows] == [2, 4] and all(r["cycles"] > 0 for r in rows)
