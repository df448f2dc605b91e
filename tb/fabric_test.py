"""cocotb tests of a fabric: a run at each point of a job, recorded by the compiled bench, and
compared with the model's, which lies beside the job.

Python acts only around a run: registers under reset, then one wait for the bench's ``halt``.
"""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import numpy as np
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer, with_timeout

from ..machine.limits import RESET_CYCLES
from .native import Native, read_job
from .result import PointGraph, conclude

PERIOD_NS = 10
LATE = 1000
"""Cycles after the last that a run may have, in which the bench must have halted."""
JOB = read_job()
NATIVE = Native(JOB["channels"])


@cocotb.test()
@cocotb.parametrize(point=range(len(JOB["points"])))
async def test_run_equals_the_models(dut, point: int) -> None:
    """The run that counts, after those that a reset cuts off."""
    own = JOB | JOB["points"][point]
    given: PointGraph = pickle.loads(Path(own["given"]).read_bytes())
    dut.rst.value = 1
    dut.cfg_we.value = 0
    dut.stat_addr.value = 0
    Clock(dut.clk, PERIOD_NS, "ns", impl="gpi").start()
    started = time.perf_counter()
    for cycles in own["resets_at"]:
        await one_run(dut, own, given.inputs, cycles)
    result = await one_run(dut, own, given.inputs, own["max_cycles"])
    result["simulate_s"] = np.array(time.perf_counter() - started)
    conclude(own, given, result)


async def one_run(dut, job: dict, inputs, limit: int) -> dict:
    """Reset, set up, run to the end or to ``limit``; everything recorded, as arrays."""
    await FallingEdge(dut.clk)
    dut.rst.value = 1
    for _ in range(2):
        await FallingEdge(dut.clk)
    NATIVE.begin(job, inputs, limit)
    for address, value in job["registers"]:
        dut.cfg_we.value = 1
        dut.cfg_addr.value = address
        dut.cfg_data.value = value & 0xFFFFFFFF
        await FallingEdge(dut.clk)
    dut.cfg_we.value = 0
    for _ in range(RESET_CYCLES):
        await FallingEdge(dut.clk)
    start = time.perf_counter()
    cpu = time.process_time()
    dut.rst.value = 0
    most = limit + job["idle"] + job["quiet"] + LATE
    await with_timeout(RisingEdge(dut.halt), most * PERIOD_NS, "ns")
    clocked = time.perf_counter() - start
    cpu = time.process_time() - cpu
    await FallingEdge(dut.clk)
    await ReadOnly()
    result = NATIVE.results()
    result["clocked_s"] = np.array(clocked)
    result["clocked_cpu_s"] = np.array(cpu)
    stats = np.zeros((job["units"], 4), np.int64)
    for unit, at in enumerate(job.get("counters", range(job["units"]))):
        for k in range(4 if at >= 0 else 0):
            await Timer(1, "step")  # the counters need no clock: reading them takes no cycle
            dut.stat_addr.value = 4 * at + k
            await ReadOnly()
            stats[unit, k] = int(dut.stat_data.value)
    result["stats"] = stats
    for kept in job.get("kept", ()):
        result[f"kept{kept['unit']}"] = await _read(dut, kept)
    return result


async def _read(dut, kept: dict) -> np.ndarray:
    """The beats that a sink's memory has, up to Done: words of each."""
    beats = []
    for beat in range(kept["places"]):
        words = []
        for word in range(kept["words"]):
            await FallingEdge(dut.clk)
            dut.sink_addr.value = kept["base"] + beat * kept["stride"] + word
            await FallingEdge(dut.clk)
            await ReadOnly()
            words.append(int(dut.sink_data.value))
        beats.append(words)
        if words == kept["done"]:
            break
    return np.array(beats, np.uint32)
