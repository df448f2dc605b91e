"""Units beside the model on the compiled probe: those of wider tiles, and a fault."""

from dataclasses import replace

import pytest
from penstock.machine.beat import Scalar
from penstock.machine.config import load
from penstock.machine.errors import RunError
from penstock.machine.faults import Fault
from penstock.tb import api
from penstock.tb.tops import small
from penstock.testing import offchip, routing, units
from penstock.testing.beats import beats
from penstock.testing.buffers import buffers


def machine(t, dtype, **dram):
    base = load("small_fpga").machine.dram
    return small(t, dtype, port_lanes=2, dram=replace(base, **dram))


def agree(name, config, points):
    for rtl in api.run_many([api.with_model(p, config) for p in points], config):
        assert rtl.extra["report"].ok, f"{name}\n{rtl.extra['report']}"


def sizes(t, dtype, n):
    return [
        offchip.memory(t, dtype, seed).point(seed, sink=("always", "late", "random")[seed % 3])
        for seed in range(n)
    ]


def test_a_fault_is_reported_as_rtl_and_model_show_it():
    zoo = offchip.triggered(seed=1)
    point = zoo.point(1)
    u = next(c.src[0] for c in zoo.channels if c.payload == Scalar(12))
    sources = {**point.sources, u: beats(Scalar(12), [(0, 0), (4000, 1)])}
    message = rf"{Fault.ADDRESS.what} \(cycle \d+\); the model: .*lies outside tensor asked1"
    with pytest.raises(RunError, match=message):
        api.run_many([replace(point, sources=sources)], machine(2, "fp32", kind="pipe", channels=4))


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
