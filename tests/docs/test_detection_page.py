"""The page on detection: what is explained was drawn, and nothing finds
it.
"""

import importlib
import re

import assignments_report
import coverage_report
import detection_report as report
import explained
import pytest
from penstock.tb.coverage import branches_of

ROOT = explained.NOTES.parents[1]
BRANCHES = explained.branches()
covered = pytest.mark.skipif(
    any(record.missing() for record in coverage_report.RECORDS),
    reason="not all cases are on record",
)


def numbers_of(line):
    """Source and number of the line of an explanation."""
    file, _, text = line.partition(": ")
    counted = re.fullmatch(r"(.*) #(\d+)", text)
    text, which = (counted[1], int(counted[2])) if counted else (text, 1)
    source = (ROOT / file).read_text()
    found = [k for k, one in enumerate(source.splitlines(), 1) if one.strip() == text]
    assert len(found) >= which, line
    return source, found[which - 1]


def test_an_explanation_is_of_a_line_that_is_there():
    """Whether it is drawn follows from the seed."""
    for line, _ in explained.mutants():
        numbers_of(line)


@pytest.mark.parametrize("line, branch", BRANCHES)
def test_an_explained_branch_is_there(line, branch):
    source, number = numbers_of(line)
    if branch == "none":
        assert re.search(r"m\.(If|Switch)\(", line)
    else:
        way = str(number) if branch == coverage_report.BODY else f"{number}.{branch}"
        assert way in branches_of(source).ways


def test_nothing_that_is_found_has_an_explanation():
    seen = report.found(report.ran(report.EVERY))
    rows = report.mutants()
    assert not {report.name_of(rows[n]) for n in seen} & set(explained.mutants())


def test_every_explanation_says_why():
    whys = [*explained.mutants().values(), *explained.branches().values()]
    assert all(why.strip() for why in whys)


@pytest.mark.parametrize("why", explained.mutants().values())
def test_a_mutant_that_nothing_finds_changes_nothing_or_is_found_by_a_test(why):
    if not why.startswith(report.EQUAL):
        assert why.endswith(report.FOUND)
        (place,) = re.findall(r"`(tests/[\w/.]+)`", why)
        assert (ROOT / place).exists()


@pytest.mark.skipif(bool(report.RECORD.missing()), reason="not all cases are on record")
def test_every_mutant_that_nothing_finds_is_explained():
    assert report.unexplained() == []


@covered
def test_every_branch_that_nothing_enters_is_explained():
    assert coverage_report.unexplained() == []


@covered
def test_every_assignment_that_nothing_reaches_is_explained():
    assert assignments_report.unexplained() == []


@pytest.mark.parametrize("function, number", explained.assignments())
def test_a_function_whose_assignments_are_explained_is_there(function, number):
    file, _, name = function.partition(": ")
    source = (ROOT / file).read_text("utf-8")
    lines = [n for n, p in assignments_report.places(source).items() if p.function == name]
    assert len({str(n) for n in lines} & branches_of(source).statements) >= number


SOURCE = """
class A:
    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.a.eq(1)
        if self.deep:
            m.d.comb += self.b.eq(
                self.a,
            )
        with m.If(self.a):
            m.d.sync += self.c.eq(0)
"""


def test_an_assignment_that_nothing_reaches_is_to_be_explained(monkeypatch, tmp_path):
    (tmp_path / "hw").mkdir()
    # Two lines of comments since the run.
    (tmp_path / "hw/a.py").write_text("# One.\n# Two.\n" + SOURCE)
    monkeypatch.setattr(assignments_report, "ROOT", tmp_path)
    row = {"file": "hw/a.py", "there": "10", "entered": "", "statements": "5 7 11"}
    entries = [{"case": coverage_report.TOTAL, "rows": [row | {"executed": ""}]}]
    kind = type(coverage_report.RECORD)
    monkeypatch.setattr(kind, "entries", lambda self, begin="": entries)
    name = "hw/a.py: A.elaborate"
    assert assignments_report.left() == {name: [5, 7]}
    entries.append({"case": coverage_report.FUZZED, "rows": [row | {"executed": "5"}]})
    assert assignments_report.left() == {name: [7]}
    assert assignments_report.unexplained() == [(name, 1)]
    assert f"| `{name}` | 7 |" in assignments_report.table()
    entries[1]["rows"] = [row | {"entered": "10", "executed": "5"}]
    assert assignments_report.left() == {name: [7, 11]}
    monkeypatch.setattr(explained, "assignments", lambda: {(name, 2): "no design is deep"})
    assert assignments_report.unexplained() == []
    (tmp_path / "hw/a.py").write_text(SOURCE.replace("self.a.eq(1)", "self.a"))
    assert assignments_report.left() == {}


def test_a_mutant_that_nothing_finds_is_to_be_explained(monkeypatch):
    made = importlib.import_module("made.detection")
    (line, fault), *_ = explained.mutants()
    cell, _, form = fault.partition(" ")
    known = {"number": 1, "place": "hw/a.py:1", "line": line, "cell": cell, "form": form}
    new = known | {"number": 2, "line": "hw/a.py: x = 1"}
    seen = known | {"number": 3, "line": "hw/a.py: y = 1"}
    drawn = [known, new, seen]
    ran = [{"number": row["number"], "found": row is seen} for row in drawn]
    rows = {made.DRAW: drawn, report.EVERY[0]: ran}
    entries = [{"case": case, "drawing": "one", "rows": some} for case, some in rows.items()]
    kind = type(made.RECORD)
    monkeypatch.setattr(kind, "entries", lambda self, begin="": entries)
    assert report.unexplained() == [("hw/a.py: x = 1", fault)]


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


def entered_and_explained():
    _, found = coverage_report.whole()
    said = coverage_report.lines()
    names = {coverage_report.name_of(place, said) for place in found["entered"]}
    return names & set(BRANCHES)


def test_nothing_that_is_entered_has_an_explanation():
    assert not entered_and_explained()


def test_a_branch_is_explained_by_what_its_line_says_until_it_is_entered(monkeypatch):
    line, branch = next(key for key in BRANCHES if key[1] in "01")
    file, _, text = line.partition(": ")
    row = {
        "file": file,
        "there": f"7.{branch}",
        "entered": "",
        "statements": "",
        "executed": "",
        "lines": {"7": text},
    }
    entries = [{"case": coverage_report.TOTAL, "rows": [row]}]
    kind = type(coverage_report.RECORD)
    monkeypatch.setattr(kind, "entries", lambda self, begin="": entries)
    assert f"| `{file}:7` | side {branch} of a `Mux` | {BRANCHES[line, branch]} |" in (
        coverage_report.unreached()
    )
    assert not entered_and_explained()
    new = "with m.If(new):"
    there = row | {"there": f"7.{branch} 8"}
    there["lines"] = {"7": text, "8": new}
    entries.append({"case": coverage_report.FUZZED, "rows": [there]})
    found = (f"{file}: {new}", coverage_report.BODY)
    assert coverage_report.unexplained() == [found]
    entries.pop()
    ran = row | {"entered": row["there"], "lines": {}}
    entries.append({"case": coverage_report.FUZZED, "rows": [ran]})
    assert coverage_report.missed() == []
    assert entered_and_explained() == {(line, branch)}


def test_what_is_entered_is_there():
    there, found = coverage_report.whole()
    files = {coverage_report.file_of(place) for place in there["there"]}
    assert {p for p in found["entered"] if coverage_report.file_of(p) in files} <= there["there"]
    assert found["entered"]
