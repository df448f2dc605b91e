"""The workloads' NumPy meaning against their references, in float64 and in the machine's
arithmetic, and their text form.
"""

import numpy as np
import pytest
from penstock.frontend import build, print_graph, read_graph
from penstock.frontend.meaning.evaluator import evaluate64
from penstock.machine.config import load
from penstock.runs import api
from penstock.runs.expected import expected

SMALL = load("small_fpga")
CASES = [("simple_moe", {}), ("simple_moe", {"rows": 3, "experts": 3})]
CASES += [
    ("moe", dict(tokens=24, tile_rows=n, regions=r, skew=s))
    for n, r, s in ((0, 0, 2.0), (0, 2, 0.0), (8, 0, 0.0), (8, 2, 2.0))
]
CASES += [("moe", dict(tokens=2, experts=8, tile_rows=0))]  # experts without a token
CASES += [
    ("attention", dict(requests=8, regions=2, most=3, parallel=p, softmax=s, skew=1.5))
    for p, s in (("coarse", "published"), ("interleaved", "stable"), ("dynamic", "online"))
]


@pytest.mark.parametrize("name,params", CASES)
def test_a_workload_means_what_its_reference_says(name, params):
    program = build(name, params, SMALL)
    tensors = program.inputs(3)
    streams = program.streams(3)
    want = program.reference64(tensors, streams)
    exact = evaluate64(program.graph, tensors, streams)
    got, ev = expected(program.graph, tensors, SMALL.machine.t, streams)
    for tensor in want:
        size = np.abs(want[tensor]).max()
        assert np.abs(exact[tensor] - want[tensor]).max() <= 1e-12 * size
        assert np.abs(got[tensor].astype(float) - want[tensor]).max() <= 3e-2 * size
    assert program.analysis().subs(ev.sizes.symbols).symbols == ()
    text = print_graph(program.graph)
    assert print_graph(read_graph(text)) == text


def test_dynamic_tiling_loads_the_weights_once_for_each_expert_with_a_token():
    def traffic(**params):
        program = build("moe", dict(tokens=24, experts=8) | params, SMALL)
        _, ev = expected(program.graph, program.inputs(0), 4, program.streams(0))
        return program.analysis().subs(ev.sizes.symbols).offchip_bytes, {
            e for row in program.streams(0)["chosen"] for e in row
        }

    (dynamic, used), (static, _) = traffic(tile_rows=0), traffic(tile_rows=4)
    rows = 2 * 24 * 16 * 2 + 24 * 2 * 2  # x, y and the shares in bf16
    assert dynamic == len(used) * 3 * 16 * 32 * 2 + rows < static


@pytest.mark.parametrize(
    "softmax,right", [("published", False), ("stable", True), ("online", True)]
)
def test_a_stabilised_softmax_bears_large_scores(softmax, right):
    """Scores of several hundred: e to them overflows, e to their distance from the maximum does
    not.
    """
    program = build("attention", dict(requests=4, regions=2, most=3, softmax=softmax), SMALL)
    tensors = program.inputs(1)
    streams = program.streams(1)
    tensors["q"] *= 128
    want = program.reference64(tensors, streams)["y"]
    with np.errstate(all="ignore"):
        got, _ = expected(program.graph, tensors, SMALL.machine.t, streams)
    assert (np.abs(got["y"].astype(float) - want) <= 3e-2 * np.abs(want).max()).all() == right


@pytest.mark.parametrize("params", [dict(parallel="coarse"), dict(heads=12, head_dim=12)])
def test_an_online_softmax_has_the_values_of_numpy(params):
    """Also where a sum takes several physical tiles, which are in the loop at a time."""
    small = dict(requests=6, regions=2, heads=4, head_dim=8, kv_tile=4, most=3, softmax="online")
    (r,) = api.run("attention", "small_fpga", small | params, seed=2)
    assert r.values_ok and r.max_rel_err < 3e-2
