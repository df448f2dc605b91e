"""Values: bit for bit against the NumPy arithmetic, and digests of whole beats."""

import numpy as np
import pytest
from numba import njit
from penstock import model
from penstock.frontend import build, lower
from penstock.machine import arith
from penstock.machine import functions as machine_functions
from penstock.machine.beat import FNV_OFFSET, FNV_PRIME
from penstock.machine.config import load
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul
from penstock.model import acts, functions, layout, precompile, units
from penstock.model.layout import Layout
from penstock.runs.point import Point
from penstock.testing.graphs import (
    FULL,
    TILE,
    Build,
    T,
    configuration,
    run,
    source_beats,
    tile_words,
)

CONFIG = configuration()


def feed(tiles, stops):
    """A build with one source per list of tiles (all with equal stops), and their beats."""
    b = Build()
    units = [b.source([(s, FULL) for s in stops]) for _ in tiles]
    return b, units


def go(b, values, **options):
    graph = b.graph()
    given = {}
    for u, tiles in values.items():
        beats = source_beats(TILE, b.sources[u])
        for i, (tile, rows, cols) in enumerate(tiles):
            beats.payload[i] = tile_words(tile, rows, cols)
        given[u] = beats
    return model.run(graph, CONFIG, {}, sources=given, trace=True, **options)


def tiles(seed, n, rows=T, cols=T):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        x = np.zeros((T, T), np.float32)
        x[:rows, :cols] = rng.normal(size=(rows, cols))
        out.append((x, rows, cols))
    return out


def sunk(r, u):
    beats = r.sink_beats[u]
    return [
        beats.values[i].reshape(T, T) for i in range(len(beats.data)) if beats.data[i]
    ], beats.numbers[beats.data == 1]


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32)


def test_matmul_then_accum_is_the_stated_order():
    b, (ua, ub) = feed([0, 1], [0, 0, 1])
    m = b.unit(Matmul(rows_per_cycle=T))
    acc = b.unit(Accum(fn="add", reduce=1, depth=1, lanes=16))
    b.link(ua, (m, 0))
    b.link(ub, (m, 1))
    b.link(m, acc)
    s = b.sink()
    b.link(acc, s)
    a = tiles(1, 3, rows=3)
    w = tiles(2, 3, cols=2)
    (got,), numbers = sunk(go(b, {ua: a, ub: w}), s)
    p = [arith.matmul(x[0], y[0]) for x, y in zip(a, w, strict=True)]
    expected = arith.add(arith.add(p[0], p[1]), p[2])
    expected[3:] = 0
    expected[:, 2:] = 0
    assert (bits(got) == bits(expected)).all() and numbers.tolist() == [[3, 2]]


def test_transposed_matmul_and_element_wise():
    b, (ua, ub) = feed([0, 1], [0, 1])
    m = b.unit(Matmul(rows_per_cycle=T, transposed=True))
    f = b.unit(Map(fn="silu", arity=1, lanes=16))
    b.link(ua, (m, 0))
    b.link(ub, (m, 1))
    b.link(m, f)
    s = b.sink()
    b.link(f, s)
    a = tiles(3, 2)
    w = tiles(4, 2, rows=2)
    got, numbers = sunk(go(b, {ua: a, ub: w}), s)
    for x, y, z in zip(a, w, got, strict=True):
        expected = arith.silu(arith.matmul_bt(x[0], y[0]))
        expected[:, 2:] = 0
        assert (bits(z) == bits(expected)).all()
    assert numbers.tolist() == [[4, 2], [4, 2]]


def test_invalid_elements_stay_zero():
    b, (u,) = feed([0], [0])
    f = b.unit(Map(fn="exp", arity=1, lanes=16))  # exp(0) is 1
    b.link(u, f)
    s = b.sink()
    b.link(f, s)
    (got,), _ = sunk(go(b, {u: tiles(5, 1, rows=1, cols=3)}), s)
    assert (got[1:] == 0).all() and (got[0, 3:] == 0).all() and (got[0, :3] > 0).all()


def test_a_users_function_runs():
    @njit
    def twice(a, out):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                out[i, j] = a[i, j] + a[i, j]

    machine_functions.register(machine_functions.Function("twice_for_test", 1, 2, 1, "2 x."))
    if "twice_for_test" not in functions.VALUES:
        functions.register("twice_for_test", reference=lambda a: a + a, tile=twice)
    b, (u,) = feed([0], [0, 0])
    f = b.unit(Map(fn="twice_for_test", arity=1, lanes=16))
    b.link(u, f)
    s = b.sink()
    b.link(f, s)
    x = tiles(6, 2)
    got, _ = sunk(go(b, {u: x}), s)
    assert all((z == 2 * y[0]).all() for y, z in zip(x, got, strict=True))


def fnv(words):
    h = FNV_OFFSET
    for w in words:
        h = (h ^ int(w)) * FNV_PRIME % 2**64
    return h


def test_digest_is_over_the_whole_beat():
    b, (u,) = feed([0], [2])
    b.link(u, b.sink())
    ((x, rows, cols),) = given = tiles(7, 1, rows=2, cols=3)
    r = go(b, {u: given})
    whole = (
        int.from_bytes(tile_words(x, rows, cols).tobytes(), "little") | (2 | 1 << 4) << TILE.bits
    )
    n = (TILE.bits + 5 + 31) // 32
    words = [whole >> 32 * i & 0xFFFFFFFF for i in range(n)]
    done = [15 << TILE.bits >> 32 * i & 0xFFFFFFFF for i in range(n)]
    assert r.channels[0].digest.tolist() == [fnv(words), fnv(done)]


def test_timing_does_not_depend_on_values():
    b, (ua, ub) = feed([0, 1], [0, 0, 1])
    m = b.unit(Matmul(rows_per_cycle=1))
    b.link(ua, (m, 0))
    b.link(ub, (m, 1))
    b.link(m, b.sink())
    assert run(b, CONFIG, values=False).cycles == go(b, {ua: tiles(8, 3), ub: tiles(9, 3)}).cycles


def test_recorded_beats_are_the_beats(monkeypatch):
    """Across several looks of Python, every kept beat's words are those of its digest, and the
    values those of the source.
    """
    monkeypatch.setattr(layout, "RECORD_ROOM", 3)
    given = tiles(6, 8, rows=3)
    b, (u,) = feed([0], [0, 1] * 4)
    b.link(u, b.sink())
    r = go(b, {u: given}, record=[0])
    words = r.extra["payloads"][0]
    h = np.full(len(words), FNV_OFFSET, np.uint64)
    for column in words.T:
        h = (h ^ column) * np.uint64(FNV_PRIME)
    assert len(words) == 9 and (h == r.channels[0].digest).all()
    assert (words[:8, : T * T] == [bits(x).reshape(-1) for x, _, _ in given]).all()


def test_a_trace_does_not_depend_on_looks_of_python(monkeypatch):
    """Lines of the trace are used again; what was written there before is gone."""
    config = load("small_fpga")
    program = build("swiglu", {}, config)
    graph = lower(program.graph, config)
    traces = []
    for rows in (layout.LOG_ROWS, 1):
        monkeypatch.setattr(layout, "LOG_ROWS", rows)
        run_ = model.run(graph, config, program.inputs(0), trace=True)
        traces.append([(p.accept, p.deliver, p.address, p.digest) for p in run_.ports])
    np.testing.assert_equal(traces[0], traces[1])


@pytest.mark.parametrize("program", ["swiglu", "simple_moe", "moe", "attention"])
def test_the_units_compiled_beside_are_those_of_the_run(program, monkeypatch):
    point = Point(program, load("small_fpga"), {})
    used = set()
    monkeypatch.setattr(acts, "address", lambda name: used.add(f"unit:{name}") or 0)
    Layout(point.graph, point.config, None, False, point.source_beats(), {}, frozenset())
    assert precompile._units([point.graph]) == used


def test_a_run_compiles_no_unit_that_it_has_not():
    point = Point("swiglu", load("small_fpga"), {})
    assert len(precompile._units([point.graph])) < len(units.KINDS) / 2
