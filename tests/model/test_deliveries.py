"""Recorded deliveries: what a run of any memory leaves, and its replay."""

from dataclasses import replace

import numpy as np
import pytest
from penstock import model
from penstock.frontend import build, lower
from penstock.machine import config as configs
from penstock.machine.deliveries import Deliveries, of_run
from penstock.machine.errors import ConfigError, RunError

SIZE = {"batch": 4, "dim": 16, "inter": 8, "tile_b": 4, "tile_inter": 4}


def replaying(config, path):
    """The machine with the deliveries of a file."""
    dram = configs.Dram(kind="trace", channels=config.machine.response_lanes, deliveries=str(path))
    return configs.check(replace(config, machine=replace(config.machine, dram=dram)))


def machine(**dram):
    base = configs.load("small_fpga")
    return replace(base, machine=replace(base.machine, dram=configs.Dram(**dram)))


def lowered(config, **sizes):
    program = build("swiglu", SIZE | sizes, config)
    return lower(program.graph, config, timing="machine"), program.inputs(0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run, its graph and inputs, and the file of its deliveries."""
    config = machine(kind="pipe", channels=4, interval=3)
    graph, tensors = lowered(config)
    run = model.run(graph, config, tensors, trace=True)
    path = tmp_path_factory.mktemp("deliveries") / "run.csv"
    of_run(run, graph).write(path)
    return config, graph, tensors, run, path


@pytest.mark.parametrize(
    "dram",
    [
        {"kind": "pipe", "channels": 4, "interval": 3},
        {"kind": "ideal", "latency": 7},
        {"kind": "hbm2"},
    ],
)
def test_a_replayed_run_is_the_run(dram, tmp_path):
    config = machine(**dram)
    graph, tensors = lowered(config)
    run = model.run(graph, config, tensors, trace=True)
    found = of_run(run, graph)
    assert len(found.rows) == run.lines_read + run.lines_written
    found.write(tmp_path / "run.csv")
    again = model.run(graph, replaying(config, tmp_path / "run.csv"), tensors, trace=True)
    assert (again.cycles, again.first_request) == (run.cycles, run.first_request)
    for mine, theirs in zip(again.ports, run.ports, strict=True):
        assert (mine.accept == theirs.accept).all() and (mine.deliver == theirs.deliver).all()
    for name in ("busy", "blocked", "starved"):
        assert (getattr(again, name) == getattr(run, name)).all()
    assert (of_run(again, graph).rows == found.rows).all()


def test_later_deliveries_take_longer(recorded, tmp_path):
    config, graph, tensors, run, path = recorded
    rows = Deliveries.read(path).rows.copy()
    rows[-1, 1] += 1000
    Deliveries(rows).write(tmp_path / "late.csv")
    late = model.run(graph, replaying(config, tmp_path / "late.csv"), tensors)
    assert late.cycles == run.cycles + 1000
    assert all((late.outputs[name] == run.outputs[name]).all() for name in run.outputs)


def changed(k, column, by):
    def change(rows):
        rows[k, column] += by
        return rows

    return change


def longer(rows):
    return np.concatenate([rows, rows[-1:] + np.array([5, 5, 0, 0])])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(40, 2, 64), r"does not ask next for line 41 of \d+, a read of 0x"),
        (changed(40, 3, 1), r"does not ask next for line 41 of \d+, a write of 0x"),
        (lambda rows: rows[:-1], r"asks for more than \d+ lines"),
        (longer, "ends after .* without line"),
    ],
)
def test_deliveries_of_another_run_are_refused(recorded, tmp_path, change, message):
    config, graph, tensors, _run, path = recorded
    rows = change(Deliveries.read(path).rows.copy())
    Deliveries(rows).write(tmp_path / "other.csv")
    with pytest.raises(RunError, match=f"not the one whose deliveries were recorded: it {message}"):
        model.run(graph, replaying(config, tmp_path / "other.csv"), tensors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 must be taken,delivered,address,write, not ''"),
        ("taken,delivered\n", "line 1 must be taken,delivered,address,write"),
        ("taken,delivered,address,write\n1,2,0\n", "line 2: must be 4 integers from 0 on"),
        ("taken,delivered,address,write\n1,-2,0,0\n", "line 2: must be 4 integers from 0 on"),
        ("taken,delivered,address,write\n3,3,0,0\n", "line 2: a line is delivered before"),
        (
            "taken,delivered,address,write\n3,9,0,0\n2,9,0,0\n",
            "line 3: a line is taken before the line above it",
        ),
        (
            "taken,delivered,address,write\n" + "3,9,0,0\n" * 5,
            "5 lines are delivered in a cycle, and dram.channels is 4",
        ),
    ],
)
def test_a_damaged_file_is_refused(recorded, tmp_path, text, message):
    config, graph, tensors, _run, _path = recorded
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        model.run(graph, replaying(config, tmp_path / "bad.csv"), tensors)
