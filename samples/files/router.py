"""A mixture of experts whose router runs in the fabric: scores of each row, their softmax, the two
largest, and both experts' products, each times its weight, summed.

penstock run router.py --config small_fpga --on both
"""

import numpy as np
from penstock.frontend import (
    Accum,
    Flatten,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Partition,
    Reassemble,
    TopK,
    add,
    cast,
    div,
    exp,
    matmul,
    mul,
    row_max,
    row_sum,
    sub,
)


def program(rows=8, dim=8, out=8, experts=4, k=2, dtype="fp32"):
    g = Graph("router")
    x = g.input("x", (rows, dim), dtype)
    gate = g.input("gate", (dim, experts), dtype)
    weights = [g.input(f"w{i}", (dim, out), dtype) for i in range(experts)]
    y = g.output("y", (rows, out), dtype)

    # Softmax of the scores, and the k best experts of each row.
    scored = LinearOffChipLoad(x, tile=(1, dim), shape=(rows,), stride=(1,), name="scored")
    gates = LinearOffChipLoad(gate, tile=(dim, experts), shape=(rows,), stride=(0,), name="gates")
    scores = Map(scored, gates, fn=matmul(), name="scores")
    powers = Map(Map(scores, Map(scores, fn=row_max()), fn=sub()), fn=exp(), name="powers")
    chances = Map(powers, Map(powers, fn=row_sum()), fn=div(), name="chances")
    chosen, order, chance = TopK(chances, k=k, name="chosen")

    # Each row, and its weight, to each of its experts.
    data = LinearOffChipLoad(x, tile=(1, dim), shape=(rows,), stride=(1,), name="rows")
    routed = Partition(data, chosen, rank=0, outputs=experts, name="route")
    weighed = Partition(chance, order, rank=0, outputs=experts, name="weigh")
    products = []
    for i in range(experts):
        w = LinearOffChipLoad(
            weights[i], tile=(dim, out), shape=(1,), stride=(1,), ref=routed[i], name=f"w{i}"
        )
        product = Map(routed[i], Flatten(w, lo=0, hi=1), fn=matmul(), name=f"product{i}")
        weight = weighed[i].assert_shape(routed[i].shape)
        products.append(Map(product, weight, fn=mul(), name=f"times{i}"))

    both = Reassemble(products, chosen, rank=0, name="gather").stream.assert_shape((1, rows, k))
    total = Accum(both, fn=add(), rank=1, name="total")
    LinearOffChipStore(cast(total, dtype), y, name="store")
    return g


def reference(x, gate, params, **weights):
    scores = x @ gate
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    best = np.argsort(-chances, axis=1, kind="stable")[:, : params["k"]]
    rows = [sum(chances[r, e] * (x[r] @ weights[f"w{e}"]) for e in best[r]) for r in range(len(x))]
    return {"y": np.array(rows)}
