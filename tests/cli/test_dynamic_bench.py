"""The bench of dynamic against static: the paper's distance, and what
its tables say.
"""

import statistics

import dynamic
import pytest
from made.dynamic import Cost, Meter, Row
from penstock.runs.progress import Progress


def test_the_distance_is_that_of_the_paper():
    static = [(100, 10), (50, 20), (40, 40), (60, 30)]  # the last one is dominated
    assert dynamic.distance((50, 10), static) == 2.0 and dynamic.distance((50, 20), static) == 1.0
    assert dynamic.distance((80, 16), static) == 1.25 and dynamic.distance(
        (100, 40), static
    ) == pytest.approx(0.5)
    assert dynamic.distance((45, 22), [(60, 30)]) == pytest.approx(30 / 22)  # alone it is the front


def test_dynamic_wins_on_skewed_draws():
    """Runs on the model: tiles of run-time size lie beyond the front of
    the static ones, and work that is given out as it comes is done
    first.
    """
    draws = range(3)
    rows = []
    for v in dynamic.variants("small"):
        if v.study != "regions":
            rows += dynamic.measure(v, "small", draws, "model", Progress())[0]
    assert all(r.values_ok for r in rows)
    s = dynamic.Study(rows, "small")
    assert min(statistics.median(s.distances(q, True)) for q in ("onchip", "peak")) > 1
    for n in ("coarse", "interleaved"):
        ratios = s.ratios("attention", n, ("attention", "dynamic"), "cycles", True)
        assert statistics.median(ratios) > 1


def test_pages_in_use_are_held_against_the_bound():
    rows = [
        Row(
            "small",
            "tiling",
            "dynamic",
            d,
            True,
            cycles=10,
            cycles_rtl=10,
            mismatches=0,
            values_ok=True,
            peak=3 + d,
            bound=8,
        )
        for d in range(2)
    ]
    said = dynamic.checked(rows)
    assert "made on RTL too | 2 of 2 |" in said
    assert "of the requirement by rule `paper` | 50.0% |" in said


def test_a_study_without_its_counterpart_has_no_table():
    assert (
        dynamic.tables(
            [Row("small", "tiling", "dynamic", 0, True, cycles=10, onchip=1, peak=1, offchip=1)],
            "small",
        )
        == []
    )


def test_a_build_from_the_cache_has_no_time():
    cold = Cost("small", "tiling", "dynamic", 2, 40, 10.0, 9.0, 50.0, 45.0, 4.0, 3.0)
    warm = Cost("small", "tiling", "dynamic", 4, 40, None, None, None, None, 12.0, 8.0)
    last = dynamic.expenses([cold], "small")[-2].split("|")
    assert last[-3:] == [" 62.0 ", " 55.5 ", ""]
    assert dynamic.expenses([warm], "small")[-2].split("|")[-3] == " - "


def test_the_meter_tells_stages_apart():
    told = []
    meter = Meter(Progress())
    meter.shown.stage = told.append
    meter.stage("export Verilog of moe, build 1 of 1")
    meter.stage("simulate 2 points")
    meter.end()
    assert told == ["export Verilog of moe, build 1 of 1", "simulate 2 points"] and set(
        meter.spent
    ) == {"model", "export", "simulate"}
    assert all(wall >= 0 and cpu >= 0 for wall, cpu in meter.spent.values())
