"""Tables of many points: sweeps and regressions, with points that fail among those that do not."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from penstock import cli
from penstock.frontend import build, lower
from penstock.machine.config import load
from penstock.machine.errors import RunError
from penstock.runs import api, regress, tables

ROTARY = str(Path(__file__).parents[2] / "samples" / "files" / "rotary.py")


def test_a_sweep_is_every_combination_in_one_table(capsys, tmp_path):
    out = tmp_path / "r.json"
    assert (
        cli.main(
            [
                *"sweep swiglu --config small_fpga --set tile_b=4,8".split(),
                *"--set tile_inter=8,16,32 --set batch=8 --csv --json".split(),
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["tile_b"], r["tile_inter"], r["batch"]) for r in rows] == [
        (b, i, "8") for b in "48" for i in ("8", "16", "32")
    ]
    records = api.load_records(out)
    assert [int(r["cycles model"]) for r in rows] == [r.cycles for r in records]
    alone = api.run("swiglu", "small_fpga", {"tile_b": 8, "tile_inter": 16, "batch": 8})[0]
    assert records[4].cycles == alone.cycles and records[4].dram_bytes == alone.dram_bytes


def test_a_sweep_is_every_combination_of_machines_and_seeds(capsys):
    words = "swiglu --machine channel_depth=2,4 --machine dram.interval=1,2 --quiet"
    given = ["sweep", *words.split(), "--config", "small_fpga", "--csv", "--seed", "3"]
    assert cli.main([*given, "--seed", "4"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["channel_depth"], r["dram.interval"], r["seed"]) for r in rows] == [
        (depth, interval, seed) for depth in "24" for interval in "12" for seed in "34"
    ]
    config = load("small_fpga", {"channel_depth": 4, "dram.interval": 1})
    (alone,) = api.run("swiglu", config)
    assert alone.config == "small_fpga channel_depth=4 dram.interval=1"
    assert [int(r["cycles model"]) for r in rows[4:6]] == [alone.cycles] * 2
    assert len({r["cycles model"] for r in rows}) == 4


def test_run_show_and_explain_take_several_machines(capsys):
    words = "swiglu --config small_fpga --config lean_fpga --quiet"
    assert cli.main(["run", *words.split()]) == 0
    assert re.findall(r"^ +(\w+) +(\d+) ", capsys.readouterr().out, re.M) == [
        ("small_fpga", "1123"),
        ("lean_fpga", str(api.run("swiglu", "lean_fpga")[0].cycles)),
    ]
    words = "swiglu --config small_fpga --machine dram.interval=1,2 --quiet"
    for command in ("show", "explain"):
        assert cli.main([command, *words.split()]) == 0
        printed = capsys.readouterr().out
        assert re.findall(r"^with (.*):$", printed, re.M) == ["dram.interval=1", "dram.interval=2"]
    assert "swiglu on small_fpga dram.interval=2, model, machine timing: 1123 cycles" in printed


def test_a_point_that_fails_does_not_take_the_others_along(capsys, tmp_path):
    out = tmp_path / "r.json"
    code = cli.main(
        [*"sweep swiglu --config small_fpga --set tile_b=4,0,8 --json".split(), str(out), "--quiet"]
    )
    printed = capsys.readouterr()
    assert (
        code == 1
        and printed.err.startswith("FAILED tile_b=0: ")
        and "into parts of 0" in printed.err
        and printed.err.count("\n") == 1
    )
    assert [r.params["tile_b"] for r in api.load_records(out)] == [4, 8]
    assert "FAILED" in printed.out


@pytest.mark.xdist_group("rtl-small")
def test_a_regression_keeps_the_rows_of_a_design_with_a_failed_point(tmp_path):
    design = regress.Design(
        "rotary", "small_fpga", ({"rows": 8}, {"tile_rows": 0}, {"rows": 12}), program=ROTARY
    )
    records, rows = regress.run(designs=(design,))
    good, bad, also, total = rows
    assert (good["cycles RTL"], also["cycles RTL"]) == tuple(
        r.cycles for r in records if r.backend == "model"
    )
    assert good["error"] == also["error"] == 0 and "failed" not in good | also
    assert bad["point"] == "tile_rows=0" and "cycles RTL" not in bad and bad["failed"]
    assert len({r.build for r in records if r.backend == "rtl"}) == 1
    assert (
        total["point"] == "2 of 3 points passed"
        and total["cycles RTL"] == good["cycles RTL"] + also["cycles RTL"]
    )
    out = tmp_path / "not" / "there"
    regress.save(out, records, rows)
    stored = json.loads((out / "regress.json").read_text())
    assert stored["total"]["cycles RTL"] == total["cycles RTL"] and len(stored["rows"]) == 3
    assert bad["failed"] in (out / "regress.txt").read_text()


@pytest.mark.xdist_group("rtl-small")
def test_rtl_points_fail_one_by_one():
    from penstock.tb import run_many

    config = load("small_fpga")
    programs = [build(ROTARY, {"rows": rows}, config) for rows in (8, 64)]
    jobs = [(lower(p.graph, config), p.inputs(0)) for p in programs]
    short, long = run_many(jobs, config, max_cycles=200, keep_going=True)
    assert short.cycles < 200 and isinstance(long, RunError) and "limit of 200 cycles" in str(long)
    with pytest.raises(RunError, match="limit of 200 cycles"):
        run_many(jobs, config, max_cycles=200)


def test_a_difference_is_a_failure_that_keeps_its_records(monkeypatch):
    record = api.run("swiglu", "small_fpga")[0]
    wrong = api.Outcome({}, record, record, RunError("model and RTL differ"))
    row = tables.row(wrong, point="p")
    assert (
        row["cycles RTL"] == record.cycles
        and tables.failures([row]) == "FAILED p: model and RTL differ"
    )
    assert tables.total([row])["point"] == "0 of 1 points passed"
    record.values_ok = False
    assert "NumPy" in tables.row(api.Outcome({}, record))["failed"]


def test_a_printed_table_has_eight_columns_and_a_wide_one_all(capsys):
    words = "sweep swiglu --config small_fpga --set batch=8 --no-values --jobs 1 --quiet"
    assert cli.main(words.split()) == 0
    printed = capsys.readouterr().out
    header, *_, last = printed.splitlines()
    assert re.split("  +", header.strip())[-1] == "values" and len(header) <= 100
    assert last == "not shown: max rel err, wall s (--wide shows all)"
    assert cli.main([*words.split(), "--wide"]) == 0
    assert "max rel err" in capsys.readouterr().out.splitlines()[0]
    rows = [{f"column {i}": i for i in range(12)}]
    assert len(tables.fitting(rows, 1000)[0].columns) == tables.MOST_COLUMNS


def test_a_broad_column_is_left_out_before_those_to_its_right():
    rows = [{"design": "d", "point": "p" * 60, "cycles": 1, "differ": 0}]
    assert tables.fitting(rows, 40)[1] == ["point"]
