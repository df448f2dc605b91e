"""Whole programs in the `published` timing: the workloads, and the published cycles of the mixture of experts."""

from pathlib import Path

import pytest

from penstock import api
from penstock.frontend import ProgramError, build, lower
from penstock.machine.config import load
from penstock.reference import expected

SMALL = load("small_fpga")
TRACES, LENGTHS = (Path(__file__).parents[3] / "shared/data" / name for name in ("routing", "kv_lengths"))

CASES = [("swiglu", {}), ("simple_moe", {}), ("simple_moe", {"rows": 3, "experts": 3})]
CASES += [("moe", dict(tokens=24, tile_rows=n, regions=r, skew=s)) for n in (0, 8) for r in (0, 2) for s in (0.0, 2.0)]
CASES += [("attention", dict(requests=8, regions=2, most=3, parallel=p, softmax=s, skew=1.5)) for p in ("coarse", "interleaved", "dynamic") for s in ("published", "stable", "online")]
CASES += [("published_moe", dict(tokens=16, dim=64, inter=64, experts=4, top_k=2, tile_rows=n, tile_inter=16, regions=r)) for n in (0, 4) for r in (0, 2)]


@pytest.mark.parametrize("name,params", CASES)
def test_a_workload_runs_and_moves_what_its_traffic_says(name, params):
    """Every logical byte is moved, in whole lines of 64 B for every row of a tile, at 32 B a cycle."""
    (r,) = api.run(name, SMALL, params, timing="published", seed=3)
    program = build(name, params, SMALL)
    _, ev = expected(program.graph, program.inputs(3), SMALL.machine.t, program.streams(3))
    logical = program.analysis().subs(ev.symbols).offchip_bytes
    assert r.offchip_bytes == logical <= r.dram_bytes <= 32 * r.cycles


def test_casts_and_loops_cost_nothing_there():
    program = build("attention", dict(requests=8, regions=2, most=3), SMALL)
    graph = lower(program.graph, SMALL, timing="published")
    assert not [u.name for u in graph.units if "bf16" in u.name or u.name == "again"]
    (dispatch,) = [u for u in graph.units if u.name == "dispatch"]
    assert [graph.units[c.src[0]].name for c in sorted(graph.inputs(dispatch.id), key=lambda c: c.dst)] == ["first", "feedback", "turn"]


QWEN = dict(tokens=64, dim=2048, inter=768, experts=128, top_k=8)
MIXTRAL = dict(tokens=64, dim=4096, inter=14336, experts=8, top_k=2)
STATIC, MULTIPLEXED = dict(tile_inter=64), dict(tile_rows=32, tile_inter=48, compute_bw=1024)


@pytest.mark.parametrize("model, params, cycles", [
    (MIXTRAL, STATIC | dict(tile_rows=16), 4644999), (MIXTRAL, STATIC | dict(tile_rows=64), 2813010),
    (QWEN, MULTIPLEXED | dict(regions=32), 796725),
    pytest.param(QWEN, STATIC | dict(tile_rows=16), 712164, marks=pytest.mark.deep),
    pytest.param(QWEN, STATIC | dict(tile_rows=64), 577007, marks=pytest.mark.deep),
    *(pytest.param(QWEN, MULTIPLEXED | dict(regions=r), c, marks=pytest.mark.deep)
      for r, c in ((0, 789895), (64, 715519), (16, 839090), (8, 1004877), (4, 1888072))),
])
def test_the_published_cycles_of_the_mixture_of_experts(model, params, cycles):
    """Figures 9, 12 and 13 on the published routing, within half a percent: merging units look at several inputs, and the order of the published
    simulator's threads decides there."""
    trace = TRACES / ("qwen_b64.npz" if model is QWEN else "mixtral_b64.npz")
    if not trace.is_file():
        pytest.skip(f"no trace {trace}")
    (r,) = api.run("published_moe", "paper_moe", {**model, **params, "trace": str(trace)}, timing="published", values=False)
    assert r.cycles == pytest.approx(cycles, rel=5e-3)
    if params.get("tile_inter") == 48:
        assert r.dram_bytes == 704_151_552  # every 96-B row of a weight tile takes two lines


PUBLISHED_ATTENTION = {  # trace: cycles with coarse and with dynamic parallelisation
    "1457_0961": (95860, 64554), "1374_3239": (64548, 67025), "1370_1727": (75526, 68970), "0996_4007": (70210, 49094), "0995_3123": (66610, 57669),
    "0995_0733": (52164, 42671), "0508_2019": (56188, 46770), "0484_4185": (48710, 42624), "0477_0271": (43392, 39962),
}


@pytest.mark.parametrize("parallel", ["coarse", "dynamic"])
@pytest.mark.parametrize("trace", PUBLISHED_ATTENTION)
def test_the_published_cycles_of_attention(trace, parallel):
    """Figure 14, exactly."""
    found = list(LENGTHS.glob(f"b64_stdev{trace}_*.npy"))
    if not found:
        pytest.skip(f"no trace {trace} in {LENGTHS}")
    (r,) = api.run("published_attention", "paper_attention", {"parallel": parallel, "trace": str(found[0])}, timing="published", values=False)
    assert r.cycles == PUBLISHED_ATTENTION[trace][parallel == "dynamic"]


PUBLISHED_INTERLEAVED = {"1457_0961": 101499, "1374_3239": 98375, "1370_1727": 107580, "0996_4007": 64362, "0995_3123": 79782, "0995_0733": 66244,
                         "0508_2019": 54448, "0484_4185": 48789, "0477_0271": 50172}


@pytest.mark.parametrize("trace", PUBLISHED_INTERLEAVED)
def test_the_published_cycles_of_interleaved_attention(trace):
    """Figure 14, within a fifth of a percent: the published experiment deals its streams with an operator that reads no selector and takes no cycle."""
    found = list(LENGTHS.glob(f"b64_stdev{trace}_*.npy"))
    if not found:
        pytest.skip(f"no trace {trace} in {LENGTHS}")
    (r,) = api.run("published_attention", "paper_attention", {"parallel": "interleaved", "trace": str(found[0])}, timing="published", values=False)
    assert r.cycles == pytest.approx(PUBLISHED_INTERLEAVED[trace], rel=2e-3)


@pytest.mark.parametrize("batch, coarse, dynamic", [(16, 43790, 16105), (32, 43790, 22691), (48, 43790, 30922)])
def test_the_published_gain_of_dynamic_parallelisation_grows_as_the_batch_shrinks(batch, coarse, dynamic):
    """Figure 15: the first requests of one trace; coarse leaves the regions idle whose 16 requests are missing."""
    found = list(LENGTHS.glob("b64_stdev0996_4007_*.npy"))
    if not found:
        pytest.skip(f"no trace in {LENGTHS}")
    size = {"requests": batch, "trace": str(found[0])}
    for params, cycles in (({"parallel": "coarse", "regions": batch // 16}, coarse), ({"parallel": "dynamic"}, dynamic)):
        (r,) = api.run("published_attention", "paper_attention", size | params, timing="published", values=False)
        assert r.cycles == cycles


@pytest.mark.parametrize("text, params", [
    ("parallel must be coarse, interleaved or dynamic, not 'fair'", dict(parallel="fair")), ("trace nothing.npy cannot be read", dict(trace="nothing.npy")),
])
def test_bad_parameters_of_the_published_attention(text, params):
    with pytest.raises(ProgramError, match=text):
        build("published_attention", params, SMALL).streams(0)


@pytest.mark.parametrize("text, params", [
    ("inter .48. must be a multiple of tile_inter .64.", dict(inter=48)), ("experts .128. of the regions .3.", dict(regions=3)),
    ("trace nothing.npz cannot be read", dict(trace="nothing.npz")),
])
def test_bad_parameters_of_the_published_program(text, params):
    with pytest.raises(ProgramError, match=text):
        build("published_moe", params | dict(tokens=8), SMALL).streams(0)
