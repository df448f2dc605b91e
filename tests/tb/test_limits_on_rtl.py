"""Model and RTL at the limits of a fabric: response lanes, ports, widths of beats and of inputs."""

from dataclasses import replace

import pytest
from penstock import cli
from penstock.figures import multiplexing, tiling
from penstock.machine import capacity, limits
from penstock.machine.beat import Scalar, Tuple, beat_bits
from penstock.machine.builder import Builder
from penstock.machine.config import load
from penstock.machine.kinds.ends import Source
from penstock.runs import api
from penstock.tb import api as tb
from penstock.testing import beats as agents
from penstock.testing.graphs import configuration

COPY = """
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore

def program(rows=60, cols=1024, tile_rows=12, tile_cols=128, copies=1, dtype="bf16"):
    g = Graph("copy")
    shape = (-(-rows // tile_rows), -(-cols // tile_cols))
    for i in range(copies):
        x = g.input(f"x{i}", (rows, cols), dtype)
        y = g.output(f"y{i}", (rows, cols), dtype)
        xs = LinearOffChipLoad(x, tile=(tile_rows, tile_cols), shape=shape, name=f"load{i}")
        LinearOffChipStore(xs, y, name=f"store{i}")
    return g
"""
SMALL = {"t": 2, "rows_per_cycle": 2, "lanes": {}, "port_lanes": 2, "load_lines": 16}
FEW = {"rows": 2, "cols": 2, "tile_rows": 2, "tile_cols": 2}


def copied(config, tmp_path, **params):
    """Both sides' records of a load and a store, which are equal in every beat and line."""
    (tmp_path / "copy.py").write_text(COPY)
    found = api.run(str(tmp_path / "copy.py"), config, params, on="both")
    assert [r.backend for r in found] == ["model", "rtl"]
    assert all(r.values_ok for r in found) and len({r.cycles for r in found}) == 1


def small(preset, **dram):
    """A preset with tiles of 2 x 2: its memory as it is, or with other channels."""
    config = load(preset)
    machine = replace(config.machine, **SMALL, accum_tiles=2, pages=2)
    return replace(config, machine=replace(machine, dram=replace(machine.dram, **dram)))


@pytest.mark.deep
def test_a_copy_with_the_32_channels_of_the_papers_machines(tmp_path):
    assert load("paper_attention").machine.dram == load("paper_moe").machine.dram
    config = small("paper_moe")
    assert config.machine.response_lanes == 32
    copied(config, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("preset", ["paper_moe", "paper_attention"])
def test_a_copy_on_the_papers_machines(preset, tmp_path):
    copied(load(preset), tmp_path, tile_rows=60, tile_cols=64)


EXPERTS = {"dim": 32, "inter": 32, "tile_inter": 16}
REQUESTS = {"requests": 4, "regions": 2, "most": 8, "heads": 16, "head_dim": 16, "kv_tile": 16}
SCALED = {
    "static tiles": (
        "published_moe",
        {"tokens": 24, "experts": 2, "top_k": 1, "tile_rows": 16, "regions": 0, **EXPERTS},
    ),
    "static tiles, one region": (
        "published_moe",
        {"tokens": 20, "experts": 3, "top_k": 2, "tile_rows": 16, "regions": 1, **EXPERTS},
    ),
    "dynamic tiles": (
        "published_moe",
        {"tokens": 24, "experts": 2, "top_k": 1, "tile_rows": 0, **EXPERTS},
    ),
    "dynamic tiles, one region": (
        "published_moe",
        {"tokens": 24, "experts": 2, "top_k": 1, "tile_rows": 0, "regions": 1, **EXPERTS},
    ),
    "coarse": ("published_attention", {**REQUESTS, "parallel": "coarse", "regions": 1}),
    "interleaved": ("published_attention", {**REQUESTS, "parallel": "interleaved"}),
    "dynamic": ("published_attention", {**REQUESTS, "parallel": "dynamic"}),
}
"""Programs of figures 9 to 21, a point of each kind: tiles of experts in figures 9 to 11, 19 and
20, regions that experts share in 12 and 13, ways of parallelisation in 14, 15 and 21.
"""
DEPTHS = {
    "static tiles": tiling.DEPTH_1024,
    "static tiles, one region": multiplexing.DEPTH,
    "dynamic tiles, one region": multiplexing.DEPTH,
}
"""Depth of the channels of figure 10's largest batch, and of figures 12 and 13; the others have
their preset's.
"""


@pytest.mark.deep
@pytest.mark.parametrize("point", SCALED)
def test_a_scaled_point_of_the_papers_figures(point, monkeypatch):
    """Tiles of 16 x 16 and 32 channels, with values.

    Runs of some hundred cycles cost less than to optimise what they run.
    """
    monkeypatch.setenv("OPT_FAST", "-O0")
    monkeypatch.setenv("OPT_GLOBAL", "-O0")
    program, params = SCALED[point]
    config = load(program.replace("published", "paper"))
    depth = DEPTHS.get(point, config.machine.channel_depth)
    config = replace(config, machine=replace(config.machine, channel_depth=depth))
    assert (config.machine.t, config.machine.response_lanes) == (16, 32)
    ran, rtl = api.run(program, config, params, on="both")
    assert rtl.values_ok and rtl.cycles == ran.cycles and rtl.mismatches == 0
    assert rtl.channels_observed == rtl.channels_total > 50


@pytest.mark.deep
def test_a_copy_with_as_many_response_lanes_as_there_may_be(tmp_path):
    copied(small("paper_moe", channels=limits.RESPONSE_LANES[-1]), tmp_path)


@pytest.mark.deep
def test_more_ports_than_a_byte_numbers(tmp_path, monkeypatch):
    copied(small("paper_moe", channels=1), tmp_path, copies=194, **FEW)
    monkeypatch.chdir(tmp_path)
    argv = ["verilog", "copy.py", "--config", "small_fpga", "--set", "copies=194", "--out", "v"]
    assert cli.main([*argv, "--quiet"]) == 0


def passing(beats):
    """Streams of beats of so many bits, each with ones in its highest and its lowest one."""
    b = Builder("passing", 4)
    given = {}
    for k, bits in enumerate(beats):
        rest = bits - beat_bits(Tuple(()))
        numbers = [limits.SCALAR_BITS] * (rest // limits.SCALAR_BITS)
        payload = Tuple(tuple(map(Scalar, filter(None, [*numbers, rest % limits.SCALAR_BITS]))))
        source = b.unit(Source())
        b.sink(source, payload)
        high = 1 << payload.bits - 1
        given[source] = agents.beats(payload, [(high | k + j, 0) for j in (1, 3, 5)])
    return b.graph(), given


def equal(graph, given):
    config = configuration()
    point = tb.with_model(tb.Point(graph, {}, given), config)
    report = tb.run_many([point], config)[0].extra["report"]
    assert report.differences == [] and report.observed == len(graph.channels)


@pytest.mark.deep
def test_the_widest_beat():
    equal(*passing([limits.BEAT_BITS]))


@pytest.mark.deep
def test_the_most_inputs():
    most = limits.INPUT_BITS - capacity.CONTROL_BITS
    whole, rest = divmod(most, 30_000 + 2)
    graph, given = passing([30_000] * whole + [rest - 2])
    assert capacity.input_bits(graph, configuration().machine) == limits.INPUT_BITS
    equal(graph, given)
