"""Archives of `torch.export`: the form that they are read into, its values in NumPy, and what is
refused with one message.
"""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import ml_dtypes
import pytest
from penstock.layers import interpret
from penstock.layers.reader import read
from penstock.machine.errors import PenstockError
from pt2 import Archive, symbol

RNG = np.random.default_rng(5)
BATCH = symbol("s1")


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def small():
    """An archive with one product: x [s1, 8] to silu(x w^T) [s1, 4]."""
    a = Archive()
    x = a.input("x", BATCH, 8)
    w = a.weight("mlp.weight", drawn(4, 8))
    y = a.node("linear.default", BATCH, 4, input=x, weight=w)
    a.output(a.node("silu.default", BATCH, 4, self=y))
    a.ranges = {"s1": {"min_val": 2, "max_val": 64}}
    return a


def values(archive, path, **inputs):
    layer = read(archive.write(path))
    found = interpret.evaluate(layer, inputs)
    return layer, [found[o.name] for o in layer.outputs]


def test_a_layer_is_read_with_sizes_modules_and_lines():
    archive = small()
    x = drawn(3, 8)
    layer, (y,) = values(archive, "net.pt2", x=x)
    (w,) = archive.weights.values()
    assert np.allclose(y, x @ w.T / (1 + np.exp(-(x @ w.T))), 1e-5)
    assert layer.symbols == {"s1": (2, 64)}
    linear, silu = layer.operations
    assert (linear.module, silu.line) == ("mlp", "net/net.py:1: y = f(x)")


@pytest.mark.parametrize(("rows", "where"), [(1, "from 2 to 64"), (65, "from 2 to 64")])
def test_inputs_are_within_the_ranges_of_sizes(rows, where):
    layer = read(small().write("net.pt2"))
    with pytest.raises(PenstockError, match=where):
        interpret.sizes_of(layer, {"x": drawn(rows, 8)})


def attention(a, mask, rows=BATCH):
    """Attention of one head [1, 1, rows, 4] on keys and values of as many rows, with a mask."""
    q, k, v = (a.input(n, 1, 1, rows, 4) for n in "qkv")
    name = "scaled_dot_product_attention.default"
    a.output(a.node(name, 1, 1, rows, 4, query=q, key=k, value=v, attn_mask=mask))
    return next(op for op in read(a.write("net.pt2")).operations if op.op == "attention")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("window", [None, 40])
def test_a_causal_mask_is_recognised_and_a_window_is_not(window):
    a = Archive()
    steps = a.node("arange.default", BATCH, dtype="int64", end=("sym_int", {"as_name": "n"}))
    column = a.node("unsqueeze.default", 1, BATCH, dtype="int64", self=steps, dim=0)
    row = a.node("unsqueeze.default", BATCH, 1, dtype="int64", self=steps, dim=1)
    mask = a.node("le.Tensor", BATCH, BATCH, dtype="bool", self=column, other=row)
    if window:
        since = a.node("sub.Tensor", BATCH, 1, dtype="int64", self=row, other=window)
        near = a.node("gt.Tensor", BATCH, BATCH, dtype="bool", self=column, other=since)
        mask = a.node("__and__.Tensor", BATCH, BATCH, dtype="bool", self=mask, other=near)
    a.sizes = {"n": {"as_expr": {"expr_str": BATCH}}}
    a.ranges = {"s1": {"min_val": 2, "max_val": None}}
    found = attention(a, mask)
    assert found.args["causal"] is (window is None)
    assert (found.args["mask"] is None) is (window is None)


def test_a_mask_that_is_causal_for_all_but_one_number_is_not_causal():
    a = Archive()
    flag = a.input("flag", 1, dtype="int64")
    steps = a.node("arange.default", BATCH, dtype="int64", end=("sym_int", {"as_name": "n"}))
    row = a.node("unsqueeze.default", BATCH, 1, dtype="int64", self=steps, dim=1)
    mask = a.node("le.Tensor", BATCH, BATCH, dtype="bool", self=steps, other=row)
    all_ = a.node("eq.Scalar", 1, dtype="bool", self=flag, other=7)
    mask = a.node("__or__.Tensor", BATCH, BATCH, dtype="bool", self=mask, other=all_)
    a.sizes = {"n": {"as_expr": {"expr_str": BATCH}}}
    a.ranges = {"s1": {"min_val": 2, "max_val": None}}
    assert attention(a, mask).args["causal"] is False


@pytest.mark.parametrize(("most", "counted"), [(None, "n"), (4, "v0_0")])
def test_a_count_of_columns_that_is_bounded_is_the_bounded_one(most, counted):
    """A cache [2, 1, s1, 4] has a new row for each head."""
    a = Archive()
    new, cache = a.input("x", 2, 1, 1, 4), a.input("past", 2, 1, BATCH, 4)
    n = a.input("n", 2, dtype="int64")
    n = a.node("clamp.default", 2, dtype="int64", self=n, max=most) if most else n
    rows = f"Add({BATCH}, Integer(1))"
    keys = a.node(
        "cat.default", 2, 1, rows, 4, tensors=("tensors", [{"name": cache}, {"name": new}]), dim=2
    )
    steps = a.node("arange.default", rows, dtype="int64", end=("sym_int", {"as_name": "n"}))
    column = a.node("unsqueeze.default", 2, 1, dtype="int64", self=n, dim=1)
    mask = a.node("lt.Tensor", 2, rows, dtype="bool", self=steps, other=column)
    mask = a.node("view.default", 2, 1, 1, rows, dtype="bool", self=mask, size=[])
    a.sizes = {"n": {"as_expr": {"expr_str": rows}}}
    a.ranges = {"s1": {"min_val": 2, "max_val": None}}
    name = "scaled_dot_product_attention.default"
    a.output(a.node(name, 2, 1, 1, 4, query=new, key=keys, value=keys, attn_mask=mask), keys)
    found = next(op for op in read(a.write("net.pt2")).operations if op.op == "attention")
    assert found.args["lengths"].name == counted


def test_in_place_on_a_slice_changes_what_it_is_a_slice_of():
    a = Archive()
    x = a.input("x", 4, 8)
    y = a.node("mul.Tensor", 4, 8, self=x, other=2.0)
    part = a.node("slice.Tensor", 2, 8, self=y, dim=0, start=1, end=3)
    a.node("fill_.Scalar", 2, 8, self=part, value=1.0)
    a.output(a.node("exp.default", 4, 8, self=y))
    with pytest.raises(PenstockError, match=r"slice_update.* on values that only the run knows"):
        read(a.write("net.pt2"))


def test_in_place_is_functional():
    a = Archive()
    x = a.input("x", 4, 8)
    y = a.node("mul.Tensor", 4, 8, self=x, other=2.0)
    a.node("add_.Tensor", 4, 8, self=y, other=x)
    a.output(a.node("exp.default", 4, 8, self=y))
    given = drawn(4, 8)
    assert np.allclose(values(a, "net.pt2", x=given)[1][0], np.exp(3 * given), 1e-5)


def test_an_old_value_read_after_a_change_in_place_is_refused():
    a = Archive()
    x = a.input("x", 4, 8)
    y = a.node("mul.Tensor", 4, 8, self=x, other=2.0)
    view = a.node("view.default", 32, self=y, size=[32])
    a.node("add_.Tensor", 4, 8, self=y, other=x)
    a.output(a.node("exp.default", 32, self=view))
    with pytest.raises(PenstockError, match=r"net/net.py:3.*'v1_0' is read after .*net.py:2"):
        read(a.write("net.pt2"))


@pytest.mark.parametrize("kind", ["view", "base", "copy", "buffer"])
def test_a_result_that_shares_memory_changed_in_place_is_refused(kind):
    a = Archive()
    x = a.input("x", 4, 8)
    y = a.node("mul.Tensor", 4, 8, self=x, other=2.0)
    turned = a.node("t.default", 8, 4, self=y)
    if kind == "copy":  # of what is transposed, and else a view
        turned = a.node("reshape.default", 32, self=turned, shape=[32])
    if kind == "buffer":
        y = a.weight("kept", drawn(4, 8))
    changed = {"base": turned, "copy": turned}.get(kind, y)
    shape = {"base": (8, 4), "copy": (32,)}.get(kind, (4, 8))
    a.node("add_.Scalar", *shape, self=changed, other=1.0)
    a.output({"view": turned, "buffer": x}.get(kind, y))
    with pytest.raises(PenstockError, match=r"is read after net/net.py|writes 'kept' in place"):
        read(a.write("net.pt2"))


@pytest.mark.parametrize(
    ("target", "dtype", "more", "meaning"),
    [
        ("logical_and.default", "bool", {}, np.logical_and),
        ("logical_xor.default", "bool", {}, np.logical_xor),
        ("bitwise_xor.Tensor", "int64", {}, np.bitwise_xor),
        (
            "div.Tensor_mode",
            "int64",
            {"rounding_mode": ("string", "trunc")},
            lambda x, y: -1 * (x < -2),
        ),
    ],
)
def test_operations_on_integers(target, dtype, more, meaning):
    a = Archive()
    x, y = a.input("x", 6, dtype="int64"), a.input("y", 6, dtype="int64")
    a.output(a.node(target, 6, dtype=dtype, self=x, other=y, **more))
    given = {"x": np.array([-5, -2, -1, 0, 1, 2]), "y": np.array([3, 3, 3, 3, 3, 3])}
    assert (values(a, "net.pt2", **given)[1][0] == meaning(*given.values())).all()


def test_log_softmax_does_not_underflow():
    a = Archive()
    a.output(a.node("log_softmax.int", 1, 2, self=a.input("x", 1, 2), dim=-1))
    (found,) = values(a, "net.pt2", x=np.array([[0, 300]], "f4"))[1]
    assert (found == [[-300, 0]]).all()


@pytest.mark.parametrize(
    ("target", "arguments", "what"),
    [
        ("round.decimals", {"decimals": 1}, "'decimals', which is not read"),
        ("pad.default", {"pad": [0, 0], "mode": ("string", "reflect")}, "pads by 'reflect'"),
        ("gelu.default", {"approximate": ("sym_bool", {"as_name": "b"})}, "kind 'as_sym_bool'"),
    ],
)
def test_arguments_that_no_rule_reads_are_refused(target, arguments, what):
    a = Archive()
    a.output(a.node(target, 4, 8, self=a.input("x", 4, 8), **arguments))
    with pytest.raises(PenstockError, match=what):
        read(a.write("net.pt2"))


def experts(wrong=""):
    """An archive with 4 experts, two for each row, whose weights are gathered for each row."""
    a = Archive()
    x = a.input("x", 6, 8)
    router, up, down = (
        a.weight(n, drawn(*s)) for n, s in (("r", (4, 8)), ("u", (4, 16, 8)), ("d", (4, 8, 16)))
    )
    scores = a.node("linear.default", 6, 4, input=x, weight=router)
    best, index = a.node("topk.default", 6, 2, self=scores, k=2, outs=2, dtype=("float32", "int64"))
    ids = a.node("reshape.default", 12, dtype="int64", self=index, shape=[-1])
    if wrong == "experts":
        ids = a.node("rsub.Scalar", 12, dtype="int64", self=ids, other=3)
    share = a.node("softmax.int", 6, 2, self=best, dim=-1)
    rows = a.node("repeat_interleave.self_int", 12, 8, self=x, repeats=2, dim=0)
    inner = a.node("unsqueeze.default", 12, 8, 1, self=rows, dim=2)
    for w, n in ((up, 16), (down, 8)):
        chosen = a.node("index.Tensor", 12, n, 24 - n, self=w, indices=[ids])
        inner = a.node("bmm.default", 12, n, 1, self=chosen, mat2=inner)
        inner = a.node("relu.default", 12, n, 1, self=inner)
    flat = a.node("reshape.default", 12, 8, self=inner, shape=[12, 8])
    each = a.node("reshape.default", 12, 1, self=share, shape=[12, 1])
    if wrong == "weights":
        each = a.node("flip.default", 12, 1, self=each, dims=[0])
    weighted = a.node("mul.Tensor", 12, 8, self=flat, other=each)
    pairs = a.node("view.default", 6, 2, 8, self=weighted, size=[6, 2, 8])
    a.output(a.node("sum.dim_IntList", 6, 8, self=pairs, dim=[1]))
    return a


def router(a):
    """Rows [6, 8], and the two experts of four that each chooses, with their shares."""
    x = a.input("x", 6, 8)
    w = a.weight("r", drawn(4, 8))
    scores = a.node("linear.default", 6, 4, input=x, weight=w)
    best, index = a.node("topk.default", 6, 2, self=scores, k=2, outs=2, dtype=("float32", "int64"))
    share = a.node("softmax.int", 6, 2, self=best, dim=-1)
    up = [a.weight(f"u{e}", drawn(16, 8)) for e in range(4)]
    down = [a.weight(f"d{e}", drawn(8, 16)) for e in range(4)]
    return x, index, share, list(zip(up, down, strict=True))


def one(a, rows, x, weights):
    """An expert on rows."""
    for w, n in zip(weights, (16, 8), strict=True):
        x = a.node("linear.default", rows, n, input=x, weight=w)
        x = a.node("relu.default", rows, n, self=x)
    return x


def loop(order=(2, 0, 3, 1)):
    """The same in a loop that gathers each expert's rows, in an order of its own."""
    a = Archive()
    x, index, share, weights = router(a)
    y = a.node("zeros_like.default", 6, 8, self=x)
    for e in order:
        u = symbol(f"u{e}")
        mine = a.node("eq.Scalar", 6, 2, dtype="bool", self=index, other=e)
        row, slot = a.node("where.default", u, dtype="int64", outs=2, condition=mine)
        made = one(a, u, a.node("index.Tensor", u, 8, self=x, indices=[row]), weights[e])
        mine = a.node("index.Tensor", u, self=share, indices=[row, slot])
        mine = a.node("unsqueeze.default", u, 1, self=mine, dim=1)
        made = a.node("mul.Tensor", u, 8, self=made, other=mine)
        y = a.node("index_add_.default", 6, 8, self=y, dim=0, index=row, source=made)
    a.output(y)
    return a


def dense():
    """The same with all experts on all rows, and shares that are 0 where one is not chosen."""
    a = Archive()
    x, index, share, weights = router(a)
    y = a.node("zeros_like.default", 6, 8, self=x)
    for e in range(4):
        mine = a.node("eq.Scalar", 6, 2, dtype="bool", self=index, other=e)
        mine = a.node("mul.Tensor", 6, 2, self=share, other=mine)
        mine = a.node("sum.dim_IntList", 6, 1, self=mine, dim=[1], keepdim=True)
        made = a.node("mul.Tensor", 6, 8, self=one(a, 6, x, weights[e]), other=mine)
        y = a.node("add.Tensor", 6, 8, self=y, other=made)
    a.output(y)
    return a


def test_one_expert_for_each_row_needs_no_repetition():
    a = Archive()
    x = a.input("x", 6, 8)
    scores = a.node("linear.default", 6, 4, input=x, weight=a.weight("r", drawn(4, 8)))
    best, index = a.node("topk.default", 6, 1, self=scores, k=1, outs=2, dtype=("float32", "int64"))
    ids = a.node("view.default", 6, dtype="int64", self=index, size=[6])
    chosen = a.node("index.Tensor", 6, 8, 8, self=a.weight("w", drawn(4, 8, 8)), indices=[ids])
    inner = a.node("unsqueeze.default", 6, 8, 1, self=x, dim=2)
    made = a.node("bmm.default", 6, 8, 1, self=chosen, mat2=inner)
    made = a.node("squeeze.dim", 6, 8, self=made, dim=2)
    made = a.node("mul.Tensor", 6, 8, self=made, other=best)
    pairs = a.node("view.default", 6, 1, 8, self=made, size=[6, 1, 8])
    a.output(a.node("sum.dim_IntList", 6, 8, self=pairs, dim=[1]))
    given = drawn(6, 8)
    layer, (y,) = values(a, "net.pt2", x=given)
    assert [op.op for op in layer.operations] == ["linear", "topk", "experts"]
    r, w = a.weights.values()
    scores = given @ r.T
    made = np.einsum("tij,tj->ti", w[scores.argmax(1)], given)
    assert np.allclose(y, made * scores.max(1)[:, None], 1e-4, 1e-5)


@pytest.mark.parametrize("form", [experts, loop, dense])
def test_experts_are_one_operation(form):
    archive, x = form(), drawn(6, 8)
    layer, (y,) = values(archive, "net.pt2", x=x)
    assert [op.op for op in layer.operations] == ["linear", "topk", "softmax", "experts"]
    r, *stored = archive.weights.values()
    u, d = stored if len(stored) == 2 else (stored[:4], stored[4:])
    scores = x @ r.T
    for row, got, s in zip(x, y, scores, strict=True):
        chosen = np.argsort(-s)[:2]
        share = np.exp(s[chosen]) / np.exp(s[chosen]).sum()
        made = [np.maximum(d[e] @ np.maximum(u[e] @ row, 0), 0) for e in chosen]
        assert np.allclose(got, share @ made, 1e-4, 1e-5)


def test_a_loop_that_leaves_an_expert_out_is_refused():
    with pytest.raises(PenstockError, match=r"net/net.py:\d+"):
        read(loop(order=(0, 1, 1, 3)).write("net.pt2"))


def test_a_choice_of_all_groups_is_no_choice():
    a = Archive()
    x = a.input("x", 6, 3)
    _, index = a.node("topk.default", 6, 3, self=x, k=3, outs=2, dtype=("float32", "int64"))
    none = a.node("zeros_like.default", 6, 3, self=x)
    mask = a.node("scatter.value", 6, 3, self=none, dim=1, index=index, value=1.0)
    open_ = a.node("to.dtype", 6, 3, dtype="bool", self=mask)
    shut = a.node("bitwise_not.default", 6, 3, dtype="bool", self=open_)
    grown = a.node("exp.default", 6, 3, self=x)
    a.output(a.node("masked_fill.Scalar", 6, 3, self=grown, mask=shut, value=0.0))
    a.output(a.node("gather.default", 6, 3, self=x, dim=1, index=index))
    given = drawn(6, 3)
    layer, (y, z) = values(a, "net.pt2", x=given)
    assert [op.op for op in layer.operations] == ["topk", "exp"]
    assert np.allclose(y, np.exp(given), 1e-5)
    assert (z == -np.sort(-given)).all()


def test_the_bits_of_an_integer_turned_are_no_truth_turned():
    """All bits of 1 but the last are set, so what is selected is x."""
    a = Archive()
    x = a.input("x", 6, 3)
    one = a.node("full.default", 6, 3, dtype="int64", size=[6, 3], fill_value=1)
    bits = a.node("bitwise_not.default", 6, 3, dtype="int64", self=one)
    true = a.node("to.dtype", 6, 3, dtype="bool", self=bits)
    a.output(
        a.node(
            "where.self", 6, 3, condition=true, self=x, other=a.node("exp.default", 6, 3, self=x)
        )
    )
    given = drawn(6, 3)
    assert (values(a, "net.pt2", x=given)[1][0] == given).all()


def test_parts_that_are_written_are_joined():
    a = Archive()
    x = a.input("x", 4, 8)
    y = a.node("new_empty.default", 4, 8, self=x)
    for k in range(2):
        part = a.node("slice.Tensor", 4, 4, self=y, dim=1, start=4 * k, end=4 * k + 4)
        other = a.node("slice.Tensor", 4, 4, self=x, dim=1, start=4 - 4 * k, end=8 - 4 * k)
        a.node("copy_.default", 4, 4, self=part, src=other)
    a.output(a.node("exp.default", 4, 8, self=y))
    given = drawn(4, 8)
    layer, (y,) = values(a, "net.pt2", x=given)
    assert "cat" in [op.op for op in layer.operations]
    assert np.allclose(y, np.exp(np.roll(given, 4, 1)), 1e-5)


def test_packed_columns_are_cut_before_they_are_arranged():
    """Queries, keys and values [2, 3, 5, 4] of one product [2, 5, 36], by heads of 4 columns."""
    a = Archive()
    x = a.input("x", 2, 5, 8)
    w, b = a.weight("qkv.weight", drawn(36, 8)), a.weight("qkv.bias", drawn(36))
    packed = a.node("linear.default", 2, 5, 36, input=x, weight=w, bias=b)
    packed = a.node("view.default", 2, 5, 3, 3, 4, self=packed, size=[2, 5, 3, 3, 4])
    packed = a.node("permute.default", 3, 2, 3, 5, 4, self=packed, dims=[2, 0, 3, 1, 4])
    a.output(*a.node("unbind.int", 2, 3, 5, 4, outs=3, self=packed))
    given = drawn(2, 5, 8)
    layer, found = values(a, "net.pt2", x=given)
    makers = [layer.makers[o.name] for o in layer.outputs]
    assert [m.args["dims"] for m in makers] == [(0, 2, 1, 3)] * 3
    expected = (given @ a.weights["qkv.weight"].T + a.weights["qkv.bias"]).reshape(2, 5, 3, 3, 4)
    for part, want in zip(found, expected.transpose(2, 0, 3, 1, 4), strict=True):
        assert np.allclose(part, want, 1e-4, 1e-5)


def test_a_graph_within_is_put_in_its_place():
    """A region without gradients; its values have names that the graph has, too."""
    a = small()
    first, second = a.nodes
    inner = {
        "inputs": [{"as_tensor": {"name": "v0_0"}}],
        "outputs": [{"as_tensor": {"name": "x"}}],
        "tensor_values": {n: a.tensors[m] for n, m in (("v0_0", "v0_0"), ("x", "v1_0"))},
        "nodes": [second | {"outputs": [{"as_tensor": {"name": "x"}}]}],
    }
    arguments = [{"as_bool": False}, {"as_graph": {"name": "submod_1", "graph": inner}}]
    arguments.append({"as_tensor": {"name": "v0_0"}})
    target = "torch.ops.higher_order.wrap_with_set_grad_enabled"
    inputs = [{"name": "", "arg": x} for x in arguments]
    a.nodes = [first, second | {"target": target, "inputs": inputs}]
    assert [op.op for op in read(a.write("net.pt2")).operations] == ["linear", "silu"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("experts", "is not the weighted sum"), ("weights", "it is no choice of experts")],
)
def test_experts_that_are_not_the_weighted_sum_are_refused(wrong, message):
    with pytest.raises(PenstockError, match=rf"net/net.py:\d+: y = f.*{message}"):
        read(experts(wrong).write("net.pt2"))


@pytest.mark.parametrize("kind", ["rows of an input", "the largest element"])
def test_a_gather_of_weights_that_is_no_choice_is_refused(kind):
    a = Archive()
    table = a.weight("t", drawn(8, 3))
    at = a.input("x", 6, dtype="int64")
    if kind == "the largest element":
        at = a.node("argmax.default", 6, dtype="int64", self=a.input("y", 6, 8), dim=1)
    a.output(a.node("embedding.default", 6, 3, weight=table, indices=at))
    with pytest.raises(PenstockError, match=r"net/net.py:\d.*weights are gathered"):
        read(a.write("net.pt2"))


def broken(change):
    """An archive of a small layer with its entries changed."""
    entries = small().entries()
    change(entries)
    with zipfile.ZipFile("net.pt2", "w") as z:
        for name, data in entries.items():
            z.writestr(name if name.startswith(("/", "..")) else f"net/{name}", data)
    return "net.pt2"


def model(change):
    """The same with the model's JSON changed."""

    def edit(entries):
        found = json.loads(entries["models/model.json"])
        change(found)
        entries["models/model.json"] = json.dumps(found).encode()

    return broken(edit)


def pickle(e):
    e["data/weights/weight_0"] = b"PK\3\4" + bytes(200)


def use_pickle(e):
    name = "data/weights/model_weights_config.json"
    e[name] = e[name].replace(b'"use_pickle": false', b'"use_pickle": true')


EVIL = "__import__('os').system('touch evil')"


def size(text):
    def change(m):
        tensors = m["graph_module"]["graph"]["tensor_values"]
        tensors["x"]["sizes"][0] = (
            text if isinstance(text, dict) else {"as_expr": {"expr_str": text}}
        )

    return change


def test_bad_entries_are_refused():
    wrong = {
        "is a pickle": pickle,
        "stored as a pickle": use_pickle,
        "goes beyond its": lambda e: e.update({"data/weights/weight_0": b"12"}),
        "no entry 'byteorder'": lambda e: e.pop("byteorder"),
        "byte order 'big'": lambda e: e.update(byteorder=b"big"),
        "outside of it": lambda e: e.update({"../evil": b""}),
        "entry outside": lambda e: e.update({"/etc/evil": b""}),
        "holds 2 models": lambda e: e.update({"models/other.json": b"{}"}),
        "not valid JSON": lambda e: e.update({"models/model.json": b"{"}),
    }
    for message, change in wrong.items():
        with pytest.raises(PenstockError, match=message):
            read(broken(change))


def test_bad_models_are_refused_and_nothing_is_executed():
    def nodes(m):
        return m["graph_module"]["graph"]["nodes"]

    wrong = {
        "has schema 9, not 8": lambda m: m["schema_version"].update(major=9),
        "operation aten.fft_rfft.default": lambda m: nodes(m)[1].update(
            target="torch.ops.aten.fft_rfft.default"
        ),
        "mixes types": lambda m: m["graph_module"]["graph"]["tensor_values"]["x"].update(dtype=8),
        "cannot read the size": size(EVIL),
        "cannot read .*Symbol": size("Symbol('s1').func"),
        "cannot read the": size("Add(" * 400 + "1" + ")" * 400),
        "at most 4096 characters": size("1+" * 3000 + "1"),
        "out of range": size({"as_int": 1 << 50}),
        "range from 0 on": lambda m: m.update(range_constraints={"s1": {"min_val": -3}}),
        "not as the schema says": lambda m: m["graph_module"].pop("signature"),
        "no weight 'mlp.bias'": lambda m: m["graph_module"]["signature"]["input_specs"][1][
            "parameter"
        ].update(parameter_name="mlp.bias"),
    }
    for message, change in wrong.items():
        with pytest.raises(PenstockError, match=message):
            read(model(change))
    assert not Path("evil").exists()


def test_guards_are_read_and_never_evaluated():
    layer = read(model(lambda m: m.update(guards_code=[EVIL, f"L['x'].size()[0] == {EVIL}"])))
    assert layer.symbols == {"s1": (2, 64)}
    assert not Path("evil").exists()


def test_a_cut_archive_and_a_zip_bomb_are_refused():
    data = small().write("net.pt2") and Path("net.pt2").read_bytes()
    Path("net.pt2").write_bytes(data[: len(data) // 2])
    with pytest.raises(PenstockError, match="no whole archive"):
        read("net.pt2")
    with zipfile.ZipFile("arrays.npz", "w") as z:
        z.writestr("x.npy", b"1")
    with pytest.raises(PenstockError, match=r"it is not from torch\.export"):
        read("arrays.npz")
    with pytest.raises(PenstockError, match=r"is a folder; give the \.pt2 file"):
        read(".")
    bomb = small()
    bomb.extra["models/model.json"] = bytes(50_000_000)
    with pytest.raises(PenstockError, match="50,000,000 bytes unpacked"):
        read(bomb.write("net.pt2", compressed={"models/model.json"}))
    packed = small().write("net.pt2", compressed={"data/weights/weight_0"})
    with pytest.raises(PenstockError, match="compressed"):
        read(packed)


MODELS = {
    "llama_decode": ["append", "attention"],
    "llama_prefill": ["attention"],
    "llama_prefill_bf16": ["attention"],
    "mixtral_prefill": ["attention", "experts"],
    "qwen2_bias_decode": ["append", "attention"],
    "qwen3_moe_decode": ["append", "attention", "experts"],
    "routed_experts": ["experts"],
}


@pytest.mark.data
@pytest.mark.parametrize("name", MODELS)
def test_layers_of_transformers(name):
    path = Path(os.environ["PENSTOCK_DATA"], "models", f"{name}.pt2")
    layer = read(path)
    assert {"append", "attention", "experts"} & {op.op for op in layer.operations} == {
        *MODELS[name]
    }
    with np.load(path.with_suffix(".npz")) as stored:
        inputs = {
            v.name: stored[v.name].astype(ml_dtypes.bfloat16 if v.dtype == "bfloat16" else v.dtype)
            for v in layer.inputs
        }
        found = interpret.evaluate(layer, inputs)
        for i, o in enumerate(layer.outputs):
            expected = stored[f"out{i}"]
            error = np.abs(found[o.name].astype(float) - expected).max() / np.abs(expected).max()
            assert error <= (2e-2 if "bf16" in name else 1e-5)
