"""Process that runs a design in parts at each point of a job, as fabric_test.py runs one that is
whole.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

import numpy as np

from ..machine.errors import RunError
from ..machine.limits import RESET_CYCLES
from .cut import REST
from .native import Native, read_job
from .result import PointGraph, conclude

INT = ctypes.c_int64


class Simulator:
    """The parts of a job, joined; its rest's ports by name."""

    def __init__(self, parts: Mapping):
        self.lib = ctypes.CDLL(parts["joining"])
        for name in ("load", "add", "join", "set", "get", "write", "reset", "run"):
            getattr(self.lib, f"penstock_parts_{name}").restype = INT
        self.lib.penstock_parts_failure.restype = ctypes.c_char_p
        classes = {m: self._call("load", path) for m, path in parts["libraries"].items()}
        number = {
            name: self._call("add", classes[module], 1)
            for name, module in parts["instances"].items()
        }
        number[REST] = self._call("add", classes[REST], 0)
        for (driver, output), (reader, given) in parts["links"]:
            if not self._call("join", number[driver], output, number[reader], given):
                raise RunError(f"{driver}.{output} does not fit {reader}.{given}", "parts")

    def _call(self, name: str, *args: int | str) -> int:
        given = (INT(a) if isinstance(a, int) else a.encode() for a in args)
        value = getattr(self.lib, f"penstock_parts_{name}")(*given)
        if value < 0:
            raise RunError(self.lib.penstock_parts_failure().decode(), "parts of the design")
        return value

    def set(self, name: str, value: int) -> None:
        if not self._call("set", name, value):
            raise RunError(self.lib.penstock_parts_failure().decode(), f"port {name}")

    def get(self, name: str) -> int:
        return self._call("get", name)

    def write(self, words: Sequence[tuple[int, int]]) -> None:
        """Write (address, value) pairs of the configuration, a cycle each."""
        pairs = np.array(words, np.int64).reshape(-1, 2)
        addresses, values = (np.ascontiguousarray(column) for column in pairs.T)
        at = (ctypes.c_void_p(column.ctypes.data) for column in (addresses, values))
        if not self.lib.penstock_parts_write(INT(len(pairs)), *at):
            raise RunError(self.lib.penstock_parts_failure().decode(), "configuration port")

    def reset(self, value: int, cycles: int) -> None:
        """Set the reset, and let cycles pass."""
        if not self._call("reset", value, cycles):
            raise RunError(self.lib.penstock_parts_failure().decode(), "parts of the design")

    def run(self) -> int:
        """Let cycles pass until the bench halts; how many."""
        return self._call("run")


def main() -> None:
    """Every point of the job, one after the other in one simulation; verdicts as cocotb's."""
    job = read_job()
    # The parts find the functions of native.cpp among the symbols that all libraries see.
    ctypes.CDLL(os.environ["PENSTOCK_LIBRARY"], mode=ctypes.RTLD_GLOBAL)
    native = Native(job["channels"])
    simulator = Simulator(job["parts"])
    suite = Element("testsuite")
    for number, point in enumerate(job["points"]):
        case = SubElement(suite, "testcase", name=f"test_run_equals_the_models/point={number}")
        own = job | point
        given: PointGraph = pickle.loads(Path(own["given"]).read_bytes())
        started = time.perf_counter()
        for cycles in own["resets_at"]:
            one_run(simulator, native, own, given.inputs, cycles)
        result = one_run(simulator, native, own, given.inputs, own["max_cycles"])
        result["simulate_s"] = np.array(time.perf_counter() - started)
        try:
            conclude(own, given, result)
        except (AssertionError, RunError) as e:
            SubElement(case, "failure", message=str(e), type=type(e).__name__)
    ElementTree(suite).write(os.environ["COCOTB_RESULTS_FILE"])


def one_run(simulator: Simulator, native: Native, job: dict, inputs, limit: int) -> dict:
    """Reset, set up, run to the end or to ``limit``; everything recorded, as arrays."""
    simulator.reset(1, 2)
    native.begin(job, inputs, limit)
    simulator.write(job["registers"])
    simulator.reset(1, RESET_CYCLES)
    start = time.perf_counter()
    cpu = time.process_time()
    simulator.reset(0, 0)
    simulator.run()
    clocked = time.perf_counter() - start
    cpu = time.process_time() - cpu
    result = native.results()
    result["clocked_s"] = np.array(clocked)
    result["clocked_cpu_s"] = np.array(cpu)
    stats = np.zeros((job["units"], 4), np.int64)
    for unit, at in enumerate(job.get("counters", range(job["units"]))):
        for k in range(4 if at >= 0 else 0):
            simulator.set("stat_addr", 4 * at + k)
            stats[unit, k] = simulator.get("stat_data")
    result["stats"] = stats
    for kept in job.get("kept", ()):
        result[f"kept{kept['unit']}"] = _read(simulator, kept)
    return result


def _read(simulator: Simulator, kept: Mapping) -> np.ndarray:
    """The beats that a sink's memory has, up to Done: words of each."""
    beats = []
    for beat in range(kept["places"]):
        words = []
        for word in range(kept["words"]):
            simulator.set("sink_addr", kept["base"] + beat * kept["stride"] + word)
            simulator.reset(0, 1)
            words.append(simulator.get("sink_data"))
        beats.append(words)
        if words == kept["done"]:
            break
    return np.array(beats, np.uint32)


if __name__ == "__main__":
    main()
