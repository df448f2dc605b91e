"""What docs/overlay_results.md says of placements, by its records."""

from statistics import median

import overlay_placement
import overlay_rtl
import pytest

PLACED = overlay_placement.RECORD
RTL = overlay_rtl.RECORD


def test_static_placements_meet_their_aims_over_the_floor():
    rows = PLACED.rows()
    assert PLACED.missing() == []
    assert all(r["right"] and r["floor"] <= r["improved"] <= r["time"] for r in rows)
    for name, group in overlay_placement.groups(rows):
        assert median(r["improved"] / r["floor"] for r in group) <= overlay_placement.AIMS[name]
    old = [r["improved"] / r["connectivity"] for r in rows]
    assert median(old) <= 0.75 and max(old) <= 1.01


def test_dynamic_placements_come_near_the_static_ones():
    rows = [r for r in PLACED.rows() if r["PEs"] <= 64]
    best = [min(r["forward connectivity"], r["forward time"]) / r["improved"] for r in rows]
    assert median(best) <= overlay_placement.DYNAMIC["up to 64 PEs"]


def test_every_run_on_rtl_is_the_model():
    assert [(r["graph"], r["differs"]) for r in RTL.rows() if not r["equal"]] == []


@pytest.mark.parametrize("kind", ["static", "forward"])
def test_placements_on_rtl_are_those_of_the_record(kind):
    """A forwarding PE takes the placement made without being asked."""
    placed = {(r["graph"], r["PEs"]): r for r in PLACED.rows()}
    cases = {name: c for name, c in overlay_rtl.PLACEMENTS.items() if c[1] == kind}
    assert {(graph, side * side) for graph, _, side in cases.values()} >= {
        (graph, pes) for graph, pes in placed if pes <= overlay_rtl.MOST_SIDE[kind] ** 2
    }
    for name, (graph, _, side) in cases.items():
        (ran,) = RTL.entry(name)["rows"]
        row = placed[graph, side * side]
        assert ran["nodes"] == row["nodes"]
        assert kind != "static" or ran["cycles"] == row["time"]
