"""Lower bounds on cycles: no run is below, and a wrong bound is found."""

from statistics import median

import numpy as np
import pytest
from penstock.frontend.analysis import bounds
from penstock.frontend.analysis.events import Events
from penstock.frontend.analysis.flows import UNKNOWN, Flow
from penstock.fuzz import campaign, programs
from penstock.machine.config import load
from penstock.runs import api, explain, simulation
from penstock.runs.point import Point
from penstock.runs.regress import FIG8


def least(params):
    point = Point("swiglu", load("fig8"), params)
    graph = point.program.graph
    return bounds.bounds(graph, point.analysis, point.graph, point.config)


def cycles(params):
    (record,) = api.run("swiglu", "fig8", params, values=False)
    return record.cycles


def test_figure_8_is_above_its_bounds_and_near_them():
    gaps = []
    for params in FIG8:
        bound = least(params).tightest().value
        ran = cycles(params)
        assert bound <= ran
        gaps.append(ran / bound - 1)
    assert len(gaps) == 15
    assert median(gaps) <= 0.02
    assert max(gaps) <= 0.05


@pytest.mark.parametrize("config", ["small_fpga", "paper_hdl_hbm2"])
def test_a_record_tells_its_bound(config):
    (record,) = api.run("swiglu", config, values=False)
    assert 1 < record.bound_cycles <= record.cycles
    assert f"by {record.bound_by}" in explain.text(record)


def test_a_size_of_the_run_stays_in_the_bound():
    (record,) = api.run("simple_moe", "small_fpga")
    assert record.bound_cycles <= record.cycles <= 1.5 * record.bound_cycles


@pytest.mark.parametrize("parallel", ["coarse", "dynamic"])
def test_arrival_order_is_not_taken_from_an_order_that_no_run_has(parallel):
    (record,) = api.run("attention", "paper_hdl", {"parallel": parallel}, values=False)
    assert 0.8 * record.cycles <= record.bound_cycles <= record.cycles


def test_tiles_in_part_are_stored_in_fewer_lines(monkeypatch):
    def compared():
        config = load("paper_hdl")
        point = Point("attention", config, {"parallel": "coarse"})
        run = simulation.on_model(point, False, True)
        graph = point.program.graph
        found = bounds.bounds(graph, point.analysis, point.graph, config)
        programs.check_lines(found, point.graph, run)

    compared()
    monkeypatch.setattr(bounds.Bounds, "_whole", property(lambda self: set(self.offchip.per_node)))
    with pytest.raises(programs.MismatchError, match="below the bound"):
        compared()


def test_shapes_of_streams_are_those_of_their_beats():
    sizes = {"requests": 4, "regions": 2, "most": 3}
    point = Point("attention", load("small_fpga"), {"parallel": "dynamic", **sizes})
    run = simulation.on_model(point, False, True)
    seen = [Flow.seen(c.stop, c.data).summed() for c in run.channels]
    assert [Flow.ran(shape) for shape in run.shapes] == seen
    assert any(f.dims is None for f in seen) and any(len(f.dims or ()) > 2 for f in seen)


def test_random_programs_are_above_their_bounds_and_near_them():
    found = campaign.Campaign()
    campaign.run_programs(found, 12, 3, variants=1)
    assert not found.failures
    assert len(found.gaps) == 12 and min(found.gaps) >= 1
    assert median(found.gaps) <= 1.5


def late(add):
    """Every beat a cycle later than the contract says."""
    return lambda self, before, after, cycles, *more: add(self, before, after, cycles + 1, *more)


def test_the_fuzzer_finds_a_wrong_bound(monkeypatch):
    monkeypatch.setattr(Events, "add", late(Events.add))
    monkeypatch.setattr(campaign, "SHRINK_MODEL", 0)
    found = campaign.Campaign()
    campaign.run_programs(found, 1, 12, variants=1)
    assert "below the bound of" in found.failures[0].message


def test_a_line_that_takes_too_long_is_found(monkeypatch):
    most, interval, latency = bounds._service(load("fig8").machine.dram)
    monkeypatch.setattr(bounds, "_service", lambda dram: (most, 2 * interval, latency))
    assert least(FIG8[0]).tightest().value > cycles(FIG8[0])


def test_a_regular_stream_is_recognised_by_its_stops():
    stop = np.array([0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 15])
    flow = Flow.seen(stop, stop < 15)
    assert (flow.dims, flow.count) == ((2, 3, 2), 12)
    assert (flow.head(1), flow.tail(2)) == (2, 6)
    assert (flow.inner(1), flow.outer(2)) == ((2,), (2,))


def test_groups_of_an_irregular_stream_are_counted():
    stop = np.array([0, 0, 1, 1, 0, 1, 15])
    flow = Flow.seen(stop, stop < 15)
    assert flow.dims is None
    assert (flow.count, flow.head(1), flow.tail(1)) == (6, 3, 2)


def test_an_empty_stream_tells_nothing():
    assert Flow.of((2, 0)) is UNKNOWN
    assert not Flow.seen(np.array([2, 15]), np.array([0, 0])).some
