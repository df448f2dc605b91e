"""A mixture of experts over as many rows as the run brings: each goes to 2 of 4 experts, and its
two products are summed.

penstock run top2.py --config small_fpga --on both
"""

import numpy as np
from penstock.frontend import (
    Accum,
    Flatten,
    Graph,
    LinearOffChipLoad,
    Map,
    Partition,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    Sink,
    Source,
    add,
    cast,
    matmul,
)


def program(most=12, dim=8, out=8, experts=4, dtype="fp32"):
    g = Graph("top2")
    x = g.input("x", (most, dim), dtype)
    y = g.output("y", (most, out), dtype)
    weights = [g.input(f"w{i}", (dim, out), dtype) for i in range(experts)]

    n = g.dynamic("N", most=most)  # known only at run time
    row = Source(
        graph=g, shape=(n,), scalar=32, name="row"
    )  # which rows, and where their results go
    chosen = Source(graph=g, shape=(n,), selector=experts, name="chosen")
    routed = Partition(
        RandomOffChipLoad(row, tensor=x, tile=(1, dim)),
        chosen,
        rank=0,
        outputs=experts,
        name="route",
    )

    products = []
    for i in range(experts):  # expert i gets [route_i] rows, and loads its weights for each
        w = LinearOffChipLoad(
            weights[i], tile=(dim, out), shape=(1,), stride=(1,), ref=routed[i], name=f"w{i}"
        )
        products.append(Map(routed[i], Flatten(w, lo=0, hi=1), fn=matmul(), name=f"product{i}"))

    both = Reassemble(products, chosen, rank=0, name="gather").stream.assert_shape((n, 2))
    total = Accum(both, fn=add(), rank=1, name="total")  # [N, 2] -> [N]
    Sink(RandomOffChipStore(row, cast(total, dtype), tensor=y), name="stored")
    return g


def streams(seed, most=12, experts=4, **_):
    rng = np.random.default_rng([seed, 1])
    rows = rng.permutation(most)[: rng.integers(1, most + 1)]
    return {"row": rows, "chosen": [rng.choice(experts, 2, replace=False) for _ in rows]}


def reference(x, row, chosen, params, **weights):
    y = np.zeros((params["most"], params["out"]))
    for r, experts in zip(row, chosen, strict=True):
        y[r] = sum(x[r] @ weights[f"w{e}"] for e in experts)
    return {"y": y}
