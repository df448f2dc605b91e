"""The page on detection: what is explained was drawn, and nothing finds
it.
"""

import importlib
import re

import coverage_report
import detection_report as report

ROOT = report.NOTES.parents[1]


def test_an_explanation_is_of_a_line_that_is_there():
    """Whether it is drawn follows from the seed."""
    for line, _ in report.explained():
        file, _, text = line.partition(": ")
        counted = re.fullmatch(r"(.*) #(\d+)", text)
        lines = [one.strip() for one in (ROOT / file).read_text().splitlines()]
        assert lines.count(counted[1] if counted else text) >= int(counted[2] if counted else 1), (
            line
        )


def test_nothing_that_is_found_has_an_explanation():
    seen = report.found(report.ran(report.EVERY))
    rows = report.mutants()
    assert not {report.name_of(rows[n]) for n in seen} & set(report.explained())


def test_what_was_found_of_another_draw_does_not_count(monkeypatch):
    made = importlib.import_module("made.detection")
    first, second, *_ = made.DESIGNS
    of_one = {"drawing": "one", "rows": [{"number": 1, "found": True}]}
    entries = {made.DRAW: of_one, first: of_one, second: of_one | {"drawing": "other"}}
    monkeypatch.setattr(
        type(made.RECORD),
        "entries",
        lambda self, begin="": [{"case": c} | e for c, e in entries.items() if c == begin],
    )
    assert report.ran(made.DESIGNS) == [first]
    assert report.found([first]) == {1}
    assert report.found([second]) == set()
    assert made.stored(second) == []


def test_a_share_is_of_what_there_is():
    assert report.share(1, 4) == "1 of 4 (25 %)"
    assert report.share(0, 0) == ""


def test_an_explanation_is_of_a_branch_that_nothing_enters():
    assert set(coverage_report.EXPLAINED) <= set(coverage_report.missed())


def test_what_is_entered_is_there():
    there, found = coverage_report.whole()
    files = {coverage_report.file_of(place) for place in there["there"]}
    assert {p for p in found["entered"] if coverage_report.file_of(p) in files} <= there["there"]
    assert found["entered"]
