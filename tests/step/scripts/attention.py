# type: ignore
"""Attention of one KV head over caches of run-time lengths, dealt in turn to regions."""

import sys

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_accum_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

B, H, D, T, R = 6, 4, 16, 8, 5  # requests, heads, columns, rows of a tile, tiles of a request
q, kn, vn = values(B * H, D, seed=1), values(B, D, seed=2), values(B, D, seed=3)
kc, vc = values(B * R * T, D, seed=4), values(B * R * T, D, seed=5)
lengths = np.array([3, 9, 17, 8, 24, 1])
tiles, offset = (lengths + T) // T, lengths % T
for c in (kc, vc):
    for b in range(B):
        c[b * R * T + lengths[b] : (b + 1) * R * T] = 0


def rows(t, h):
    return Flatten(graph, OffChipLoad(t, (1, 1), (B, 1), h, D, 1), 0, 1)


def number(a):
    return MetadataGen(np.asarray(a, np.int64))


par = int(sys.argv[1])
dealt = {}
for name, s in dict(
    q=rows(q, H),
    k=rows(kn, 1),
    v=rows(vn, 1),
    idx=number(range(B)),
    n=number(tiles),
    off=number(offset),
).items():
    f = Flatten(graph, s, 0, 1)
    dealt[name] = Parallelize(graph, f, 0, par) if par > 1 else f
out = np.zeros((B * H, D), np.float32)
stored = []
for i in range(par):
    get = {n: ((s, i) if par > 1 else s) for n, s in dealt.items()}

    def path(cache, new):
        addr = CacheReadAddrGen(graph, get["idx"], get["n"], R)
        ld = RandomOffChipLoad(graph, cache, addr, T, D, 0, 1)
        last = FilterLastTile(graph, get["n"])
        part = FlatPartition(graph, ld, last, 0, [1, 1], False, 2)
        cut = BinaryMap(graph, (part, 0), get["off"], map_fn.SetOffset(), False, 0)
        app = BinaryMap(graph, cut, new, map_fn.RowWiseAppend(), False, 0)
        both = Flatten(graph, FlatReassemble(graph, [app, (part, 1)], last, 0, [1, 1], False), 0, 1)
        both.stream.shape = (B // par, DynDim(f"tiles_{i}"))
        back = BinaryMap(graph, get["idx"], get["n"], map_fn.CacheWriteAddrGen(R), False, 0)
        ConsumerContext(graph, RandomOffChipStore(graph, cache, app, back, T, D, 0, 1))
        return both

    k = path(kc, get["k"])
    v = path(vc, get["v"])
    qq = ExpandRef(graph, Promote(graph, get["q"], 0), k, 1)
    e = UnaryMap(
        graph, BinaryMap(graph, qq, k, map_fn.Matmul(True), False, 2048), map_fn.Exp(), False, 2048
    )
    num = BinaryMapAccum(
        graph, e, v, map_accum_fn.Matmul(), init_fn.Zero((H, D), Float32()), 1, False, 2048
    )
    den = UnaryMap(
        graph,
        Accum(
            graph,
            e,
            Tile(Float32(), (H, T)),
            accum_fn.Add(),
            init_fn.Zero((H, T), Float32()),
            1,
            False,
            2048,
        ),
        map_fn.RowWiseSum(),
        False,
        2048,
    )
    y = BinaryMap(graph, num, den, map_fn.Div(), True, 2048)
    st = RandomOffChipStore(graph, out, y, get["idx"], H, D, 0, 1)
    ConsumerContext(graph, st)
    stored.append(st)
run()

wanted = np.zeros((B, H, D))
for b, n in enumerate(lengths):
    keys, rows_of = (
        np.concatenate([c[b * R * T : b * R * T + n], new[b : b + 1]])
        for c, new in ((kc, kn), (vc, vn))
    )
    e = np.exp(q[b * H : b * H + H] @ keys.T)
    wanted[b] = e @ rows_of / e.sum(1, keepdims=True)
check(str(stored[0]), wanted.reshape(B * H, D))
