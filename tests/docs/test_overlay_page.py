"""What docs/overlay_results.md says of placements: small graphs meet its
aims as they are placed here, all graphs as the record has them.
"""

from statistics import median

import overlay_placement
import overlay_report
import overlay_rtl
import pytest
from overlay_placement import GRAPHS as PLACED_GRAPHS
from overlay_placement import LARGE
from penstock.machine.errors import PenstockError

PLACED = overlay_placement.RECORD
SMALL = ("device:diode", "device:jfet", "device:bjt", "device:hbt", "gen:ladder:60", "gen:ring:30")
"""Graphs that are placed in less than a second."""


@pytest.fixture(scope="module", params=["placed here", "on record"])
def rows(request):
    """Of small graphs on meshes of up to 64 PEs; of all."""
    if request.param == "on record":
        assert PLACED.missing() == []
        return PLACED.rows()
    cases = [f"{graph} {k}x{k}" for graph in SMALL for k in (2, 4, 8)]
    assert set(cases) <= set(PLACED.cases())
    return [row for case in cases for row in overlay_placement.run(case)["rows"]]


def test_static_placements_meet_their_aims_over_the_floor(rows):
    for name, group in overlay_placement.groups(rows):
        assert median(r["improved"] / r["floor"] for r in group) <= overlay_placement.AIMS[name]
    old = [r["improved"] / r["connectivity"] for r in rows]
    assert median(old) <= 0.75
    assert max(old) <= 1.01


def test_dynamic_placements_come_near_the_static_ones(rows):
    best = [
        min(r["forward connectivity"], r["forward time"]) / r["improved"]
        for r in rows
        if r["PEs"] <= 64
    ]
    assert median(best) <= overlay_placement.DYNAMIC["up to 64 PEs"]


def test_a_run_on_rtl_that_is_not_the_model_is_shown():
    same = {"graph": "a", "equal": True, "differs": None}
    same |= {"cycles": 5, "writes": 7, "tokens": 11}
    wrong = same | {"graph": "b", "equal": False, "differs": "a token of (1, 0)"}
    late = same | {"graph": "c", "equal": False}
    one = {"case": "one", "clocks": 9}
    two = {"case": "two", "clocks": 8}
    entries = [one | {"rows": [same, wrong]}, two | {"rows": [late]}]
    shown = overlay_report.rtl_runs(entries)
    assert "| runs equal in cycles, writes, tokens and every bit | 1 |" in shown
    assert "in its cycle | 21 |" in shown and "in its cycle | 33 |" in shown
    assert shown.endswith("Not equal: `b` of one (a token of (1, 0)); `c` of two.")
    shown = overlay_report.rtl_runs([one | {"rows": [same]}])
    assert "Not equal" not in shown


@pytest.mark.parametrize("kind", ["static", "forward"])
def test_every_placement_is_among_those_on_rtl(kind):
    sides = {(graph, k) for graph in PLACED_GRAPHS for k in overlay_placement.SIDES[graph in LARGE]}
    cases = {case[::2] for case in overlay_rtl.PLACEMENTS.values() if case[1] == kind}
    assert cases == {(graph, k) for graph, k in sides if k <= overlay_rtl.MOST_SIDE[kind]}


def test_a_case_is_a_run_of_its_graph():
    (row,) = overlay_placement.run("gen:ladder:6 2x2")["rows"]
    assert row["right"]
    assert 0 < row["floor"] <= row["improved"] <= row["time"]
    with pytest.raises(PenstockError, match="cycles are not in order: floor"):
        overlay_placement.check("wrong", row | {"improved": row["floor"] - 1})
    with pytest.raises(PenstockError, match="a value"):
        overlay_placement.check("wrong", row | {"right": False})
