"""The sample `layer`: a small decoder layer over KV caches, as torch.export would write it.

``python tests/layers/small_layer.py`` writes the sample anew.
"""

from pathlib import Path

import numpy as np
from pt2 import Archive, symbol

FOLDER = Path(__file__).parents[2] / "samples" / "files" / "layer"
WIDTH, HEADS, GROUPS, EACH, INNER = 16, 4, 2, 4, 24
BATCH, ROWS = 3, 6


def decoder():
    """RMSNorm, attention over caches of any lengths, and a gated MLP, both with their residuals."""
    rng = np.random.default_rng(7)
    a, b, s = Archive(), symbol("s0"), symbol("s1")
    longer = f"Add({s}, Integer(1))"

    def weight(path, *shape):
        scale = 0.3 if len(shape) > 1 else 1
        return a.weight(f"{path}.weight", rng.normal(len(shape) == 1, scale, shape).astype("f4"))

    def linear(path, out, x, summands=WIDTH):
        w = weight(path, out, summands)
        return a.node("linear.default", b, 1, out, input=x, weight=w, module=path)

    def norm(path, x):
        w = weight(path, WIDTH)
        args = {"input": x, "normalized_shape": [WIDTH], "weight": w, "eps": 1e-6, "module": path}
        return a.node("rms_norm.default", b, 1, WIDTH, **args)

    def attention(operation, *shape, **args):
        return a.node(operation, *shape, **args, module="attention")

    def heads(path, count, x):
        flat = linear(path, count * EACH, x)
        view = attention("unflatten.int", b, 1, count, EACH, self=flat, dim=2, sizes=[count, EACH])
        return attention("transpose.int", b, count, 1, EACH, self=view, dim0=1, dim1=2)

    x = a.input("x", b, 1, WIDTH)
    lengths = a.input("lengths", b, dtype="int64")
    past = [a.input(f"past_{n}", b, GROUPS, s, EACH) for n in "kv"]
    a.ranges = {"s0": {"min_val": 1, "max_val": 64}, "s1": {"min_val": 1, "max_val": 512}}
    a.sizes["n"] = {"as_expr": {"expr_str": longer, "hint": None}}
    a.sizes["m"] = {"as_expr": {"expr_str": s, "hint": None}}

    n = norm("norm", x)
    q, k, v = heads("q_proj", HEADS, n), heads("k_proj", GROUPS, n), heads("v_proj", GROUPS, n)
    caches = [
        attention(
            "cat.default",
            *(b, GROUPS, longer, EACH),
            tensors=("tensors", [{"name": p}, {"name": new}]),
            dim=2,
        )
        for p, new in zip(past, (k, v), strict=True)
    ]
    end = ("sym_int", {"as_name": "n"})
    column = attention("arange.default", longer, dtype="int64", end=end)
    each = attention("unsqueeze.default", b, 1, dtype="int64", self=lengths, dim=1)
    old = attention("lt.Tensor", b, longer, dtype="bool", self=column, other=each)
    size = ("sym_int", {"as_name": "m"})
    last = attention("eq.Scalar", longer, dtype="bool", self=column, other=size)
    mask = attention("logical_or.default", b, longer, dtype="bool", self=old, other=last)
    for dim, shape in ((1, (b, 1, longer)), (1, (b, 1, 1, longer))):
        mask = attention("unsqueeze.default", *shape, dtype="bool", self=mask, dim=dim)
    attended = attention(
        "scaled_dot_product_attention.default",
        *(b, HEADS, 1, EACH),
        query=q,
        key=caches[0],
        value=caches[1],
        attn_mask=mask,
        enable_gqa=True,
    )
    turned = attention("transpose.int", b, 1, HEADS, EACH, self=attended, dim0=1, dim1=2)
    whole = attention("flatten.using_ints", b, 1, WIDTH, self=turned, start_dim=2)
    middle = attention("add.Tensor", b, 1, WIDTH, self=x, other=linear("o_proj", WIDTH, whole))

    n = norm("post_norm", middle)
    gate = a.node("silu.default", b, 1, INNER, self=linear("gate_proj", INNER, n))
    inner = a.node("mul.Tensor", b, 1, INNER, self=gate, other=linear("up_proj", INNER, n))
    down = linear("down_proj", WIDTH, inner, INNER)
    a.output(a.node("add.Tensor", b, 1, WIDTH, self=middle, other=down), *caches)
    return a


def arrays():
    """Inputs of the sample, and its results in float64."""
    from penstock.layers.interpret import evaluate
    from penstock.layers.reader import read

    rng = np.random.default_rng(8)
    given = {
        "x": rng.standard_normal((BATCH, 1, WIDTH), "f4"),
        "lengths": np.array([6, 2, 4]),
        "past_k": rng.standard_normal((BATCH, GROUPS, ROWS, EACH), "f4"),
        "past_v": rng.standard_normal((BATCH, GROUPS, ROWS, EACH), "f4"),
    }
    layer = read(FOLDER / "layer.pt2")
    found = evaluate(layer, given, wide=True)
    return given | {f"out{i}": found[o.name] for i, o in enumerate(layer.outputs)}


if __name__ == "__main__":
    decoder().write(FOLDER / "layer.pt2", compressed=("models/model.json",))
    np.savez_compressed(FOLDER / "layer.npz", **arrays())
