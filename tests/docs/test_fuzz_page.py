"""The page of the fuzzer adds up the parts of a campaign."""

import fuzz_report
import report
from made import fuzz

COUNTS = {
    "programs": 10,
    "structures": 4,
    "streams": 5,
    "RTL builds": 1,
    "beats compared on RTL": 700,
    "cycles on RTL": 90,
}


def part(*hits, failures=()):
    named = [{"group": g, "what": w, "hits": n} for g in fuzz_report.GROUPS for w, n in hits]
    row = {"counts": COUNTS, "hits": named, "failures": list(failures), "wall_s": 60}
    return {"rows": [row], "versions": {"verilator": "5"}}


def test_the_readme_adds_them_up_too(monkeypatch):
    rows = [row for entry in (part(("a", 1)), part(("a", 2))) for row in entry["rows"]]
    monkeypatch.setattr(report, "added", lambda _: fuzz_report.added(rows))
    (_, fuzzing) = report.check_lines()
    assert fuzzing[:2] == ["fuzzing: 20 programs, 10 streams on RTL", "0 failures in 1,400 beats"]


def test_parts_of_a_campaign_add_up():
    failure = {"message": "output y: 1 of 4 values differ\nmore"}
    page = fuzz_report.campaign(
        [part(("a", 5), ("b", 30)), part(("a", 20), ("b", 1), failures=[failure])]
    )
    assert "| programs | 20 of 8 structures |" in page
    assert "| minutes on 2 cores | 2 |" in page
    assert "| failures | **1** |" in page
    assert "* output y: 1 of 4 values differ" in page
    assert "| operators and functions | 2 | 25 | `a` |" in page


def test_a_campaign_says_what_it_met_too_rarely():
    parts = [part(("a", fuzz.LEAST - 1), ("b", fuzz.LEAST)), part(("a", 0), ("b", 0))]
    rows = [row for entry in parts for row in entry["rows"]]
    assert set(fuzz_report.met_too_rarely(rows)) == {
        f"{group} a: {fuzz.LEAST - 1} of at least {fuzz.LEAST}" for group in fuzz_report.GROUPS
    }


def test_the_campaign_on_record_met_all_it_has_to():
    rows = fuzz.RECORD.rows()
    assert len(rows) < fuzz.PARTS or not fuzz_report.met_too_rarely(rows)
