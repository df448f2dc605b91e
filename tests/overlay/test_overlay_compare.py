"""`penstock overlay compare`: tables, refusals; the paper's curves."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from penstock.cli import main
from penstock.hw.synthesis import Cost
from penstock.machine.errors import ConfigError, RunError
from penstock.overlay import compare, table, variants
from penstock.overlay.core.config import Overlay
from penstock.overlay.graphs import graph_from
from penstock.overlay.runs.reference import float64, relative_error
from penstock.overlay.studies.figures import CURVES, conclusion, in_time, published, rows_of, timed
from penstock.overlay.studies.resources import fits
from penstock.runs.progress import Progress
from penstock.scheduler.token import check, map_graph, place
from penstock.scheduler.token.edges import edges
from penstock.scheduler.token.mapping import task_of
from penstock.scheduler.token.partition import OBJECTIVES
from penstock.testing.token_graphs import random_graph


def test_compare_writes_records_and_a_table(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert (
        main(
            [
                *"overlay compare gen:ladder:12 --mesh 1x1 --mesh 2x2 --json".split(),
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    records = json.loads(out.read_text())
    assert len(records) == 2 * len(variants())
    for r in records:
        assert (
            r["values_ok"]
            and r["max_rel_err"] < 1e-6
            and r["cycles"] >= r["overlay"]["bounds"]["best"]
        )
        assert r["overlay"]["variant"] in text
        assert (
            r["overlay"]["scipy"]["error"] < 1e-6
            and r["overlay"]["scipy"]["residual"] < r["overlay"]["depth"]
        )
    assert "SciPy" in text and "residual" in text
    one = {r["overlay"]["variant"]: r for r in records if r["params"]["mesh"] == "1x1"}
    assert one["static"]["cycles"] == one["static"]["overlay"]["nodes"]


DEVICE = """
from penstock.overlay.graphs.equations import Equations
def equations():
    eq = Equations("mine", "resistor")
    v = eq.bias("v", -5, 5, 1.0)
    (g,) = eq.param(g=1e-3)
    eq.out("i", g * v)
    return eq
"""


def test_a_device_of_a_file_has_its_table_timeline_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(DEVICE)
    line = ["overlay", "compare", "device:mine.py*2", "--mesh", "2x1", "--pe", "static"]
    assert main([*line, "--csv", "a.csv", "--timeline", "a.json", "--png", "a.png"]) == 0
    (row,) = csv.DictReader(Path("a.csv").read_text().splitlines())
    events = json.loads(Path("a.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert {e["name"].split()[1] for e in slices} == {"mul"}
    assert max(e["ts"] + e["dur"] for e in slices) == int(row["cycles"])
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    capsys.readouterr()
    assert main([*line, "--mesh", "1x1", "--png", "a.png"]) == 1
    assert "--png: shows one run, and these are 2" in capsys.readouterr().err


MTX = "%%MatrixMarket matrix coordinate real general\n"


HALF = "graph g\nx = input 1.0\na = add x x\nb = mul a x\noutput y = b\n"
BAD = {
    "lu:a.mtx": (MTX + "2 2 4\n1 1 1\n1 2 1\n2 1 1\n2 2 1\n", r"matrix a\.mtx: is singular"),
    "column:a.mtx:1": (MTX + "2 2 4\n1 1 1\n1 2 1\n2 1 1\n2 2 1\n", "is singular: no pivot"),
    "a.mtx": (MTX + "1 1 1\n1 1 1\n", "a matrix, not a graph; use lu:a.mtx"),
    "a.cir": ("R1 1 0 5\n", "is a netlist, not a graph; use penstock overlay spice a.cir"),
    "a.dfg": ("x = input 1.0\na = add x z\noutput y = a\n", r"a\.dfg:2: .*z"),
    "b.dfg --memory op=2": (HALF, "memory op of PE 0: needs 3 words, but has 2 .*larger mesh"),
    "b.dfg --memory context=2": (HALF, r"memory context of PE 0: needs \d words, but has 2"),
}


@pytest.mark.parametrize("graph", BAD)
def test_bad_input_is_one_message_and_leaves_no_file(graph, tmp_path, monkeypatch, capsys):
    text, message = BAD[graph]
    name = re.search(r"[ab]\.\w+", graph)[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    words = ["--mesh", "1x1", "--quiet", "--json", "out.json"]
    assert main(["overlay", "compare", *graph.split(), *words]) == 1
    printed = capsys.readouterr()
    assert re.search(message, printed.err) and printed.err.count("\n") == 1 and printed.out == ""
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_placement_is_balanced_and_deterministic():
    graph = random_graph(3000, 900, 6, reach=200)
    e = edges(graph.op, graph.a, graph.b)
    scattered = np.random.default_rng(0).integers(0, 16, len(graph))
    measure = {
        "cut": lambda pe: int(np.count_nonzero(pe[e.src] != pe[e.dst])),
        "connectivity": lambda pe: len(
            {(s, p) for s, p in zip(e.src.tolist(), pe[e.dst].tolist(), strict=True) if pe[s] != p}
        ),
    }
    found = {}
    for objective in measure:
        pe = found[objective] = place(
            len(graph), e, np.ones(len(graph), np.int64), 4, 4, objective, seed=1
        )
        assert np.array_equal(
            pe, place(len(graph), e, np.ones(len(graph), np.int64), 4, 4, objective, seed=1)
        )
        assert np.bincount(pe, minlength=16).max() <= 1.1 * len(graph) / 16
        assert measure[objective](pe) < 0.6 * measure[objective](scattered)
    for objective, count in measure.items():
        assert min(found, key=lambda o: count(found[o])) == objective


def test_the_checker_finds_every_kind_of_damage():
    graph = random_graph(200, 60, 7)
    m = map_graph(graph, Overlay(3, 3, pe="static"))
    task = task_of(graph, m.overlay)
    check(m.schedule, task)
    operation = int(np.flatnonzero(~task.source)[-1])
    late = int(np.argmax(m.schedule.copy_cycle))
    damage = [
        (m.schedule.issue, operation, 0, "operand is read before|two users of one"),
        (m.schedule.send_cycle, 0, 0, "before it is there|does not arrive"),
        (m.schedule.copy_cycle, late, m.schedule.copy_cycle[late] + 1, "does not arrive|outside"),
        (m.schedule.copy_address, 0, 0, "two users of one address"),
        (
            m.schedule.edge_copy,
            int(np.flatnonzero(m.schedule.edge_copy >= 0)[0]),
            -1,
            "at another PE",
        ),
    ]
    for array, at, wrong, message in damage:
        held = array[at]
        array[at] = wrong
        with pytest.raises(RunError, match=message):
            check(m.schedule, task)
        array[at] = held
    check(m.schedule, task)


def test_a_placement_of_the_wrong_size_is_refused():
    with pytest.raises(ConfigError, match="gives each of the 50 nodes a PE from 0 to 3"):
        map_graph(random_graph(50, 20, 8), Overlay(2, 2), pe=np.zeros(49, np.int32))


def test_float64_reference_is_close_to_fp32():
    graph = random_graph(60, 30, 9)
    wanted = float64(graph, graph.sources())
    got = graph.evaluate().astype(np.float64)
    finite = np.isfinite(wanted) & (np.abs(wanted) < 1e30) & (graph.level < 3)
    assert np.allclose(got[finite], wanted[finite], rtol=1e-5, atol=1e-30)
    assert relative_error(np.array([1.0, np.nan]), np.array([2.0, np.nan])) == 0.5


@pytest.mark.parametrize(
    "spec, rounds", [("step:swiglu,t=1,dtype=bf16", True), ("step:swiglu,t=1", False)]
)
def test_roundings_that_float64_does_not_make_are_no_error(spec, rounds):
    (record,) = compare(graph_from(spec), [(1, 1)], variants({"pe": ["static"]}))
    assert record.values_ok and (record.max_rel_err is None) == rounds


def test_figures_lay_ours_beside_the_published_curves():
    curve = next(c for c in CURVES if c.name == "diode_simple")
    graph = random_graph(100, 30, 10)
    records = compare(
        graph, [(k, k) for k in (1, 2)], variants({"local": ["token"]}), objective="cut"
    )
    rows = rows_of(curve, graph, records)
    assert [r["PEs"] for r in rows][:3] == [1, 4, 9]
    assert (
        rows[0]["dynamic homogeneous"] == records[0].cycles
        and rows[0]["static homogeneous"] == records[1].cycles
    )
    assert rows[0]["published dynamic"] == next(
        p["cycles"]
        for p in published()
        if (p["graph"], p["pe"], p["pes"]) == ("diode_simple", "dynamic", 1)
    )
    assert {p["graph"] for p in published()} == {c.name for c in CURVES}
    assert table(records)[0]["x static"] == round(records[0].cycles / records[1].cycles, 2)


def test_figures_have_both_kinds_of_pe_on_one_placement_for_time():
    curve = next(c for c in CURVES if c.name == "diode_simple")
    graph = random_graph(100, 30, 10)
    records = timed(graph, [(2, 2)], (0,), Progress())
    static, paper, forward = records
    assert static.cycles == map_graph(graph, Overlay(2, 2, pe="static")).schedule.length
    assert len({(r.overlay["cut_edges"], r.overlay["pairs"]) for r in records}) == 1
    assert all(r.values_ok for r in records)
    row = rows_of(curve, graph, records)[1]
    assert (row["PEs"], row["ratio"]) == (4, None)
    assert row["ratio time"] == round(paper.cycles / static.cycles, 3)
    assert row["ratio forward"] == round(forward.cycles / static.cycles, 3)
    (timed_row,) = in_time([row], {"dynamic": 50, "static": 100})
    assert timed_row["static time"] == round(static.cycles / 100, 3)
    assert timed_row["ratio time"] == pytest.approx(2 * row["ratio time"], abs=0.01)
    assert timed_row["published ratio"] == pytest.approx(2.5 * row["published ratio"], abs=0.01)
    assert timed_row["forward time"] is None and timed_row["PEs"] == 4
    found = {r["setting"]: r for r in conclusion([row])}["one placement, for time"]
    assert found["model evaluation, median"] == round(row["ratio time"], 2)
    assert (found["model evaluation, points"], found["matrix solve, points"]) == (1, 0)


def test_pes_that_fit_a_zynq_7010():
    """Each with its switch, by the cells that run out first."""

    def part(name, variant, lut, bram):
        none = dict.fromkeys(Cost.__dataclass_fields__, 0)
        cells = none | {"lut": lut, "bram": bram}
        return {"pe": "static", "part": name, "variant": variant, "payload": 32, **cells}

    variant = "contexts in block RAM"
    rows = [part("PE", variant, 100, 4.5), part("switch", variant, 60, 0.5)]
    ours, *paper = fits([row | {"contexts": 1024} for row in rows])
    assert (ours["LUT"], ours["block RAM"]) == (160, 5)
    assert (ours["PEs that fit"], ours["by"]) == (12, "block RAM")
    assert [(r["PE"], r["PEs that fit"], r["by"]) for r in paper] == [
        ("dynamic", 17_600 // (1170 + 1882), "LUT"),
        ("static", 17_600 // (1393 + 349), "LUT"),
    ]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_another_seed_is_another_placement(objective):
    graph = random_graph(400, 100, 12)
    pes = [map_graph(graph, Overlay(2, 2), seed=s, objective=objective).pe for s in (0, 0, 1)]
    assert np.array_equal(pes[0], pes[1]) and not np.array_equal(
        pes[0] == pes[0][0], pes[2] == pes[2][0]
    )


def test_sources_that_underflow_are_reported(tmp_path, capsys):
    matrix = tmp_path / "a.mtx"
    matrix.write_text(MTX + "2 2 4\n1 1 5e-46\n1 2 -1\n2 1 1e-46\n2 2 2\n")
    line = ["overlay", "compare", f"lu:{matrix}", "--pe", "static", "--mesh", "1x1", "--quiet"]
    main(line)
    text = " ".join(capsys.readouterr().out.split())
    assert "underflow: 2 inputs or constants, A[0,0] the first, are 0 in fp32" in text
    main([*line, "--format", "fp64"])
    assert "underflow:" not in capsys.readouterr().out


def test_values_beyond_the_range_of_a_format_are_reported(tmp_path, capsys):
    graph = tmp_path / "far.dfg"
    graph.write_text("graph far\nx = input 1e60\nk = const 2.0\ny = mul x k\noutput z = y\n")
    line = ["overlay", "compare", str(graph), "--pe", "static", "--mesh", "1x1", "--quiet"]
    assert main(line) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "beyond range: 2 values, x the first, are infinite or no numbers in fp32" in text
    assert main([*line, "--format", "fp64"]) == 0
    assert "beyond range" not in capsys.readouterr().out
