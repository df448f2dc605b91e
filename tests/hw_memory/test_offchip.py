# amaranth: UnusedElaboratable=no
"""Loads and stores through the interconnect: every request, beat and completion in the contract's
cycle.
"""

from random import Random

import pytest
from amaranth.sim import Simulator
from penstock.hw.memory.interconnect import Interconnect
from penstock.machine.config import Dram as DramConfig
from penstock.machine.config import Machine
from penstock.testing.offchip_bench import Bench
from penstock.testing.offchip_model import Place


def machine(*, t, lanes, load_lines=None, arbitration="need", kind="ideal", channels=4):
    return Machine(
        t=t,
        port_lanes=lanes,
        load_lines=load_lines or 4 * lanes,
        arbitration=arbitration,
        rows_per_cycle=t,
        dram=DramConfig(kind=kind, channels=channels),
    )


def tensor(rows, cols, seed, element_bytes):
    r = Random(seed)
    return [[r.getrandbits(8 * element_bytes) for _ in range(cols)] for _ in range(rows)]


def place(tensor_rows, tensor_cols, *, base=0, element_bytes=4, seed=1, spare=0, **walk):
    pitch = -(-tensor_cols * element_bytes // 64) * 64 + 64 * spare
    return Place(
        base=base,
        pitch=pitch,
        tensor=tensor(tensor_rows, tensor_cols, seed, element_bytes),
        element_bytes=element_bytes,
        **walk,
    )


def always(_port, _cycle):
    return True


def stalls(seed, share=0.5):
    def moves(port, cycle):
        return Random(f"{seed} {port} {cycle}").random() < share

    return moves


SIZES = [(4, 4, 4), (4, 2, 2), (2, 1, 4)]

LOADS = {
    "one tile": dict(rows=4, cols=16, walk=dict(rows=4, cols=16)),
    "aligned grid": dict(
        rows=8, cols=32, walk=dict(rows=4, cols=16, shape=(2, 2), row_step=(4, 0), col_step=(0, 16))
    ),
    "tiles narrower than a line": dict(
        rows=8, cols=12, walk=dict(rows=4, cols=4, shape=(2, 3), row_step=(4, 0), col_step=(0, 4))
    ),
    "large logical tiles": dict(
        rows=8, cols=64, walk=dict(rows=8, cols=32, shape=(2,), row_step=(0,), col_step=(32,))
    ),
    "sizes t does not divide": dict(
        rows=7, cols=45, walk=dict(rows=5, cols=18, shape=(2, 3), row_step=(5, 0), col_step=(0, 18))
    ),
    "misaligned over two lines": dict(
        rows=6, cols=50, walk=dict(rows=6, cols=10, shape=(5,), row_step=(0,), col_step=(10,))
    ),
    "outside the tensor": dict(
        rows=5, cols=20, walk=dict(rows=6, cols=12, shape=(2, 3), row_step=(6, 0), col_step=(0, 12))
    ),
    "overlapping and repeated": dict(
        rows=9,
        cols=40,
        walk=dict(rows=4, cols=7, shape=(2, 3, 2), row_step=(0, 3, 0), col_step=(0, 0, 5)),
    ),
    "one element": dict(rows=1, cols=1, walk=dict(rows=1, cols=1)),
    "no trip": dict(
        rows=4, cols=16, walk=dict(rows=4, cols=16, shape=(2, 0), row_step=(4, 0), col_step=(0, 16))
    ),
}


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("t, lanes, element_bytes", SIZES)
def test_load_walks_in_the_contracts_cycles(name, t, lanes, element_bytes):
    case = LOADS[name]
    p = place(
        case["rows"], case["cols"], base=128, spare=1, element_bytes=element_bytes, **case["walk"]
    )
    bench = Bench([("load", p, {})], t=t, config=machine(t=t, lanes=lanes, kind="pipe", channels=2))
    bench.compare(seed=name, moves=stalls(name, 0.7))


def test_load_runs_at_full_rate():
    """Fixed latency, nothing stalls: one tile a cycle from the first to the last."""
    p = place(16, 16, rows=4, cols=16, shape=(4,), row_step=(4,), col_step=(0,))
    log = Bench([("load", p, {})], t=4, config=machine(t=4, lanes=4)).compare(
        seed=0, moves=always, delays=(3, 3)
    )
    beats = [cycle for cycle, what, *_ in log if what == "beat"]
    assert beats == list(range(beats[0], beats[0] + 17))  # and Done
    # granted 0, at the DRAM 1, delivered 4, in the ring 5, block visible 6
    assert beats[0] == 6


STORES = {
    "one tile": dict(rows=4, cols=16, walk=dict(rows=4, cols=16)),
    "grid of narrow tiles": dict(rows=8, cols=12, walk=dict(rows=4, cols=4)),
    "sizes t does not divide": dict(rows=7, cols=45, walk=dict(rows=5, cols=18)),
    "misaligned over two lines": dict(rows=6, cols=50, walk=dict(rows=6, cols=10)),
    "several bands": dict(rows=10, cols=20, walk=dict(rows=10, cols=20)),
    "one element": dict(rows=1, cols=1, walk=dict(rows=1, cols=1)),
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("t, lanes, element_bytes", SIZES)
def test_store_writes_in_the_contracts_cycles(name, t, lanes, element_bytes):
    case = STORES[name]
    p = place(
        case["rows"], case["cols"], base=128, spare=1, element_bytes=element_bytes, **case["walk"]
    )
    bench = Bench([("store", p, {})], t=t, config=machine(t=t, lanes=lanes))
    bench.compare(seed=name, moves=stalls(name, 0.7))
    assert bench.memory == bench.stored({0: [range(case["cols"])] * case["rows"]})


def test_store_writes_only_what_the_beats_call_valid():
    """Valid counts come with the tiles: empty tiles, rows and lines are not written, and cost one
    cycle a step.
    """
    p = place(6, 40, rows=6, cols=20)
    bench = Bench([("store", p, {"valid": [(5, 3), (0, 0)]})], t=4, config=machine(t=4, lanes=2))
    bench.compare(seed=1, moves=always)
    assert bench.memory == bench.stored({0: [range(3)] * 5})
    bench = Bench([("store", p, {"valid": [(3, 20), (6, 11)]})], t=4, config=machine(t=4, lanes=2))
    bench.compare(seed=2, moves=always)
    assert bench.memory == bench.stored({0: [range(31)] * 3 + [range(20, 31)] * 3})


def test_store_runs_again_after_done():
    p = place(6, 50, rows=6, cols=10)
    bench = Bench([("store", p, {"runs": 2})], t=4, config=machine(t=4, lanes=4))
    bench.compare(seed=1, moves=always, delays=(10, 20))
    assert bench.memory == bench.stored({0: [range(50)] * 6})


@pytest.mark.parametrize("arbitration", ["need", "round_robin"])
@pytest.mark.parametrize("seed", range(2))
def test_ports_share_the_dram(arbitration, seed):
    walk = dict(rows=5, cols=18, shape=(2, 3), row_step=(5, 0), col_step=(0, 18))
    ports = [
        ("load", place(9, 50, base=0, seed=1, **walk), {}),
        ("store", place(9, 30, base=4096, seed=2, element_bytes=2, rows=4, cols=9), {}),
        (
            "load",
            place(
                8, 32, base=8192, seed=3, rows=8, cols=32, shape=(2,), row_step=(0,), col_step=(0,)
            ),
            {},
        ),
    ]
    bench = Bench(
        ports, t=4, config=machine(t=4, lanes=2, arbitration=arbitration, kind="pipe", channels=4)
    )
    bench.compare(seed=seed, moves=stalls(seed, (1.0, 0.5)[seed]))
    assert bench.memory == bench.stored({1: [range(30)] * 9})


def test_reset_in_mid_run_starts_afresh():
    ports = [
        (
            "load",
            place(
                9,
                50,
                base=0,
                seed=1,
                rows=5,
                cols=18,
                shape=(2, 3),
                row_step=(5, 0),
                col_step=(0, 18),
            ),
            {},
        ),
        ("store", place(9, 30, base=4096, seed=2, rows=4, cols=9), {}),
    ]
    bench = Bench(ports, t=4, config=machine(t=4, lanes=2, arbitration="round_robin"))
    for cycles in (1, 30):
        bench.compare(seed=cycles, moves=stalls(cycles, 0.8), resets=cycles)


def test_one_build_serves_other_sizes_after_a_reset():
    bench = Bench(
        [("load", place(4, 16, rows=4, cols=16, shape=(1,), row_step=(0,), col_step=(0,)), {})],
        t=4,
        config=machine(t=4, lanes=2),
    )
    bench.compare(seed=1, moves=always)
    bench.ports = [
        ("load", place(11, 33, rows=3, cols=7, shape=(5,), row_step=(1,), col_step=(6,)), {})
    ]
    bench.compare(seed=2, moves=always)


def test_responses_nobody_waits_for_are_told():
    """A line that no read misses shows at the interconnect, an acknowledgement too many at its
    store.
    """
    walk = dict(rows=4, cols=16)
    bench = Bench(
        [("load", place(4, 16, **walk), {}), ("store", place(4, 16, base=4096, **walk), {})],
        t=4,
        config=machine(t=4, lanes=2),
    )
    net = bench.net
    store = bench.units[1]

    async def stray(ctx):
        ctx.set(net.mem_rsp_valid, 1)
        ctx.set(net.mem_rsp_tag[0], 7)
        assert (ctx.get(net.error), ctx.get(store.error)) == (1 << 3, 0)
        ctx.set(net.mem_rsp_port[0], 1)
        assert (ctx.get(net.error), ctx.get(store.error)) == (0, 1 << 3)

    sim = Simulator(bench.m)
    sim.add_clock(1e-6)
    sim.add_testbench(stray)
    sim.run()


def test_bad_ports_are_refused():
    with pytest.raises(
        ValueError, match="Direction of a port must be 'read' or 'write', not 'sink'"
    ):
        Interconnect(ports=["read", "sink"], config=machine(t=4, lanes=2))
    with pytest.raises(ValueError, match="Number of ports must be from 1 to 256, not 0"):
        Interconnect(ports=[], config=machine(t=4, lanes=2))
