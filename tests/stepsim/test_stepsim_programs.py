"""Whole programs in the `stepsim` timing: the workloads, and the published cycles of the mixture
of experts.
"""

import pytest
from inputs import TRACES
from penstock.figures.moe import MODELS
from penstock.figures.published import attention, moe_regions, moe_tiling
from penstock.frontend import build, lower
from penstock.machine.config import load
from penstock.machine.errors import PenstockError
from penstock.runs import api
from penstock.runs.expected import expected
from penstock.workloads.published_attention import consecutive

SMALL = load("small_fpga")

CASES = [("swiglu", {}), ("simple_moe", {}), ("simple_moe", {"rows": 3, "experts": 3})]
CASES += [
    ("moe", dict(tokens=24, tile_rows=n, regions=r, skew=s))
    for n in (0, 8)
    for r in (0, 2)
    for s in (0.0, 2.0)
]
CASES += [
    ("attention", dict(requests=8, regions=2, most=3, parallel=p, softmax=s, skew=1.5))
    for p in ("coarse", "interleaved", "dynamic")
    for s in ("published", "stable", "online")
]
CASES += [
    (
        "published_moe",
        dict(
            tokens=16, dim=64, inter=64, experts=4, top_k=2, tile_rows=n, tile_inter=16, regions=r
        ),
    )
    for n in (0, 4)
    for r in (0, 2)
]


@pytest.mark.parametrize("name,params", CASES)
def test_a_workload_runs_and_moves_what_its_traffic_says(name, params):
    """Every logical byte is moved, in whole lines of 64 B a row of a tile, at 32 B a cycle."""
    (r,) = api.run(name, SMALL, params, timing="stepsim", seed=3)
    program = build(name, params, SMALL)
    _, ev = expected(program.graph, program.inputs(3), SMALL.machine.t, program.streams(3))
    logical = program.analysis().subs(ev.symbols).offchip_bytes
    assert r.offchip_bytes == logical <= r.dram_bytes <= 32 * r.cycles


def test_casts_and_loops_cost_nothing_there():
    program = build("attention", dict(requests=8, regions=2, most=3), SMALL)
    graph = lower(program.graph, SMALL, timing="stepsim")
    assert not [u.name for u in graph.units if "bf16" in u.name or u.name == "again"]
    (dispatch,) = [u for u in graph.units if u.name == "dispatch"]
    assert [
        graph.units[c.src[0]].name for c in sorted(graph.inputs(dispatch.id), key=lambda c: c.dst)
    ] == ["first", "feedback", "turn"]


STATIC = dict(tile_inter=64)
MULTIPLEXED = dict(tile_rows=32, tile_inter=48, compute_bw=1024)


QUICK_POINTS = ("mixtral", 16), ("mixtral", 64), 32
"""Points of the mixture of experts in the default tests: rows of static tiles, or regions."""
PUBLISHED_MOE = [
    (m, STATIC | dict(tile_rows=tile), p["cycles"], (m, tile))
    for (m, batch, tile), p in moe_tiling().items()
    if batch == 64 and tile != "dynamic"
]
PUBLISHED_MOE += [
    ("qwen", MULTIPLEXED | dict(regions=r if r < 128 else 0), p["cycles"], r)
    for r, p in moe_regions().items()
]


@pytest.mark.parametrize(
    "model, params, cycles",
    [
        pytest.param(m, params, c, marks=() if at in QUICK_POINTS else pytest.mark.deep, id=str(at))
        for m, params, c, at in PUBLISHED_MOE
    ],
)
def test_the_published_cycles_of_the_mixture_of_experts(model, params, cycles):
    """Figures 9, 12 and 13 on the published routing, within half a percent: merging units look at
    several inputs, and the order of the published simulator's threads decides there.
    """
    trace = TRACES / "routing" / f"{model}_b64.npz"
    (r,) = api.run(
        "published_moe",
        "paper_moe",
        {**MODELS[model], "tokens": 64, **params, "trace": str(trace)},
        timing="stepsim",
        values=False,
    )
    assert r.cycles == pytest.approx(cycles, rel=5e-3)
    if params.get("tile_inter") == 48:
        assert r.dram_bytes == 704_151_552  # every 96-B row of a weight tile takes two lines


PUBLISHED_ATTENTION = [
    (trace, way, cycles)
    for (trace, requests), known in attention().items()
    if requests == 64
    for way, cycles in known.items()
]


@pytest.mark.parametrize("trace, parallel, cycles", PUBLISHED_ATTENTION)
def test_the_published_cycles_of_attention(trace, parallel, cycles):
    """Figure 14: coarse and dynamic exactly; interleaved within a fifth of a percent, for the
    published experiment deals its streams with an operator that reads no selector and takes no
    cycle.
    """
    (lengths,) = (TRACES / "kv_lengths").glob(f"b64_stdev{trace}_*.npy")
    (r,) = api.run(
        "published_attention",
        "paper_attention",
        {"parallel": parallel, "trace": str(lengths)},
        timing="stepsim",
        values=False,
    )
    assert r.cycles == (pytest.approx(cycles, rel=2e-3) if parallel == "interleaved" else cycles)


def test_coarse_shares_come_round():
    assert consecutive(16, 4, 16) == [list(range(16))]
    assert consecutive(80, 4, 16) == [
        [*range(16), *range(64, 80)],
        list(range(16, 32)),
        list(range(32, 48)),
        list(range(48, 64)),
    ]
    assert consecutive(8, 4, 0) == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    "text, params",
    [
        ("parallel must be coarse, interleaved or dynamic, not 'fair'", dict(parallel="fair")),
        ("share is 4 with parallel='dynamic'", dict(share=4)),
        ("no such file: nothing.npy", dict(trace="nothing.npy")),
    ],
)
def test_bad_parameters_of_the_published_attention(text, params):
    with pytest.raises(PenstockError, match=text):
        build("published_attention", params, SMALL).streams(0)


@pytest.mark.parametrize(
    "text, params",
    [
        ("inter .48. must be a multiple of tile_inter .64.", dict(inter=48)),
        ("experts .128. of the regions .3.", dict(regions=3)),
        ("no such file: nothing.npz", dict(trace="nothing.npz")),
    ],
)
def test_bad_parameters_of_the_published_program(text, params):
    with pytest.raises(PenstockError, match=text):
        build("published_moe", params | dict(tokens=8), SMALL).streams(0)
