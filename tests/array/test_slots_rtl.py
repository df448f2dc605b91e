"""Tables, posts and tuples in slots: one build of a small array runs
programs of each, equal to the model of the placed graph.
"""

from pathlib import Path

import pytest
from penstock.machine.array.registers import Layout
from penstock.machine.errors import PenstockError
from penstock.runs import array, array_rtl

HERE = Path(__file__).parent
PARTS = ("listed", "tuples", "padded", "turns", "loops", "shared")
pytestmark = [pytest.mark.deep, pytest.mark.xdist_group("rtl-array-slots")]


def placed(part, size):
    program = str(HERE / "slot_programs.py")
    return array.place(program, str(HERE / "slots.toml"), {"part": part, "size": size})


def test_one_build_runs_lists_turns_loops_posts_and_tuples():
    points = [placed(part, size) for part in PARTS for size in (0, 1)]
    records = array_rtl.run(points)
    assert [r.values_ok for r in records] == [True] * len(points)
    for r in records:
        assert r.channels_observed == r.channels_total
        assert r.mismatches == 0
    assert [r.compared["posts"] > 0 for r in records] == [
        p == "shared" for p in PARTS for _ in "ab"
    ]


@pytest.mark.parametrize(("part", "table"), [("listed", "order_row"), ("turns", "turns_repeat")])
def test_a_wrong_entry_of_a_table_is_found(part, table, monkeypatch):
    """The second entry is one higher: a planted fault."""
    one = placed(part, 0)
    right = Layout.encode

    def wrong(layout, values, variant, entries):
        planted = {
            name: [n + (k == 1 and table in name) for k, n in enumerate(held)]
            for name, held in entries.items()
        }
        return right(layout, values, variant, planted)

    monkeypatch.setattr(Layout, "encode", wrong)
    with pytest.raises(PenstockError):
        array_rtl.run([one])
