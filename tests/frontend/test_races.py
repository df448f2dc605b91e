"""A read of off-chip memory that no acknowledgement orders behind a store, nor the store behind it,
is found; reads and writes in order pass, whatever they share.
"""

import penstock
import pytest
from penstock import cli
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore, print_graph, read_graph
from penstock.frontend.meaning.races import races
from penstock.machine.config import load
from penstock.machine.errors import PenstockError
from penstock.machine.record import load as load_records
from penstock.runs.expected import expected
from penstock.runs.point import Point

RACE = """
import numpy as np
from penstock.frontend import *

def program(order, tile=4, n=6, bins=4, again=0, role="output", dtype="fp32"):
    g = Graph("race")
    x, y = g.input("x", (n, 4), dtype), getattr(g, role)("y", (bins, 4), dtype)
    at = Source(graph=g, shape=(n,), scalar=32, name="at")
    xs = Flatten(LinearOffChipLoad(x, tile=(1, 4), shape=(n,), stride=(1,), name="x"), lo=0, hi=1)
    if order in ("twice", "one by one"):
        stored = RandomOffChipStore(at, xs, tensor=y, name="put")
        if order == "one by one":  # each tile one row further down, when the first is there
            at = Map(at, stored, fn=address(1))
        more = RandomOffChipStore(at, xs, tensor=y, name="more")
        Sink(stored, name="end"), Sink(more, name="last")
        return g
    if order == "in place":  # each sum is written where its term was read
        old = RandomOffChipLoad(at, tensor=y, tile=(1, 4), name="old")
        xs = Map(cast(old, "fp32"), cast(xs, "fp32"), fn=add(), name="sum")
        stored = RandomOffChipStore(Fifo(at, depth=64), cast(xs, dtype), tensor=y, name="put")
        Sink(stored, name="end")
        return g
    stored = RandomOffChipStore(at, xs, tensor=y, name="put")
    if order == "after all":
        stored = Accum(Promote(stored), fn=all_read(), rank=1)
    elif order == "elsewhere":
        Sink(stored, name="end")
        stored = Source(graph=g, shape=(1,), scalar=32, name="late")
    read = LinearOffChipLoad(y, tile=(1, tile), shape=(2,), stride=(1,), ref=stored, name="read")
    Sink(read, name="seen")
    return g

def streams(seed, order, again=0, n=6, **_):
    given = {"at": [3, 2, 1] if order == "one by one" else [0, again, 2, 3, 1, 3][:n]}
    return given | {"late": [0]} if order == "elsewhere" else given
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "race.py"
    path.write_text(RACE)
    return str(path)


@pytest.mark.parametrize("order, n", [("twice", 6), ("one by one", 3)])
def test_two_stores_of_one_place_are_named_where_nothing_orders_them(program, order, n):
    point = Point(program, load("small_fpga"), {"order": order, "n": n, "bins": 8})
    _, meaning = expected(point.program.graph, point.tensors, 4, point.streams)
    found = [(r.other.name, r.store.name) for r in races(point.program.graph, meaning)]
    assert found == ([("put", "more")] if order == "twice" else [])


@pytest.mark.parametrize(
    "params, first",
    [
        ({"order": "in place"}, ("old", 1, 0, 0)),
        ({"order": "in place", "again": 1, "n": 4}, None),
        ({"order": "after all"}, None),
        ({"order": "after each"}, ("read", 0, 1, 0)),
        ({"order": "after each", "again": 1, "n": 2}, ("read", 1, 1, 1)),
        ({"order": "elsewhere"}, ("read", 0, 0, 0)),
        ({"order": "elsewhere", "tile": 2}, ("read", 0, 0, 0)),
    ],
)
def test_a_read_that_nothing_orders_with_a_store_is_named(program, params, first):
    if first is None:
        (record,) = penstock.run(program, "small_fpga", params)
        assert record.values_ok and not record.wrong
        return
    with pytest.warns(RuntimeWarning, match="races"):
        (record,) = penstock.run(program, "small_fpga", params)
    load_name, read, written, row = first
    line = load("small_fpga").machine.dram.line_bytes
    (message,) = [m for m in record.wrong if "races" in m]
    assert f"operator {load_name} (" in message and "operator put (Random" in message
    assert f"tensor y: its element {read} reads row {row}, column 0" in message
    assert f"which element {written} of the store writes" in message
    address = int(message.partition("the line at ")[2].partition(",")[0], 16)
    assert record.values_ok is False and address % line == 0


@pytest.mark.parametrize("on", ["model", pytest.param("both", marks=pytest.mark.deep)])
@pytest.mark.parametrize("order", ["in place", "after all"])
def test_a_tensor_changed_in_place_begins_with_its_values(on, order, program):
    """Terms are added to what was read, or rows put among those that a later read sees, too."""
    params = {"order": order, "again": 1, "n": 3, "role": "inout"}
    point = Point(program, load("small_fpga"), params)
    outputs, meaning = expected(point.program.graph, point.tensors, 4, point.streams)
    x, before = (point.tensors[n].astype("float64") for n in "xy")
    after = before.copy()
    after[:3] = x + (before[:3] if order == "in place" else 0)
    assert outputs["y"].astype("float64") == pytest.approx(after, rel=1e-2)
    assert not list(races(point.program.graph, meaning))
    records = penstock.run(program, "small_fpga", params, on=on)
    assert all(r.values_ok and not r.wrong and r.mismatches in (None, 0) for r in records)
    text = print_graph(point.program.graph)
    assert "inout('y', [4, 4], 'bf16')" in text and print_graph(read_graph(text)) == text


def test_a_tensor_to_change_that_nothing_stores_is_refused():
    g = Graph("read")
    LinearOffChipStore(LinearOffChipLoad(g.inout("x", (4, 4)), tile=(4, 4)), g.output("y", (4, 4)))
    with pytest.raises(PenstockError, match=r"inout tensor x .*nothing stores it.*RandomOffChip"):
        g.check()


@pytest.mark.parametrize("on", ["model", pytest.param("both", marks=pytest.mark.deep)])
def test_a_race_fails_every_command(on, program, tmp_path, capsys):
    words = [program, "--config", "small_fpga", "--quiet", "--set", "order=in place"]
    count = 1 + (on == "both")
    out = tmp_path / "r.json"
    assert cli.main(["run", *words, "--on", on, "--json", str(out)]) == 1
    assert capsys.readouterr().err.count("operator old (RandomOffChipLoad) races") == count
    assert [r.values_ok for r in load_records(out)] == [False] * count
    assert cli.main(["sweep", *words]) == 1
    assert "FAILED order=in place: operator old" in capsys.readouterr().err
