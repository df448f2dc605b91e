"""Random programs and single-unit streams on the RTL, every beat against the model's; planted bugs
are found.
"""

import os
import re

import pytest
from penstock.fuzz import campaign, fabric, programs, streams
from penstock.fuzz.draw import Goal, draw
from penstock.fuzz.streams import run_streams
from penstock.machine.deadlock import DeadlockError
from penstock.machine.errors import LoweringError, RunError
from penstock.tb import api

SEED = "PENSTOCK_FUZZ_SEED"
"""Environment variable: the seed of programs and streams; without it they are few, and always the
same.
"""
ROUTING = ["Partition", "Streamify affine", "Flatten", "Expand"]
AGAIN = "again: {name}={seed} pytest tests/fuzz/test_fuzz_rtl.py"


@pytest.mark.xdist_group("fuzz_rtl")
def test_a_batch_of_programs_is_equal_in_every_beat():
    """Programs that route, unless a seed is given: arithmetic takes long to build."""
    seed = int(os.environ.get(SEED, 21))
    count, only = (10, None) if SEED in os.environ else (6, ROUTING)
    s = campaign.Campaign()
    campaign.run_programs(s, count, seed, on="rtl", batch=count, variants=3, only=only)
    again = AGAIN.format(name=SEED, seed=seed)
    assert not s.failures, "\n".join([*(f"{f.origin}: {f.message}" for f in s.failures), again])
    assert s.counts["programs on RTL"] == count, again
    assert (
        s.counts["beats compared on RTL"] >= s.counts["beats on the model"] > 0
    )  # a program with fewer variants than its neighbours runs again beside them


@pytest.mark.xdist_group("fuzz_rtl")
def test_streams_of_one_kind_of_unit_are_equal_in_every_beat(monkeypatch):
    """The last digit of the seed chooses the kind."""
    seed = int(os.environ.get(SEED, 21))
    every = streams.zoos
    number = seed % len(every(seed))
    monkeypatch.setattr(streams, "zoos", lambda seed: every(seed)[number : number + 1])
    count = 4 * streams.streams_of_a_point()
    s = campaign.Campaign()
    run_streams(s, count, seed, on="rtl")
    again = AGAIN.format(name=SEED, seed=seed)
    assert not s.failures, "\n".join([*(f"{f.origin}: {f.message}" for f in s.failures), again])
    assert s.counts["streams on RTL"] == count, again
    assert s.counts["beats compared on RTL"] == s.counts["beats on the model"] > 0, again


@pytest.mark.xdist_group("fuzz_rtl")
def test_a_run_of_the_rtl_that_differs_is_a_failure(monkeypatch):
    """The last beat of every channel is accepted a cycle late."""
    right = fabric.simulate

    def late(points, *args):
        for c in (c for p in points for c in p.expected.channels):
            c.accept[-1] -= 1
        return right(points, *args)

    monkeypatch.setattr(fabric, "simulate", late)
    monkeypatch.setattr(campaign, "SHRINK_RTL", 0)
    s = campaign.Campaign()
    campaign.run_programs(s, 1, 21, on="rtl", batch=1, only=["Flatten"])
    (failure,) = s.failures
    assert failure.backend == "rtl" and "accepted: model in cycle" in failure.message


@pytest.mark.deep
@pytest.mark.xdist_group("fuzz_rtl")
def test_streams_are_equal_in_every_beat():
    s = campaign.Campaign()
    run_streams(s, 1500, 2, on="rtl")
    assert not s.failures and s.counts["streams on RTL"] >= 1500, "\n".join(
        f"{f.origin}: {f.message}" for f in s.failures
    )


@pytest.mark.deep
@pytest.mark.xdist_group("fuzz_rtl")
def test_a_deadlock_is_told_on_both_sides():
    """Programs that deadlock, side by side: the RTL stops too, with the channels full that wait for
    each other on the model; and runs with the depth that the model names.
    """
    config = next(c for c in (programs.machine((s, 5)) for s in range(20)) if c.machine.t == 2)
    stuck = []
    for seed in range(200):
        recipe = draw((seed, 6), 2, config.machine.dtype, [Goal(("Partition",))])
        recipe.run = {"depths": seed, "depth": 0, "stalls": None}
        try:
            case = programs.prepare(recipe, config)
            programs.run_model(case, config)
        except DeadlockError as e:
            stuck.append((len(case.graph.channels), seed, case, e.deadlock))
        except LoweringError:
            continue
    stuck = sorted(stuck, key=lambda x: x[:2])[:3]
    assert stuck
    graph, parts = fabric.side_by_side([case.graph for _, _, case, _ in stuck], "stuck")
    sources = {
        u + p.unit: s
        for p, (_, _, case, _) in zip(parts, stuck, strict=True)
        for u, s in case.sources.items()
    }
    tensors = {
        p.prefix + n: a
        for p, (_, _, case, _) in zip(parts, stuck, strict=True)
        for n, a in case.tensors.items()
    }
    (told,) = fabric.simulate([api.Point(graph, tensors, sources, {})], config)
    assert isinstance(told, RunError) and "deadlock: nothing moved" in told.what
    full = re.search(r"full channels: (.*?);", told.what)[1].split(", ")
    for part, (_, _, case, found) in zip(parts, stuck, strict=True):
        circle = [part.prefix + s.channel for s in found.circle if s.why == "room"]
        assert circle and set(circle) <= set(full)
        freed = case.recipe.copy()
        freed.run["depth"] = found.uniform
        programs.run_model(programs.prepare(freed, config), config)
