"""The overlay's RTL against its model: every write and token, every value, over graphs that share
one loaded simulator without a reset in between.
"""

import numpy as np
import pytest
from amaranth.hdl import Const
from penstock.hw.arith.format import FP32, FP64
from penstock.hw.export import export
from penstock.hw.overlay import Overlay as Component
from penstock.hw.units.token.alu import UNITS
from penstock.hw.units.token.consume_two import ConsumeTwo
from penstock.machine.errors import RunError
from penstock.overlay.core.config import DEEP as DEEP_ALU
from penstock.overlay.core.config import PIPELINED, Overlay, Sizes
from penstock.overlay.core.ops import format_of
from penstock.overlay.model import simulate
from penstock.overlay.runs.watch import watch
from penstock.overlay.tb import api as overlay_api
from penstock.overlay.tb.api import classes_of, hardware, pack, run_image, run_images
from penstock.scheduler.token import map_graph
from penstock.testing.token_graphs import random_graph

QUICK = [
    dict(rows=2, cols=2),
    dict(rows=3, cols=2, alu="deep"),
    dict(rows=2, cols=3, network="hoplite", alu="pipelined", format="fp64"),
    dict(rows=3, cols=2, local="forward"),
    dict(rows=2, cols=2, alu="registered"),
    dict(rows=2, cols=2, pe="static"),
    dict(rows=2, cols=1, pe="static", alu="registered"),
    dict(rows=1, cols=2, pe="static", alu="pipelined", kinds="specialised"),
]
DEEP = [
    dict(
        rows=rows,
        cols=cols,
        local=local,
        network=network,
        alu=alu,
        format=fmt,
        fifo_depth=2 + (rows + cols) % 3,
    )
    for rows, cols in ((1, 1), (4, 3))
    for local in ("token", "forward")
    for network in ("mesh", "hoplite")
    for alu in ("unit", "pipelined")
    for fmt in ("fp32", "fp64")
]
DEEP += [
    dict(rows=rows, cols=cols, pe="static", alu=alu, kinds=kinds)
    for rows, cols in ((1, 1), (4, 3))
    for alu in ("unit", "pipelined")
    for kinds in ("homogeneous", "specialised")
]
DEEP += [
    dict(rows=3, cols=4, pe=pe, format="fp64", alu=alu, kinds=kinds)
    for pe in ("dynamic", "static")
    for alu in ("unit", "pipelined", "deep")
    for kinds in ("homogeneous", "specialised")
]


def name(keys):
    return "-".join(map(str, keys.values()))


def expected(graph, overlay, inputs=None):
    return (
        graph.evaluate(inputs, overlay.format)
        .view(format_of(overlay.format).word)
        .astype(np.uint64)
    )


def graphs(overlay, count, most):
    rng = np.random.default_rng(3)
    out = [
        random_graph(k + s, s, 1000 + k, overlay.format)
        for k, s in enumerate(rng.integers(1, 6, 4))
    ]  # none to three operations
    return out + [
        random_graph(
            s + int(rng.integers(4, most)), s, k, overlay.format, int(rng.choice([3, 25, 300]))
        )
        for k, s in enumerate(rng.integers(1, 60, count))
    ]


def check(overlay, count, most):
    tried = graphs(overlay, count, most)
    mapped = [map_graph(g, overlay) for g in tried]
    again = {k: [new_inputs(g, overlay, seed=k)] for k, g in enumerate(tried)}
    runs = run_images(
        [m.image for m in mapped],
        {
            k: [(g.inputs, bits)]
            for (k, g), ((_, bits),) in zip(enumerate(tried), again.values(), strict=True)
        },
    )
    for k, (g, m, run) in enumerate(zip(tried, mapped, runs, strict=True)):
        model = simulate(m.image, tokens=True)
        assert (g.title, run.cycles) == (g.title, model.cycles)
        ((inputs, _),) = again[k]
        for one, given in ((run, None), (run.again[0], inputs)):
            wanted = expected(g, overlay, given)
            assert watch(m, model, wanted, one).first is None
            assert np.flatnonzero(one.values != wanted).tolist() == []


def new_inputs(graph, overlay, seed):
    f = format_of(overlay.format)
    inputs = np.random.default_rng(seed).standard_normal(len(graph.inputs)).astype(f.dtype)
    return inputs, inputs.view(f.word).astype(np.uint64)


@pytest.mark.parametrize("keys", QUICK, ids=name)
def test_rtl_takes_the_cycles_and_has_the_values_of_the_model(keys):
    check(Overlay(**keys), 10, 300)


@pytest.mark.deep
@pytest.mark.parametrize("keys", DEEP, ids=name)
def test_rtl_takes_the_cycles_and_has_the_values_of_the_model_in_every_variant(keys):
    check(Overlay(**keys), 40, 1200)


@pytest.mark.parametrize("fault", ["never", "again"])
def test_a_wrong_forward_is_found(fault, monkeypatch):
    """The faults: no result is forwarded, all wait in the near set; one that was forwarded enters
    that set, too, and the run does not end.
    """
    right = ConsumeTwo._forward

    def wrong(stage, m, room, stall, forwarded):
        right(stage, m, Const(0, 2) if fault == "never" else room, stall, forwarded)
        if fault == "again":
            m.d.comb += stage.late.eq(1)

    monkeypatch.setattr(ConsumeTwo, "_forward", wrong)
    monkeypatch.setattr(overlay_api, "_verilog", overlay_api._verilog.__wrapped__)
    graph = random_graph(110, 10, 7)
    m = map_graph(graph, Overlay(rows=1, cols=2, local="forward"))
    model = simulate(m.image, tokens=True)
    if fault == "again":
        with pytest.raises(RunError, match="cycle limit reached"):
            run_image(m.image, max_cycles=4 * model.cycles)
        return
    found = watch(m, model, expected(graph, m.overlay), run_image(m.image))
    assert "PE" in found.first and f"{model.cycles} by the model" in str(found.differences[-1])


def test_a_run_beyond_its_limit_is_told():
    image = map_graph(random_graph(110, 10, 5), Overlay(rows=2, cols=2)).image
    with pytest.raises(RunError, match="cycle limit reached"):
        run_image(image, max_cycles=20)


def test_one_build_serves_graphs_of_different_size():
    overlay = Overlay(rows=2, cols=2)
    images = [map_graph(random_graph(9 + n, 9, k), overlay).image for k, n in ((1, 20), (2, 700))]
    assert hardware(images[:1]) == hardware(images[1:]) == hardware(images)


def test_fixed_memories_are_built_as_they_are():
    overlay = Overlay(rows=1, cols=1, memories=(("op", 100), ("value", 100)))
    built, _ = hardware([map_graph(random_graph(29, 9, 1), overlay).image])
    assert dict(built.memories)["value"] == 100 and dict(built.memories)["first"] == 512


def test_specialised_pes_have_the_units_of_their_kind():
    image = map_graph(random_graph(220, 20, 6), Overlay(rows=3, cols=3, kinds="specialised")).image
    classes = classes_of([image])
    assert {frozenset(c) for c in classes.values()} <= {
        frozenset(c) for c in ({"add", "compare"}, {"mul"}, {"div", "sqrt"}, {"exp", "log"})
    }
    assert set().union(*classes.values()) == set(PIPELINED["fp32"])


def test_pipelined_latencies_are_the_stages_of_the_units():
    for deep, tables in ((False, PIPELINED), (True, DEEP_ALU)):
        for form in (FP32, FP64):
            table = tables[form.name]
            units = {c: UNITS[c](form, pipelined=True, deep=deep) for c in table}
            for unit in units.values():
                unit._MustUse__silence = True
            assert {c: unit.STAGES for c, unit in units.items()} == table


def test_words_are_packed_least_significant_first():
    words = pack(
        [("a", 3), ("b", 40), ("c", 64)],
        [np.array([5]), np.array([0xABCDEF0123]), np.array([2**64 - 2], np.uint64)],
        107,
    )
    value = sum(int(w) << 32 * k for k, w in enumerate(words))
    assert value == 5 | 0xABCDEF0123 << 3 | (2**64 - 2) << 43
    with pytest.raises(ValueError, match="a must fit in 3 bits, not 8"):
        pack([("a", 3)], [np.array([8])], 3)


@pytest.mark.parametrize("pe", ["dynamic", "static"])
def test_verilog_is_deterministic_and_says_how_to_use_it(pe):
    overlay = Overlay(rows=2, cols=2, pe=pe)
    every = frozenset(PIPELINED["fp32"])
    one, two = (
        export(
            Component(
                overlay=overlay,
                sizes=Sizes(64, 64, 64, 64, 64),
                classes=dict.fromkeys(range(4), every),
            ),
            "overlay",
        )
        for _ in range(2)
    )
    assert one.verilog == two.verilog
    memories = {m["name"]: m for m in one.sidecar["memories"]}
    assert memories["value"]["depth"] == 64 and one.sidecar["overlay"]["rows"] == 2
    assert {p["name"] for p in one.sidecar["ports"]} >= {
        "load_payload",
        "load_valid",
        "load_ready",
        "start",
        "running",
        "idle",
        "cycles",
        "look_payload",
        "value",
    }
