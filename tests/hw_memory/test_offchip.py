"""Loads and stores in a fabric with a DRAM that answers in any order: every request, beat and
completion in the contract's cycle, every value where it belongs.
"""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator
from penstock.hw.beat import Payloads
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.store import Store
from penstock.machine.beat import Tile, tile_bits, tile_of
from penstock.machine.builder import Builder
from penstock.machine.config import Dram
from penstock.machine.image import pack, unpack
from penstock.machine.kinds import offchip as kinds
from penstock.testing.bench import Bench, compare, small
from penstock.testing.patterns import releases

LEAN = dict(address_bits=14, size_bits=7)
SIZES = [  # t, lanes, type of elements, bytes of a line, pipelines
    (4, 4, "fp32", 64, "short"),
    (4, 2, "bf16", 64, "deep"),
    (2, 1, "fp32", 32, "short"),
    (2, 1, "bf16", 8, "deep"),
    (4, 1, "fp32", 16, "short"),  # a tile a line
]
"""Where lines are narrow, registers are as narrow as these tensors allow."""
GRID = dict(shape=(2, 2), row_step=(4, 0), col_step=(0, 16))
LOADS = {  # tensor, tiles, and their walk; walks of as many dimensions share a bench
    "one tile": (4, 16, 4, 16, {}),
    "one element": (1, 1, 1, 1, {}),
    "aligned grid": (8, 32, 4, 16, GRID),
    "no trip": (4, 16, 4, 16, GRID | dict(shape=(2, 0))),
    "tiles narrower than a line": (8, 12, 4, 4, GRID | dict(shape=(2, 3), col_step=(0, 4))),
    "sizes t does not divide": (
        *(7, 45, 5, 18),
        dict(shape=(2, 3), row_step=(5, 0), col_step=(0, 18)),
    ),
    "outside the tensor": (5, 20, 6, 12, dict(shape=(2, 3), row_step=(6, 0), col_step=(0, 12))),
    "large logical tiles": (8, 64, 8, 32, dict(shape=(2,), row_step=(0,), col_step=(32,))),
    "misaligned over two lines": (6, 50, 6, 10, dict(shape=(5,), row_step=(0,), col_step=(10,))),
    "overlapping and repeated": (
        *(9, 40, 4, 7),
        dict(shape=(2, 3, 2), row_step=(0, 3, 0), col_step=(0, 0, 5)),
    ),
}
STORES = {
    "one tile": (4, 16, 4, 16),
    "grid of narrow tiles": (8, 12, 4, 4),
    "sizes t does not divide": (7, 45, 5, 18),
    "misaligned over two lines": (6, 50, 6, 10),
    "several bands": (10, 20, 10, 20),
    "one element": (1, 1, 1, 1),
}


def machine(t, lanes, dtype="fp32", arbitration="need", pipelines="short", **dram):
    return small(
        t,
        dtype,
        port_lanes=lanes,
        load_lines=4 * lanes,
        arbitration=arbitration,
        pipelines=pipelines,
        **(LEAN if dram.get("line_bytes", 64) < 64 else {}),
        dram=Dram(**{"kind": "ideal", **dram}),
    )


def values_of(y, tr, tc):
    """Values given to a store for its tensor and beyond: small whole numbers."""
    return np.random.default_rng(7).integers(1, 99, (y.rows + tr, y.cols + tc)).astype(np.float32)


class Memory(Builder):
    """Loads into sinks and sources into stores, with what they carry."""

    def __init__(self, t, dtype="fp32"):
        super().__init__("memory", t)
        self.dtype = dtype
        self.tensor("before", 2, 16, "fp32", "output")  # so that no base is zero
        self.streams = {}

    def load(self, rows, cols, tr, tc, walk):
        walk = walk or dict(shape=(), row_step=(), col_step=())
        x = self.tensor(f"in{len(self.tensors)}", rows, cols, self.dtype)
        given = {k: list(v) for k, v in walk.items()}
        u = self.offchip("load", x, tr, tc, rank=len(given["shape"]), **given)
        return self.sink(u, Tile(self.t, self.dtype))

    def store(self, rows, cols, tr, tc, valid=None, runs=1):
        y = self.tensor(f"out{len(self.tensors)}", rows, cols, self.dtype, "output")
        u = self.offchip("store", y, tr, tc)
        source = self.source(u, Tile(self.t, self.dtype))
        self.streams[source] = self.tiles(y, tr, tc, valid) * runs
        return source

    def tiles(self, y, tr, tc, valid):
        """The beats of a tensor in tiles of tr x tc, or the ``valid`` parts of these."""
        t = self.t
        tile = Tile(t, y.dtype)
        across = -(-y.cols // tc)
        count = across * -(-y.rows // tr)
        whole = values_of(y, tr, tc)
        out = []
        for j in range(count):
            at = j // across * tr, j % across * tc
            high = min(y.rows - at[0], tr)
            wide = min(y.cols - at[1], tc)
            if valid:
                high, wide = valid[j]
            for r in range(0, tr, t):
                for c in range(0, tc, t):
                    v = min(max(high - r, 0), t)
                    w = min(max(wide - c, 0), t)
                    part = whole[at[0] + r :, at[1] + c :][:t, :t]
                    part = np.pad(part, [(0, t - n) for n in part.shape])
                    end = 1 if r + t < tr else 2 + (j == count - 1)
                    bits = tile_bits(tile, part, v, w)
                    out.append((bits, end if c + t >= tc else 0))
        return [*out, (0, 15)]


def run(b, config, *, bench=None, pattern="random", **options):
    """Hardware beside the plain model, and what loads deliver beside their tensors; the run, and
    the tensors that it leaves.
    """
    graph = b.graph()
    bench = bench or Bench(graph, config)
    rng = np.random.default_rng(3)
    tensors = {x.name: rng.integers(1, 99, (x.rows, x.cols)) for x in graph.tensors}
    sources = {u: releases(len(s), pattern, u).tolist() for u, s in b.streams.items()}
    sinks = {
        u.id: releases(400, pattern, u.id).tolist() for u in graph.units if u.kind.name == "sink"
    }
    image = pack(graph, tensors).tobytes()
    got = compare(bench, b.streams, sources, sinks, graph=graph, image=image, **options)
    assert got.error == 0
    for u in graph.units:
        if u.kind.name == "load":
            c = graph.outputs(u.id)[0]
            beats = [bits for bits, _, data in got.channels[c.id].beats if data]
            check_tiles(u.kind, c.payload, tensors[u.kind.tensor], beats)
    return got, unpack(graph, np.frombuffer(bytes(got.image), np.uint8))


def check_tiles(p, tile, tensor, beats):
    """Check that a load delivers its tensor's values."""
    beats = iter(beats)
    for at in np.ndindex(*p.shape):
        row = int(np.dot(at, p.row_step))
        col = int(np.dot(at, p.col_step))
        for r in range(0, p.rows, tile.t):
            for c in range(0, p.cols, tile.t):
                values, rows, cols = tile_of(tile, next(beats))
                want = tensor[row : row + p.rows, col : col + p.cols]
                want = want[r : r + tile.t, c : c + tile.t]
                assert (rows, cols) == want.shape or want.size == rows * cols == 0
                assert np.array_equal(values[:rows, :cols], want[:rows, :cols])
                assert not values[rows:].any() and not values[:, cols:].any()
    assert next(beats, None) is None


@pytest.fixture(scope="module")
def benches():
    """Benches by what is built: structure and machine."""
    kept = {}

    def of(b, config):
        key = f"{b.graph().structure()} {config.machine}"
        if key not in kept:
            kept[key] = Bench(b.graph(), config)
        return kept[key]

    return of


def check_stored(b, out, valid=None):
    """The valid parts of a store's tiles are in its tensor, and nothing else is written."""
    (store,) = [u for u in b.units if u.kind.name == "store"]
    p = store.kind
    tensor = out[p.tensor].astype(np.float32)
    want = np.zeros_like(tensor)
    whole = values_of(b.tensors[-1], p.rows, p.cols)
    across = -(-tensor.shape[1] // p.cols)
    for j in range(across * -(-tensor.shape[0] // p.rows)):
        row = j // across * p.rows
        col = j % across * p.cols
        high, wide = valid[j] if valid else (p.rows, p.cols)
        part = np.s_[row : row + high, col : col + wide]
        want[part] = whole[: tensor.shape[0], : tensor.shape[1]][part]
    assert np.array_equal(tensor, want)


@pytest.mark.parametrize("t, lanes, dtype, line, pipelines", SIZES)
@pytest.mark.parametrize("name", LOADS)
def test_load_walks_in_the_contracts_cycles(benches, name, t, lanes, dtype, line, pipelines):
    rows, cols, tr, tc, walk = LOADS[name]
    b = Memory(t, dtype)
    b.load(rows, cols, tr, tc, walk)
    config = machine(
        *(t, lanes, dtype), pipelines=pipelines, kind="pipe", channels=2, line_bytes=line
    )
    run(b, config, bench=benches(b, config), seed=len(name))


@pytest.mark.parametrize("pipelines, first", [("short", 6), ("deep", 7)])
def test_load_runs_at_full_rate(pipelines, first):
    """Fixed latency, nothing stalls: one tile a cycle from the first to the last."""
    b = Memory(4)
    b.load(16, 16, 4, 16, dict(shape=(4,), row_step=(4,), col_step=(0,)))
    got, _ = run(b, machine(4, 4, pipelines=pipelines), pattern="always", delays=(3, 3))
    beats = got.channels[0].accept
    assert beats == list(range(beats[0], beats[0] + 17))  # and Done
    # granted 0 (deep: 1), at the DRAM 1, delivered 4, in the ring 5, block visible 6
    assert beats[0] == first


@pytest.mark.parametrize("t, lanes, dtype, line, pipelines", SIZES)
@pytest.mark.parametrize("name", STORES)
def test_store_writes_in_the_contracts_cycles(benches, name, t, lanes, dtype, line, pipelines):
    b = Memory(t, dtype)
    b.store(*STORES[name])
    config = machine(t, lanes, dtype, pipelines=pipelines, line_bytes=line)
    _, out = run(b, config, bench=benches(b, config), seed=len(name))
    check_stored(b, out)


@pytest.mark.parametrize("valid", [[(5, 3), (0, 0)], [(3, 20), (6, 11)]])
def test_store_writes_only_what_the_beats_call_valid(benches, valid):
    """Valid counts come with the tiles: empty tiles, rows and lines are not written, and cost one
    cycle a step.
    """
    b = Memory(4)
    b.store(6, 40, 6, 20, valid=valid)
    config = machine(4, 2)
    _, out = run(b, config, bench=benches(b, config), pattern="always")
    check_stored(b, out, valid)


def test_store_runs_again_after_done(benches):
    b = Memory(4)
    b.store(6, 50, 6, 10, runs=2)
    config = machine(4, 4)
    _, out = run(b, config, bench=benches(b, config), pattern="always", delays=(10, 20))
    check_stored(b, out)


def shared():
    """Two loads and a store on one memory."""
    b = Memory(4)
    b.load(9, 50, 5, 18, dict(shape=(2, 3), row_step=(5, 0), col_step=(0, 18)))
    b.store(9, 30, 4, 9)
    b.load(8, 32, 8, 32, dict(shape=(2,), row_step=(0,), col_step=(0,)))
    return b


@pytest.mark.parametrize(
    "arbitration, pipelines", [("need", "short"), ("round_robin", "short"), ("need", "deep")]
)
@pytest.mark.parametrize("seed", range(2))
def test_ports_share_the_dram(benches, arbitration, pipelines, seed):
    b = shared()
    config = machine(4, 2, arbitration=arbitration, pipelines=pipelines, kind="pipe", channels=4)
    pattern = ("always", "bursty")[seed]
    run(b, config, bench=benches(b, config), seed=seed, pattern=pattern)


@pytest.mark.parametrize("channels, groups", [(1, 64), (2, 64), (4, 4), (8, 64), (16, 4)])
def test_lines_of_a_cycle_come_in_any_order(channels, groups):
    """The DRAM returns as many lines a cycle as it has channels, on any lane and of any group;
    rings of block RAM, and of LUT RAM.
    """
    b = Memory(4)
    for start in (0, 5):
        b.load(16, 37, 8, 16, dict(shape=(2, 2), row_step=(8, start), col_step=(0, 16)))
    c = small(
        *(4, "fp32"), port_lanes=4, load_lines=4 * groups, dram=Dram(kind="pipe", channels=channels)
    )
    run(b, c, pattern="always", seed=channels, delays=(1, 9))


def test_reset_in_mid_run_starts_afresh(benches):
    b = shared()
    config = machine(4, 2, arbitration="round_robin", kind="pipe", channels=4)
    run(b, config, bench=benches(b, config), resets=[1, 30])


def test_responses_nobody_waits_for_are_told():
    """A line that no read misses shows at the interconnect, an acknowledgement too many at its
    store.
    """
    config = machine(4, 2).machine
    net = Interconnect(ports=["read", "write"], config=config)
    tile = Tile(4, "fp32")
    store = Store(kind=kinds.Store.of({}), t=4, config=config, payloads=Payloads((tile,), ()))
    m = Module()
    m.submodules += [net, store]
    connect(m, store.port, net.port1)

    async def stray(ctx):
        ctx.set(net.mem_rsp_valid, 1)
        ctx.set(net.mem_rsp_tag[0], 7)
        assert (ctx.get(net.error), ctx.get(store.error)) == (1 << 3, 0)
        ctx.set(net.mem_rsp_port[0], 1)
        assert (ctx.get(net.error), ctx.get(store.error)) == (0, 1 << 3)

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(stray)
    sim.run()


def test_bad_ports_are_refused():
    config = machine(4, 2).machine
    with pytest.raises(
        ValueError, match="Direction of a port must be 'read' or 'write', not 'sink'"
    ):
        Interconnect(ports=["read", "sink"], config=config)
    with pytest.raises(ValueError, match="Number of ports must be from 1 to 1024, not 0"):
        Interconnect(ports=[], config=config)
