"""Dated measurements: small, each row with its run, and a sample that sees a change."""

import json

import measure
import measurements
import pytest
import sample
import tables
from measurements import MEASUREMENTS, ROOT, Bench, Measurement
from penstock.machine.errors import PenstockError

FILES = [*(ROOT / "docs" / "results").glob("*.json"), *(ROOT / "docs" / "results").glob("*.csv")]


def test_measurements_are_few_and_small():
    held = {one.path for one in MEASUREMENTS.values()}
    assert len(MEASUREMENTS) <= 16
    assert {path for path in FILES if path.suffix == ".json"} <= held
    assert sum(path.stat().st_size for path in held | set(FILES)) < 400_000


@pytest.mark.parametrize("one", MEASUREMENTS.values(), ids=lambda one: one.name)
def test_every_row_has_date_commit_machine_tools_and_command(one):
    stored = one.stored()
    for case in stored["cases"].values():
        run = stored["runs"][case["run"]]
        assert all(run[key] for key in ("date", "commit", "machine", "tools", "command"))
        assert case["rows"]


@pytest.fixture
def cycles(tmp_path, monkeypatch):
    """A measurement of two cases, and the rows that its bench makes."""
    rows = {"a": [{"cycles": 5, "rate": 100.0}], "b": [{"cycles": 7, "rate": 10.0}]}
    one = Measurement("cycles", "", rates=("rate",), path=tmp_path / "cycles.json")
    monkeypatch.setattr(Measurement, "made", lambda self: Bench(lambda: rows, rows.__getitem__))
    for module in (measurements, sample, tables):
        monkeypatch.setattr(module, "MEASUREMENTS", {"cycles": one})
    monkeypatch.setattr(tables, "HISTORY", tmp_path / "history.csv")
    assert measure.main(["cycles", "--changed"]) == 0
    return one, rows


def test_a_case_that_is_renewed_leaves_the_others(cycles, monkeypatch):
    one, rows = cycles
    claim = tables.Line("all", "cycles", "{sum cycles}")
    monkeypatch.setattr(tables, "SHORT", [claim])
    monkeypatch.setattr(measurements, "commit", lambda: "a later one")
    rows["a"][0]["cycles"] = rows["b"][0]["cycles"] = 6
    assert measure.main(["cycles/a", "--changed"]) == 0
    assert [row["cycles"] for row in one.rows()] == [6, 7]
    json.loads(one.path.read_text())
    assert tables.HISTORY.read_text().endswith(",a later one,all,13\n")
    assert claim.cells()[-1].endswith(", `a later one`")


def test_a_dry_run_stores_nothing(cycles):
    one, rows = cycles
    rows["a"][0]["cycles"] = 9
    assert measure.main(["cycles", "--dry"]) == 0
    assert [row["cycles"] for row in one.rows()] == [5, 7]


@pytest.mark.parametrize(
    ("column", "value", "differs"),
    [("cycles", 6, True), ("cycles", 5, False), ("rate", 130.0, False), ("rate", 60.0, True)],
)
def test_a_sample_compares_cycles_exactly_and_rates_within_a_third(
    cycles, capsys, column, value, differs
):
    rows = cycles[1]
    rows["a"][0][column] = value
    assert sample.main(["1", "--seed", "today"]) == differs
    assert ("cycles/a: DIFFERS" in capsys.readouterr().out) == differs


def test_an_unknown_measurement_is_refused():
    with pytest.raises(PenstockError, match="no measurement 'nothing'"):
        measurements.named(["nothing"])


def test_a_table_has_totals_and_its_source(cycles):
    columns = {"head": "case | cycles", "row": "{case} | {sum cycles}"}
    text = tables.Table("cycles", **columns, by=["case"], total="all").text()
    assert "| a | 5 |\n| b | 7 |\n| all | 12 |" in text
    assert text.endswith("`nox -s measure -- cycles`.")
