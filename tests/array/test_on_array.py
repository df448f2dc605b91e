"""Programs on an array through the commands of all programs: `run`, `sweep`, `explain`, and the
timeline.
"""

import json
from pathlib import Path

import pytest
from penstock.cli import main
from penstock.machine.errors import PenstockError
from penstock.model.timeline import LINKS
from penstock.runs import api, array, explain, links, task
from penstock.runs.options import Options

pytestmark = pytest.mark.xdist_group("array")  # compiles once
TINY = "array_tiny"
SIZES = (8, 16)
MOE = [f"--set={x}" for x in ("dim=4", "out=4", "tiles=1", "dtype=bf16")]


def test_a_sweep_places_each_point(tmp_path):
    out = tmp_path / "r.json"
    words = ["sweep", "swiglu", "--array", TINY, "--set=inter=8,16", "--quiet", "--json", str(out)]
    assert main(words) == 0
    records = api.load_records(out)
    placed = [array.place("swiglu", TINY, {"inter": n}) for n in SIZES]
    assert [r.cycles for r in records] == [array.run(x)[1].cycles for x in placed]
    assert all(r.values_ok and r.config == TINY for r in records)
    own = api.sweep("swiglu", TINY, {"inter": SIZES})
    assert [r.cycles for r in own] != [r.cycles for r in records]


def test_a_store_knows_a_placed_point_from_one_that_is_not():
    placed, own = (task._shaping(Options(on_array=x)) for x in (True, False))
    assert placed != own
    assert "on_array" not in own


def test_explain_tells_chain_and_links(capsys):
    assert main(["explain", "swiglu", "--array", TINY, "--quiet"]) == 0
    own, there = capsys.readouterr().out.split("\n\n")
    assert own.startswith("on a fabric of its own:")
    assert there.startswith(f"placed on {TINY}:")
    assert "bounding chain" in own
    assert "links:" not in own
    mapping = array.place("swiglu", TINY).mapping
    assert f"links: {sum(mapping.tracks_used().values())} tracks of" in there


def test_links_are_those_of_the_routes():
    """Busy cycles of the hops behind a link are the beats on its track."""
    placed = array.place("swiglu", TINY)
    used = placed.mapping.tracks_used()
    record = array.run(placed, values=False)[1]
    found = {name: n for name, n, _ in explain.busiest_links(record)}
    assert sum(found.values()) == sum(used.values())
    assert len(found) == len(used)


def test_a_timeline_has_a_track_for_each_track_of_a_link(tmp_path):
    path = api.timeline("swiglu", TINY, out=tmp_path / "t.json", on_array=True)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["pid"] == LINKS]
    named = {e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    graph = array.place("swiglu", TINY).mapping.graph
    assert named == set(links.tracks(graph).values())
    beats = sum(e["dur"] for e in events if e["ph"] == "X")
    run = array.run(array.place("swiglu", TINY), values=False)[1]
    tracks = [u for u in run.units if links.link_of(u["kind"], u["name"])]
    assert beats == sum(u["busy"] for u in tracks) > 0
    own = api.timeline("swiglu", TINY, out=tmp_path / "own.json")
    assert all(e["pid"] != LINKS for e in json.loads(own.read_text())["traceEvents"])


def test_run_names_streams_that_no_memory_holds(capsys):
    words = ["run", str(Path(__file__).parent / "stream_program.py"), "--array", TINY, "--quiet"]
    assert main([*words, "--set=beats=32"]) == 0
    assert "0 of 2 own streams in memories of slots; at ports: x, y\n" in capsys.readouterr().out
    assert main(words) == 0
    assert "2 of 2 own streams in memories of slots\n" in capsys.readouterr().out
    assert main([*words[:2], "--config", TINY, "--quiet"]) == 0
    assert "own streams" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweep", "swiglu", "--array", "fig8"], "has no table [array]"),
        (["run", "swiglu", "--array", TINY, "--config", "small_fpga"], "beside --array"),
        (["run", "swiglu", "--array", TINY, "--timing", "stepsim"], "has no array"),
        (["run", "simple_moe", "--array", TINY, *MOE], "has no slot for"),
    ],
)
def test_bad_input_is_one_message(words, said, capsys):
    assert main([*words, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_waveforms_are_for_fabrics_of_their_own():
    with pytest.raises(PenstockError, match="waveforms"):
        Options(on="rtl", waves="w", on_array=True)
