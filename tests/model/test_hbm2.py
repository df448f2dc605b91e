"""HBM2 (docs/timing.md section 5.2): the compiled model against one that looks at every tick, and
against figures that are known of single accesses.
"""

import csv
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hbm2_by_ticks import Hbm2Memory
from penstock.machine.config import Dram as Config
from penstock.machine.hbm2 import Hbm2
from penstock.machine.trace import Run
from penstock.model import timeline
from penstock.model.dram import step
from penstock.model.dram_state import Dram
from penstock.model.hbm2_state import Memory, channels


def compiled(config, arrivals, cycles, dram=None):
    """Lines in the order of delivery with their cycles, where ``arrivals[h]`` are (line, address,
    write) that reach the memory in h.
    """
    dram = dram or Dram(config)
    out = np.zeros(4096, np.int64)
    got = []
    for h in range(cycles):
        now = arrivals.get(h, [])
        lines, addresses, writes = (np.array([x[i] for x in now], np.int64) for i in range(3))
        k = step(dram.state, h, lines, len(now), addresses, writes.astype(np.uint8), out)
        assert k >= 0
        got += [(h + 1, line) for line in out[:k].tolist()]
    return got


def by_ticks(config, arrivals, cycles):
    """The same of the memory that looks at every tick."""
    memory = Hbm2Memory(config)
    got = []
    for h in range(cycles):
        for line, address, write in arrivals.get(h, []):
            memory.accept(h, line, address, bool(write))
        got += [(h + 1, line) for line in memory.deliver(h + 1)]
    return got


def config(**of):
    return Config(kind="hbm2", clock_ratio=of.pop("clock_ratio", 1.0), hbm2=Hbm2(**of))


def drawn(seed, lines, rows, columns, writes, most):
    """Random chunks of up to ``most`` lines over ``rows`` rows of ``columns`` lines."""
    rng = np.random.default_rng(seed)
    arrivals = {}
    line = h = 0
    while line < lines:
        n = int(rng.integers(1, most + 1))
        write = bool(rng.random() < writes)
        first = int(rng.integers(rows)) << 18 | int(rng.integers(columns)) << 6
        arrivals[h] = [(line + i, first + 64 * i & 0xFFFFFFFF, write) for i in range(n)]
        line += n
        h += int(rng.integers(1, 4)) + (700 if rng.random() < 0.01 else 0)
    return arrivals, h + 2500


@pytest.mark.parametrize(
    ("address", "at", "write", "delivered"),
    [
        # one after the other, each long after the last: closed, hit, conflict, another channel
        (0x0, 0, False, 19),
        (0x200, 1000, False, 12),
        (0x40000, 2000, False, 26),
        (0x40, 3000, False, 19),
        # written lines are acknowledged in the tick after the write command
        (0x4000, 4000, True, 9),
        (0x4200, 5000, True, 2),
        (0x44000, 6000, True, 16),
    ],
)
def test_single_accesses(address, at, write, delivered):
    every = [
        (0x0, 0, False),
        (0x200, 1000, False),
        (0x40000, 2000, False),
        (0x40, 3000, False),
        (0x4000, 4000, True),
        (0x4200, 5000, True),
        (0x44000, 6000, True),
    ]
    arrivals = {h: [(i, a, w)] for i, (a, h, w) in enumerate(every)}
    got = {line: cycle for cycle, line in compiled(config(refresh=False), arrivals, 7000)}
    assert got[every.index((address, at, write))] == at + delivered


def test_a_read_of_a_queued_write_is_answered_in_the_next_tick():
    arrivals = {5: [(0, 0x80, True), (1, 0x80, False)]}
    got = {line: cycle for cycle, line in compiled(config(), arrivals, 100)}
    assert got[1] == 6
    assert got[0] == 5 + 8 + 1


CASES = {
    "linear reads": (dict(refresh=False), dict(rows=1, columns=4096, writes=0, most=4)),
    "one bank": (dict(refresh=False), dict(rows=3, columns=8, writes=0.3, most=4)),
    "mixed": (dict(refresh=False), dict(rows=64, columns=4096, writes=0.4, most=8)),
    "writes": (dict(refresh=False), dict(rows=64, columns=4096, writes=0.9, most=8)),
    "refresh": (dict(nREFI=200, nRFC=60), dict(rows=8, columns=4096, writes=0.4, most=4)),
    "two stacks": (dict(stacks=2, nREFI=500), dict(rows=8, columns=4096, writes=0.4, most=8)),
    "rows first": (
        dict(mapping="column channel bank bank_group pseudo_channel row", nREFI=900),
        dict(rows=8, columns=4096, writes=0.4, most=4),
    ),
    "few responses": (
        dict(stacks=2, responses=2, refresh=False),
        dict(rows=8, columns=4096, writes=0.4, most=8),
    ),
    "faster": (dict(clock_ratio=1.5, nREFI=900), dict(rows=8, columns=4096, writes=0.4, most=4)),
    "slower": (dict(clock_ratio=0.4, nREFI=900), dict(rows=8, columns=4096, writes=0.4, most=4)),
    "short queues": (
        dict(queue=3, write_mode_above=2, write_mode_below=1, refresh=False),
        dict(rows=8, columns=4096, writes=0.4, most=8),
    ),
    "other times": (
        dict(nBL=2, nCCDL=5, nFAW=40, nRRDL=9, nWTRL=11, nRTP=9, nWR=20, nRCDWR=11, nREFI=900),
        dict(rows=8, columns=4096, writes=0.4, most=4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_memory_is_the_one_of_the_contract(name):
    of, traffic = CASES[name]
    arrivals, cycles = drawn(len(name), 250, **traffic)
    expected = by_ticks(config(**of), arrivals, cycles)
    assert len(expected) >= 250
    assert compiled(config(**of), arrivals, cycles) == expected


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "1_isolated_cw256",
        "4_rand_read_64B_cw256_winf_perch",
        "5_mix21_linear_cw256_winf",
        "6_4streams_bank_spread_cw256_winf",
    ],
)
def test_every_request_of_a_reference_stream_is_done_in_its_cycle(name):
    """Ramulator 2, refresh off; it tells of a write the tick of its command."""
    path = Path(os.environ["PENSTOCK_DATA"], "dram", f"{name}.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    arrivals = {}
    for i, row in enumerate(rows):
        line = (i, int(row["addr"], 16), row["is_write"] == "1")
        arrivals.setdefault(int(row["issue"]), []).append(line)
    done = {i: int(row["done"]) + int(row["is_write"]) for i, row in enumerate(rows)}
    got = compiled(config(refresh=False), arrivals, max(done.values()))
    assert {line: cycle for cycle, line in got} == done


def as_accepted(config, lines):
    """Cycles of linear reads, and the longest from a read's acceptance to its data: one feed gives
    a read as soon as its queue has room.
    """
    dram = Dram(config)
    memory = Memory.of(dram.state, 0)
    queues = channels(dram.state)
    out = np.zeros(4096, np.int64)
    issued = np.zeros(lines, np.int64)
    done = np.zeros(lines, np.int64)
    first = h = 0
    while not done.all():
        room = (memory["queue"] - queues["n_reads"]).tolist()
        last = first
        while last < lines and room[last % len(room)]:
            room[last % len(room)] -= 1
            last += 1
        now = np.arange(first, last)
        issued[now] = h
        n = step(dram.state, h, now, len(now), 64 * now, np.zeros(len(now), np.uint8), out)
        done[out[:n]] = h + 1
        first = last
        h += 1
    return h, int((done - issued).max())


def test_refresh_costs_linear_reads_what_it_costs_the_reference():
    """A read of 1 MB without refresh takes 4164 cycles and at most 147; with it 4.1 % more, at most
    308.
    """
    assert as_accepted(config(refresh=False), 1 << 14) == (4164, 147)
    cycles, longest = as_accepted(config(), 1 << 14)
    assert 100 * (cycles / 4164 - 1) == pytest.approx(4.1, abs=0.3)
    assert longest == pytest.approx(308, rel=0.05)


def test_a_timeline_has_every_command_that_is_counted():
    small = config(nREFI=400)
    dram = Dram(small, room=1 << 14)
    arrivals, cycles = drawn(5, 600, 4, 32, 0.3, 4)
    compiled(small, arrivals, cycles, dram)
    counted = {name: sum(numbers) for name, numbers in dram.counters.items()}
    kept = Run("model", cycles, commands=dram.commands)
    assert len(kept.commands) > counted["refreshes"] > 0
    events = timeline.memory_events(kept)
    last = {e["name"]: e["args"] for e in events if e["ph"] == "C"}
    for name in ("hits", "misses", "conflicts"):
        assert sum(args[name] for args in last.values()) == counted[name] > 0
    assert sum(e["ph"] == "X" for e in events) == counted["activations"]
    assert sum(e["ph"] == "i" for e in events) == counted["refreshes"]
    tracks = [(e["tid"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    for (bank, _, end), (other, begin, _) in pairwise(sorted(tracks)):
        assert bank != other or end <= begin
