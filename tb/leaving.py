"""Cycles and beats of a design beside those of Penstock's fast model, in any cocotb simulator.

Needs cocotb alone, and the tables beside it. Cycle 0 is the first after reset; signals are read at
the edge that ends a cycle and written after it. ``PORTS_ONLY=1`` compares nothing inside.
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
PORTS_ONLY = os.environ.get("PORTS_ONLY", "0") not in ("", "0")
STOP_BITS = 4


def rows(name: str) -> list[dict[str, str]]:
    """Rows of a table beside this file."""
    return list(csv.DictReader((HERE / name).read_text(encoding="utf-8").splitlines()))


def read(handle: Any, cycle: int) -> int:
    """Value of a signal in the cycle that ends; X and Z fail."""
    value = handle.value
    assert value.is_resolvable, f"{handle._path} is {value} in cycle {cycle}"
    return int(value)


class Stream:
    """Signals of a port, or of a FIFO inside the design (a path with dots)."""

    def __init__(self, dut: Any, path: str):
        *inside, prefix = path.split(".")
        entity = dut
        for name in inside:
            entity = getattr(entity, name)
        self.payload = getattr(entity, f"{prefix}_payload")
        self.valid = getattr(entity, f"{prefix}_valid")
        self.ready = getattr(entity, f"{prefix}_ready")

    def moves(self, cycle: int) -> bool:
        return bool(read(self.valid, cycle) and read(self.ready, cycle))


class Beats:
    """Layout of a channel's beats: payload, stop, and a bit that says if there is data."""

    def __init__(self, channel: dict):
        self.name = channel["name"]
        self.bits = channel["bits"]  # of the payload
        self.fields = channel["fields"]
        self.moves = channel["moves"]  # from the wires, to the beat, how many bits

    def whole(self, row: dict[str, str]) -> int:
        """A beat of a table: its stop, and the payload's hexadecimal digits; none if bare."""
        payload = int(row["hex"], 16) | 1 << self.bits + STOP_BITS if row["hex"] else 0
        return payload | int(row["stop"]) << self.bits

    def found(self, stream: Stream, cycle: int) -> int:
        """The beat in the cycle that ends; the wires may carry more."""
        beat = read(stream.payload, cycle)
        return sum((beat >> at & (1 << bits) - 1) << to for at, to, bits in self.moves)

    def given(self, beat: int) -> int:
        """A beat as it is on the wires."""
        return sum((beat >> at & (1 << bits) - 1) << to for to, at, bits in self.moves)

    def differences(self, model: int, rtl: int) -> str:
        """Differences of two beats, field by field."""
        differing = []
        for name, offset, bits in self.fields:
            a, b = (beat >> offset & (1 << bits) - 1 for beat in (model, rtl))
            if a != b:
                differing.append(f"{name} model {a:x}, RTL {b:x}")
        return "; ".join(differing[:6]) + ("; ..." if len(differing) > 6 else "")


class End:
    """One end of a channel: every beat that moves there, in its cycle."""

    def __init__(self, dut: Any, beats: Beats, expected: list[dict], what: str, path: str):
        self.beats = beats
        self.what = what
        self.stream = Stream(dut, path)
        self.cycles = [int(row[what]) for row in expected]  # -1: not before the run's end
        self.expected = [beats.whole(row) for row in expected]
        self.passed = 0

    def check(self, cycle: int) -> None:
        k = self.passed
        due = self.cycles[k] if k < len(self.cycles) else None
        moved = self.stream.moves(cycle)
        if not moved and due != cycle:
            return
        at = f"channel {self.beats.name} beat {k}"
        assert moved, f"{at}: model {self.what} in cycle {cycle}, RTL not"
        self.passed += 1
        if due == -1:
            return
        later = "never" if due is None else f"in cycle {due}"
        assert due == cycle, f"{at}: RTL {self.what} in cycle {cycle}, model {later}"
        found = self.beats.found(self.stream, cycle)
        at = f"{at}, {self.what} in cycle {cycle}"
        want = self.expected[k]
        assert found == want, f"{at}: {self.beats.differences(want, found)}"


class Port:
    """Port that gives beats to the design, or takes some, each from its cycle on."""

    def __init__(self, dut: Any, beats: Beats, name: str, given: bool):
        self.stream = Stream(dut, name)
        entries = rows(f"stimulus/{name}.csv" if given else f"stimulus/{name}.ready.csv")
        self.releases = [int(row["from_cycle"]) for row in entries]
        self.given = [beats.given(beats.whole(row)) for row in entries] if given else None
        self.offered = self.stream.valid if given else self.stream.ready
        self.passed = 0

    def check(self, cycle: int) -> None:
        self.passed += self.stream.moves(cycle)

    def drive(self, cycle: int) -> None:
        k = self.passed
        free = self.releases[k] <= cycle if k < len(self.releases) else self.given is None
        self.offered.value = int(free)
        if free and self.given:
            self.stream.payload.value = self.given[k]


class Memory:
    """Off-chip memory that answers in the cycles of the model's run, if it is asked as there."""

    def __init__(self, dut: Any, lanes: int, answer: dict[str, int]):
        self.dut = dut
        self.lanes = lanes
        self.bits = answer  # of each field of one answer
        self.line = answer["data"]
        self.lines = {int(row["address"], 16): int(row["hex"], 16) for row in rows("memory.csv")}
        self.expected = rows("expected/memory.csv")
        self.answers: dict[int, list[dict[str, int]]] = {}
        self.passed = 0
        dut.mem_req_ready.value = 1

    def check(self, cycle: int) -> None:
        valid = read(self.dut.mem_req_valid, cycle)
        for lane in (k for k in range(self.lanes) if valid >> k & 1):
            self._request(lane, cycle)
        if self.passed < len(self.expected):
            due = int(self.expected[self.passed]["cycle"])
            assert due > cycle, f"memory line {self.passed}: model in cycle {due}, RTL not"

    def _request(self, lane: int, cycle: int) -> None:
        def asked(name: str, bits: int = 0) -> int:
            value = read(getattr(self.dut, f"mem_req_{name}"), cycle)
            return value >> bits * lane & (1 << (bits or 32)) - 1

        port, write, address = asked("port"), asked("write"), asked("addr", 32)
        before = self.lines.get(address, 0)
        found = f"{cycle},{port},{write},{address:x},"
        if write:
            data = asked("data", self.line)
            mask = asked("mask", self.line // 8)
            wide = sum(0xFF << 8 * k for k in range(self.line // 8) if mask >> k & 1)
            self.lines[address] = data & wide | before & ~wide
            found += digest(data & wide, mask, self.line)
        k = self.passed
        row = self.expected[k] if k < len(self.expected) else {}
        expected = ",".join(row.get(x, "") for x in ("cycle", "port", "write", "address", "digest"))
        at = f"memory line {k} (cycle,port,write,address,digest)"
        assert found == expected, f"{at}: model {expected}, RTL {found}"
        tag = asked("group") * self.lanes + lane & (1 << self.bits["tag"]) - 1
        answer = {"valid": 1, "port": port, "tag": tag, "data": 0 if write else before}
        self.answers.setdefault(int(row["answered"]), []).append(answer)
        self.passed += 1

    def drive(self, cycle: int) -> None:
        given = self.answers.pop(cycle, ())
        for name, bits in self.bits.items():
            word = sum(answer[name] << bits * i for i, answer in enumerate(given))
            getattr(self.dut, f"mem_rsp_{name}").value = word


def digest(data: int, mask: int, line: int) -> str:
    """FNV-1a of a line's words that are written (other bytes are 0), then of its mask's."""
    value = 0xCBF29CE484222325
    for bits, of in ((data, line), (mask, line // 8)):
        for at in range(0, of, 32):
            value = (value ^ bits >> at & 0xFFFFFFFF) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def parts_of(dut: Any, bench: dict) -> tuple[list[Port | Memory], list[End]]:
    """All that drives, and all that compares."""
    agents: list[Port | Memory] = []
    ends: list[End] = []
    for channel in bench["channels"]:
        beats = Beats(channel)
        expected = rows(f"expected/{channel['file']}.csv")
        seen = [end for end in channel["ends"] if not PORTS_ONLY or "." not in end[1]]
        ends += [End(dut, beats, expected, *end) for end in seen]
        agents += [Port(dut, beats, *port) for port in channel["ports"]]
    if bench["memory"]:
        agents.append(Memory(dut, **bench["memory"]))
    return agents, ends


@cocotb.test()
async def every_beat_is_the_models(dut: Any) -> None:
    """Registers, reset, and the run: each beat and line in its cycle, then the counters."""
    bench = json.loads((HERE / "bench.json").read_text(encoding="utf-8"))
    edge = RisingEdge(dut.clk)
    Clock(dut.clk, bench["clock"]["period_ns"], "ns").start()
    agents, ends = parts_of(dut, bench)
    dut.rst.value = 1
    for name, level in bench["idle"].items():
        getattr(dut, name).value = level
    for agent in agents:
        agent.drive(-1)
    await edge
    for row in rows("registers.csv"):
        dut.cfg_we.value = 1
        dut.cfg_addr.value = int(row["address"])
        dut.cfg_data.value = int(row["value"])
        await edge
    dut.cfg_we.value = 0
    for _ in range(bench["reset"]["cycles"]):
        await edge
    dut.rst.value = 0
    for cycle in range(bench["limit"]):
        for agent in agents:
            agent.drive(cycle)
        await edge
        for part in (*ends, *agents):
            part.check(cycle)
        error = read(dut.error, cycle)
        assert not error, f"faults {error:#x} are shown in cycle {cycle}"
        due = cycle + 1 >= bench["cycles"]
        done = bool(read(dut.done, cycle))
        assert done == due, f"done is {done} in cycle {cycle}; the model has {bench['cycles']}"
    for row in rows("expected/counters.csv"):
        dut.stat_addr.value = int(row["address"])
        await edge
        found = str(read(dut.stat_data, bench["limit"]))
        at = f"unit {row['unit']}: {row['counter']}"
        assert found == row["value"], f"{at}: model {row['value']}, RTL {found}"
