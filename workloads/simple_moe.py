"""The paper's simplified mixture of experts (figures 6 and 7, listing 1): each row goes to one of
two experts, a matrix product each.

Rows are routed by a selector stream, packed into tiles of ``tile_rows`` rows, multiplied with the
expert's weights (loaded once for every such tile, in ``tiles`` column tiles), cut into rows again,
and gathered in their old order.
"""

import numpy as np

from ..frontend import (
    Accum,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Partition,
    Reassemble,
    Reshape,
    Source,
    cast,
    matmul,
    retile_col,
    retile_row,
    retile_streamify,
)


def program(rows=10, dim=64, out=256, experts=2, tile_rows=4, tiles=4, dtype="fp32"):
    g = Graph("simple_moe")
    x = g.input("x", (rows, dim), dtype)
    y = g.output("y", (rows, out), dtype)
    weights = [g.input(f"w{i}", (dim, out), dtype) for i in range(experts)]

    # route: [rows, 1] rows of x, to each expert [D_i, 1]
    xs = Flatten(LinearOffChipLoad(x, tile=(1, dim), name="x"), lo=1, hi=2)
    selector = Source(graph=g, shape=(rows,), selector=experts, name="selector")
    routed = Partition(xs, selector, rank=1, outputs=experts, name="route")

    results = []
    for i in range(experts):
        # pack to tiles: [D_i] -> [ceil(D_i / 4), 4] -> [ceil(D_i / 4)] of {4, dim}
        chunks = Reshape(Flatten(routed[i], lo=0, hi=1), dim=0, chunk=tile_rows, pad=0)[0]
        packed = Accum(chunks, fn=retile_row(), rank=1, name=f"pack{i}")
        # each packed tile meets every column tile of the weights: [ceil(D_i / 4), tiles]
        w = LinearOffChipLoad(
            weights[i],
            tile=(dim, out // tiles),
            shape=(1, tiles),
            stride=(tiles, 1),
            ref=packed,
            name=f"w{i}",
        )
        product = Map(
            Expand(packed, count=tiles), Flatten(w, lo=0, hi=1), fn=matmul(), name=f"product{i}"
        )
        # pack the column tiles, cut into rows, drop the padding: [D_i, 1] again
        wide = Accum(product, fn=retile_col(), rank=1, name=f"columns{i}")
        unpacked = FlatMap(wide, fn=retile_streamify("rows", mask=True), name=f"rows{i}")
        results.append(Reshape(unpacked, dim=0, chunk=1))

    # the selector runs ahead: rows wait in the experts until a tile is full
    gathered = Reassemble(results, Fifo(selector, depth=rows), rank=1, name="gather")
    gathered.stream.assert_shape((rows, 1, 1))  # one expert per row
    LinearOffChipStore(cast(gathered, dtype), y, name="y")
    return g


def streams(seed, rows=10, experts=2, **_):
    """One expert for each row."""
    return {"selector": np.random.default_rng([seed, 1]).integers(0, experts, rows)}


def inputs(seed, rows=10, dim=64, out=256, experts=2, **_):
    rng = np.random.default_rng(seed)
    tensors = {"x": rng.standard_normal((rows, dim))}
    return tensors | {f"w{i}": rng.standard_normal((dim, out)) * dim**-0.5 for i in range(experts)}


def reference(x, selector, **weights):
    """The layer in float64."""
    return {"y": np.stack([row @ weights[f"w{e}"] for row, e in zip(x, selector, strict=True)])}
