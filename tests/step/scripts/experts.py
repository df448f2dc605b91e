# type: ignore
"""A mixture of experts: tiles of N rows, of as many as an expert gets (dynamic), or experts that
share regions.
"""

import sys

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_accum_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *


def moe(B, D, F, E, k, N, tF, dynamic=False, regions=0, seed=3):
    x = values(B, D, seed=1)
    up, gate = ([values(D, F, seed=10 + i + s) for i in range(E)] for s in (0, 100))
    down = [values(F, D, seed=210 + i) for i in range(E)]
    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.choice(E, k, replace=False) for _ in range(B)])
    shares = values(B, k, seed=9)
    one = np.eye(E, dtype=np.int64)[chosen]
    many = one.sum(-2)
    bw = 4096
    rows = Flatten(graph, load(x, (1, D)), 0, 1)
    routed = FlatPartition(graph, rows, SelectGen(True, many, E), 0, [1] * E, False, E)
    packed = []
    for i in range(E):
        chunks = Reshape(
            graph,
            (routed, i),
            1 if dynamic else N,
            0,
            False,
            add_outer_dim=True,
            pad_fn=init_fn.Zero((1, D), Float32()),
        )
        flat = Flatten(graph, chunks, 0, 1) if dynamic else Flatten(graph, chunks, 1, 2)
        kind = (
            DynTile(Float32(), (routed.stream_idx(i).shape[0], D))
            if dynamic
            else Tile(Float32(), (N, D))
        )
        packed.append(
            Accum(
                graph,
                flat,
                kind,
                accum_fn.RetileRow(),
                init_fn.Empty((0, D), Float32()),
                1,
                False,
                bw,
            )
        )
    steps = F // tF
    if regions:
        per = E // regions
        merged = [EagerMerge(graph, packed[r * per : r * per + per], 0) for r in range(regions)]
        tiles = [m.data_tuple() for m in merged]
        addresses = [ExpertAddrGen(graph, m.select_tuple(), steps, 0) for m in merged]
    else:
        tiles, addresses = packed, None
    again = [RepeatStatic(graph, t, steps) for t in tiles]
    Product = map_fn.DynMatmul if dynamic else map_fn.Matmul

    def weights(mats, tile):
        if regions:
            cats = [np.concatenate(mats[r * per : r * per + per], 0) for r in range(regions)]
            if tile == (D, tF):  # tiles of an expert follow each other
                cats = [
                    np.concatenate(
                        [
                            m[:, j * tF : (j + 1) * tF]
                            for m in mats[r * per : r * per + per]
                            for j in range(steps)
                        ],
                        0,
                    )
                    for r in range(regions)
                ]
            loads = [RandomOffChipLoad(graph, c, a, *tile, 0, 4) for c, a in zip(cats, addresses)]
        else:
            loads = [
                DynOffChipLoad(graph, t, m, (1, 1), (steps, 1), *tile, 4)
                for t, m in zip(tiles, mats)
            ]
        return [Flatten(graph, l, 0, 1) for l in loads]

    ups = [
        BinaryMap(graph, a, w, Product(), False, bw) for a, w in zip(again, weights(up, (D, tF)))
    ]
    gates = [
        BinaryMap(graph, a, w, Product(), False, bw) for a, w in zip(again, weights(gate, (D, tF)))
    ]
    gates = [UnaryMap(graph, g, map_fn.Silu(), False, bw) for g in gates]
    hidden = [BinaryMap(graph, u, g, map_fn.Mul(), False, bw) for u, g in zip(ups, gates)]
    P2 = map_accum_fn.DynMatmul if dynamic else map_accum_fn.Matmul
    init = init_fn.DynEmpty((0, D), Float32()) if dynamic else init_fn.Zero((N, D), Float32())
    out = [
        BinaryMapAccum(graph, h, w, P2(), init, 1, False, bw)
        for h, w in zip(hidden, weights(down, (tF, D)))
    ]
    if regions:
        parts = [
            FlatPartition(graph, o, m.select_tuple(), 0, [1] * per, False, per)
            for o, m in zip(out, merged)
        ]
        out = [(p, i) for p in parts for i in range(per)]
    out = [RetileStreamify(graph, o, True, True) for o in out]
    for i, o in enumerate(out):
        o.stream.shape = (routed.stream_list[i].shape[0],)
    shared = FlatPartition(
        graph,
        OffChipLoad(shares, (k, 1), (B, k), 1, 1, 4),
        SelectGen(True, one, k),
        0,
        [1] * E,
        False,
        E,
    )
    weighted = [
        BinaryMap(graph, (shared, i), o, map_fn.Mul(), False, bw) for i, o in enumerate(out)
    ]
    back = FlatReassemble(graph, weighted, SelectGen(True, many, E), 0, [1] * E, False)
    total = Accum(
        graph,
        back,
        Tile(Float32(), (1, D)),
        accum_fn.Add(),
        init_fn.Zero((1, D), Float32()),
        1,
        False,
        bw,
    )
    store(Reshape(graph, total, 1, 0, False))
    run()
    want = np.zeros((B, D))
    for b in range(B):
        for j, e in enumerate(chosen[b]):
            g = x[b] @ gate[e]
            want[b] += shares[b, j] * ((x[b] @ up[e] * g / (1 + np.exp(-g))) @ down[e])
    check("out", want)


SIZES = {"B": 8, "D": 32, "F": 32, "E": 4, "k": 2, "N": 4, "tF": 16}
how = sys.argv[1]
moe(**SIZES, dynamic=how == "dynamic", regions=2 if how == "regions" else 0)
