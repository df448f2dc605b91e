"""The comparison finds each kind of difference, names it, and fails on channels that nobody
observed.
"""

from pathlib import Path

import numpy as np
import pytest
from penstock.machine import stimulus
from penstock.machine.beat import Scalar, Tile, Tuple
from penstock.machine.trace import POST, ChannelTrace, PortTrace, Run
from penstock.machine.unitgraph import Channel, Unit, UnitGraph
from penstock.tb import api, check, tiny, waves
from penstock.testing import agents

TILE = Tile(2, "fp32")
GRAPH = UnitGraph(
    "pair",
    2,
    (Unit(0, "l", "load", {}), Unit(1, "s", "store", {})),
    (Channel(0, "l_s", (0, 0), (1, 0), 2, TILE),),
    (),
    (0, 1),
)


def a_run(backend):
    channel = ChannelTrace(
        np.array([4, 5, 6]),
        np.array([5, 7, 8]),
        np.array([0, 2, 15], np.uint8),
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
    return Run(
        backend,
        50,
        0,
        {"out": np.ones((2, 2), np.float32)},
        [channel],
        ports,
        posts,
        np.array([2, 3]),
        np.array([0, 1]),
        np.array([48, 46]),
        None,
        2,
        1,
    )


def change(run, what):
    match what:
        case "take":
            run.channels[0].take[1] = 9
        case "stop":
            run.channels[0].stop[0] = 1
        case "digest":
            run.channels[0].digest[1] = 5
        case "count":
            run.channels[0] = ChannelTrace(*(x[:2] for x in vars(run.channels[0]).values()))
        case "deliver":
            run.ports[0].deliver[1] = 22
        case "written":
            run.ports[1].digest[0] ^= np.uint64(1)
        case "dropped post":
            run.posts = run.posts[:1]
        case "late post":
            run.posts["cycle"][1] = 10
        case "change":
            run.posts["change"][1] = 1
        case "output":
            run.outputs["out"][1, 0] = -1
        case "busy":
            run.busy[1] = 4
        case "cycles":
            run.cycles = 51


@pytest.mark.parametrize(
    "what, told",
    [
        ("take", "channel l_s beat 1: taken: model in cycle 7, RTL in cycle 9"),
        ("stop", "channel l_s beat 0: stop: model 0, RTL 1"),
        ("digest", r"channel l_s beat 1: payload digest \(1 of 3 beats\)"),
        ("count", "channel l_s: number of beats: model 3, RTL 2"),
        ("deliver", r"port 0 \(l\) line 1: delivered: model in cycle 21, RTL in cycle 22"),
        ("written", r"port 1 \(s\) line 0: data written: model 0+4d, RTL 0+4c"),
        ("dropped post", "unit l: number of posts: model 2, RTL 1"),
        ("late post", "unit l post 1: posted: model in cycle 9, RTL in cycle 10"),
        ("change", "unit l post 1: change: model -1, RTL 1"),
        ("output", r"output out: element \[1, 0\] \(1 of 4 elements\): model 1.0, RTL -1.0"),
        ("busy", "unit s: busy cycles: model 3, RTL 4"),
        ("cycles", "pair: cycles: model 50, RTL 51"),
    ],
)
def test_each_difference_is_named(what, told):
    model = a_run("model")
    rtl = a_run("rtl")
    report = check.compare(model, rtl, GRAPH)
    assert report.ok and (report.observed, report.beats, report.lines, report.posts) == (1, 3, 3, 2)
    change(rtl, what)
    report = check.compare(model, rtl, GRAPH)
    assert not report.ok and report.mismatches == 1
    with pytest.raises(AssertionError, match=told):
        assert report.ok, str(report)


def test_a_bare_stop_behind_a_value_of_its_group_is_found_though_both_sides_agree():
    runs = [a_run("model"), a_run("rtl")]
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
    change(rtl, "digest")
    counts = 2 << 128 | 2 << 130
    for run, value in ((model, 0x3F800000), (rtl, 0x3F800001)):
        words = stimulus.whole_beats(TILE, agents.beats(TILE, [(value << 32 | counts, 0)] * 2))
        run.extra["payloads"] = {0: words}
    told = str(check.compare(model, rtl, GRAPH))
    assert (
        "l (load) -> s (store), accepted in cycle 5, taken in cycle 7; 1 of 4 elements differ: "
        "[0,1] model 1.0 (3f800000), RTL 1.0000001 (3f800001)" in told
    )


@pytest.mark.parametrize(
    "payload, model, rtl, told",
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
def test_what_differs_is_named(payload, model, rtl, told):
    assert waves.payload_differences(payload, model, rtl) == told


def test_decode():
    one = np.array([[1, 2], [3, 4]], np.float32)
    bits = int.from_bytes(one.tobytes(), "little") | 1 << 128 | 2 << 130
    assert waves.decode(TILE, agents.beat_int(TILE, bits, 2)) == "tile 1x2 [[1., 2.]], stop 2"
    assert waves.decode(TILE, agents.beat_int(TILE, 0, 15, 0)) == "Done"
    pair = Tuple((Scalar(4), TILE))
    assert (
        waves.decode(pair, agents.beat_int(pair, 9 | bits << 4, 0)) == "(0x9; tile 1x2 [[1., 2.]])"
    )


def test_waves_show_decoded_beats(tmp_path):
    point = api.Point(tiny.graph(), None, {0: agents.beats(tiny.PAYLOAD, [(0xABC, 0), (0xDEF, 2)])})
    run = api.simulate(tiny.design(), [point], None, waves=str(tmp_path / "tiny"))[0]
    dump, layout = run.extra["waves"]
    if dump.endswith(".vcd"):
        text = Path(dump).read_text()
        for shown in ("abc", "def S2", "Done"):
            bits = "".join(f"{ord(ch):08b}" for ch in shown).lstrip("0")
            assert f"b{bits} " in text or f"b{bits.zfill(192)} " in text, shown
    layout = Path(layout).read_text()
    assert "in_out: in -> out" in layout and "fabric.p0.text" in layout
