"""Random programs on an array: drawn within its capabilities, right on the model."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
from penstock import cli
from penstock.fuzz import array as on_arrays
from penstock.fuzz.campaign import Campaign
from penstock.machine.array.network import Network
from penstock.machine.deadlock import DeadlockError
from penstock.machine.errors import PenstockError
from penstock.machine.kinds.routing import EagerMerge
from penstock.runs.array import array_config
from penstock.runs.point import Point

ARRAY = "array_small"


def test_programs_of_an_array_are_right():
    campaign = Campaign()
    on_arrays.run_on_array(campaign, 4, 1, ARRAY)
    counts = campaign.counts
    assert counts["programs"] == 4
    assert not campaign.failures
    left_out = campaign.outside.total() + campaign.refused.total() + counts["deadlocks"]
    assert counts["drawn"] == 4 + left_out
    assert counts["refusals"] == campaign.outside.total() - before_placing(campaign)


def before_placing(campaign):
    """Programs that lowering refuses."""
    return sum(n for what, n in campaign.outside.items() if what.startswith("lowering"))


def test_a_program_that_is_not_refused_is_found(monkeypatch):
    """The array is said to lack what it has: a planted fault."""
    monkeypatch.setattr(on_arrays, "lack", lambda graph, network: "no slot")
    monkeypatch.setattr(on_arrays, "MOST_DRAWS", 3)
    campaign = Campaign()
    with pytest.raises(PenstockError, match="holds none of"):
        on_arrays.run_on_array(campaign, 1, 1, ARRAY)
    assert any("is placed, and no slot has" in f.message for f in campaign.failures)


def test_slices_find_the_same_side_by_side(monkeypatch):
    monkeypatch.setattr(on_arrays, "SLICE", 1)
    alone = Campaign()
    on_arrays.run_on_array(alone, 2, 1, ARRAY)
    beside = Campaign()
    with ThreadPoolExecutor(2) as pool:
        on_arrays.run_on_array(beside, 2, 1, ARRAY, executor=pool)
    assert alone.counts == beside.counts
    assert alone.counts["programs"] == 2
    assert (alone.outside, alone.refused) == (beside.outside, beside.refused)


def test_wrong_values_are_found_kept_and_replayed(monkeypatch, tmp_path, capsys):
    """Sources that give other elements: a planted fault."""
    right = on_arrays.on_array

    def wrong(case, graph):
        made = right(case, graph)
        sources = {u: replace(x, payload=x.payload ^ 1) for u, x in made.sources.items()}
        return replace(made, sources=sources)

    campaign = Campaign()
    with monkeypatch.context() as planted:
        planted.setattr(on_arrays, "on_array", wrong)
        on_arrays.run_on_array(campaign, 1, 1, ARRAY, keep=tmp_path)
        kept = str(campaign.failures[0].path)
        assert cli.main(["fuzz", "--replay", kept]) == 1
        assert campaign.failures[0].message in capsys.readouterr().err
    assert cli.main(["fuzz", "--replay", kept]) == 0


def test_a_program_that_deadlocks_on_the_array_alone_is_found(monkeypatch):
    """Placed programs that never finish: a planted fault."""
    finishes = on_arrays.programs.run_model
    lack = on_arrays.lack
    own = []

    def seen(graph, network):
        own.append(graph)
        return lack(graph, network)

    def stuck(case, config):
        if case.graph is not own[-1]:
            raise DeadlockError(SimpleNamespace(cycle=9), "units wait for each other", None, None)
        return finishes(case, config)

    monkeypatch.setattr(on_arrays, "lack", seen)
    monkeypatch.setattr(on_arrays.programs, "run_model", stuck)
    monkeypatch.setattr(on_arrays, "MOST_DRAWS", 30)
    campaign = Campaign()
    with pytest.raises(PenstockError, match="holds none of"):
        on_arrays.run_on_array(campaign, 1, 1, ARRAY)
    told = [f.message for f in campaign.failures]
    assert told
    assert all("deadlocks, and finishes on a fabric of its own" in text for text in told)


def test_what_an_array_cannot_be_is_named():
    config = array_config("array_tiny")
    network = Network(config.array)
    graph = Point("swiglu", config, {}).graph
    assert on_arrays.lack(graph, network) is None
    units = list(graph.units)
    k = next(u.id for u in units if u.kind.name == "repeat")
    units[k] = replace(units[k], kind=EagerMerge(n=2, rank=1))
    assert on_arrays.lack(replace(graph, units=tuple(units)), network) == "eager_merge: no slot"
