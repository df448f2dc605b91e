"""Units beside the model on the compiled probe: those of off-chip memory, and wider tiles."""

from dataclasses import replace

import numpy as np
import pytest
from penstock import model
from penstock.machine import config as configs
from penstock.machine.beat import BufferRef, Scalar
from penstock.machine.errors import RunError
from penstock.machine.faults import Fault
from penstock.machine.trace import SourceBeats
from penstock.tb import api, check
from penstock.testing import offchip, routing, units
from penstock.testing.beats import beats
from penstock.testing.buffers import buffers
from penstock.testing.patterns import PAIRS


def machine(t, dtype, pipelines="short", **dram):
    base = configs.load("small_fpga")
    m = replace(
        base.machine,
        t=t,
        dtype=dtype,
        rows_per_cycle=t,
        lanes={"default": t * t},
        port_lanes=min(2, t),
        load_lines=32,
        pipelines=pipelines,
    )
    return configs.check(
        replace(base, machine=replace(m, dram=replace(m.dram, **dram)) if dram else m)
    )


def agree(name, config, points):
    for case, rtl in zip(points, api.run_many(points, config), strict=True):
        report = check.compare(on_model(case, config), rtl, case.graph)
        assert report.ok, f"{name}\n{report}"


def sizes(t, dtype, n):
    return [
        offchip.memory(t, dtype, seed).point(seed, sink=("always", "late", "random")[seed % 3])
        for seed in range(n)
    ]


PIPE = {"kind": "pipe", "channels": 4}


def seeded(make):
    """Points of 18 draws of the sizes, and one more."""
    points = [make(seed=seed).point(seed, *PAIRS[seed % len(PAIRS)]) for seed in range(18)]
    return points, make(seed=3).point(7, "random", "random")


DESIGNS = {
    "triggered": (seeded, offchip.triggered, PIPE),
    "triggered, deep": (seeded, offchip.triggered, PIPE | {"pipelines": "deep"}),
    "scattered": (seeded, offchip.scattered, PIPE),
}


@pytest.fixture(scope="module", params=DESIGNS)
def launched(request):
    """One launch of a design: (point, model's run, RTL's) of all its points; the same for one more
    after resets in mid-run, and on second use ``late`` cycles later.
    """
    drawn, make, given = DESIGNS[request.param]
    config = machine(2, "fp32", **given)
    points, once = drawn(make)
    wanted = [on_model(p, config) for p in [*points, once]]
    late = wanted[-1].cycles + 100
    resets = replace(once, resets_at=[3, wanted[-1].cycles // 2])
    again = twice(once, wanted[-1], late)
    *runs, after, second = api.run_many([*points, resets, again], config)
    return list(zip(points, wanted[:-1], runs, strict=True)), (
        once,
        wanted[-1],
        after,
        second,
        late,
    )


def on_model(p, config):
    return model.run(p.graph, config, p.tensors, trace=True, sources=p.sources, sinks=p.sinks)


def test_units_are_the_models(launched):
    for point, want, rtl in launched[0]:
        report = check.compare(want, rtl, point.graph)
        assert report.ok, str(report)


def test_after_a_reset_in_mid_run_and_on_second_use_a_fresh_starts_cycles(launched):
    once, want, after, second, late = launched[1]
    report = check.compare(want, after, once.graph)
    assert report.ok, f"after resets\n{report}"
    stored = {x.name for x in once.graph.tensors if x.role == "output"}
    for c, a, b in zip(once.graph.channels, want.channels, second.channels, strict=True):
        n = len(a.accept)
        known = a.take >= 0
        assert len(b.accept) == 2 * n, c.name
        for half in (slice(0, n), slice(n, None)):
            gap = late if half.start else 0
            assert (b.accept[half] == a.accept + gap).all() and (
                b.take[half][known] == a.take[known] + gap
            ).all(), (c.name, half)
            assert (b.stop[half] == a.stop).all() and (b.data[half] == a.data).all(), (c.name, half)
            if half.start and (
                isinstance(c.payload, BufferRef)
                or once.graph.units[c.src[0]].kind.stated.get("tensor") in stored
            ):
                continue  # a buffer may lie in other pages; the tensor has been stored already
            assert (b.digest[half] == a.digest).all(), (c.name, half)


def twice(point, run, late):
    """The streams of a point, and once more ``late`` cycles later."""

    def source(s):
        return SourceBeats(
            np.concatenate([s.release, s.release + late]),
            *(np.concatenate([x, x]) for x in (s.stop, s.data, s.payload)),
        )

    def sink(u, release):
        first = np.zeros(len(run.channels[point.graph.inputs(u)[0].id].accept), np.int64)
        first[: len(release)] = release[: len(first)]
        return np.concatenate([first, first + late])

    return replace(
        point,
        sources={u: source(s) for u, s in point.sources.items()},
        sinks={u: sink(u, r) for u, r in point.sinks.items()},
        whole=True,
    )


def test_offchip_units():
    points = sizes(2, "fp32", 24)
    agree(
        "memory",
        machine(2, "fp32", kind="pipe", channels=4),
        [*points[:-1], replace(points[-1], resets_at=[2, 40])],
    )


def test_offchip_units_in_listed_orders():
    zoo = offchip.listed()
    agree(
        "listed",
        machine(2, "fp32", kind="pipe", channels=4),
        [zoo.point(0), replace(zoo.point(1, sink="random"), resets_at=[2, 70])],
    )


def test_a_number_of_no_tile_is_told_on_both_sides():
    zoo = offchip.triggered(seed=1)
    config = machine(2, "fp32", kind="pipe", channels=4)
    right = zoo.point(1)
    source = next(c.src[0] for c in zoo.channels if c.payload == Scalar(12))
    wrong = replace(
        right, sources={**right.sources, source: beats(Scalar(12), [(0, 0), (4000, 1)])}
    )
    with pytest.raises(RunError, match="lies outside tensor asked1"):
        model.run(wrong.graph, config, wrong.tensors, sources=wrong.sources, sinks=wrong.sinks)
    with pytest.raises(
        RunError, match=rf"{Fault.ADDRESS.what} \(cycle \d+\); the model: .*lies outside tensor"
    ):
        api.run_many([wrong], config)


@pytest.mark.deep
@pytest.mark.parametrize(
    "make", [units.shapes, units.rows, units.arithmetic, buffers, routing.routing]
)
@pytest.mark.parametrize("t, dtype", [(4, "bf16"), (8, "fp32")])
def test_stream_units_wider(make, t, dtype):
    zoo = make(t, dtype)
    agree(zoo.name, machine(t, dtype), [p for seed in range(0, 300, 12) for p in zoo.points(seed)])


@pytest.mark.deep
@pytest.mark.parametrize(
    "t, dtype, dram",
    [
        (4, "bf16", {"kind": "ideal", "latency": 5}),
        (4, "fp32", {"kind": "pipe", "channels": 2, "interval": 3}),
    ],
)
def test_offchip_units_wider(t, dtype, dram):
    agree("memory", machine(t, dtype, **dram), sizes(t, dtype, 200))
