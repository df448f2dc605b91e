"""Tables, posts and tuples in slots: one build of a small array runs programs of each, equal to the
model of the placed graph.
"""

from pathlib import Path

import pytest
from penstock.machine.array import image, streams
from penstock.machine.array.registers import Layout
from penstock.machine.config import PIPELINES
from penstock.machine.errors import PenstockError
from penstock.runs import array, array_rtl
from penstock.tb.array import ArrayDesign

HERE = Path(__file__).parent
PARTS = ("listed", "numbered", "tuples", "padded", "turns", "loops", "shared")
pytestmark = [pytest.mark.deep, pytest.mark.xdist_group("rtl-array-slots")]


def placed(part, size, config=HERE / "slots.toml"):
    program = str(HERE / "slot_programs.py")
    return array.place(program, str(config), {"part": part, "size": size})


@pytest.mark.parametrize("pipelines", PIPELINES)
def test_one_build_runs_lists_numbers_turns_loops_posts_and_tuples(pipelines, tmp_path):
    """Deep pipelines put the registers of a load by number before its walks."""
    text = (HERE / "slots.toml").read_text()
    config = tmp_path / "slots.toml"
    config.write_text(text.replace("[machine]\n", f'[machine]\npipelines = "{pipelines}"\n'))
    points = [placed(part, size, config) for part in PARTS for size in (0, 1)]
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


def test_a_wrong_word_of_a_beat_is_found(monkeypatch):
    """The lowest bit of the first beat of a source's memory: a planted fault."""
    one = placed("tuples", 0)
    right = streams.on_plane

    def wrong(*given):
        words = right(*given).copy()
        words[0, 0] ^= 1
        return words

    monkeypatch.setattr(image, "on_plane", wrong)
    with pytest.raises(PenstockError, match="payload digest"):
        array_rtl.run([one])


def test_a_word_missing_in_a_sink_is_found(monkeypatch):
    """Every beat is read a place too far: a planted fault."""
    one = placed("tuples", 0)
    right = ArrayDesign._sink_memories

    def wrong(design, graph):
        return [{**kept, "base": kept["base"] + kept["stride"]} for kept in right(design, graph)]

    monkeypatch.setattr(ArrayDesign, "_sink_memories", wrong)
    with pytest.raises(PenstockError, match="its memory has"):
        array_rtl.run([one])
