"""Faults planted in a fabric's Verilog, each seen by the check: posts, written data, FIFOs' reading
sides.
"""

from dataclasses import replace

import numpy as np
import pytest
from penstock import model
from penstock.machine.beat import BufferRef
from penstock.machine.errors import RunError
from penstock.tb import api, check
from penstock.tb.design import design_of
from penstock.testing.graphs import Build, configuration

CONFIG = configuration()
SINK = [0, 9, 30]
FAULTS = ("none", "post dropped", "post late", "bit written", "pop late", "other beat")
"""Those but the first are switched on by the six switches of two `penstock_mutation`."""


def graph():
    """Tiles into a scratchpad, whose buffers are read twice: into a store, and out."""
    b = Build(2)
    x = b.tensor("x", 8, 8)
    y = b.tensor("y", 8, 8, "fp32", "output")
    walk = {"rank": 2, "shape": [2, 2], "row_step": [4, 0], "col_step": [0, 4]}
    load = b.off_chip("load", x, 4, 4, **walk)
    pad = b.unit(
        "scratchpad",
        pages=8,
        frames=2,
        writers=[{"rank": 2}],
        limit=[3],
        readers=[{"rank": 2, "repeat_dim": False}] * 2,
        repeat=[1, 1],
    )
    b.link(load, pad)
    fork = b.unit("broadcast", n=2, scratchpad=pad)
    b.link((pad, 0), fork, BufferRef(8))
    for i in range(2):
        b.link((fork, i), (pad, 1 + i), BufferRef(8))
    b.link((pad, 1), b.off_chip("store", y, 4, 4))
    b.link((pad, 2), b.sink(SINK))
    return b.graph()


def planted(verilog, when):
    """The fabric with its faults, all switched off; ``when``: the cycle of those in the last
    channel.
    """
    post = "u1_scratchpad1__post0"
    changes = [
        (f".post({post})", ".post(post_raw)"),
        (".mem_req_data(mem_req_data)", ".mem_req_data(data_raw)"),
        (".o_payload(c5r__payload)", ".o_payload(c5x_payload)"),
        (".o_ready(c5r__ready)", ".o_ready(c5x_ready)"),
        (".o_valid(c5r__valid)", ".o_valid(c5x_valid)"),
    ]
    for old, new in changes:
        assert verilog.count(old) == 1, old
        verilog = verilog.replace(old, new)
    more = f"""
  wire drop, delay, flip, hold, other;
  wire [12:0] post_raw;
  reg [12:0] post_before;
  wire [1023:0] data_raw;
  wire [522:0] c5x_payload;
  wire c5x_valid, c5x_ready, here = cycle == 32'd{when};
  penstock_mutation #(.KIND(0)) faults0 (.clk(clk), .late(drop), .slow(delay), .wrong(flip));
  penstock_mutation #(.KIND(1)) faults1 (.clk(clk), .late(hold), .slow(other), .wrong());
  always @(posedge clk) post_before <= post_raw;
  assign {post}[12:1] = delay ? post_before[12:1] : post_raw[12:1];
  assign {post}[0] = delay ? post_before[0] : post_raw[0] & ~(drop & post_raw[3:1] == 2);
  assign mem_req_data = data_raw ^ (flip ? 1024'd1 << 37 : 1024'd0);
  assign c5r__valid = c5x_valid & ~(hold & here);
  assign c5x_ready = c5r__ready & ~(hold & here);
  assign c5r__payload = c5x_payload ^ (other & here);
"""
    begin = verilog.index("module penstock_fabric(")
    end = verilog.index("endmodule", begin)
    return verilog[:end] + more + verilog[end:]


@pytest.fixture(scope="module")
def runs():
    """The graph, the model's run, and by fault the RTL's, or its error."""
    g = graph()
    tensors = {"x": np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)}
    (sink,) = (u.id for u in g.units if u.kind == "sink")
    want = model.run(g, CONFIG, tensors, trace=True, sinks={sink: SINK})
    design = design_of(g, CONFIG)
    when = int(want.channels[5].take[2])
    design = replace(design, verilog={"fabric.v": planted(design.verilog["fabric.v"], when)})
    switches = [[1 << k, 0] if k < 3 else [0, 1 << k - 3] for k in range(len(FAULTS) - 1)]
    points = [api.Point(g, tensors, sinks={sink: SINK}) for _ in FAULTS]
    with pytest.MonkeyPatch.context() as patch:
        given = {id(p): s for p, s in zip(points, [[0, 0], *switches], strict=True)}
        patch.setattr(api, "_mutations", lambda p: given[id(p)])
        found = api.simulate(design, points, CONFIG, keep_going=True)
    return g, want, dict(zip(FAULTS, found, strict=True))


def told(runs, fault):
    g, want, found = runs
    run = found[fault]
    return str(run) if isinstance(run, RunError) else str(check.compare(want, run, g))


def test_without_fault_all_is_equal_and_counted(runs):
    g, want, found = runs
    report = check.compare(want, found["none"], g)
    assert report.ok, str(report)
    beats = sum(len(c.accept) for c in want.channels)
    assert (report.observed, report.beats, report.lines, report.posts) == (6, beats, 32, 4)


@pytest.mark.parametrize(
    "fault, message",
    [
        ("post dropped", r"broadcast2.*post|reference"),
        ("post late", r"unit broadcast2 post 0: posted.*: model in cycle (\d+), RTL in cycle "),
        ("bit written", r"port 1 \(store3\) line 0: data written \(4 of 16 lines\)"),
        ("pop late", r"channel c5 beat 2: taken"),
        ("other beat", r"another beat than the one that it accepted \(cycle \d+, c5, beat 2\)"),
    ],
)
def test_each_fault_is_seen(runs, fault, message):
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(told(runs, fault))
