"""Loads, stores, random stores and their interconnect before the fast model's DRAM."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import cocotb
import pytest
from cocotb.triggers import ClockCycles
from penstock import model
from penstock.machine.beat import Scalar
from penstock.machine.config import Config, Dram
from penstock.machine.deliveries import Deliveries
from penstock.machine.errors import RunError
from penstock.machine.faults import Fault
from penstock.tb.tops import UnitTop, simulate, small
from penstock.testing.agents import Bench
from penstock.testing.memory_agent import MemoryAgent
from penstock.testing.offchip import offchip, started
from penstock.testing.patterns import PAIRS
from penstock.testing.scoreboard import ModelScoreboard

UNITS = UnitTop(offchip, small(arbitration="round_robin", dram=Dram(kind="pipe", channels=4)))
IDEAL = UnitTop(
    partial(started, 4, "bf16"),
    small(4, "bf16", port_lanes=4, pipelines="deep", dram=Dram(kind="ideal", latency=5)),
)
TOPS = {"pipe": UNITS, "ideal": IDEAL}
STALLS = PAIRS[::4]
"""A pair with each pattern of sources, and with each of sinks."""
WAITS = (np.random.default_rng(5).random(64) < 0.6).tolist()


@pytest.mark.cocotb_runner
@pytest.mark.parametrize("top", TOPS)
def test_simulate(hdl, top):
    hdl.plusargs.append(f"+top={top}")
    simulate(hdl, TOPS[top].design)


def chosen() -> UnitTop:
    """The top that is simulated."""
    return TOPS[str(cocotb.plusargs.get("top", "pipe"))]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=UNITS.kinds, stalls=STALLS)
async def test_beats_and_lines_equal_the_models(dut, kind, stalls):
    size = 3 * UNITS.kinds.index(kind) + STALLS.index(stalls)
    await chosen().agree(dut, kind, *stalls, seed=size)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_reset_and_a_second_use_begin_anew(dut):
    units = chosen()
    await units.agree_again(dut, use_twice=units is IDEAL)


class Unordered(MemoryAgent):
    """A memory that answers each line after a delay of its own."""

    def deliver(self, cycle, taken):
        self.lines += taken
        waiting = [x for x in self.lines if x.delivered < 0]
        due = [x for x in waiting if x.cycle + 1 + x.address // 64 * 7 % 13 <= cycle]
        return due[: self.machine.response_lanes]


def replaying(config: Config, memory: MemoryAgent, path: Path) -> Config:
    """A machine whose memory is the recorded one."""
    rows = [[x.cycle + 1, x.delivered, x.address, x.write] for x in memory.lines]
    Deliveries(np.array(rows)).write(path)
    lanes = config.machine.response_lanes
    trace = Dram(kind="trace", channels=lanes, deliveries=str(path))
    return replace(config, machine=replace(config.machine, dram=trace))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_interconnect_before_a_memory_that_waits_and_answers_in_any_order(dut):
    units = chosen()
    first = await units.begun(Bench(dut), units.point("random", "random"))
    point = first.point = replace(first.point, memory_waits=WAITS)
    first.memory = Unordered
    agents = first.drive()
    while not dut.done.value:
        await first.bench.edge
    for agent in agents:
        agent.stop()
    with tempfile.TemporaryDirectory() as folder:
        memory = agents[-1]
        assert isinstance(memory, MemoryAgent)
        config = replaying(units.config, memory, Path(folder) / "deliveries.csv")
        scoreboard = ModelScoreboard(first.bench, point, config)
        await scoreboard.bench.reset()
        await scoreboard.run()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(width=[12, 16])
async def test_a_number_of_no_tile_is_shown_by_a_load_and_a_random_store(dut, width):
    units = chosen()
    scoreboard = await units.begun(Bench(dut), units.point("always", "always"))
    point = scoreboard.point
    u = next(c.src[0] for c in point.graph.channels if c.payload == Scalar(width))
    given = point.sources[u]
    wrong = replace(given, payload=np.full_like(given.payload, 4000))
    scoreboard.point = replace(point, sources={**point.sources, u: wrong})
    with pytest.raises(RunError, match=r"lies outside tensor (asked1|out0)"):
        model.run(
            *(point.graph, units.config, point.tensors),
            sources=scoreboard.point.sources,
            sinks=point.sinks,
        )
    scoreboard.drive()[-1].stop()  # the agent would refuse the address
    dut.mem_req_ready.value = 1
    await ClockCycles(dut.clk, 300)
    assert dut.error.value == 1 << Fault.ADDRESS


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=UNITS.kinds)
async def test_an_answer_that_nobody_waits_for_is_shown(dut, kind):
    units = chosen()
    scoreboard = await units.begun(Bench(dut), units.point("always", "always"))
    graph = scoreboard.point.graph
    port = next(p for p, u in enumerate(graph.ports) if graph.units[u].kind.name == kind)
    dut.mem_req_ready.value = 0
    dut.mem_rsp_port.value = port
    dut.mem_rsp_tag.value = 7
    dut.mem_rsp_valid.value = 1
    await ClockCycles(dut.clk, 4)
    assert dut.error.value == 1 << Fault.STRAY


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_memory_of_another_machine_is_refused(dut):
    units = chosen()
    scoreboard = await units.begun(Bench(dut), units.point("always", "always"))
    given = scoreboard.bench, scoreboard.point.graph
    narrow = replace(units.config.machine, dram=Dram(kind="pipe", channels=2))
    with pytest.raises(ValueError, match=r"mem_rsp_valid has 4 bits, this machine's has 2"):
        MemoryAgent(*given, replace(units.config, machine=narrow))
    with pytest.raises(ValueError, match="limit of lines in flight must be at least 1, not 0"):
        MemoryAgent(*given, units.config, scoreboard.point.tensors, limit=0)
    await scoreboard.bench.edge  # Icarus ends in a fault where a write is left for after the test
