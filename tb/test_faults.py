"""Streams that break a unit's rules: the fabric shows the fault, and goes on showing it."""

from itertools import pairwise

import numpy as np
import cocotb
import pytest
from penstock.machine.beat import STOP_DONE, BufferRef, Scalar, Selector, Tile, Tuple, tile_bits
from penstock.machine.faults import Fault
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul
from penstock.machine.kinds.copies import Expand, Zip
from penstock.machine.kinds.numbers import Address, Generate
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.machine.kinds.rows import RowAppend
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.machine.kinds.shape import Flatten
from penstock.tb.tops import UnitTop, simulate
from penstock.testing.agents import (
    Bench,
    ConfigDriver,
    StreamBus,
    StreamDriver,
    StreamMonitor,
    bits,
)
from penstock.testing.beats import beat_int
from penstock.testing.zoo import Zoo

TILE = Tile(2, "fp32")
PAIR = [TILE, TILE]
WORD = Scalar(8)
REF = BufferRef(2)
DONE = (None, STOP_DONE)
FULL = tile_bits(TILE, np.ones((2, 2), np.float32), 2, 2)
UNEQUAL = [[(0, 0), (0, 1), DONE], [(0, 0), (0, 2), DONE]]
CYCLES = 30


def numbered(*stops):
    return [[(0, s) for s in stops]]


def sums(reduce, depth=8):
    return Accum(fn="add", reduce=reduce, depth=depth, lanes=4), [TILE], [TILE]


def reassembled(rank, *streams):
    return Reassemble(n=2, rank=rank), [WORD, WORD, Selector(2)], [WORD], streams, Fault.STOP


def listed(tile):
    """A reference that nobody wrote, to a buffer of ``tile`` tiles."""
    kind = Scratchpad(
        pages=2,
        frames=2,
        writers=[{"rank": 1}],
        limit=[2],
        readers=[{"rank": 1, "repeat_dim": False, "listed": [[0, 0], [5, 1]]}],
        repeat=[0],
    )
    return kind, [TILE, REF], [REF, TILE], [[], [(tile << REF.page_bits, 0)]]


def flat(lo, hi, hold, *stream):
    return Flatten(lo=lo, hi=hi, hold=hold), [WORD], [WORD], [stream]


ALONE = (None, 1), (None, 3)
CASES = {
    "zip": (Zip(), PAIR, [Tuple((TILE, TILE))], UNEQUAL, Fault.STOP),
    "zip of an end and a beat": (
        Zip(),
        PAIR,
        [Tuple((TILE, TILE))],
        [[(0, 1), DONE], [(None, 1), DONE]],
        Fault.STOP,
    ),
    "matmul": (Matmul(rows_per_cycle=2), PAIR, [TILE], UNEQUAL, Fault.STOP),
    "map": (Map(fn="add", arity=2, lanes=4), PAIR, [TILE], UNEQUAL, Fault.STOP),
    "accum of tiles in fewer columns": (*sums(0b100), numbered(0, 2, 0, 1, 3), Fault.STOP),
    "accum of tiles in fewer rows": (*sums(0b100), numbered(0, 1, 2, 3), Fault.STOP),
    "accum of tiles in fewer groups": (
        *sums(0b1010),
        numbered(0, 1, 0, 2, 0, 3, 0, 1, 0, 2, 0, 2, 0, 4),
        Fault.STOP,
    ),
    "accum of groups that differ": (*sums(0b1010), numbered(0, 2, 0, 3, 0, 4), Fault.STOP),
    "accum of too many tiles": (*sums(0b10, 2), numbered(0, 0, 0), Fault.ACCUMULATORS),
    "partition": (
        Partition(n=2, rank=1),
        [WORD, Selector(2)],
        [WORD] * 2,
        [[(1, 1)], [(1, 1)]],
        Fault.STOP,
    ),
    "reassemble of an end in a unit": reassembled(1, [(1, 0), DONE], [], [(1, 0)]),
    "reassemble without a selector": reassembled(0, [(1, 0)], [], [DONE]),
    "reassemble of a bare beat": reassembled(0, [(None, 1)], [], [(1, 0)]),
    "eager_merge": (
        EagerMerge(n=2, rank=1),
        [WORD] * 2,
        [WORD, Selector(2)],
        [[(1, 0), DONE], []],
        Fault.STOP,
    ),
    "expand": (Expand(level=1), [WORD] * 2, [WORD], [[(1, 1)], [(1, 2)]], Fault.STOP),
    "generate": (
        Generate(fn="address", stride=1),
        [WORD] * 2,
        [Scalar(32)],
        [[(1, 1)], [(1, 0)]],
        Fault.STOP,
    ),
    "address": (Address(stride=1), [WORD] * 2, [Scalar(32)], [[(1, 1)], [(None, 1)]], Fault.STOP),
    "row_append without room": (RowAppend(), PAIR, [TILE], [[(FULL, 2)]] * 2, Fault.ROWS),
    "flatten of an empty group alone": (*flat(0, 1, True, (1, 3), *ALONE), Fault.EMPTY),
    "flatten of an empty group in company": flat(0, 1, True, (1, 2), *ALONE),
    "flatten of an empty list at an end": (*flat(0, 1, False, (1, 1), (None, 2)), Fault.EMPTY),
    "flatten of an empty part at an end": (*flat(1, 2, False, (1, 2), (None, 3)), Fault.EMPTY),
    "scratchpad": (*listed(6), Fault.REFERENCES),
    "scratchpad of a tile outside": (*listed(1), Fault.REFERENCES, Fault.ADDRESS),
}


def faulty() -> Zoo:
    """A unit for each case."""
    z = Zoo("faults", 2)
    for kind, ins, outs, *_ in CASES.values():
        z.add(kind, [(payload, lambda _: []) for payload in ins], outs)
    return z


UNITS = UnitTop(faulty)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, UNITS.design)


@cocotb.test(timeout_time=10, timeout_unit="us")
@cocotb.parametrize(case=list(CASES))
async def test_a_broken_rule_is_shown(dut, case):
    _, _, _, streams, *faults = CASES[case]
    bench = Bench(dut)
    dut.rst.value = 1
    await ConfigDriver(bench).write(UNITS.design.writes(UNITS.built.point(0)))
    await bench.reset()
    graph = UNITS.built.graph()
    units = [u.id for u in graph.units if u.kind.name not in ("source", "sink")]
    unit = units[list(CASES).index(case)]
    agents = []
    for channel in graph.channels:
        u = channel.src[0]
        if graph.units[u].kind.name == "source":
            driver = StreamDriver(bench, StreamBus.of(dut, f"src{u}", channel.payload))
            agents.append(driver)
            if channel.dst[0] == unit:
                beats = streams[channel.dst[1]]
                driver.send(
                    beat_int(channel.payload, bits or 0, stop, int(bits is not None))
                    for bits, stop in beats
                )
        else:
            bus = StreamBus.of(dut, f"snk{channel.dst[0]}")
            agents.append(StreamMonitor(bench, bus, []))
    shown = []
    for _ in range(CYCLES):
        await bench.edge
        shown.append(bits(bench, dut.error))
    for agent in agents:
        agent.stop()
    await bench.edge  # Icarus ends in a fault where a write is left for after the test
    assert shown[-1] == sum(1 << fault for fault in faults)
    assert all(before & ~after == 0 for before, after in pairwise(shown))
    if case == "zip":  # ends of two levels: offered in cycle 1, zipped in 2
        assert shown.index(shown[-1]) == 3
