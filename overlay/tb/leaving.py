"""Cycles, writes and tokens of an overlay beside those of Penstock's fast model, in any cocotb
simulator.

Needs cocotb alone, and the tables beside it. Cycle 0 is the first in which ``running`` is high;
signals are read at the edge that ends a cycle and written after it. ``PORTS_ONLY=1`` compares
cycles and values alone: nothing inside.
"""

import csv
import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

HERE = Path(__file__).parent
BENCH = json.loads((HERE / "bench.json").read_text(encoding="utf-8"))
PORTS_ONLY = os.environ.get("PORTS_ONLY", "0") not in ("", "0")
AFTER = 20
"""Cycles in which nothing may follow the last write."""


def rows(name: str) -> list[dict[str, str]]:
    """Rows of a table beside this file."""
    return list(csv.DictReader((HERE / name).read_text(encoding="utf-8").splitlines()))


def words(name: str) -> list[int]:
    """Hexadecimal words of a file beside this one."""
    return [int(line, 16) for line in (HERE / name).read_text(encoding="utf-8").split()]


def read(handle: Any, cycle: int) -> int:
    """Value of a signal in the cycle that ends; X and Z fail."""
    value = handle.value
    assert value.is_resolvable, f"{handle._path} is {value} in cycle {cycle}"
    return int(value)


def high(handle: Any, cycle: int) -> bool:
    """Lowest bit of a signal in the cycle that ends; those above may be X."""
    bit = str(handle.value)[-1]
    assert bit in "01", f"{handle._path} is {handle.value} in cycle {cycle}"
    return bit == "1"


def inside(dut: Any, path: str) -> Any:
    """A signal by its path in the hierarchy."""
    for name in path.split("."):
        dut = dut[name]
    return dut


class Move:
    """Place where a word moves: a write port, a link's stream, or a link's wires."""

    def __init__(self, dut: Any, place: dict, expected: dict[int, str]):
        self.name = place["name"]
        self.late = place["late"]  # cycles after which the place shows it
        self.when = [inside(dut, path) for path in place["when"]]  # all high where one moves
        self.parts = [inside(dut, path) for path in place["parts"]]
        self.shift = place["shift"]  # bits of the wires below the word
        self.expected = expected

    def check(self, cycle: int) -> None:
        at = cycle - self.late
        due = self.expected.get(at)
        moved = at >= 0 and all(high(signal, cycle) for signal in self.when)
        if not self.when:
            moved = due is not None  # wires that somebody reads in this cycle
        found = None
        if moved:
            found = ",".join(f"{read(part, cycle) >> self.shift:x}" for part in self.parts)
        assert found == due, f"{self.name}, cycle {at}: model {due}, RTL {found}"


def places(dut: Any) -> list[Move]:
    """All places inside, each with its words by cycle."""
    if PORTS_ONLY:
        return []
    due: dict[str, dict[int, str]] = {place["name"]: {} for place in BENCH["places"]}
    for row in rows("expected/moves.csv"):
        due[row["place"]][int(row["cycle"])] = row["words"].replace(" ", ",")
    return [Move(dut, place, due[place["name"]]) for place in BENCH["places"]]


async def send(dut: Any, edge: RisingEdge, port: str, given: list[int]) -> list[int]:
    """Give words to a port; returns what port ``value`` answers meanwhile and a little after."""
    payload, valid, ready = (dut[f"{port}_{name}"] for name in ("payload", "valid", "ready"))
    found = []
    passed = 0
    while passed < len(given) + AFTER:
        valid.value = int(passed < len(given))
        if passed < len(given):
            payload.value = given[passed]
        await edge
        passed += passed >= len(given) or read(ready, 0)
        if port == "look" and high(dut.value, 0):
            found.append(read(dut.value, 0) >> 1)
    return found


@cocotb.test()
async def every_write_and_token_is_the_models(dut: Any) -> None:
    """The image is loaded and runs: each move in its cycle; then cycles and values."""
    edge = RisingEdge(dut.clk)
    Clock(dut.clk, BENCH["clock"]["period_ns"], "ns").start()
    for name in ("start", "load_valid", "look_valid"):
        dut[name].value = 0
    dut.rst.value = 1
    for _ in range(BENCH["reset"]["cycles"]):
        await edge
    dut.rst.value = 0
    await send(dut, edge, "load", words("load.hex"))
    dut.start.value = 1
    await edge
    dut.start.value = 0
    for _ in range(BENCH["begins"]):
        if read(dut.running, 0):
            break
        await edge
    assert read(dut.running, 0), f"the run does not begin within {BENCH['begins']} cycles"
    moves = places(dut)
    cycles = BENCH["cycles"]
    for cycle in range(cycles + 1 + AFTER):
        for move in moves:
            move.check(cycle)
        running = bool(read(dut.running, cycle))
        assert running == (cycle <= cycles), f"running is {running} in cycle {cycle} of {cycles}"
        await edge
    assert read(dut.idle, cycles), f"not idle {AFTER} cycles after the end"
    found = read(dut.cycles, cycles)
    assert found == cycles, f"cycles: model {cycles}, RTL's counter {found}"
    values = rows("expected/values.csv")
    answers = await send(dut, edge, "look", [int(row["look"], 16) for row in values])
    assert len(answers) == len(values), f"{len(answers)} of {len(values)} values are read"
    for row, answer in zip(values, answers, strict=True):
        told = f"node {row['node']}: model {row['hex']}, RTL {answer:x}"
        assert int(row["hex"], 16) == answer, told
