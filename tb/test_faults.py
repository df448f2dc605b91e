"""Streams that break a unit's rules: the fabric shows the model's fault, and goes on showing it."""

from dataclasses import replace

import numpy as np
import cocotb
import pytest
from penstock.machine.beat import BufferRef, Scalar, Selector, Tile, Tuple, tile_bits
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul
from penstock.machine.kinds.copies import Expand, Zip
from penstock.machine.kinds.numbers import Address, Generate
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.machine.kinds.rows import RowAppend
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.machine.kinds.shape import Flatten
from penstock.tb.tops import UnitTop, simulate
from penstock.testing.agents import Bench
from penstock.testing.beats import beats
from penstock.testing.zoo import Zoo

TILE = Tile(2, "fp32")
PAIR = [TILE, TILE]
WORD = Scalar(8)
REF = BufferRef(2)
FULL = tile_bits(TILE, np.ones((2, 2), np.float32), 2, 2)
UNEQUAL = [[(0, 0), (0, 1)], [(0, 0), (0, 2)]]


def numbered(*stops):
    return [[(0, s) for s in stops]]


def sums(reduce, depth=8):
    return Accum(fn="add", reduce=reduce, depth=depth, lanes=4), [TILE], [TILE]


def reassembled(rank, *streams):
    return Reassemble(n=2, rank=rank), [WORD, WORD, Selector(2)], [WORD], streams


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
    "zip": (Zip(), PAIR, [Tuple((TILE, TILE))], UNEQUAL),
    "zip of an end and a beat": (Zip(), PAIR, [Tuple((TILE, TILE))], [[(0, 1)], [(None, 1)]]),
    "matmul": (Matmul(rows_per_cycle=2), PAIR, [TILE], UNEQUAL),
    "map": (Map(fn="add", arity=2, lanes=4), PAIR, [TILE], UNEQUAL),
    "accum of tiles in fewer columns": (*sums(0b100), numbered(0, 2, 0, 1, 3)),
    "accum of tiles in fewer rows": (*sums(0b100), numbered(0, 1, 2, 3)),
    "accum of tiles in fewer groups": (
        *sums(0b1010),
        numbered(0, 1, 0, 2, 0, 3, 0, 1, 0, 2, 0, 2, 0, 4),
    ),
    "accum of groups that differ": (*sums(0b1010), numbered(0, 2, 0, 3, 0, 4)),
    "accum of too many tiles": (*sums(0b10, 2), numbered(0, 0, 0)),
    "partition": (Partition(n=2, rank=1), [WORD, Selector(2)], [WORD] * 2, [[(1, 1)], [(1, 1)]]),
    "reassemble of an end in a unit": reassembled(1, [(1, 0)], [], [(1, 0)]),
    "reassemble without a selector": reassembled(0, [(1, 0)], [], []),
    "reassemble of a bare beat": reassembled(0, [(None, 1)], [], [(1, 0)]),
    "eager_merge": (EagerMerge(n=2, rank=1), [WORD] * 2, [WORD, Selector(2)], [[(1, 0)], []]),
    "expand": (Expand(level=1), [WORD] * 2, [WORD], [[(1, 1)], [(1, 2)]]),
    "generate": (Generate(fn="address", stride=1), [WORD] * 2, [Scalar(32)], [[(1, 1)], [(1, 0)]]),
    "address": (Address(stride=1), [WORD] * 2, [Scalar(32)], [[(1, 1)], [(None, 1)]]),
    "row_append without room": (RowAppend(), PAIR, [TILE], [[(FULL, 2)]] * 2),
    "flatten of an empty group alone": flat(0, 1, True, (1, 3), *ALONE),
    "flatten of an empty group in company": flat(0, 1, True, (1, 2), *ALONE),
    "flatten of an empty list at an end": flat(0, 1, False, (1, 1), (None, 2)),
    "flatten of an empty part at an end": flat(1, 2, False, (1, 2), (None, 3)),
    "scratchpad": listed(6),
    "scratchpad of a tile outside": listed(1),
}


def faulty() -> Zoo:
    """A unit for each case, with its streams; Done follows each."""
    z = Zoo("faults", 2)
    for kind, ins, outs, streams in CASES.values():
        z.add(kind, [(x, lambda _, s=s: s) for x, s in zip(ins, streams, strict=True)], outs)
    return z


UNITS = UnitTop(faulty)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, UNITS.design)


@cocotb.test(timeout_time=10, timeout_unit="us")
@cocotb.parametrize(case=list(CASES))
async def test_a_broken_rule_is_shown(dut, case):
    point = UNITS.point("always", "always")
    graph = point.graph
    units = [u.id for u in graph.units if u.kind.name not in ("source", "sink")]
    unit = units[list(CASES).index(case)]
    own = {c.src[0] for c in graph.inputs(unit)}
    none = {u: beats(graph.outputs(u)[0].payload, []) for u in point.sources.keys() - own}
    point = replace(point, sources={**point.sources, **none})
    await (await UNITS.begun(Bench(dut), point)).run()
