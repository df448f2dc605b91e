"""Slots with tables, posts and tuples: what fits them, what their images hold, and what is
refused.
"""

import copy
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from penstock.hw.array.array import Array
from penstock.hw.array.parts import parts
from penstock.machine.array.image import decoded
from penstock.machine.config import from_dict
from penstock.machine.errors import ConfigError, LoweringError
from penstock.runs import array, array_rtl
from penstock.runs.point import Point
from penstock.scheduler.array import map_program

HERE = Path(__file__).parent
SLOTS = tomllib.loads((HERE / "slots.toml").read_text())
pytestmark = pytest.mark.xdist_group("array")  # compiles once


def placed(part, config=HERE / "slots.toml", size=1):
    program = str(HERE / "slot_programs.py")
    return array.place(program, str(config), {"part": part, "size": size})


@pytest.mark.parametrize(
    "part", ["listed", "numbered", "tuples", "padded", "turns", "loops", "shared"]
)
def test_the_placed_graph_gives_the_values_of_numpy(part):
    own, there = array.run(placed(part))
    assert own.values_ok
    assert there.values_ok


def test_an_image_holds_the_entries_of_tables():
    point = placed("listed")
    image, structure = array_rtl.image(point)
    held = {x.label: x for x in decoded(image, structure) if x.tables}
    loads = held["load"]
    places = next(u.kind.order for u in point.point.graph.units if u.kind.name == "load")
    assert loads.values["order_last"] == len(places) - 1
    assert loads.tables["order_row"] == [row for row, _ in places]
    assert loads.tables["order_col"] == [col for _, col in places]


def test_an_image_says_where_the_second_member_of_a_tuple_begins():
    image, structure = array_rtl.image(placed("tuples"))
    (joined,) = (x for x in decoded(image, structure) if x.label == "zip")
    assert joined.values["low_pair"] == 16


def copied_twice():
    """Copies of references of which one is copied once more."""
    graph = placed("shared").point.graph
    first = next(u for u in graph.units if u.kind.name == "broadcast")
    old = next(c for c in graph.channels if c.src == (first.id, 0))
    again = replace(first, id=len(graph.units), name="again", kind=first.kind.but(n=1))
    channels = list(graph.channels)
    channels[old.id] = replace(old, dst=(again.id, 0))
    more = replace(old, id=len(channels), name="more", src=(again.id, 0))
    return replace(graph, units=(*graph.units, again), channels=(*channels, more))


def test_units_that_post_to_one_scratchpad_have_to_fit_its_site():
    """A site has one slot for it, though the array has others."""
    wide = copy.deepcopy(SLOTS)
    wide["array"]["grid"] = ["LBB", "ICB"]
    array = from_dict(wide, "wide").array
    graph = copied_twice()
    assert map_program(placed("shared").point.graph, array).hops
    with pytest.raises(LoweringError, match=r"has no slot for 1 of 2 broadcast .* beside"):
        map_program(graph, array)


def test_copies_of_references_lie_where_they_post():
    mapping = placed("shared").mapping
    slots = mapping.placement.slots
    units = mapping.program.units
    (copies,) = (u for u in units if u.kind.name == "broadcast" and slots[u.id] >= 0)
    assert (slots[copies.id], slots[copies.kind.scratchpad]) in mapping.network.posts


def test_a_list_that_is_too_long_is_refused(tmp_path):
    text = (HERE / "slots.toml").read_text().replace("order = 6", "order = 5")
    path = tmp_path / "short.toml"
    path.write_text(text)
    with pytest.raises(LoweringError, match=r"order is .* of at most 5 entries"):
        placed("listed", path)


def test_a_unit_of_another_machine_is_refused():
    other = copy.deepcopy(SLOTS)
    other["machine"]["pages"] = 16
    program = str(HERE / "slot_programs.py")
    point = Point(program, from_dict(other, "other"), {"part": "turns"})
    with pytest.raises(LoweringError, match="pages is 16, not 8"):
        map_program(point.graph, from_dict(SLOTS, "slots").array)


@pytest.mark.parametrize(
    ("site", "change", "said"),
    [
        ("B", {"posts": ["copies"]}, "must be like 'copies -> scratchpad'"),
        ("B", {"posts": ["pages -> scratchpad"]}, "names the slot 'pages'"),
        ("B", {"posts": ["scratchpad -> copies"]}, "no unit of slot scratchpad changes"),
        ("I", {"posts": ["sink -> source"]}, "slot source is no scratchpad"),
        ("I", {"slots": [{"name": "sink", "scratchpad": 1}]}, "has the parameter scratchpad"),
    ],
)
def test_a_site_that_contradicts_is_refused(site, change, said):
    table = copy.deepcopy(SLOTS)
    table["array"]["site"][site] |= change
    with pytest.raises(ConfigError, match=said):
        from_dict(table, "changed")


def test_slots_of_equal_hardware_are_one_module():
    table = copy.deepcopy(SLOTS)
    shape = next(s for s in table["array"]["site"]["L"]["slots"] if s["name"] == "shape")
    table["array"]["site"]["C"]["slots"].append(shape | {"name": "fold"})
    before, after = (
        {p.component: p.number for p in parts(Array(from_dict(t, "t"))) if p.group == "slots"}
        for t in (SLOTS, table)
    )
    assert len(after) == len(before)
    assert sum(after.values()) == sum(before.values()) + 1
