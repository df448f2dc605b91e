"""cocotb test module: runs a fabric at each point of a job and leaves what the bench recorded as
.npz files.

Python acts only around a run: registers under reset, then one wait for the bench's ``halt``.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer

from ..machine.limits import RESET_CYCLES
from .native import Native
from .runner import read_job

PERIOD_NS = 10


@cocotb.test()
async def fabric(dut) -> None:
    """Every point of the job, one after the other in one simulation."""
    job = read_job()
    native = Native(job["channels"])
    clock = Clock(dut.clk, PERIOD_NS, "ns", impl="gpi")
    dut.rst.value = 1
    dut.cfg_we.value = 0
    dut.stat_addr.value = 0
    clock.start()
    for point in job["points"]:
        own = job | point.get("own", {})  # of a point on an array, which has a graph of its own
        started = time.perf_counter()
        for cycles in point["resets_at"]:
            await one_run(dut, native, own, point, cycles)
        result = await one_run(dut, native, own, point, point["max_cycles"])
        result["simulate_s"] = time.perf_counter() - started
        np.savez(point["out"], **result)
        if point.get("told"):
            Path(point["told"]).touch()


async def one_run(dut, native: Native, job: dict, point: dict, limit: int) -> dict:
    """Reset, set up, run to the end or to ``limit``; everything recorded, as arrays."""
    await FallingEdge(dut.clk)
    dut.rst.value = 1
    for _ in range(2):
        await FallingEdge(dut.clk)
    inputs = np.load(point["inputs"])
    native.begin(job, inputs, limit, point["quiet"], point["mutant"])
    for address, value in point["registers"]:
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
    await RisingEdge(dut.halt)
    clocked = time.perf_counter() - start
    cpu = time.process_time() - cpu
    await FallingEdge(dut.clk)
    await ReadOnly()
    result = native.results()
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
