"""Requests a second of the compiled HBM2 on the reference's streams, how many are done in another
cycle than Ramulator 2 says, and what the memory `pipe` takes for the same requests: part of the
measurement `speed`.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from inputs import data
from penstock.machine.beat import LINE_BYTES
from penstock.machine.config import Dram as Config
from penstock.machine.hbm2 import Hbm2
from penstock.model.compiling import jit
from penstock.model.dram import accept, deliver
from penstock.model.dram_state import Dram
from penstock.model.dram_words import EARLIEST

STREAMS = {
    "1_isolated_cw256": "single accesses",
    "2_lin_read_1MB_64Breq_cw256_winf": "linear reads of 1 MB",
    "4_rand_read_64B_cw256_winf_perch": "random reads",
    "5_mix21_linear_cw256_winf": "two reads to a write, linear",
    "6_4streams_bank_spread_cw256_winf": "four streams over the bank groups",
}
"""File, and what it holds."""
LINEAR = "2_lin_read_1MB_64Breq_cw256_winf"
LINEAR_LINES = (1 << 20) // LINE_BYTES
"""A linear read, of which the file tells every fourth request."""
ROUNDS = 51
MIXED = 3072
STREAMED = 4096
"""Requests of the generated streams."""
APART = 16 << 20
"""Bytes between streams: the same bank of the same channel, another row."""
SPAN = 1 << 28
"""Bytes in which random addresses are, as in the file of random reads."""
SEED = 20261122


@jit(boundscheck=False, error_model="numpy")
def drive(state, issued, addresses, writes, done, out):
    """Requests reach the memory in their cycles, which do not decrease. As in a run, the memory is
    looked at where it asks for that.
    """
    n = len(issued)
    first = 0
    left = n
    while left:
        h = state[EARLIEST] - 1
        if first < n:
            h = min(h, issued[first])
        while first < n and issued[first] == h:
            accept(state, h, first, 0, 1, addresses[first], writes[first])
            first += 1
        if state[EARLIEST] <= h + 1:
            lines = deliver(state, h + 1, out)
            for i in range(lines):
                done[out[i]] = h + 1
            left -= lines


def told(case: str) -> list[dict[str, str]]:
    """The requests of a file in the order in which they reach the memory."""
    text = Path(data("dram"), f"{case}.csv").read_text(encoding="utf-8")
    return sorted(csv.DictReader(text.splitlines()), key=lambda row: int(row["issue"]))


def pipe_cycles(addresses: Sequence[int], writes: Sequence[int]) -> int:
    """Cycles that the memory `pipe` takes for requests that all wait from the first cycle on."""
    state = Dram(Config(kind="pipe"), len(addresses)).state
    requests = enumerate(zip(addresses, writes, strict=True))
    return max(accept(state, 0, i, 0, 1, address, write) for i, (address, write) in requests)


def random_mix() -> tuple[np.ndarray, np.ndarray]:
    """Addresses, and which are written: two reads to a write."""
    rng = np.random.default_rng(SEED)
    lines = rng.integers(0, SPAN // LINE_BYTES, MIXED)
    writes = np.arange(MIXED) % 3 == 2
    return lines * LINE_BYTES, writes.astype(np.int64)


def four_streams() -> tuple[np.ndarray, np.ndarray]:
    """Addresses of four linear reads, a line of each in turn."""
    line, turn = np.divmod(np.arange(STREAMED), 4)
    return turn * APART + line * LINE_BYTES, np.zeros(STREAMED, np.int64)


GENERATED = {
    "generated random mix": ("two reads to a write, random", random_mix),
    "generated four streams": ("four streams 16 MiB apart", four_streams),
}
"""Contents and requests of streams that the reference has not run."""


def generated(case: str) -> dict:
    """Cycles of a generated stream, whose requests all wait from the first cycle on."""
    addresses, writes = GENERATED[case][1]()
    n = len(writes)
    done = np.zeros(n, np.int64)
    issued = np.zeros_like(done)
    hbm2 = Config(kind="hbm2", hbm2=Hbm2(refresh=False))
    drive(Dram(hbm2, n).state, issued, addresses, writes, done, np.zeros_like(done))
    return {
        "requests": n,
        "pipe_cycles": pipe_cycles(addresses.tolist(), writes.tolist()),
        "hbm2_cycles": int(done.max()),
    }


def run(case: str) -> dict:
    """One stream: the reference's cycles, those of `pipe`, and the model's HBM2."""
    if case in GENERATED:
        return {"what": GENERATED[case][0]} | generated(case)
    rows = told(case)
    first = min(int(row["issue"]) for row in rows)
    row = {"what": STREAMS[case], "reference_cycles": max(int(row["done"]) for row in rows) - first}
    if case == LINEAR:
        addresses = range(0, LINEAR_LINES * LINE_BYTES, LINE_BYTES)
        return row | {"pipe_cycles": pipe_cycles(addresses, [0] * LINEAR_LINES)}
    return row | every_request(rows)


def every_request(rows: list[dict[str, str]]) -> dict:
    """A stream many times, each on an empty memory; CPU time, as requests take milliseconds."""
    issued = np.array([int(row["issue"]) for row in rows])
    addresses = np.array([int(row["addr"], 16) for row in rows])
    writes = np.array([int(row["is_write"]) for row in rows])
    # The reference tells of a write the cycle of its command, which is acknowledged in the next.
    expected = np.array([int(row["done"]) for row in rows]) + writes
    done = np.zeros(len(rows), np.int64)
    out = np.zeros(len(rows), np.int64)
    took = []
    for _ in range(ROUNDS):
        dram = Dram(Config(kind="hbm2", hbm2=Hbm2(refresh=False)), len(rows))
        begun = time.thread_time()
        drive(dram.state, issued, addresses, writes, done, out)
        took.append(time.thread_time() - begun)
    return {
        "pipe_cycles": pipe_cycles(addresses.tolist(), writes.tolist()),
        "requests": len(rows),
        "differ": int(np.count_nonzero(done != expected)),
        "measured": len(rows) / median(took[1:]) / 1e6,  # the first one has the compiler in it
    }


CASES = (*STREAMS, *GENERATED)
