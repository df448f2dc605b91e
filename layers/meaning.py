"""Canonical operations in NumPy: the judge of what a program of a layer computes.

Each is a function of the result as it is described (``out``: shape of integers, type) and of its
arguments, with arrays for references. Products of narrow types sum in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import ml_dtypes

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Result:
    """Shape and NumPy type of a value."""

    shape: tuple[int, ...]
    dtype: np.dtype


Meaning = Callable[..., Any]


def dtype_of(name: str) -> np.dtype:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def _wide(x: Any) -> Any:
    """Narrow floats in fp32, in which they are computed with."""
    if isinstance(x, np.ndarray) and x.dtype in (BFLOAT16, np.float16):
        return x.astype(np.float32)
    return x


def _elementwise(f: Callable) -> Meaning:
    def meaning(out: Result, x, y=None, z=None):
        parts = [_wide(p) for p in (x, y, z) if p is not None]
        if out.dtype.kind == "f" or out.dtype == BFLOAT16:
            wide = np.float64 if out.dtype == np.float64 else np.float32
            parts = [
                p.astype(wide) if isinstance(p, np.ndarray) and p.dtype.kind in "iu" else p
                for p in parts
            ]
        with np.errstate(all="ignore"):
            return np.asarray(f(*parts)).astype(out.dtype)

    return meaning


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(out: Result, x, approximate):
    x = _wide(x)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return (0.5 * x * (1 + np.tanh(inner))).astype(out.dtype)
    return (0.5 * x * (1 + (_erf(x / math.sqrt(2)) if x.size else x))).astype(out.dtype)


def softmax(out: Result, x, dim):
    x = _wide(x)
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=dim, keepdims=True))
        return (e / e.sum(axis=dim, keepdims=True)).astype(out.dtype)


def _reduction(f: Callable) -> Meaning:
    def meaning(out: Result, x, dims):
        return np.asarray(f(_wide(x), axis=dims, keepdims=True)).astype(out.dtype)

    return meaning


def _arg(f: Callable) -> Meaning:
    return lambda out, x, dims: f(x, axis=dims[0], keepdims=True)


def matmul(out: Result, x, y):
    return np.matmul(_wide(x), _wide(y)).astype(out.dtype)


def linear(out: Result, x, weight, bias):
    done = _wide(x) @ _wide(weight).T
    return (done if bias is None else done + _wide(bias)).astype(out.dtype)


def attention(out: Result, q, k, v, *, mask, causal, scale, lengths, last, sink, **_):
    """softmax(q k^T scale + mask) v, with heads of k and v for groups of those of q.

    ``lengths``: columns below them take part, and besides one of the ``last``: that at the ``end``,
    or the ``next`` one. ``sink``: a score of each head's own, whose column no value has.
    """
    groups = q.shape[1] // k.shape[1]
    q, k, v = _wide(q), *(np.repeat(_wide(x), groups, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * np.asarray(scale, q.dtype)
    rows, columns = scores.shape[-2:]
    if mask is not None:
        mask = _wide(mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(rows, columns, dtype=bool), scores, -np.inf)
    if lengths is not None:
        column = np.arange(columns)
        lengths = np.reshape(lengths, (-1, 1, 1, 1))
        own = column == {None: columns, "end": columns - 1, "next": lengths}[last]
        scores = np.where((column < lengths) | own, scores, -np.inf)
    if sink is not None:
        own = np.broadcast_to(_wide(sink)[:, None, None], (*scores.shape[:-1], 1))
        scores = np.concatenate([scores, own], -1)
    shares = softmax(Result(scores.shape, q.dtype), scores, -1)[..., :columns]
    return (shares @ v).astype(out.dtype)


def grouped_mm(out: Result, x, weight, ends):
    done = np.zeros(out.shape, out.dtype)
    start = 0
    for w, end in zip(weight, ends.tolist(), strict=True):
        done[start:end] = matmul(out, x[start:end], w)
        start = end
    return done


def topk(out: Result, x, k, dim, largest):
    order = np.argsort(-_wide(x) if largest else _wide(x), axis=dim, kind="stable")
    indices = np.take(order, range(k), axis=dim)
    return np.take_along_axis(x, indices, axis=dim), indices


def sort(out: Result, x, dim, descending):
    order = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, order, axis=dim), order


def _cut(x, dim, start, end, step):
    return (*(slice(None),) * dim, slice(int(start), int(end), int(step)))


def slice_update(out: Result, x, value, dim, start, end, step):
    done = x.copy()
    done[_cut(x, dim, start, end, step)] = value
    return done


def _whole(indices) -> Any:
    return tuple(slice(None) if i is None else i for i in indices)


def index_put(out: Result, x, indices, value, add):
    done = x.copy()
    if add:
        np.add.at(done, _whole(indices), value)
    else:
        done[_whole(indices)] = value
    return done


def index_rows(out: Result, x, dim, index, value, add):
    return index_put(out, x, (*(None,) * dim, index), value, add)


def append(out: Result, cache, rows, dim, at):
    """Rows behind those of a cache, or in their place at indices ``at``."""
    if at is None:
        return np.concatenate([cache, rows], dim)
    return index_rows(out, cache, dim, at, rows, add=False)


def scatter(out: Result, x, dim, index, value, add):
    """Elements at ``index`` along ``dim`` become ``value``, or have it added."""
    places = list(np.indices(index.shape, sparse=True))
    places[dim] = index
    if isinstance(value, np.ndarray):
        value = value[tuple(slice(n) for n in index.shape)]
    return index_put(out, x, tuple(places), value, add)


def pad(out: Result, x, pads, value):
    widths = [(0, 0)] * x.ndim
    for i in range(len(pads) // 2):
        widths[-1 - i] = (int(pads[2 * i]), int(pads[2 * i + 1]))
    return np.pad(x, widths, constant_values=value or 0)


def histc(out: Result, x, bins, min, max):
    x = _wide(x)
    return np.histogram(x, bins=bins, range=(min, max))[0].astype(out.dtype)


def roll(out: Result, x, shifts, dims):
    return np.roll(x, shifts, dims or None)


VIEWS: dict[str, Meaning] = {
    "reshape": lambda out, x: np.reshape(x, out.shape),
    "permute": lambda out, x, dims: np.transpose(x, dims),
    "slice": lambda out, x, dim, start, end, step: x[_cut(x, dim, start, end, step)],
    "expand": lambda out, x: np.broadcast_to(x, out.shape),
    "cat": lambda out, tensors, dim: np.concatenate(tensors, dim),
    "append": append,
}
ELEMENTS: dict[str, Meaning] = {
    "add": _elementwise(np.add),
    "sub": _elementwise(np.subtract),
    "mul": _elementwise(np.multiply),
    "div": _elementwise(np.divide),
    "floor_div": _elementwise(np.floor_divide),
    "mod": _elementwise(np.mod),
    "pow": _elementwise(np.power),
    "maximum": _elementwise(np.maximum),
    "minimum": _elementwise(np.minimum),
    "lt": _elementwise(np.less),
    "le": _elementwise(np.less_equal),
    "gt": _elementwise(np.greater),
    "ge": _elementwise(np.greater_equal),
    "eq": _elementwise(np.equal),
    "ne": _elementwise(np.not_equal),
    "and": _elementwise(np.bitwise_and),
    "or": _elementwise(np.bitwise_or),
    "xor": _elementwise(np.bitwise_xor),
    "not": _elementwise(np.invert),
    "where": _elementwise(np.where),
    "neg": _elementwise(np.negative),
    "abs": _elementwise(np.abs),
    "exp": _elementwise(np.exp),
    "exp2": _elementwise(np.exp2),
    "expm1": _elementwise(np.expm1),
    "log": _elementwise(np.log),
    "log2": _elementwise(np.log2),
    "log1p": _elementwise(np.log1p),
    "sqrt": _elementwise(np.sqrt),
    "rsqrt": _elementwise(lambda x: 1 / np.sqrt(x)),
    "sin": _elementwise(np.sin),
    "cos": _elementwise(np.cos),
    "tanh": _elementwise(np.tanh),
    "erf": _elementwise(_erf),
    "sigmoid": _elementwise(_sigmoid),
    "silu": _elementwise(lambda x: x * _sigmoid(x)),
    "floor": _elementwise(np.floor),
    "ceil": _elementwise(np.ceil),
    "round": _elementwise(np.round),
    "trunc": _elementwise(np.trunc),
    "sign": _elementwise(np.sign),
    "gelu": gelu,
    "cast": lambda out, x: x.astype(out.dtype),
}
REDUCTIONS: dict[str, Meaning] = {
    "sum": _reduction(np.sum),
    "mean": _reduction(np.mean),
    "amax": _reduction(np.max),
    "amin": _reduction(np.min),
    "softmax": softmax,
}
PRODUCTS: dict[str, Meaning] = {"linear": linear, "matmul": matmul, "attention": attention}
CHOICES: dict[str, Meaning] = {
    "topk": topk,
    "gather": lambda out, x, dim, index: np.take_along_axis(x, index, dim),
}
CONTROL: dict[str, Meaning] = {
    "prod": _reduction(np.prod),
    "all": _reduction(np.all),
    "any": _reduction(np.any),
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "grouped_mm": grouped_mm,
    "sort": sort,
    "index": lambda out, x, indices: x[_whole(indices)],
    "index_put": index_put,
    "index_rows": index_rows,
    "scatter": scatter,
    "slice_update": slice_update,
    "pad": pad,
    "flip": lambda out, x, dims: np.flip(x, dims),
    "roll": roll,
    "masked_select": lambda out, x, mask: x[np.broadcast_to(mask, x.shape)],
    "nonzero": lambda out, x: np.nonzero(x),
    "argwhere": lambda out, x: np.argwhere(x),
    "cumsum": lambda out, x, dim: np.cumsum(x, dim).astype(out.dtype),
    "histc": histc,
    "bincount": lambda out, x, minlength: np.bincount(x, minlength=minlength or 0),
    "tril": lambda out, x, diagonal: np.tril(x, diagonal or 0),
    "triu": lambda out, x, diagonal: np.triu(x, diagonal or 0),
    "arange": lambda out, start, end, step: np.arange(start, end, step).astype(out.dtype),
    "full": lambda out, value: np.full(out.shape, value, out.dtype),
}
"""Operations that only control has: where values that only the run knows reach them, the layer is
refused. Experts are recognised by them.
"""
DATA = VIEWS | ELEMENTS | REDUCTIONS | PRODUCTS | CHOICES
"""Operations on values of the run; `experts` besides (:mod:`.interpret`)."""
MEANINGS = DATA | CONTROL
