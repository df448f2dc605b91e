"""Quality of mappings: routes beside their least trees, placements beside those of a ten times
longer run, arrays beside smaller ones, and cycles beside those of fabrics of their own.
"""

import json
from pathlib import Path

import numpy as np
import fabrics
import pytest
from penstock.cli import main
from penstock.frontend import build, lower
from penstock.machine.array.netlist import with_buffers
from penstock.machine.array.network import Network
from penstock.machine.config import load, presets_dir
from penstock.machine.errors import LoweringError
from penstock.runs import array as runs
from penstock.runs.point import Point
from penstock.scheduler.array import map_program, mapping
from penstock.scheduler.array.anneal import anneal, cost_of
from penstock.scheduler.array.problem import problem
from penstock.scheduler.array.route import SIDES, Trees, Wish, detours, route

pytestmark = pytest.mark.xdist_group("array")  # compiles once
TINY = load("array_tiny")
SMALL = load("array_small")


def lowered(program, config, **params):
    return lower(build(program, params, config).graph, config)


@pytest.fixture(scope="module")
def attention():
    return lowered("attention", SMALL)


@pytest.mark.parametrize("seed", [7])
def test_a_placement_whose_routes_have_to_go_round_gives_way_to_another(attention, seed):
    """The best placements of these seeds have routes of 1.4 and 1.25 times their least trees."""
    assert map_program(attention, SMALL.array, seed=seed).detour <= 1.1


def test_the_first_placement_that_can_be_routed_is_taken(monkeypatch):
    given = []

    def once(array, wishes):
        given.append(wishes)
        if len(given) == 1:
            raise LoweringError("2 tracks are missing")
        return route(array, wishes)

    graph = lowered("swiglu", TINY)
    monkeypatch.setattr(mapping, "route", once)
    assert map_program(graph, TINY.array).detour == 1.0
    assert len(given) == 2


def test_a_detour_is_of_links_over_the_least_tree():
    sites = TINY.array.rows * TINY.array.cols
    links = np.zeros(4 * sites, bool)
    south, east, north = (SIDES.index(x) for x in ("south", "east", "north"))
    below = TINY.array.cols
    links[[4 * 0 + south, 4 * below + east, 4 * (below + 1) + north]] = True
    wishes = [Wish(3, "tile", 0, (1,)), Wish(4, "tile", 2, (2, 2))]
    stays = np.zeros(4 * sites, bool)
    assert detours(TINY.array, wishes, Trees({3: links, 4: stays}, 1)) == {3: 3.0}


@pytest.mark.deep
@pytest.mark.parametrize("program", ["swiglu", "simple_moe"])
def test_a_placement_is_near_that_of_a_ten_times_longer_run(program):
    task = problem(with_buffers(lowered(program, SMALL)), Network(SMALL.array))
    usual, longer = (cost_of(task, anneal(task, 0, effort)[0]) for effort in (1, 10))
    assert usual <= 1.15 * longer


@pytest.mark.deep
@pytest.mark.parametrize(("memory", "most"), [("pipe", 1.05), ("ideal", 1.10)])
@pytest.mark.parametrize("case", ["swiglu", "simple_moe", "moe, static"])
def test_a_long_program_takes_hardly_longer_than_on_its_own_fabric(case, memory, most):
    """Check on the programs that docs/array.md judges."""
    preset, program, params = fabrics.PROGRAMS[case]
    point = Point(program, fabrics.on_memory(preset, memory), params)
    placed = runs.placed(point)
    own, there = runs.run(placed, values=False)
    assert own.cycles >= 5000
    assert there.cycles <= most * own.cycles


@pytest.mark.parametrize(
    ("array", "seed", "hops"),
    [("array_small", 0, 3), pytest.param("array_moe8", 1, 5, marks=pytest.mark.deep)],
)
def test_a_feedback_loop_adds_no_more_than_a_cycle_a_hop_and_round(array, seed, hops):
    """One loop bounds the program. On a fabric of its own the `Loop` is a unit of one cycle, which
    switches replace. Ways that lead to the loop and out of it add their hops once.
    """
    program = str(Path(__file__).with_name("loop_program.py"))
    more = {}
    for rounds in (8, 24):
        params = {"rounds": rounds}
        placed = runs.place(program, array, params, seed=seed, ports=True)
        (loop,) = placed.mapping.loops()
        assert loop.hops == hops
        own, there = runs.run(placed)
        assert own.values_ok
        assert there.values_ok
        more[rounds] = there.cycles - own.cycles
    assert more[24] <= hops * 24
    assert more[24] - more[8] == (hops - 1) * (24 - 8)


def test_a_loop_whose_reader_lies_on_a_local_wire_is_placed():
    path = str(Path(__file__).with_name("loop_program.py"))
    placed = runs.place(path, "array_small", {"first": True}, ports=True)
    program = placed.mapping.program
    wired = [program.channels[c].name for c in placed.mapping.placement.wires]
    assert any(name.startswith("so_far:") for name in wired)
    own, there = runs.run(placed)
    assert own.values_ok
    assert there.values_ok


def larger(tmp_path, name, *, col, row):
    """An array with a column and a row more than a preset."""
    grid = load(name).array.grid
    text = (presets_dir() / f"{name}.toml").read_text()
    begin = text.index("grid = [")
    end = text.index("]", begin) + 1
    more = [*(line + col for line in grid), row]
    path = tmp_path / "larger.toml"
    path.write_text(f"{text[:begin]}grid = {json.dumps(more)}{text[end:]}")
    return str(path)


@pytest.mark.parametrize(
    ("program", "name", "col", "row"),
    [("swiglu", "array_tiny", "M", "LMLML"), ("simple_moe", "array_small", "M", "LLLLLLLLL")],
)
def test_a_mapping_on_a_smaller_array_is_a_start_on_one_that_embeds_it(
    program, name, col, row, tmp_path
):
    """So the larger array's is never the worse."""
    small = runs.place(program, name, {}, seed=2).mapping
    kept = tmp_path / "small.json"
    kept.write_text(json.dumps(small.to_dict()))
    array = larger(tmp_path, name, col=col, row=row)
    large = runs.place(program, array, {}, keep=kept).mapping
    assert large.network.array.rows == small.network.array.rows + 1
    assert large.cost <= small.cost
    same = [large.network.slots[s].name for s in large.slots_by_name.values()]
    assert len(set(same) & set(small.to_dict()["slots"].values())) > len(same) / 2


@pytest.mark.parametrize("text", ["[]", "{}", '{"slots": {"a": 3}}'])
def test_a_file_that_is_no_mapping_is_refused(text, tmp_path, capsys):
    path = tmp_path / "old.json"
    path.write_text(text)
    words = ["array", "map", "swiglu", "--array", "array_tiny", "--quiet", "--keep", str(path)]
    assert main(words) == 1
    assert "is no mapping of a program" in capsys.readouterr().err
