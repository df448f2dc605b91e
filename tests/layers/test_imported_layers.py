"""Programs of layers that torch.export has written: imported, scheduled, run on arrays."""

import os
import re
import shutil
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import penstock
import pytest
import small_layer
from penstock.cli import main
from penstock.runs import api
from pt2 import Archive

ARCHIVES = (
    "llama_decode",
    "llama_prefill",
    "llama_prefill_bf16",
    "qwen2_bias_decode",
    "routed_experts",
    "mixtral_prefill",
    "qwen3_moe_decode",
)
ROUTER = """
from penstock.frontend import Flatten, Graph, LinearOffChipLoad, Partition, Sink, TopK

def program():
    g = Graph("router")
    x = LinearOffChipLoad(g.input("x", (4, 8), "fp32"), tile=(1, 8), shape=(4,), stride=(1,))
    rows = Flatten(x, lo=0, hi=1)
    chosen, order, value = TopK(rows, k=2, name="chosen")
    parts = Partition(rows, chosen, rank=0, outputs=8)
    for s in (*(parts[i] for i in range(8)), order, value):
        Sink(s)
    return g
"""
OWN = np.array([0.5, -1, 2, 0], "f4")
FP32 = ("--config", "small_fpga", "--dtype", "fp32", "--quiet")


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """The sample's program in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_layer.FOLDER, "layer")
    assert main(["import", "layer/layer.pt2", "--out", "decoder"]) == 0
    return tmp_path


def run(*args, npz="layer/layer.npz", program="decoder.py", machine=FP32):
    return main(["run", program, "--inputs", npz, "--expect", npz, *machine, *args])


def refused(capsys, *args, **options):
    capsys.readouterr()
    assert run(*args, **options) == 1
    return capsys.readouterr().err


def schedule(setting, value, module=None):
    """Change a setting of the schedule."""
    text = Path("decoder.toml").read_text()
    head, found, tail = text.partition(f'["{module}"]') if module else ("", "", text)
    tail = re.sub(rf"^{setting} = \d+", f"{setting} = {value}", tail, count=1, flags=re.M)
    Path("decoder.toml").write_text(head + found + tail)


def changed(**arrays):
    """The sample's arrays with some changed, or left out where they are None."""
    found = dict(np.load("layer/layer.npz")) | arrays
    np.savez("changed.npz", **{n: a for n, a in found.items() if a is not None})
    return "changed.npz"


def test_the_sample_is_what_its_script_writes():
    with zipfile.ZipFile(small_layer.FOLDER / "layer.pt2") as z:
        found = {n.partition("/")[2]: z.read(n) for n in z.namelist()}
    assert found == small_layer.decoder().entries()
    stored = np.load(small_layer.FOLDER / "layer.npz")
    for name, array in small_layer.arrays().items():
        np.testing.assert_allclose(stored[name], array, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_layer_is_right_in_each_dtype(sample, dtype):
    assert run(machine=("--config", "small_fpga", "--dtype", dtype, "--quiet")) == 0


def test_a_wrong_result_is_found(sample, capsys):
    wrong = np.load("layer/layer.npz")["out1"].copy()
    wrong[2, 1, 6, 3] += 1e-3  # of the row that is appended
    assert "tensor past_k" in refused(capsys, npz=changed(out1=wrong))


def test_a_layer_runs_at_other_sizes_on_drawn_inputs(sample):
    sizes = {"batch": 5, "past_k_2": 40, "dtype": "fp32"}
    (record,) = api.run("decoder.py", "fig8", sizes, seed=3, tolerance=1e-5)
    assert record.values_ok


@pytest.mark.parametrize(
    ("setting", "value", "module"),
    [
        ("rows", 1, None),
        ("kv_tile", 4, None),
        ("columns", 4, "down_proj"),
        ("inner", 8, "down_proj"),
    ],
)
def test_a_schedule_changes_cycles_and_not_values(sample, capsys, setting, value, module):
    cycles = []
    for _ in range(2):
        capsys.readouterr()
        assert run() == 0
        cycles += re.findall(r"cycles +(\d+)\n", capsys.readouterr().out)
        schedule(setting, value, module)
    assert len(set(cycles)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rowz = 1", "decoder.toml: unknown key 'rowz'"),
        ('["q_proj"]\ncolumn = 1', "decoder.toml: q_proj: unknown key 'column'"),
        ("rows = -1", "must be an integer of at least 0"),
        ("kv_tile = 0", "must be an integer of at least 1"),
        ("rows = 2", "tiles of 2 rows do not divide the 3 rows of x"),
        ('["q_porj"]\ncolumns = 2', "no module 'q_porj'; did you mean 'q_proj'"),
        ('["q_proj"]\ncolumns = 3', "tiles of 3 do not divide the 16 of q_proj"),
        ('["q_proj"]\nregions = 2', "decoder.toml: q_proj: regions is for experts"),
        ("rows", "is no TOML"),
        ('["norm"]\ncolumns = 8', "norm: columns is for products; leave it out"),
    ],
)
def test_a_wrong_schedule_is_refused(sample, capsys, text, message):
    Path("decoder.toml").write_text(text)
    assert message in refused(capsys)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"past_v": None}, "has no array 'past_v'"),
        ({"out2": None}, "has no array 'out2'"),
        ({"extra": np.zeros(1)}, "has an array 'extra'"),
        ({"x": np.zeros((3, 16), "f4")}, "'x' has shape [3, 16], not [3, 1, 16]"),
        ({"lengths": np.ones(2, int)}, "'lengths' has shape [2], not [3]"),
        ({"lengths": np.ones(3)}, "'lengths' has type float64, not int64"),
        ({"lengths": np.ones(3, bool)}, "'lengths' has type bool, not int64"),
        ({"out0": np.zeros((3, 16))}, "'out0' has shape [3, 16], not [3, 1, 16]"),
    ],
)
def test_wrong_arrays_are_refused_by_name(sample, capsys, arrays, message):
    assert message in refused(capsys, npz=changed(**arrays))


def test_a_file_of_no_arrays_is_refused(sample, capsys):
    Path("text.npz").write_text("text")
    shown = refused(capsys, npz="text.npz")
    assert "text.npz: cannot be read: it is no array of NumPy; give an .npz file of arrays" in shown


def test_a_size_out_of_its_range_is_refused(sample, capsys):
    many = {
        "x": np.zeros((65, 1, 16), "f4"),
        "lengths": np.ones(65, int),
        "past_k": np.zeros((65, 2, 6, 4), "f4"),
        "past_v": np.zeros((65, 2, 6, 4), "f4"),
    }
    assert "from 1 to 64, not 65" in refused(capsys, npz=changed(**many))
    assert main(["run", "decoder.py", "--set", "batch=65", "--quiet"]) == 1
    assert "batch is 65 (rule: the layer allows from 1 to 64)" in capsys.readouterr().err


def test_options_that_contradict_each_other_are_refused(sample, capsys):
    assert "batch=2 is not the 3 of layer/layer.npz" in refused(capsys, "--set", "batch=2")
    assert "--expect: is for runs with values" in refused(capsys, "--no-values")


def test_an_archive_that_has_changed_is_refused(sample, capsys):
    other = small_layer.decoder()
    other.weights["q_proj.weight"] = other.weights["q_proj.weight"] + 1
    other.write("layer/layer.pt2")
    assert "is not the archive that was imported" in refused(capsys)
    Path("layer/layer.pt2").unlink()
    assert "layer.pt2: is not there, and has the weights" in refused(capsys)


def test_an_import_again_keeps_the_schedule(sample, capsys):
    schedule("kv_tile", 4)
    for said in ("; kept decoder.toml", " and decoder.toml"):
        assert main(["import", "layer/layer.pt2", "--out", "decoder"]) == 0
        assert f"wrote decoder.py{said}" in capsys.readouterr().out
        assert ("kv_tile = 4" in Path("decoder.toml").read_text()) == ("kept" in said)
        Path("decoder.toml").unlink()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("layer/layer.pt2", "`penstock import layer/layer.pt2 --out LAYER` writes LAYER.py"),
        ("decoder", "give the file 'decoder.py'"),
        (".", "or give the path of a .py file"),
    ],
)
def test_a_layer_runs_by_its_program(sample, capsys, name, remedy):
    assert main(["show", name]) == 1
    error = capsys.readouterr().err
    assert f"no program named {name!r}; " in error and remedy in error


def test_arrays_are_for_imported_layers(sample, capsys):
    assert "is no imported layer" in refused(capsys, program="swiglu")


def test_weights_and_inputs_of_one_name_are_two_tensors(tmp_path, monkeypatch, capsys):
    """A product that is a result, and of which columns are taken, with a mask that is drawn."""
    monkeypatch.chdir(tmp_path)
    a = Archive()
    q, mask = a.input("q", 4, 8), a.input("mask", 1, 1, 4, 4, dtype="bool")
    y = a.node("linear.default", 4, 8, input=q, weight=a.weight("q.weight", np.eye(8, dtype="f4")))
    part = a.node("slice.Tensor", 4, 4, self=y, dim=1, start=4, end=8)
    heads = a.node("view.default", 1, 1, 4, 4, self=part, size=[1, 1, 4, 4])
    name = "scaled_dot_product_attention.default"
    a.output(y, a.node(name, 1, 1, 4, 4, query=heads, key=heads, value=heads, attn_mask=mask))
    a.write("net.pt2")
    assert main(["import", "net.pt2", "--out", "net"]) == 0
    assert main(["run", "net.py", *FP32]) == 0
    hidden = np.tri(4, k=-1, dtype=bool)[None, None]  # row 0 sees no column
    np.savez("hidden.npz", q=np.ones((4, 8), "f4"), mask=hidden)
    assert main(["run", "net.py", "--inputs", "hidden.npz", *FP32]) == 1
    assert "mask 'mask' has a row in which no column takes part" in capsys.readouterr().err


@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize("form", ["whole", "products", "sink"])
def test_packed_attention_is_right_in_each_order(tmp_path, monkeypatch, form, tokens_first):
    """Queries, keys and values of one product on [tokens, batch], cut as torch's attention does;
    of four heads, with a score of each head's own in the form ``sink``.
    """
    monkeypatch.chdir(tmp_path)
    a, rng, (t, b, h, d) = Archive(), np.random.default_rng(4), (4, 3, 4, 2)
    e = h * d
    given = rng.standard_normal((t, b, e) if tokens_first else (b, t, e)).astype("f4")
    weight, out = (rng.normal(0, 0.5, n).astype("f4") for n in ((3 * e, e), (e, e)))
    x = a.input("x", *given.shape)
    if not tokens_first:
        x = a.node("transpose.int", t, b, e, self=x, dim0=0, dim1=1)
    y = a.node("linear.default", t, b, 3 * e, input=x, weight=a.weight("in", weight))
    y = a.node("view.default", 1, t, b, 3, e, self=y, size=[1, t, b, 3, e])
    y = a.node("transpose.int", 3, t, b, 1, e, self=y, dim0=0, dim1=3)
    y = a.node("squeeze.dim", 3, t, b, e, self=y, dim=3)
    parts = []
    for i in range(3):
        part = a.node("select.int", t, b, e, self=y, dim=0, index=i)
        part = a.node("view.default", t, b * h, d, self=part, size=[t, b * h, d])
        part = a.node("transpose.int", b * h, t, d, self=part, dim0=0, dim1=1)
        parts.append(a.node("view.default", b, h, t, d, self=part, size=[b, h, t, d]))
    q, k, v = parts
    if form == "whole":
        name = "scaled_dot_product_attention.default"
        y = a.node(name, b, h, t, d, query=q, key=k, value=v, scale=0.5)
    else:
        q = a.node("mul.Tensor", b, h, t, d, self=q, other=0.5)
        k = a.node("transpose.int", b, h, d, t, self=k, dim0=2, dim1=3)
        scores, columns = a.node("matmul.default", b, h, t, t, self=q, other=k), t
        if form == "sink":
            own = a.node("view.default", 1, h, 1, 1, self=a.weight("own", OWN), size=[1, h, 1, 1])
            own = a.node("expand.default", b, h, t, 1, self=own, size=[b, h, t, 1])
            both, columns = ("tensors", [{"name": scores}, {"name": own}]), t + 1
            scores = a.node("cat.default", b, h, t, columns, tensors=both, dim=-1)
        shares = a.node("softmax.int", b, h, t, columns, self=scores, dim=-1)
        if form == "sink":
            shares = a.node("slice.Tensor", b, h, t, t, self=shares, dim=3, start=0, end=t)
        y = a.node("matmul.default", b, h, t, d, self=shares, other=v)
    y = a.node("permute.default", t, b, h, d, self=y, dims=[2, 0, 1, 3])
    y = a.node("reshape.default", t * b, e, self=y, shape=[t * b, e])
    y = a.node("linear.default", t * b, e, input=y, weight=a.weight("out", out))
    y = a.node("view.default", t, b, e, self=y, size=[t, b, e])
    if not tokens_first:
        y = a.node("transpose.int", b, t, e, self=y, dim0=0, dim1=1)
    a.output(y)
    a.write("net.pt2")

    rows = (given.swapaxes(0, 1) if tokens_first else given).astype(float)
    packed = (rows @ weight.T).reshape(b, t, 3, h, d).transpose(2, 0, 3, 1, 4)
    powers = np.exp(packed[0] @ packed[1].swapaxes(2, 3) * 0.5)
    total = (
        powers.sum(-1, keepdims=True) + (form == "sink") * np.exp(OWN.astype(float))[:, None, None]
    )
    result = (powers / total @ packed[2]).transpose(0, 2, 1, 3).reshape(b, t, e) @ out.T
    np.savez("net.npz", x=given, out0=result.swapaxes(0, 1) if tokens_first else result)
    assert main(["import", "net.pt2", "--out", "net"]) == 0
    assert run(npz="net.npz", program="net.py") == 0


@pytest.mark.parametrize("wrong", [False, True])
def test_experts_are_chosen_by_groups_and_corrected_scores(tmp_path, monkeypatch, capsys, wrong):
    """Two of four groups are chosen by their best, two of their experts by scores with a
    correction; gates and values of an expert lie in turns in one weight, before its bias.
    """
    monkeypatch.chdir(tmp_path)
    a, rng = Archive(), np.random.default_rng(2)

    def drawn(name, *shape):
        return a.weight(name, rng.normal(0, 0.5, shape).astype("f4"))

    pair = {"outs": 2, "dtype": ("float32", "int64")}
    x = a.input("x", 6, 8)
    scores = a.node("linear.default", 6, 8, input=x, weight=drawn("r", 8, 8))
    scores = a.node("sigmoid.default", 6, 8, self=scores)
    corrected = a.node("add.Tensor", 6, 8, self=scores, other=drawn("c", 8))
    groups = a.node("view.default", 6, 4, 2, self=corrected, size=[6, 4, 2])
    best, _ = a.node("topk.default", 6, 4, 1, self=groups, k=1, **pair)
    best = a.node("sum.dim_IntList", 6, 4, self=best, dim=[2])
    _, group = a.node("topk.default", 6, 2, self=best, k=2, **pair)
    none = a.node("zeros_like.default", 6, 4, self=best)
    number = 2 if wrong else 1
    open_ = a.node("scatter.value", 6, 4, self=none, dim=1, index=group, value=number)
    open_ = a.node("unsqueeze.default", 6, 4, 1, self=open_, dim=2)
    open_ = a.node("expand.default", 6, 4, 2, self=open_, size=[6, 4, 2])
    open_ = a.node("view.default", 6, 8, self=open_, size=[6, 8])
    open_ = a.node("to.dtype", 6, 8, dtype="bool", self=open_)
    shut = a.node("bitwise_not.default", 6, 8, dtype="bool", self=open_)
    left = a.node(
        "masked_fill.Scalar", 6, 8, self=corrected, mask=shut, value=("float", "-Infinity")
    )
    _, index = a.node("topk.default", 6, 2, self=left, k=2, **pair)
    share = a.node("gather.default", 6, 2, self=scores, dim=1, index=index)
    ids = a.node("reshape.default", 12, dtype="int64", self=index, shape=[-1])
    rows = a.node("repeat_interleave.self_int", 12, 8, self=x, repeats=2, dim=0)
    one = a.node("unsqueeze.default", 12, 1, 8, self=rows, dim=1)
    up = a.node("index.Tensor", 12, 8, 8, self=drawn("u", 8, 8, 8), indices=[ids])
    both = a.node("bmm.default", 12, 1, 8, self=one, mat2=up)
    both = a.node("squeeze.dim", 12, 8, self=both, dim=1)
    bias = a.node("index.Tensor", 12, 8, self=drawn("b", 8, 8), indices=[ids])
    both = a.node("add.Tensor", 12, 8, self=both, other=bias)
    gate, value = (
        a.node("slice.Tensor", 12, 4, self=both, dim=1, start=i, end=9, step=2) for i in (0, 1)
    )
    gate = a.node("clamp.default", 12, 4, self=gate, max=0.5)
    inner = a.node("mul.Tensor", 12, 4, self=gate, other=value)
    inner = a.node("unsqueeze.default", 12, 1, 4, self=inner, dim=1)
    down = a.node("index.Tensor", 12, 4, 8, self=drawn("d", 8, 4, 8), indices=[ids])
    made = a.node("bmm.default", 12, 1, 8, self=inner, mat2=down)
    made = a.node("squeeze.dim", 12, 8, self=made, dim=1)
    each = a.node("reshape.default", 12, 1, self=share, shape=[12, 1])
    made = a.node("mul.Tensor", 12, 8, self=made, other=each)
    made = a.node("view.default", 6, 2, 8, self=made, size=[6, 2, 8])
    a.output(a.node("sum.dim_IntList", 6, 8, self=made, dim=[1]))
    a.write("net.pt2")
    assert main(["import", "net.pt2", "--out", "net"]) == wrong
    if wrong:
        assert "scatter of other numbers than 1" in capsys.readouterr().err
        return
    assert main(["run", "net.py", *FP32, "--quiet"]) == 0
    w = {name: array.astype(float) for name, array in a.weights.items()}
    x = np.random.default_rng(3).standard_normal((6, 8)).astype("f4")
    rows = []
    for row in x:
        score = 1 / (1 + np.exp(-(w["r"] @ row)))
        with_c = score + w["c"]
        order = np.argsort(-with_c.reshape(4, 2).max(1))[:2]
        open_to = [e for e in range(8) if e // 2 in order]
        made = np.zeros(8)
        for e in sorted(open_to, key=lambda e: -with_c[e])[:2]:
            both = row @ w["u"][e] + w["b"][e]
            made += score[e] * (np.minimum(both[::2], 0.5) * both[1::2]) @ w["d"][e]
        rows.append(made)
    np.savez("net.npz", x=x, out0=np.array(rows))
    assert run(npz="net.npz", program="net.py") == 0


@pytest.mark.parametrize("relation", ["le", "lt"])
def test_a_cache_of_fixed_length_is_written_in_place(tmp_path, monkeypatch, capsys, relation):
    """Two heads over caches of five rows, at the first, a middle and the last; no further one."""
    monkeypatch.chdir(tmp_path)
    a, rng, (b, h, c, d) = Archive(), np.random.default_rng(5), (2, 2, 5, 4)
    x, at = a.input("x", b, 1, h * d), a.input("at", 1, dtype="int64")
    new = a.node("neg.default", b, 1, h * d, self=x)
    new = a.node("view.default", b, 1, h, d, self=new, size=[b, 1, h, d])
    new = a.node("transpose.int", b, h, 1, d, self=new, dim0=1, dim1=2)
    caches = [a.input(n, b, h, c, d) for n in "kv"]
    args = {"dim": 2, "index": at, "source": new}
    k, v = (a.node("index_copy_.default", b, h, c, d, self=x, **args) for x in caches)
    mask = a.node("arange.default", c, dtype="int64", end=c)
    mask = a.node(f"{relation}.Tensor", c, dtype="bool", self=mask, other=at)
    mask = a.node("view.default", 1, 1, 1, c, dtype="bool", self=mask, size=[1, 1, 1, c])
    name = "scaled_dot_product_attention.default"
    y = a.node(name, b, h, 1, d, query=new, key=k, value=v, attn_mask=mask, scale=0.5)
    y = a.node("transpose.int", b, 1, h, d, self=y, dim0=1, dim1=2)
    a.output(a.node("flatten.using_ints", b, 1, h * d, self=y, start_dim=2))
    a.write("net.pt2")
    if relation == "lt":  # the new row is not seen
        assert main(["import", "net.pt2", "--out", "decoder"]) == 1
        assert "attention has a mask over a cache that is no length" in capsys.readouterr().err
        return
    assert main(["import", "net.pt2", "--out", "decoder"]) == 0
    schedule("kv_tile", 2)
    x = rng.standard_normal((b, 1, h * d), "f4")
    k, v = old = rng.standard_normal((2, b, h, c, d), "f4")
    for place in (0, 2, 4):
        both = old.copy()
        both[..., place, :] = new = -x.reshape(b, h, d)
        seen = both[..., : place + 1, :].astype(float)
        powers = np.exp(np.einsum("bhd,bhcd->bhc", new, seen[0]) * 0.5)
        y = np.einsum("bhc,bhcd->bhd", powers / powers.sum(-1, keepdims=True), seen[1])
        arrays = {"x": x, "k": k, "v": v, "out0": y.reshape(x.shape), "out1": both[0]}
        np.savez("net.npz", at=np.array([place]), out2=both[1], **arrays)
        assert run(npz="net.npz") == 0
    np.savez("net.npz", at=np.array([5]), out2=both[1], **arrays)
    assert "'at' is 5 (rule: 'k' has 5 rows" in refused(capsys, npz="net.npz")


def test_an_input_has_the_name_of_a_weight_and_an_index_is_beyond_its_table(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    a = Archive()
    x, i = a.input("bias", 4, 8), a.input("i", 4, dtype="int64")
    x = a.node("add.Tensor", 4, 8, self=x, other=a.weight("bias", np.arange(8, dtype="f4")))
    table = a.node("exp.default", 6, 8, self=a.weight("t", np.zeros((6, 8), "f4")))
    rows = a.node("index.Tensor", 4, 8, self=table, indices=[i])
    a.output(a.node("add.Tensor", 4, 8, self=x, other=rows))
    a.write("net.pt2")
    assert main(["import", "net.pt2", "--out", "net"]) == 0
    for last, status in ((5, 0), (6, 1)):
        np.savez("in.npz", bias=np.ones((4, 8), "f4"), i=np.array([0, 1, 2, last]))
        assert main(["run", "net.py", "--inputs", "in.npz", *FP32]) == status
    assert "inputs do not fit the layer: index 6 is out of bounds" in capsys.readouterr().err


def test_whole_numbers_of_the_run_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a = Archive()
    y = a.node("mul.Tensor", 4, 8, self=a.input("x", 4, 8), other=2.0)
    y = a.node("to.dtype", 4, 8, dtype="int64", self=y)
    a.output(a.node("to.dtype", 4, 8, self=y))
    a.write("net.pt2")
    assert main(["import", "net.pt2", "--out", "net"]) == 1
    assert "makes int64 of numbers that the run makes" in capsys.readouterr().err


def test_nothing_is_written_for_an_archive_that_is_refused(sample, capsys):
    Path("broken.pt2").write_bytes(Path("layer/layer.pt2").read_bytes()[:4000])
    assert main(["import", "broken.pt2", "--out", "broken"]) == 1
    assert main(["import", "layer/layer.pt2", "--out", "1st"]) == 1
    assert not list(sample.glob("broken.py*")) + list(sample.glob("1st*"))


class Tensor(np.ndarray):
    """An array with what is asked of torch's tensors."""

    def detach(self, *_):
        return self

    float = to = detach

    def numpy(self):
        return np.asarray(self)

    def is_floating_point(self):
        return self.dtype.kind == "f"


def torch_in_name():
    """A module of torch's names, whose export is the sample."""
    results = [SimpleNamespace(arg=None)] * 3
    exported = SimpleNamespace(
        call_spec=SimpleNamespace(out_spec=None),
        graph_signature=SimpleNamespace(output_specs=results),
    )
    tree = SimpleNamespace(  # of arguments that are not nested
        tree_flatten=lambda x: ([*x[0], *x[1].values()], (len(x[0]), list(x[1]))),
        tree_unflatten=lambda found, _: tuple(found),
    )
    export = SimpleNamespace(
        export=lambda *_, **__: exported,
        save=lambda _, path: shutil.copy(small_layer.FOLDER / "layer.pt2", path),
    )

    class Module:
        def __call__(self, *args, **named):
            return self.forward(*args, **named)

    nn = SimpleNamespace(Module=Module)
    return SimpleNamespace(
        export=export,
        nn=nn,
        utils=SimpleNamespace(_pytree=tree),
        Tensor=Tensor,
        float32=None,
        from_numpy=lambda a: a.view(Tensor),
    )


def test_a_live_module_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_in_name())
    arrays = dict(np.load(small_layer.FOLDER / "layer.npz"))
    given = [arrays[n].view(Tensor) for n in ("x", "lengths", "past_k", "past_v")]
    late = {"past_v": given.pop(), "past_k": given.pop()}
    kwargs = {k: late[k] for k in ("past_k", "past_v")}
    module = penstock.from_torch(None, given, kwargs, out=tmp_path / "decoder")
    for i, result in enumerate(module(*given, **late)):  # in another order than at export
        np.testing.assert_allclose(result, arrays[f"out{i}"], atol=1e-5)
    assert module.records[0].cycles > 0
    with pytest.raises(penstock.PenstockError, match="takes the arguments that it was exported"):
        module(*given, past_k=late["past_k"], past_v=None)
    with pytest.raises(penstock.PenstockError, match="is no name of a program"):
        penstock.from_torch(None, given, kwargs, out=tmp_path / "layer.0")


def test_a_live_module_needs_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(penstock.PenstockError, match=r"needs torch; pip install penstock\[torch\]"):
        penstock.from_torch(None, (), out=tmp_path / "decoder")


@pytest.mark.deep
def test_a_small_layer_is_the_same_on_the_rtl(sample, capsys):
    assert run("--on", "both") == 0
    assert ", 0 mismatched beats" in capsys.readouterr().out


@pytest.fixture
def models():
    return Path(os.environ["PENSTOCK_DATA"]) / "models"


@pytest.mark.data
@pytest.mark.parametrize("name", ARCHIVES)
def test_a_layer_of_transformers_is_right_on_the_model(name, models, tmp_path):
    layer = tmp_path / "layer"
    assert main(["import", str(models / f"{name}.pt2"), "--out", str(layer)]) == 0
    npz = str(models / f"{name}.npz")
    assert run(npz=npz, program=f"{layer}.py", machine=("--quiet",)) == 0


@pytest.mark.data
@pytest.mark.parametrize(("tile_rows", "regions"), [(1, 0), (4, 2), (0, 1)])
def test_experts_are_tiled_and_take_turns(models, tmp_path, monkeypatch, tile_rows, regions):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(models / "mixtral_prefill.pt2"), "--out", "decoder"]) == 0
    schedule("tile_rows", tile_rows)
    schedule("regions", regions)
    assert run(npz=str(models / "mixtral_prefill.npz"), machine=("--quiet",)) == 0


@pytest.mark.data
def test_dynamic_tiling_of_cut_weights_is_refused(models, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(models / "mixtral_prefill.pt2"), "--out", "decoder"]) == 0
    schedule("columns", 8, "layer.mlp.experts")
    schedule("tile_rows", 0)
    shown = refused(capsys, npz=str(models / "mixtral_prefill.npz"), machine=("--quiet",))
    assert "dynamic tiling takes weights whole" in shown


@pytest.mark.data
def test_choices_of_experts_come_from_a_file(models, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(models / "routed_experts.pt2"), "--out", "decoder"]) == 0
    cycles = []
    for chosen in ([0, 1], [3, 2], [0, 1], [2, 2]):
        np.savez("choices.npz", data=[chosen] * (1 if len(cycles) == 2 else 9))
        options = ["--no-values", "--set", "tokens=8", "--choices", "experts=choices.npz"]
        status = main(["run", "decoder.py", "--quiet", *options])
        cycles.append(status)
    assert cycles == [0, 0, 1, 1]
    assert capsys.readouterr().err.count("[8 or more, 2] below 4") == 2


def test_choices_that_a_run_without_values_lacks_are_noted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("router.py").write_text(ROUTER)
    for option, noted in (("--no-values", True), ("--quiet", False)):
        assert main(["run", "router.py", "--quiet", option]) == 0
        assert ("each row chooses the first 2 of chosen" in capsys.readouterr().out) == noted
