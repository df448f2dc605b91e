"""Rules of indices, orders and tensors made of nothing."""

from __future__ import annotations

from ..form import Argument, Ref
from ..translation import Call
from .arithmetic import Rule


def plain(op: str, *names: str) -> Rule:
    """An operation on the first tensor ``x``, with the named arguments of the node as they are."""

    def rule(n: Call) -> Ref:
        args = {k: n.get(k) for k in names}
        return n.emit(op, n.out.shape, n.out.dtype, x=n.x, **args)

    return rule


def along(op: str, *names: str) -> Rule:
    """The same along a dimension ``dim``."""

    def rule(n: Call) -> Ref:
        args = {k: n[k] for k in names}
        dim = n.dim("dim", len(n.shape(n.x)))
        return n.emit(op, n.out.shape, n.out.dtype, x=n.x, dim=dim, **args)

    return rule


def filled(value: Argument) -> Rule:
    """A tensor of one number."""
    return lambda n: n.emit("full", n.out.shape, n.out.dtype, value=value)


def full(n: Call) -> Ref:
    value = n["fill_value"] if "fill_value" in n.args else n["s"]
    return n.emit("full", n.out.shape, n.out.dtype, value=value)


def fill(n: Call) -> Ref:
    """fill_: a tensor's content becomes a number."""
    return n.emit("full", n.shape(n.x), n.dtype(n.x), value=n["value"])


def copy(n: Call) -> Ref:
    """copy_: a tensor's content becomes another's."""
    return n.expand(n.cast(n["src"], n.dtype(n.x)), n.shape(n.x))


def arange(n: Call) -> Ref:
    args = {"start": n.get("start", 0), "end": n["end"], "step": n.get("step", 1)}
    return n.emit("arange", n.out.shape, n.out.dtype, **args)


def index(n: Call) -> Ref:
    """Elements at indices, by NumPy's rules."""
    indices = n["indices"]
    assert isinstance(indices, tuple)
    return n.emit("index", n.out.shape, n.out.dtype, x=n.x, indices=indices)


def index_select(n: Call) -> Ref:
    rank = len(n.shape(n.x))
    dim = n.dim("dim", rank)
    indices = (None,) * dim + (n["index"],)
    return n.emit("index", n.out.shape, n.out.dtype, x=n.x, indices=indices)


def embedding(n: Call) -> Ref:
    return n.emit("index", n.out.shape, n.out.dtype, x=n["weight"], indices=(n["indices"],))


def index_put(n: Call) -> Ref:
    indices, add = n["indices"], bool(n.get("accumulate", False))
    args = {"value": n["values"], "add": add}
    *before, index = indices
    rows = not any(before) and index is not None and len(n.shape(index)) == 1
    if rows and (add or before) and n.dtype(index) != "bool":
        args |= {"dim": len(before), "index": index}
        return n.emit("index_rows", n.out.shape, n.out.dtype, x=n.x, **args)
    args |= {"indices": indices}
    return n.emit("index_put", n.out.shape, n.out.dtype, x=n.x, **args)


def index_rows(add: bool) -> Rule:
    """index_add and index_copy: rows of a dimension, at an index of one dimension."""

    def rule(n: Call) -> Ref:
        if n.get("alpha", 1) != 1:
            raise n.error("has an alpha other than 1")
        dim = n.dim("dim", len(n.shape(n.x)))
        args = {"dim": dim, "index": n["index"], "value": n["source"], "add": add}
        return n.emit("index_rows", n.out.shape, n.out.dtype, x=n.x, **args)

    return rule


def scatter(add: bool) -> Rule:
    def rule(n: Call) -> Ref:
        if n.get("reduce") not in (None, "add", "sum"):
            raise n.error(f"reduces by {n['reduce']!r}")
        value = n["src"] if "src" in n.args else n["value"]
        dim = n.dim("dim", len(n.shape(n.x)))
        args = {"dim": dim, "index": n["index"], "value": value}
        return n.emit(
            "scatter", n.out.shape, n.out.dtype, x=n.x, add=add or bool(n.get("reduce")), **args
        )

    return rule


def topk(n: Call) -> tuple[Ref, ...]:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape), -1)
    k = n["k"]
    out = (*shape[:dim], k, *shape[dim + 1 :])
    args = {"k": k, "dim": dim, "largest": bool(n.get("largest", True))}
    outs = [(out, n.dtype(n.x)), (out, "int64")]
    return n.emit_all("topk", outs, x=n.x, **args)


def sort(n: Call) -> tuple[Ref, ...]:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape), -1)
    args = {"dim": dim, "descending": bool(n.get("descending", False))}
    return n.emit_all("sort", [(shape, n.dtype(n.x)), (shape, "int64")], x=n.x, **args)


def argsort(n: Call) -> Ref:
    return sort(n)[1]


def arg_extreme(op: str) -> Rule:
    def rule(n: Call) -> Ref:
        x, shape = n.x, n.shape(n.x)
        if n.get("dim") is None:
            raise n.error("is over all dimensions")
        dims = n.axes("dim", len(shape))
        return n.reduce(op, x, dims, bool(n.get("keepdim", False)), "int64")

    return rule


def one_hot(n: Call) -> Ref:
    """1 for the class that is the index, 0 for others: [..., classes]."""
    count = n.out.shape[-1]
    classes = n.emit("arange", (count,), "int64", start=0, end=count, step=1)
    same = n.ew("eq", n.reshape(n.x, (*n.shape(n.x), 1)), classes, dtype="bool")
    return n.cast(same, n.out.dtype)
