"""The bench of dynamic against static: the paper's distance; a record grows run by run."""

import dynamic
import pytest


def test_the_distance_is_that_of_the_paper():
    static = [(100, 10), (50, 20), (40, 40), (60, 30)]  # the last one is dominated
    assert dynamic.distance((50, 10), static) == 2.0 and dynamic.distance((50, 20), static) == 1.0
    assert dynamic.distance((80, 16), static) == 1.25 and dynamic.distance(
        (100, 40), static
    ) == pytest.approx(0.5)
    assert dynamic.distance((45, 22), [(60, 30)]) == pytest.approx(30 / 22)  # alone it is the front


def test_runs_replace_those_of_the_same_variant_and_draw(tmp_path):
    path = tmp_path / "r.json"
    rows = [dynamic.Row("small", "tiling", "dynamic", d, True, cycles=10 + d) for d in range(2)]
    dynamic.store(path, rows)
    other = dynamic.Row("small", "tiling", "static 4", 0, True, cycles=7)
    kept = dynamic.store(
        path, [dynamic.Row("small", "tiling", "dynamic", 1, True, cycles=99, cycles_rtl=99), other]
    )
    assert kept == dynamic.read(path) and [(r.name, r.draw, r.cycles) for r in kept] == [
        ("static 4", 0, 7),
        ("dynamic", 0, 10),
        ("dynamic", 1, 99),
    ]
    told = dynamic.checked(kept)
    assert "made on RTL too | 1 of 3 |" in told and "tiling dynamic" in told


def test_pages_in_use_are_held_against_the_bound():
    rows = [
        dynamic.Row(
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
            [
                dynamic.Row(
                    "small", "tiling", "dynamic", 0, True, cycles=10, onchip=1, peak=1, offchip=1
                )
            ],
            "small",
        )
        == []
    )


def test_a_cost_keeps_the_build_that_it_found_in_the_cache(tmp_path):
    path = tmp_path / "r.json"
    cold = dynamic.Cost("small", "tiling", "dynamic", 2, 40, 10.0, 9.0, 50.0, 45.0, 4.0, 3.0)
    dynamic.store(path, [], cold)
    warm = dynamic.Cost("small", "tiling", "dynamic", 4, 40, None, None, None, None, 12.0, 8.0)
    dynamic.store(path, [], warm)
    (kept,) = dynamic.read_costs(path)
    assert (kept.draws, kept.export_s, kept.build_cpu_s, kept.run_s) == (4, 10.0, 45.0, 12.0)
    assert (
        dynamic.expenses([kept], "small")[-2].split("|")[-3:] == [" 63.0 ", " 56.0 ", ""]
        and dynamic.expenses([warm], "small")[-2].split("|")[-3] == " - "
    )


def test_the_meter_tells_stages_apart():
    told = []
    meter = dynamic.Meter(dynamic.Progress())
    meter.shown.stage = told.append
    meter.stage("export Verilog of moe, build 1 of 1")
    meter.stage("simulate 2 points")
    meter.end()
    assert told == ["export Verilog of moe, build 1 of 1", "simulate 2 points"] and set(
        meter.spent
    ) == {"model", "export", "simulate"}
    assert all(wall >= 0 and cpu >= 0 for wall, cpu in meter.spent.values())
