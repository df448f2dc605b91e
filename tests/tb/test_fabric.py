"""A whole program on the RTL: equal to the model, after a reset in mid-run, after other runs, and
with other run-time parameters.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from penstock import model
from penstock.frontend import build, lower
from penstock.machine import config as configs
from penstock.machine.deliveries import of_run
from penstock.machine.errors import RunError
from penstock.tb import api, check

SIZES = (
    {"batch": 4, "dim": 6, "inter": 8, "tile_b": 2, "tile_inter": 4},
    {"batch": 6, "dim": 5, "inter": 7, "tile_b": 3, "tile_inter": 7},
    {"batch": 2, "dim": 2, "inter": 2, "tile_b": 2, "tile_inter": 2},
)


def machine():
    """A machine of narrow units: matmul at one of two rows a cycle, element-wise units and
    accumulators at one or two of four lanes.
    """
    base = configs.load("small_fpga")
    m = replace(
        base.machine,
        t=2,
        rows_per_cycle=1,
        lanes={"default": 4, "silu": 1, "mul": 2, "accum": 2},
        accum_tiles=16,
        load_lines=16,
    )
    return configs.check(replace(base, machine=m))


def point(config, params, **kw):
    program = build("swiglu", params, config)
    return api.Point(lower(program.graph, config, timing="machine"), program.inputs(0), **kw)


WAITS = (
    [cycle % 2 == 0 for cycle in range(2)],
    np.random.default_rng(19).random(1009) < 0.7,
    [cycle % 97 < 60 for cycle in range(97)],
)
"""When the memory takes no request: every other cycle, at random, for long."""


@pytest.fixture(scope="module")
def runs():
    config = machine()
    points = [point(config, p) for p in SIZES] + [point(config, SIZES[0], resets_at=[3, 77])]
    points += [point(config, SIZES[1], memory_waits=waits) for waits in WAITS]
    points[:4] = [api.with_model(p, config) for p in points[:4]]
    return config, points, api.run_many(points, config)


@pytest.mark.parametrize("i", range(4))
def test_every_beat_equals_the_models(runs, i):
    report = runs[2][i].extra["report"]
    assert report.ok and report.coverage == 1.0, str(report)


@pytest.mark.parametrize("i", range(len(WAITS)))
def test_a_memory_that_waits_changes_cycles_alone(runs, i):
    _config, _points, rtl = runs
    free = rtl[1]
    held = rtl[len(SIZES) + 1 + i]
    assert held.cycles > free.cycles
    assert (held.lines_read, held.lines_written) == (free.lines_read, free.lines_written)
    for name, values in free.outputs.items():
        assert np.array_equal(held.outputs[name], values), name
    for mine, theirs in zip(held.channels, free.channels, strict=True):
        assert np.array_equal(mine.digest, theirs.digest)


@pytest.mark.parametrize("i", range(len(WAITS)))
def test_deliveries_of_a_memory_that_waits_are_replayed(runs, i, tmp_path):
    """Deliveries are replayed by the model, with the cycles of the RTL; and by the RTL, whose
    simulator is the same.
    """
    config, points, rtl = runs
    held = rtl[len(SIZES) + 1 + i]
    p = points[len(SIZES) + 1 + i]
    file = tmp_path / "run.csv"
    of_run(held, p.graph).write(file)
    dram = replace(config.machine.dram, kind="trace", deliveries=str(file))
    replaying = configs.check(replace(config, machine=replace(config.machine, dram=dram)))
    want = model.run(p.graph, replaying, p.tensors, trace=True)
    report = check.compare(want, held, p.graph)
    assert report.ok and report.coverage == 1.0, str(report)
    if i:
        return
    [again] = api.run_many([replace(point(replaying, SIZES[1]), expected=want)], replaying)
    report = again.extra["report"]
    assert report.ok and again.extra["build"] == held.extra["build"], str(report)


def test_points_share_one_simulator(runs):
    _, _points, rtl = runs
    assert len({r.extra["launch_s"] for r in rtl}) == 1
    assert len({r.cycles for r in rtl[:3]}) == 3


def test_reset_in_mid_run_gives_a_fresh_starts_cycles(runs):
    _, points, rtl = runs
    report = check.compare(rtl[0], rtl[3], points[0].graph)
    assert report.ok, str(report)


def test_a_memory_that_starts_late_is_no_deadlock_and_no_other_hardware(runs):
    """Responses take longer than the wait before a deadlock is reported.

    The simulator is the same: nothing is exported or built.
    """
    config, _points, rtl = runs
    slow = replace(
        config, machine=replace(config.machine, dram=replace(config.machine.dram, start_up=20_000))
    )
    [run] = api.run_many([api.with_model(point(slow, SIZES[2]), slow)], slow)
    assert run.extra["report"].ok, str(run.extra["report"])
    assert run.cycles > 20_000 + rtl[2].cycles
    assert (
        run.extra["build"] == rtl[2].extra["build"]
        and run.extra["export_s"] == run.extra["build_s"] == 0.0
    )


def test_the_cycle_limit_is_reported():
    config = machine()
    with pytest.raises(RunError, match="not done at the limit of 50 cycles"):
        api.run(
            point(config, SIZES[0]).graph, config, point(config, SIZES[0]).tensors, max_cycles=50
        )


def test_an_access_outside_its_tensor_names_the_unit():
    config = machine()
    p = point(config, SIZES[0])
    wrong = [
        replace(u, kind=u.kind.but(base=u.kind.base + 64 * 1024)) if u.name == "down" else u
        for u in p.graph.units
    ]
    image = replace(p.graph, units=tuple(wrong))
    with pytest.raises(
        RunError,
        match=r"load down: access outside its allocation: byte address 0x[0-9a-f]+ in cycle \d+",
    ):
        api.run(image, config, p.tensors)


@pytest.mark.deep
def test_waves_of_a_fabric_have_every_channel(tmp_path):
    config = machine()
    p = point(config, SIZES[2])
    run = api.run(p.graph, config, p.tensors, waves=str(tmp_path / "run"))
    dump, layout, _ = run.extra["waves"]
    text = open_text(layout)
    assert all(f"{c.name}: " in text and f".p{c.id}.text" in text for c in p.graph.channels)
    if dump.endswith(".vcd"):
        done = "".join(f"{ord(ch):08b}" for ch in "Done").lstrip("0")
        assert f"b{done} " in open_text(dump) or f"b{done.zfill(192)} " in open_text(dump)


def open_text(path):
    return Path(path).read_text()
