"""STeP programs as dataflow graphs: their values are what the tiled machine stores."""

from dataclasses import replace

import numpy as np
import pytest
from penstock import model
from penstock.frontend.lowering import lower
from penstock.frontend.program import build
from penstock.machine import arith
from penstock.machine.config import load
from penstock.machine.errors import ProgramError
from penstock.overlay.graphs import Builder, graph_from
from penstock.overlay.graphs.step import _cast_bf16, _maximum, scalarise
from penstock.runs import boundary
from penstock.runs.expected import expected


def machine(name):
    c = load(name)
    return replace(c, machine=replace(c.machine, dtype="fp32"))


def stored(params, config, seed=0):
    """Tensor that the tiled machine's model stores."""
    p = build("swiglu", params)
    return model.run(lower(p.graph, config), config, p.inputs(seed)).outputs["y"]


def computed(spec, shape):
    graph = graph_from(spec)
    results = graph.results(graph.evaluate())
    return np.array(
        [[results[f"y[{i},{j}]"] for j in range(shape[1])] for i in range(shape[0])], np.float32
    )


@pytest.mark.parametrize("config, tile", [("small_fpga", 4), ("fig8", 16)])
def test_sums_run_over_the_machines_tiles(config, tile):
    sizes = dict(batch=3, dim=7, inter=6, tile_b=2, tile_inter=4)
    want = stored(sizes | {"silu": "spelled"}, machine(config))
    got = computed(
        f"step:swiglu,{','.join(f'{k}={v}' for k, v in sizes.items())},silu=spelled,tile={tile}",
        (3, 7),
    )
    assert np.array_equal(got.view(np.uint32), np.ascontiguousarray(want).view(np.uint32))


def test_bf16_programs_round_as_the_machine_does():
    seed = 1
    sizes = dict(batch=3, dim=4, inter=8, tile_b=3, tile_inter=4, silu="spelled", dtype="bf16")
    want = stored(sizes, load("small_fpga"), seed).astype(np.float32)
    got = computed(
        f"step:swiglu,{','.join(f'{k}={v}' for k, v in sizes.items())},seed={seed}", (3, 4)
    )
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_a_cast_is_the_machines_bit_for_bit():
    g = Builder()
    g.output("c", _cast_bf16(g.input("x")))
    graph = g.graph()
    rng = np.random.default_rng(4)
    random = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32)
    ties = random[:50_000] & 0xFFFF0000 | 0x8000  # halfway between two
    ends = "0 1 007FFFFF 00800000 00807FFF 00808000 7F7F7FFF 7F7F8000 7F7FFFFF 7F800000 7FC00000"
    ends = np.array([int(word, 16) for word in ends.split()], np.uint32)
    bits = np.concatenate([random, ties, ties + 1, ties - 1, ends, ends | 0x80000000])
    bits = bits[(bits & 0x7FFFFFFF) <= 0x7FC00000]
    x = bits.astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        got = graph.results(graph.evaluate({"x": x}))["c"]
        want = arith.cast_bf16(x)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("config, t, room", [("fp32", 4, 1e-5), ("bf16", 3, 1e-2)])
def test_silu_differs_from_the_unit_in_its_last_places(config, t, room):
    c = machine("small_fpga") if config == "fp32" else load("small_fpga")
    want = stored(dict(batch=t, dim=t, inter=t, tile_b=t, tile_inter=t, dtype=config), c)
    got = computed(f"step:swiglu,t={t},dtype={config}", (t, t))
    assert np.allclose(got, want.astype(np.float32), rtol=room, atol=1e-7)


def test_no_constant_feeds_the_whole_graph():
    graph = graph_from("step:swiglu,t=8")
    assert graph.statistics.max_fan_out < 100 < len(graph) / 20


def test_maximum_is_the_machines_bit_for_bit():
    g = Builder()
    g.output("m", _maximum(g.input("x"), g.input("y")))
    graph = g.graph()
    specials = np.array(
        [0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38], np.float32
    )
    x, y = (v.ravel() for v in np.meshgrid(specials, specials))
    got = graph.results(graph.evaluate({"x": x, "y": y}))["m"]
    assert np.array_equal(arith.canonical(got).view(np.uint32), arith.max_(x, y).view(np.uint32))


def test_a_program_of_the_users_own(tmp_path):
    file = tmp_path / "layer.py"
    file.write_text("""
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore, Map, function, matmul

def program(n=2):
    g = Graph("layer")
    a, b = (g.input(name, (n, n), "fp32") for name in "ab")
    y = g.output("y", (n, n), "fp32")
    x, w = (LinearOffChipLoad(t, tile=(n, n), shape=(1, 1), stride=(0, 0)) for t in (a, b))
    LinearOffChipStore(Map(Map(x, w, fn=matmul()), fn=function("exp")), y)
    return g
""")
    graph = graph_from(f"step:{file},n=3")
    a, b = (np.random.default_rng(i).standard_normal((3, 3)).astype(np.float32) for i in range(2))
    out = graph.results(
        graph.evaluate(
            {
                f"{k}[{i},{j}]": v[i, j]
                for k, v in (("a", a), ("b", b))
                for i in range(3)
                for j in range(3)
            }
        )
    )
    padded = [np.pad(m, (0, 1)) for m in (a, b)]
    want = arith.exp(arith.matmul(*padded)[:3, :3])
    assert np.array_equal([[out[f"y[{i},{j}]"] for j in range(3)] for i in range(3)], want)


def equals_what_the_machine_stores(name, params, config, seed=0, room=0.0):
    """Stored tensors against the tiled machine's model, tiles of sinks against the program's NumPy
    meaning; ``room`` is the relative error allowed for SiLU.
    """
    p = build(name, params)
    tensors = p.inputs(seed)
    streams = p.streams(seed)
    units = lower(p.graph, config)
    run = model.run(
        units, config, tensors, sources=boundary.source_beats(p.graph, units, streams), trace=True
    )
    order = boundary.arrivals(units, run)
    _, meaning = expected(p.graph, tensors, config.machine.t, streams, order)
    graph = scalarise(p.graph, tensors, config.machine.t, sources=streams, order=order)
    results = graph.results(graph.evaluate())
    want = {n: np.asarray(a, np.float32) for n, a in run.outputs.items()}
    want |= {
        f"{n}[{k}]": np.asarray(v, np.float32)
        for n, items in meaning.sinks.items()
        for k, (v, _) in enumerate(items)
        if isinstance(v, np.ndarray)
    }
    assert len(results) == sum(a.size for a in want.values()) and any(
        a.any() for a in want.values()
    )
    for n, a in want.items():
        got = np.array(
            [[results[f"{n}[{i},{j}]"] for j in range(a.shape[1])] for i in range(a.shape[0])],
            np.float32,
        ).reshape(a.shape)
        if room:
            assert np.allclose(got, a, rtol=room), n
        else:
            assert np.array_equal(got.view(np.uint32), np.ascontiguousarray(a).view(np.uint32)), n
    return graph


@pytest.mark.parametrize(
    "sizes",
    [dict(rows=1, dim=1, out=4, tiles=1), dict(rows=5, dim=10, out=8, tile_rows=4, tiles=2)],
)
def test_an_expert_of_the_simplified_mixture_equals_the_tiled_machine(sizes):
    graph = equals_what_the_machine_stores(
        "simple_moe", sizes | {"experts": 1}, machine("small_fpga")
    )
    assert graph.statistics.ops["mul"] == sizes["rows"] * sizes["dim"] * sizes["out"]
    spec = graph_from("step:simple_moe,experts=1," + ",".join(f"{k}={v}" for k, v in sizes.items()))
    assert spec.text().partition("\n")[2] == graph.text().partition("\n")[2]


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_meet_the_experts_that_the_seed_draws(seed):
    sizes = dict(rows=6, dim=4, out=4, experts=3, tile_rows=2, tiles=1)
    graph = equals_what_the_machine_stores("simple_moe", sizes, machine("small_fpga"), seed)
    assert graph.statistics.ops["mul"] == 6 * 4 * 4  # one expert for each row


@pytest.mark.parametrize("part, seed", [("routing", 0), ("memory", 1)])
def test_every_kind_of_operator_has_a_scalar_form(part, seed):
    equals_what_the_machine_stores("operators", {"part": part}, load("small_fpga"), seed)


@pytest.mark.parametrize("regions", [0, 1])
def test_a_mixture_of_experts_as_it_ran(regions):
    """Three experts a token: the order in which their rows arrive decides the sum."""
    sizes = dict(
        tokens=3,
        dim=4,
        inter=4,
        experts=3,
        top_k=3,
        tile_inter=4,
        tile_rows=2 * (not regions),
        regions=regions,
    )
    equals_what_the_machine_stores("moe", sizes, load("small_fpga"), room=1e-2)


@pytest.mark.deep
def test_every_function_has_a_scalar_form():
    equals_what_the_machine_stores("operators", {"part": "compute"}, load("small_fpga"), room=1e-2)


OWN = """
from penstock.frontend import *

def program(part="all"):
    g = Graph("own")
    x = LinearOffChipLoad(g.input("x", (2, 2), "fp32"), tile=(2, 2))
    if part == "signal":
        Sink(Accum(x, fn=all_read(), rank=1))
    else:
        choice = Source(graph=g, shape=(1, 1, 1), selector=2, name="choice")
        one, other = Partition(x, choice, rank=0, outputs=2)
        LinearOffChipStore(one, g.output("y", (2, 2), "fp32"))
        Sink(other)
    return g
"""


@pytest.mark.parametrize(
    "part, message",
    [
        ("signal", "stores no numbers"),
        ("all", "streams\\(\\) gives no elements for source 'choice'"),
    ],
)
def test_programs_without_a_graph_are_refused(part, message, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(ProgramError, match=message):
        graph_from(f"step:{tmp_path / 'own.py'},part={part}")


@pytest.mark.parametrize(
    "spec, message",
    [
        ("step:nothing", "no program named 'nothing'"),
        ("step:swiglu,depth=3", "unknown parameter 'depth'"),
        ("step:swiglu,t", "cannot read 't'; write param=value"),
        ("step:swiglu,t=0", "t must be from 1 to 256, not 0"),
        ("step:swiglu,t=2,tile=3", "tile must be 2, 4, 8 or 16, not 3"),
        ("step:swiglu,t=x", "t must be a whole number"),
        ("step:swiglu,t=128", "has more than 2000000 nodes; choose smaller tensors"),
        ("step:swiglu,t=2,silu=fast", "silu must be unit or spelled, not 'fast'"),
    ],
)
def test_bad_programs(spec, message):
    with pytest.raises(ProgramError, match=message):
        graph_from(spec)
