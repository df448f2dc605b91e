"""The bench on a design whose every cycle is known: recording, streams, resets, faults, cache."""

import numpy as np
import pytest
from penstock.machine import stimulus
from penstock.machine.beat import FNV_OFFSET, FNV_PRIME
from penstock.machine.errors import RunError
from penstock.machine.trace import SourceBeats
from penstock.tb import api, runner, tiny
from penstock.testing import beats as agents
from penstock.testing.patterns import PATTERNS, releases


def stream(n, pattern, seed):
    return agents.beats(
        tiny.PAYLOAD,
        [((i * 0x1234567) & (2**40 - 1) | 1 << 39, i % 3) for i in range(n)],
        releases(n + 1, pattern, seed),
    )


def fnv(words):
    h = FNV_OFFSET
    for w in words:
        h = (h ^ int(w)) * FNV_PRIME % 2**64
    return h


@pytest.mark.parametrize("source", PATTERNS)
def test_every_beat_is_recorded(source):
    points = []
    for k, sink in enumerate(PATTERNS):
        points.append(
            api.Point(
                tiny.graph(), None, {0: stream(50, source, k)}, {1: releases(51, sink, 100 + k)}
            )
        )
    for p, run in zip(points, api.simulate(tiny.design(), points, None, record=[0]), strict=True):
        accept, take = tiny.fifo(p.sources[0].release, p.sinks[1])
        (c,) = run.channels
        words = stimulus.whole_beats(tiny.PAYLOAD, p.sources[0])
        done = 1 + max(accept[-1] + 1, take[-2] + 1)
        take[-1] = -1 if take[-1] >= done else take[-1]
        assert (c.accept == accept).all() and (c.take == take).all()
        assert [int(d) for d in c.digest] == [fnv(w) for w in words]
        assert (run.extra["payloads"][0] == words).all()
        assert (c.stop == p.sources[0].stop).all() and (c.data == p.sources[0].data).all()
        assert run.cycles == done


def test_reset_in_mid_run_gives_a_fresh_start():
    point = api.Point(
        tiny.graph(), None, {0: stream(50, "bursty", 1)}, {1: releases(51, "random", 2)}
    )
    again = api.Point(point.graph, None, point.sources, point.sinks, resets_at=[1, 17, 60])
    first, second = api.simulate(tiny.design(), [point, again], None)
    assert first.cycles == second.cycles
    assert (first.channels[0].take == second.channels[0].take).all()


def test_second_input_after_done():
    once = api.Point(
        tiny.graph(), None, {0: stream(30, "random", 4)}, {1: releases(31, "bursty", 5)}
    )
    first = api.simulate(tiny.design(), [once], None)[0]
    gap = first.cycles + 200
    s = once.sources[0]
    twice = SourceBeats(
        np.concatenate([s.release, s.release + gap]),
        *(np.concatenate([x, x]) for x in (s.stop, s.data, s.payload)),
    )
    both = api.simulate(
        tiny.design(),
        [
            api.Point(
                once.graph,
                None,
                {0: twice},
                {1: [*once.sinks[1], *(once.sinks[1] + gap)]},
                whole=True,
            )
        ],
        None,
    )[0]
    accept = both.channels[0].accept
    assert (
        len(accept) == 62
        and (accept[:31] == first.channels[0].accept).all()
        and (accept[31:] == accept[:31] + gap).all()
    )


def test_second_build_comes_from_the_cache():
    api.build_design(tiny.design())
    assert api.build_design(tiny.design()).cached


def test_short_runs_take_an_optimised_simulator_where_there_is_one(monkeypatch, tmp_path):
    design = tiny.design()
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.delenv("OPT_FAST", raising=False)
    monkeypatch.setattr(runner.Verilated, "compile", lambda *_: None)
    hurried, optimised = (api.build_design(design, short=short) for short in (True, False))
    assert hurried.folder != optimised.folder
    assert api.build_design(design, short=True).folder == optimised.folder


@pytest.mark.parametrize(
    "broken, message",
    [
        ("late", r"deadlock: nothing moved for 10000 cycles"),
        ("flags", r"inputs differ in stop level .* \(cycle \d+\)"),
    ],
)
def test_faults_are_reported(broken, message):
    point = api.Point(
        tiny.graph(), None, {0: stream(9, "always", 0)}, {1: releases(10, "random", 0)}
    )
    with pytest.raises(RunError, match=message):
        api.simulate(tiny.design(broken=broken), [point], None)


def test_cycle_limit_names_the_full_channel():
    point = api.Point(tiny.graph(), None, {0: stream(9, "always", 0)}, {1: np.full(10, 500)})
    with pytest.raises(
        RunError, match=r"not done at the limit of 100 cycles; full channels: in_out"
    ):
        api.simulate(tiny.design(), [point], None, max_cycles=100)


def test_undriven_source_is_refused():
    with pytest.raises(RunError, match="source unit in: no stream given"):
        api.simulate(tiny.design(), [api.Point(tiny.graph())], None)


def test_verilog_that_does_not_compile_is_reported_once():
    design = tiny.design()
    bad = api.Design(
        design.graph,
        {"fabric.v": design.verilog["fabric.v"].replace("wire last", "no_such last")},
        design.top,
    )
    with pytest.raises(
        RunError, match=r"(?s)RTL of tiny: the simulator does not build.*no_such.*build\.log"
    ):
        api.build_design(bad)


def test_missing_compiler_is_one_message(monkeypatch, tmp_path):
    from penstock.tb import toolchain

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    toolchain.compiler_in_use.cache_clear()
    with pytest.raises(
        RunError, match=r"RTL simulation: g\+\+ not found; install it .*`--on model`"
    ):
        api.build_design(tiny.design())
    toolchain.compiler_in_use.cache_clear()
