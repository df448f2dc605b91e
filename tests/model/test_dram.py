"""The DRAM class: its delivery cycles, and the same ones through the C callback that the test bench
uses.
"""

import ctypes

import numpy as np
import pytest
from penstock.machine.config import Dram as Config
from penstock.model import dram_step
from penstock.model.dram import deliver, step
from penstock.model.dram_state import Dram


def deliveries(dram, arrivals, cycles):
    """{line: delivery cycle} when `arrivals[h]` lines reach the memory in h."""
    got = {}
    out = np.zeros(64, np.int64)
    line = 0
    for h in range(cycles):
        n = arrivals[h] if h < len(arrivals) else 0
        lines = np.arange(line, line + n)
        k = step(dram.state, h, lines, n, 64 * lines, np.zeros(n, np.uint8), out)
        line += n
        for x in out[:k].tolist():
            assert x not in got
            got[x] = h + 1
    return got


def test_channel_order_of_a_chunk():
    # Four lines go to channels 0, 1, 3, 6, the offset is then 10: the next four to 2, 3, 5, 0;
    # channels 3 and 0 serve their second 2 cycles later.
    got = deliveries(Dram(Config()), [4, 4], 40)
    assert [got[i] for i in range(4)] == [17] * 4  # h = 0: service 1, ready 1 + 16
    assert [got[i] for i in range(4, 8)] == [18, 19, 18, 19]


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(channels=2, interval=3),
        Config(channels=1, interval=2),
        Config(kind="ideal", latency=1),
        Config(kind="ideal", latency=9),
    ],
)
def test_random_traffic_matches_the_contract(config):
    rng = np.random.default_rng(3)
    arrivals = rng.integers(0, 5, 200).tolist()
    last = [-(1 << 30)] * config.channels
    expected = []
    offset = 0
    for h, n in enumerate(arrivals):
        for i in range(n):
            ready = h + config.latency
            if config.kind == "pipe":
                offset += i
                channel = offset % config.channels
                last[channel] = max(last[channel] + config.interval, h + 1)
                ready = last[channel] + config.start_up + config.latency
            expected.append(ready)
        offset += n
    assert deliveries(Dram(config), arrivals, 3000) == dict(enumerate(expected))


def test_callback_is_the_same_function():
    config = Config(channels=4)
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 5
    )
    dram = Dram(config, 64)
    loaded = dram_step.load(dram_step.kept())
    call = prototype(loaded.address)
    lines = np.array([7, 8])
    writes = np.zeros(2, np.uint8)
    out = np.zeros(8, np.int64)
    got = {}
    for h in range(40):
        n = 2 if h == 3 else 0
        pointers = (lines, lines, writes, out, dram.state)
        k = call(h, n, *(x.ctypes.data for x in pointers))
        got.update(dict.fromkeys(out[:k].tolist(), h + 1))
    assert got == {7: 3 + 1 + 16, 8: 3 + 1 + 16}


def test_a_full_model_says_so():
    dram = Dram(Config(), 3)
    four = np.arange(4)
    assert step(dram.state, 0, four, 4, four, np.zeros(4, np.uint8), np.zeros(8, np.int64)) == -1
    assert deliver(Dram(Config(), 3).state, 0, np.zeros(8, np.int64)) == 0
