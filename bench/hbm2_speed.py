"""Requests a second of the compiled HBM2 on the reference's streams, and
how many are done in another cycle than Ramulator 2 says:
`nox -s records -- hbm2_speed`.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from inputs import data
from penstock.machine.config import Dram as Config
from penstock.machine.hbm2 import Hbm2
from penstock.model.compiling import jit
from penstock.model.dram import accept, deliver
from penstock.model.dram_state import Dram
from penstock.model.dram_words import EARLIEST
from records import Record, on_model
from tables import frame

STREAMS = {
    "1_isolated_cw256": "single accesses",
    "4_rand_read_64B_cw256_winf_perch": "random reads",
    "5_mix21_linear_cw256_winf": "two reads to a write, linear",
    "6_4streams_bank_spread_cw256_winf": "four streams over the bank groups",
}
"""Those that tell every request's address: file, and what it holds."""
ROUNDS = 51


@jit(boundscheck=False, error_model="numpy")
def drive(state, issued, addresses, writes, done, out):
    """Requests reach the memory in their cycles, which do not decrease.
    As in a run, the memory is looked at where it asks for that.
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


def run(case: str) -> dict:
    """One stream, many times, each on an empty memory; CPU time, as requests take milliseconds."""
    text = Path(data("dram"), f"{case}.csv").read_text(encoding="utf-8")
    rows = sorted(csv.DictReader(text.splitlines()), key=lambda row: int(row["issue"]))
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
    row = {
        "requests": len(rows),
        "differ": int(np.count_nonzero(done != expected)),
        "seconds": median(took[1:]),  # the first one has the compiler in it
    }
    return {"rows": [row]}


def blocks() -> dict[str, Callable[[], str]]:
    """The block on the reference's streams in docs/model.md."""
    return {"hbm2": streams}


def streams() -> str:
    """Each stream, and all of them."""
    found = [(STREAMS[e["case"]], e["rows"][0]) for e in RECORD.entries()]
    every = {name: sum(row[name] for _, row in found) for name in ("requests", "differ", "seconds")}
    rows = [
        (
            what,
            f"{row['requests']:,}",
            f"**{row['differ']}**",
            f"{row['requests'] / row['seconds'] / 1e6:.1f}",
        )
        for what, row in [*found, ("all", every)]
        if row["requests"]
    ]
    header = ("stream", "requests", "done in another cycle", "million requests a second")
    return frame(header, rows, (False, True, True, True))


RECORD = Record(
    "hbm2_speed",
    cases=lambda: STREAMS,
    run=run,
    sources=lambda case: on_model("bench/hbm2_speed.py"),
    needs=lambda case: [data("dram")],
)
