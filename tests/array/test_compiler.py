"""The array's compiler: routes beside the least trees, golden mappings, small edits, sizing, and
descriptions that it refuses.
"""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from penstock.cli import main
from penstock.frontend import build, lower
from penstock.machine.config import from_dict, load, presets_dir
from penstock.machine.errors import ConfigError
from penstock.scheduler.array import map_program
from penstock.scheduler.array.report import text
from penstock.scheduler.array.size import grid_of, sites_for
from penstock.scheduler.array.steiner import tree

pytestmark = pytest.mark.xdist_group("array")  # compiles once
TINY = load("array_tiny")
GOLDEN = Path(__file__).parents[1] / "data" / "mappings"


def swiglu(config, **params):
    return lower(build("swiglu", params, config).graph, config)


@pytest.fixture(scope="module")
def mapped():
    return map_program(swiglu(TINY), TINY.array)


def named(mapping):
    """Slots by the names of units, as the golden files have them."""
    slots = mapping.network.slots
    return {unit: slots[s].name for unit, s in mapping.slots_by_name.items()}


def test_a_mapping_is_the_golden_one(mapped):
    golden = json.loads((GOLDEN / "swiglu_array_tiny.json").read_text())
    assert named(mapped) == golden["slots"]
    assert mapped.hops == golden["hops"]


def test_a_small_edit_keeps_the_units_where_they_are(mapped):
    edited = swiglu(TINY, batch=8)
    again = map_program(edited, TINY.array, seed=5, keep=mapped.slots_by_name)
    assert again.slots_by_name == mapped.slots_by_name
    assert again.hops <= mapped.hops


def test_routes_take_the_least_trees(mapped):
    ends = np.array([5, 12, 18, 23])
    used = np.zeros(100, np.bool_)
    cost = np.full(100, np.inf)
    for node in range(25):
        row, col = divmod(node, 5)
        inside = (row > 0, col < 4, row < 4, col > 0)
        cost[4 * node : 4 * node + 4] = np.where(inside, 1.0, np.inf)
    assert tree(0, ends, cost, 5, used) == used.sum() == 7
    for route in mapped.placement.routes:
        slots = mapped.placement.slots
        net = next(n for n in mapped.nets if n.src == route.src)
        at = [
            mapped.network.slots[slots[u]]
            for u in (net.src[0], *(leaf.dst[0] for leaf in net.leaves))
        ]
        if len(at) <= 3:
            rows = [p.row for p in at]
            cols = [p.col for p in at]
            box = max(rows) - min(rows) + max(cols) - min(cols)
            assert len(route.hops) - 1 == box


def test_a_sized_array_holds_each_of_its_programs(tmp_path, capsys):
    out = tmp_path / "mine.toml"
    words = ["array", "size", "swiglu", "swiglu,batch=8", "--like", "array_tiny", "--quiet"]
    assert main([*words, "-o", str(out)]) == 0
    assert "3 x 3 sites" in capsys.readouterr().out
    first = out.read_text()
    assert main([*words, "-o", str(out)]) == 0
    assert out.read_text() == first
    assert main(["array", "map", "swiglu", "--array", str(out), "--quiet"]) == 0
    array = load(str(out)).array
    count = sites_for([swiglu(TINY)], TINY.array)
    held = {x: sum(row.count(x) for row in array.grid) for x in count}
    assert all(held[x] >= n for x, n in count.items())


def test_off_chip_sites_lie_at_the_edges():
    array = load("array_small").array
    grid = grid_of({"L": 10, "S": 2, "M": 3, "D": 1}, array)
    assert grid[1][1:3] + grid[2][1:3] == "MDMM"


def test_a_part_that_is_too_small_and_a_sized_array_are_refused(capsys):
    assert main(["array", "map", "simple_moe", "--array", "array_tiny", "--quiet"]) == 1
    assert main(["array", "size", "simple_moe", "--like", "array_tiny", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 2


def test_the_report_tells_what_the_order_of_arrivals_decides(mapped):
    assert "no unit depends on arrivals" in text(mapped)


LOAD = 'slots = [{ name = "load", rank = 3 }]'
STORE = '    { name = "store" },\n'
SPOILT = {
    "load and store": (LOAD, LOAD.replace("rank", 'kinds = ["load", "store"], rank'), "that read"),
    "negative": ("rank = 3", "rank = -1", "rank = -1 is no bound of load"),
    "a number for a truth value": (
        "transposed = false",
        "transposed = 7",
        "transposed = 7 is no bound of matmul",
    ),
    "twice": ('"reshape", "flatten"', '"reshape", "reshape"', "has the kind 'reshape' twice"),
    "no wire": ('"matmul.product -> accum.data",', "", "no wire of the site meets it"),
    "two wires": (
        '"matmul.product -> accum.data",',
        '"matmul.product -> accum.data", "matmul.product -> accum.data",',
        "has the wire 'matmul.product -> accum.data' twice",
    ),
}


def tiny_but(old, new):
    """The smallest array with one line changed."""
    text = (presets_dir() / "array_tiny.toml").read_text()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(("old", "new", "said"), SPOILT.values(), ids=SPOILT)
def test_a_slot_that_contradicts_itself_is_refused(old, new, said):
    with pytest.raises(ConfigError, match=said):
        from_dict(tomllib.loads(tiny_but(old, new)), "spoilt")


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (LOAD, 'slots = [{ name = "repeat" }]', "4 of 4 load (it has 0 slots for load)"),
        (STORE, "", "1 of 1 store (it has 0 slots for store)"),
    ],
)
def test_an_array_without_off_chip_slots_is_refused(old, new, lost, tmp_path, capsys):
    """And nothing else is said to be lost."""
    path = tmp_path / "inner.toml"
    path.write_text(tiny_but(old, new))
    assert main(["array", "map", "swiglu", "--array", str(path), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert f"has no slot for {lost} (rule" in said
    assert said.count("\n") == 1
