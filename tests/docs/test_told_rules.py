"""Rules that pages tell in words, held against the code that has them."""

import re
from pathlib import Path

import pytest
from penstock.machine.config import from_dict
from penstock.machine.errors import ConfigError
from penstock.overlay.graphs import builder

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
RULES = {
    "`t` is a power of two from 2 to 16": ("t", [2, 16], [1, 6, 32]),
    "`rows_per_cycle` divides `t`": ("rows_per_cycle", [1, 8], [3, 16]),
    "each of `lanes` divides `t` * `t`": (
        "lanes",
        [{"default": 64}],
        [{"default": 3}, {"default": 128}],
    ),
    "`frames` is a power of two": ("frames", [1, 2048], [6]),
    "`port_lanes` is a power of two of at most `t`": ("port_lanes", [1, 8], [3, 16]),
    "`load_lines` one of at least 2 * `port_lanes`": ("load_lines", [4, 65536], [2, 100]),
}
"""What the page says -> field, values that are taken, values that are refused; on a machine with
tiles of 8 x 8 and ports of 2 lanes.
"""


def machine(field, value):
    return from_dict(
        {"machine": {"t": 8, "rows_per_cycle": 1, "port_lanes": 2} | {field: value}}, "told"
    )


@pytest.mark.parametrize("told", RULES)
def test_fields_of_a_machine_have_the_rules_that_the_page_tells(told):
    assert told in CONFIGURATION
    field, taken, refused = RULES[told]
    for value in taken:
        machine(field, value)
    for value in refused:
        with pytest.raises(ConfigError, match=field):
            machine(field, value)


def test_an_expression_knows_the_calls_that_the_page_names():
    page = (DOCS / "dataflow_graphs.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if "`expr:` takes assignments" in line)
    assert re.findall(r"`(\w+)`", line) == list(builder._CALLS)
    graph = builder.expression("y = x + 1.0")
    assert graph.results(graph.evaluate({})) == {"y": 1.0}


def test_the_fault_that_is_the_models_alone():
    assert "Bit 7 is of the model alone." in (DOCS / "top.md").read_text(encoding="utf-8")
    raised = {
        name
        for path in (ROOT / "hw").rglob("*.py")
        for name in re.findall(r"Fault\.([A-Z]+)\b", path.read_text(encoding="utf-8"))
    }
    assert raised == {"STOP", "ACCUMULATORS", "REFERENCES", "STRAY", "EMPTY", "ADDRESS", "ROWS"}
