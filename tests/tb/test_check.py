"""The comparison finds each kind of difference, names it, and fails on channels that nobody
observed.
"""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from penstock.machine import stimulus
from penstock.machine.beat import Scalar, Tile, Tuple
from penstock.machine.kinds.offchip import Load, Store
from penstock.machine.trace import POST, ChannelTrace, PortTrace, Run
from penstock.machine.unitgraph import Channel, Unit, UnitGraph
from penstock.tb import api, check, tiny
from penstock.testing import beats as agents
from penstock.testing import decoding

TILE = Tile(2, "fp32")
GRAPH = UnitGraph(
    "pair",
    2,
    (Unit(0, "l", Load.of({})), Unit(1, "s", Store.of({}))),
    (Channel(0, "l_s", (0, 0), (1, 0), 2, TILE),),
    (),
    (0, 1),
)


def a_run(backend):
    channel = ChannelTrace(
        np.array([4, 5, 6]),
        np.array([5, 7, 8]),
        np.array([1, 2, 15], np.uint8),
        np.array([1, 1, 0], np.uint8),
        np.array([11, 22, 33], np.uint64),
    )
    ports = [
        PortTrace(np.array([0, 1]), np.array([20, 21]), np.array([0, 64]), np.zeros(2, np.uint64)),
        PortTrace(np.array([30]), np.array([49]), np.array([128]), np.array([77], np.uint64)),
    ]
    posts = np.zeros(2, POST)
    posts["cycle"] = 5, 9
    posts["change"] = 1, -1
    run = Run(backend, 50, 0, {"out": np.ones((2, 2), np.float32)}, [channel], ports, posts)
    run.lines_read = 2
    run.lines_written = 1
    run.busy, run.blocked, run.starved = np.array([[2, 3], [0, 1], [48, 46]])
    run.peak_pages = {1: 3}
    return run


def traced(run, item):
    """Holder of the columns of an item of the comparison."""
    return {"beat": run.channels[0], "line": run.ports[0], "post": run.posts}.get(item, run)


def changed(held):
    """A quantity that is one bit off, in its last element but one if it has some."""
    if isinstance(held, dict):
        return {name: changed(value) for name, value in held.items()}
    if isinstance(held, np.ndarray):
        other = held.copy()
        other.view(f"u{other.itemsize}").flat[held.size - 2] ^= 1
        return other
    return held ^ 1


QUANTITIES = [(item, name) for item, names in check.COMPARED.items() for name in names]
LEFT = {
    "backend": "a name",
    "occupancy": "follows from the beats",
    "port_lines": "follows from the lines",
    "events": "follows from beats and lines",
    "shapes": "the model's alone",
    "dram": "one memory serves both sides",
    "commands": "one memory serves both sides",
    "sink_beats": "the model's alone",
    "counted": "says what the RTL has",
    "extra": "says more of a run",
    "wall_s": "no cycle",
    "setup_s": "no cycle",
}
"""Fields of a run that are not compared, with the reason."""


def test_every_column_of_a_trace_is_compared():
    held = {
        "beat": {f.name for f in fields(ChannelTrace)},
        "line": {f.name for f in fields(PortTrace)},
        "post": {*POST.names} - {"unit"},  # says whose posts are laid beside each other
    }
    assert held == {item: {*check.COMPARED[item]} for item in held}
    of_run = {name for item in ("run", "unit", "tensor") for name in check.COMPARED[item]}
    assert of_run == {f.name for f in fields(Run)} - {*LEFT, "channels", "ports", "posts"}


@pytest.mark.parametrize(("item", "name"), QUANTITIES)
def test_one_bit_of_each_quantity_is_found(item, name):
    model = a_run("model")
    rtl = a_run("rtl")
    report = check.compare(model, rtl, GRAPH)
    assert report.ok and (report.observed, report.beats, report.lines, report.posts) == (1, 3, 3, 2)
    holder = traced(rtl, item)
    if item == "post":
        holder[name] = changed(holder[name])
    else:
        setattr(holder, name, changed(getattr(holder, name)))
    report = check.compare(model, rtl, GRAPH)
    assert not report.ok
    what = check.COMPARED[item][name]
    assert {d.what.partition(" [")[0] for d in report.differences} == {what}, str(report)


@pytest.mark.parametrize(
    ("item", "what"), [("beat", "channel l_s"), ("line", "port 0 (l)"), ("post", "unit l")]
)
def test_an_item_that_is_missing_is_found(item, what):
    rtl = a_run("rtl")
    if item == "post":
        rtl.posts = rtl.posts[:1]
    else:
        for name, column in vars(traced(rtl, item)).items():
            setattr(traced(rtl, item), name, column[:-1])
    report = check.compare(a_run("model"), rtl, GRAPH)
    assert [(d.where, d.what) for d in report.differences] == [(what, f"number of {item}s")]


def test_a_trace_or_a_tensor_that_is_missing_is_found():
    rtl = a_run("rtl")
    rtl.channels = []
    rtl.ports = rtl.ports[:1]
    rtl.outputs = {}
    report = check.compare(a_run("model"), rtl, GRAPH)
    found = [(d.where, d.what, d.model, d.rtl) for d in report.differences]
    assert found == [
        ("channel l_s", "trace", "there", "missing"),
        ("port 1 (s)", "trace", "there", "missing"),
        ("output out", "array", "float32[2, 2]", "missing"),
    ]


@pytest.mark.parametrize("sides", [("model",), ("rtl",), ("model", "rtl")])
def test_a_channel_without_digests_in_a_run_with_values_is_found(sides):
    runs = {"model": a_run("model"), "rtl": a_run("rtl")}
    for side in sides:
        runs[side].channels[0].digest = np.zeros(0, np.uint64)
    report = check.compare(runs["model"], runs["rtl"], GRAPH)
    assert [d.what for d in report.differences] == ["digests"]
    for run in runs.values():
        run.outputs = None
        run.channels[0].digest = np.zeros(0, np.uint64)
    assert check.compare(runs["model"], runs["rtl"], GRAPH).ok


@pytest.mark.parametrize(
    ("item", "name", "message"),
    [
        ("beat", "take", "channel l_s beat 1: taken: model in cycle 7, RTL in cycle 6"),
        ("beat", "digest", "channel l_s beat 1: payload digest: model 0+16, RTL 0+17"),
        ("line", "deliver", r"port 0 \(l\) line 0: delivered: model in cycle 20, RTL in cycle 21"),
        ("tensor", "outputs", r"output out: element \[1, 0\] \(1 of 4 elements\): model 1.0, RTL"),
        ("unit", "busy", "unit l: busy cycles: model 2, RTL 3"),
        ("run", "cycles", "pair: cycles: model 50, RTL 51"),
    ],
)
def test_each_difference_is_named(item, name, message):
    rtl = a_run("rtl")
    holder = traced(rtl, item)
    setattr(holder, name, changed(getattr(holder, name)))
    assert re.search(message, str(check.compare(a_run("model"), rtl, GRAPH)))


def test_a_bare_stop_behind_a_value_of_its_group_is_found_though_both_sides_agree():
    runs = (a_run("model"), a_run("rtl"))
    for run in runs:
        run.channels[0].stop[:2] = 0, 1
        run.channels[0].data[:2] = 1, 0
    report = check.compare(runs[0], runs[1], GRAPH)
    assert report.mismatches == 1
    assert "channel l_s beat 1: a bare stop behind a value of stop 0" in str(report)
    assert "model a bare stop 1, RTL a bare stop 1" in str(report)


def test_an_unobserved_channel_fails():
    model = a_run("model")
    rtl = a_run("rtl")
    for run in (model, rtl):
        run.channels[0] = ChannelTrace(*(x[:0] for x in vars(run.channels[0]).values()))
    report = check.compare(model, rtl, GRAPH)
    assert (report.observed, report.total, report.ok) == (0, 1, False)


def test_differing_payloads_are_unfolded():
    model = a_run("model")
    rtl = a_run("rtl")
    rtl.channels[0].digest[1] = 5
    counts = 2 << 128 | 2 << 130
    for run, value in ((model, 0x3F800000), (rtl, 0x3F800001)):
        words = stimulus.whole_beats(TILE, agents.beats(TILE, [(value << 32 | counts, 0)] * 2))
        run.extra["payloads"] = {0: words}
    text = str(check.compare(model, rtl, GRAPH))
    assert (
        "l (load) -> s (store), accepted in cycle 5, taken in cycle 7; 1 of 4 elements differ: "
        "[0,1] model 1.0 (3f800000), RTL 1.0000001 (3f800001)" in text
    )


@pytest.mark.parametrize(
    "payload, model, rtl, message",
    [
        (TILE, 1 << 128, 2 << 128, "valid rows: model 1, RTL 2"),
        (
            Tile(2, "bf16"),
            0x3F80 << 48,
            0x3F81 << 48,
            "1 of 4 elements differ: [1,1] model 1.0 (3f80), RTL 1.0078125 (3f81)",
        ),
        (
            Tile(4, "bf16"),
            0,
            0x3F80_3F80_0000_0000_3F80_3F80_3F80,
            "5 of 16 elements differ: [0,0] model 0.0 (0000), RTL 1.0 (3f80); [0,1] model 0.0 "
            "(0000), RTL 1.0 (3f80); "
            "[0,2] model 0.0 (0000), RTL 1.0 (3f80); [1,1] model 0.0 (0000), RTL 1.0 (3f80); ...",
        ),
        (
            Tuple((Scalar(4), TILE)),
            9 | 1 << 132,
            9 | 2 << 132,
            "member 1: valid rows: model 1, RTL 2",
        ),
        (Scalar(8), 3, 4, "model 0x3; RTL 0x4"),
        (TILE, 1 << 136, 15 << 132, "model tile 0x0 []; RTL Done"),
    ],
)
def test_differing_parts_of_a_beat_are_named(payload, model, rtl, message):
    assert decoding.payload_differences(payload, model, rtl) == message


def test_decode():
    one = np.array([[1, 2], [3, 4]], np.float32)
    bits = int.from_bytes(one.tobytes(), "little") | 1 << 128 | 2 << 130
    assert decoding.decode(TILE, agents.beat_int(TILE, bits, 2)) == "tile 1x2 [[1., 2.]], stop 2"
    assert decoding.decode(TILE, agents.beat_int(TILE, 0, 15, 0)) == "Done"
    pair = Tuple((Scalar(4), TILE))
    assert (
        decoding.decode(pair, agents.beat_int(pair, 9 | bits << 4, 0))
        == "(0x9; tile 1x2 [[1., 2.]])"
    )


POINT = api.Point(tiny.graph(), None, {0: agents.beats(tiny.PAYLOAD, [(0xABC, 0), (0xDEF, 2)])})


def test_a_planted_cycle_fails_the_test_of_its_point_alone():
    """The message in results.xml names channel, beat, cycle and both values."""
    (run,) = api.simulate(tiny.design(), [POINT], None)
    (channel,) = run.channels
    late = replace(run, channels=[replace(channel, take=channel.take + np.eye(3, dtype=int)[1])])
    points = [replace(POINT, expected=expected) for expected in (run, late, run)]
    reports = [r.extra["report"] for r in api.simulate(tiny.design(), points, None)]
    assert [r.ok for r in reports] == [True, False, True]
    message = "channel in_out beat 1: taken: model in cycle 3, RTL in cycle 2"
    assert message in reports[1].verdict.splitlines()[1]
    assert "report" not in run.extra


def test_waves_show_decoded_beats(tmp_path):
    run = api.simulate(tiny.design(), [POINT], None, waves=str(tmp_path / "tiny"))[0]
    dump, layout, surfer = run.extra["waves"]
    if dump.endswith(".vcd"):
        text = Path(dump).read_text()
        for shown in ("abc", "def S2", "Done"):
            bits = "".join(f"{ord(ch):08b}" for ch in shown).lstrip("0")
            assert f"b{bits} " in text or f"b{bits.zfill(192)} " in text, shown
    layout = Path(layout).read_text()
    assert "in_out: in -> out" in layout and "fabric.p0.text" in layout
    groups = ["run", "in_(source)", "in_out:_in_->_out"]
    lines = Path(surfer).read_text().splitlines()
    assert [x.removeprefix("divider_add ") for x in lines if "divider" in x] == groups
    assert [x for x in lines if x.endswith(".stop")] == [
        "variable_add penstock_bench.fabric.p0.stop"
    ]
