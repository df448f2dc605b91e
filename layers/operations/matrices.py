"""Rules of products of matrices, and of attention."""

from __future__ import annotations

from ..form import Argument, Ref
from ..translation import Call, product
from .arithmetic import _scaled


def _check(n: Call, *parts: Argument) -> None:
    """Refuse operands of different types."""
    types = sorted({n.dtype(p) for p in parts if p is not None})
    if len(types) > 1:
        raise n.error(f"mixes types {' and '.join(types)}", "convert one of them first")


def linear(n: Call) -> Ref:
    x, w, bias = n["input"], n["weight"], n.get("bias")
    _check(n, x, w, bias)
    shape, weights = n.shape(x), n.shape(w)
    if len(weights) != 2:
        raise n.error(f"has a weight of {len(weights)} dimensions, not 2")
    n.same(shape[-1], weights[1])
    if bias is not None:
        n.same(n.shape(bias)[0], weights[0])
    out = (*shape[:-1], weights[0])
    return n.emit("linear", out, n.dtype(x), x=x, weight=w, bias=bias)


def product_of(n: Call, a: Argument, b: Argument) -> Ref:
    """A product by NumPy's rules; vectors are matrices of one row or column."""
    _check(n, a, b)
    left, right = n.shape(a), n.shape(b)
    if len(right) == 1:
        done = product_of(n, a, n.reshape(b, (*right, 1)))
        return n.reshape(done, n.shape(done)[:-1])
    if len(left) == 1:
        done = product_of(n, n.reshape(a, (1, *left)), b)
        shape = n.shape(done)
        return n.reshape(done, (*shape[:-2], shape[-1]))
    n.same(left[-1], right[-2])
    outer = n.broadcast(left[:-2], right[:-2])
    return n.emit("matmul", (*outer, left[-2], right[-1]), n.dtype(a), x=a, y=b)


def matmul(n: Call) -> Ref:
    right = next(k for k in ("other", "mat2", "vec", "tensor") if k in n.args)
    return product_of(n, n.x, n[right])


def addmm(n: Call) -> Ref:
    """``beta`` times ``self`` and ``alpha`` times a product."""
    names = ("mat1", "mat2") if "mat1" in n.args else ("batch1", "batch2")
    if "vec" in n.args:
        names = ("mat", "vec")
    done = _scaled(n, product_of(n, n[names[0]], n[names[1]]), n.get("alpha", 1))
    if n.get("beta", 1) == 0:
        return done
    return n.ew("add", done, _scaled(n, n["self"], n.get("beta", 1)), dtype=n.out.dtype)


def outer(n: Call) -> Ref:
    a, b = n["self"], n["vec2"] if "vec2" in n.args else n["other"]
    return n.ew("mul", n.reshape(a, (*n.shape(a), 1)), n.reshape(b, (1, *n.shape(b))))


def einsum(n: Call) -> Ref:
    """An Einstein sum of two tensors, each index at most once in each."""
    text, tensors = n["equation"], n["tensors"]
    assert isinstance(text, str) and isinstance(tensors, tuple)
    ins, arrow, out = text.replace(" ", "").partition("->")
    names = ins.split(",")
    plain = all(len(set(t)) == len(t) and t.isalpha() for t in [*names, out] if t)
    if len(names) != 2 or len(tensors) != 2 or not arrow or not plain:
        raise n.error(f"has the equation {text!r}", "write it as products of two tensors")
    a, b = names
    size = dict(zip(a + b, n.shape(tensors[0]) + n.shape(tensors[1]), strict=True))
    batch = [c for c in out if c in a and c in b]
    rows = [c for c in a if c in out and c not in b]
    columns = [c for c in b if c in out and c not in a]
    summed = [c for c in a if c in b and c not in out]
    if {*a, *b} != {*batch, *rows, *columns, *summed}:
        raise n.error(f"has the equation {text!r}", "sum over what is in one tensor alone first")

    def arranged(x: Argument, names: str, first: list[str], second: list[str]) -> Ref:
        order = [names.index(c) for c in [*batch, *first, *second]]
        shape = tuple(size[c] for c in batch)
        shape += (product(size[c] for c in first), product(size[c] for c in second))
        return n.reshape(n.permute(x, order), shape)

    done = product_of(
        n, arranged(tensors[0], a, rows, summed), arranged(tensors[1], b, summed, columns)
    )
    order = [*batch, *rows, *columns]
    whole = n.reshape(done, tuple(size[c] for c in order))
    return n.permute(whole, [order.index(c) for c in out])


def attention(n: Call) -> Ref:
    """Scaled dot-product attention on [batch, heads, rows, columns]."""
    q, k, v = n["query"], n["key"], n["value"]
    _check(n, q, k, v)
    if n.get("dropout_p", 0.0):
        raise n.error("drops values at random", "export the layer in eval mode: layer.eval()")
    shapes = [n.shape(x) for x in (q, k, v)]
    if any(len(s) not in (3, 4) for s in shapes):
        raise n.error("is not on batch, heads, rows and columns")
    if len(shapes[0]) == 3:
        q, k, v = (n.reshape(x, (1, *n.shape(x))) for x in (q, k, v))
        shapes = [n.shape(x) for x in (q, k, v)]
    (batch, heads, rows, inner), keys, values = shapes
    n.same(inner, keys[3])
    n.same(keys[2], values[2])
    n.same(batch, keys[0])
    groups = 1
    if n.get("enable_gqa", False):
        groups = heads // keys[1]
    n.same(heads, keys[1] * groups)
    scale = n.get("scale")
    if scale is None:
        scale = float(inner) ** -0.5
    done = n.emit(
        "attention",
        (batch, heads, rows, values[3]),
        n.dtype(q),
        q=q,
        k=k,
        v=v,
        mask=n.get("attn_mask"),
        causal=bool(n.get("is_causal", False)),
        scale=scale,
        groups=groups,
        lengths=None,
        last=None,
        sink=None,
    )
    return n.reshape(done, n.out.shape)


def grouped_mm(n: Call) -> Ref:
    """Rows in groups, each times a matrix of its own; ``offs``: where each group ends."""
    names = ("input", "weight") if "input" in n.args else ("self", "mat2")
    x, w = (n[k] for k in names)
    _check(n, x, w)
    if n.get("bias") is not None or n.get("offs") is None:
        raise n.error("has a bias, or no ends of groups")
    shape = (n.shape(x)[0], n.shape(w)[-1])
    return n.emit("grouped_mm", shape, n.dtype(x), x=x, weight=w, ends=n["offs"])
