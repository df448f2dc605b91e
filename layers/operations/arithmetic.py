"""Rules of arithmetic: element by element, reductions, norms."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..form import Argument, Ref
from ..translation import Call, is_float
from .views import join

Rule = Callable[[Call], Ref | tuple[Ref, ...]]
_NARROW = ("float16", "bfloat16")


def unary(op: str) -> Rule:
    """An operation on one tensor, in the result's type."""
    return lambda n: n.emit(op, n.shape(n.x), n.out.dtype, x=n.x)


def binary(op: str) -> Rule:
    """An operation on ``self`` and ``other``, tensors or numbers."""
    return lambda n: n.ew(op, n["self"], n["other"], dtype=n.out.dtype)


def logical(op: str) -> Rule:
    """An operation on truth: of numbers, those other than 0 are true."""

    def rule(n: Call) -> Ref:
        parts = [n.cast(n[k], "bool") for k in ("self", "other") if k in n.args]
        return n.ew(op, *parts, dtype="bool")

    return rule


def add(op: str) -> Rule:
    """Sum or difference, of ``other`` times ``alpha``."""

    def rule(n: Call) -> Ref:
        return n.ew(op, n["self"], _scaled(n, n["other"], n.get("alpha", 1)), dtype=n.out.dtype)

    return rule


def _scaled(n: Call, x: Argument, factor: Argument) -> Argument:
    if factor == 1:
        return x
    if isinstance(x, Ref):
        return n.ew("mul", x, factor)
    return x * factor


def rsub(n: Call) -> Ref:
    return n.ew("sub", n["other"], _scaled(n, n["self"], n.get("alpha", 1)), dtype=n.out.dtype)


def div(n: Call) -> Ref:
    mode = n.get("rounding_mode")
    if mode == "floor":
        return n.ew("floor_div", n["self"], n["other"], dtype=n.out.dtype)
    if mode == "trunc":
        wide = n.out.dtype if is_float(n.out.dtype) else "float64"
        return n.cast(n.ew("trunc", n.ew("div", n["self"], n["other"], dtype=wide)), n.out.dtype)
    if mode is not None:
        raise n.error(f"rounds by {mode!r}")
    return n.ew("div", n["self"], n["other"], dtype=n.out.dtype)


def power(n: Call) -> Ref:
    """A power; small integers are products, 0.5, -0.5 and -1 operations of their own."""
    x, e = n["self"], n["exponent"]
    if isinstance(x, Ref) and not isinstance(e, Ref) and is_float(n.out.dtype):
        x = n.cast(x, n.out.dtype)
        if e in (2, 3, 4):
            square = n.ew("mul", x, x)
            return square if e == 2 else n.ew("mul", square, x if e == 3 else square)
        if e == -1:
            return n.ew("div", 1.0, x)
        op = {0.5: "sqrt", -0.5: "rsqrt"}.get(e)
        if op:
            return n.ew(op, x)
    return n.ew("pow", x, e, dtype=n.out.dtype)


def square(n: Call) -> Ref:
    return n.ew("mul", n.x, n.x)


def reciprocal(n: Call) -> Ref:
    return n.ew("div", 1.0, n.x, dtype=n.out.dtype)


def relu(n: Call) -> Ref:
    return n.ew("maximum", n.x, 0)


def leaky_relu(n: Call) -> Ref:
    below = n.ew("mul", n.ew("minimum", n.x, 0), n.get("negative_slope", 0.01))
    return n.ew("add", n.ew("maximum", n.x, 0), below)


def gelu(n: Call) -> Ref:
    kind = n.get("approximate", "none")
    return n.emit("gelu", n.shape(n.x), n.out.dtype, x=n.x, approximate=kind)


def hardsigmoid(n: Call) -> Ref:
    inner = n.ew("add", n.ew("div", n.x, 6.0), 0.5)
    return n.ew("minimum", n.ew("maximum", inner, 0.0), 1.0)


def hardswish(n: Call) -> Ref:
    return n.ew("mul", n.x, hardsigmoid(n))


def mish(n: Call) -> Ref:
    return n.ew("mul", n.x, n.ew("tanh", _softplus(n, n.x)))


def softplus(n: Call) -> Ref:
    if n.get("beta", 1) != 1:
        raise n.error("has a beta other than 1")
    return _softplus(n, n.x)


def _softplus(n: Call, x: Ref) -> Ref:
    """log(1 + exp(x)), without overflow."""
    small = n.ew("exp", n.ew("neg", n.ew("abs", x)))
    return n.ew("add", n.ew("maximum", x, 0), n.ew("log", n.ew("add", small, 1)))


def glu(n: Call) -> Ref:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape), -1)
    half = n.out.shape[dim]
    first, second = n.slice(n.x, dim, 0, half), n.slice(n.x, dim, half, half)
    return n.ew("mul", first, n.ew("sigmoid", second))


def clamp(n: Call) -> Ref:
    x: Argument = n.x
    hard = n.node.base.removesuffix("_") in ("aten.hardtanh", "aten.relu6")
    most = (6, 0) if "relu6" in n.node.base else (1, -1) if hard else (None, None)
    for names, op, default in (
        (("min", "min_val"), "maximum", most[1]),
        (("max", "max_val"), "minimum", most[0]),
    ):
        bound = n.get(names[0], n.get(names[1], default))
        if bound is not None:
            x = n.ew(op, x, bound, dtype=n.out.dtype)
    return x


def elu(n: Call) -> Ref:
    """``scale`` times x above 0, and alpha (exp(x) - 1) below."""
    below = n.ew("minimum", n.x, 0)
    grown = n.ew("exp", n.ew("mul", below, n.get("input_scale", 1)))
    both = n.ew(
        "add", n.ew("maximum", n.x, 0), _scaled(n, n.ew("sub", grown, 1), n.get("alpha", 1))
    )
    return _scaled(n, both, n.get("scale", 1))


def diff(n: Call) -> Ref:
    """Differences of neighbours along a dimension."""
    if n.get("n", 1) != 1:
        raise n.error("takes differences more than once")
    dim = n.dim("dim", len(n.shape(n.x)), -1)
    parts = [n[k] for k in ("prepend", "self", "append") if n.get(k) is not None]
    x = join(n, parts, dim)
    size = n.shape(x)[dim] - 1
    return n.ew("sub", n.slice(x, dim, 1, size), n.slice(x, dim, 0, size), dtype=n.out.dtype)


def log_sigmoid(n: Call) -> Ref:
    return n.ew("neg", _softplus(n, n.ew("neg", n.x)))


def where(n: Call) -> Ref | tuple[Ref, ...]:
    if "other" not in n.args:
        outs = [(v.shape, v.dtype) for v in n.node.outs if v is not None]
        return n.emit_all("nonzero", outs, x=n["condition"])
    return n.ew("where", n["condition"], n["self"], n["other"], dtype=n.out.dtype)


def masked_fill(n: Call) -> Ref:
    return n.ew("where", n["mask"], n["value"], n.x, dtype=n.out.dtype)


def addc(op: str) -> Rule:
    """``self`` and ``value`` times the product or quotient of two tensors."""

    def rule(n: Call) -> Ref:
        inner = n.ew(op, n["tensor1"], n["tensor2"])
        return n.ew("add", n["self"], _scaled(n, inner, n.get("value", 1)), dtype=n.out.dtype)

    return rule


def lerp(n: Call) -> Ref:
    step = n.ew("mul", n.ew("sub", n["end"], n["self"]), n["weight"])
    return n.ew("add", n["self"], step, dtype=n.out.dtype)


def reduction(op: str) -> Rule:
    """A reduction over ``dim``, all dimensions where there is none."""

    def rule(n: Call) -> Ref:
        dims = n.axes("dim", len(n.shape(n.x)))
        x = n.x
        if op in ("sum", "mean") and is_float(n.out.dtype):
            x = n.cast(x, n.out.dtype)
        return n.reduce(op, x, dims, bool(n.get("keepdim", False)), n.out.dtype)

    return rule


def extreme(op: str) -> Rule:
    """max and min: of all, of two tensors, or of a dimension, with indices."""

    def rule(n: Call) -> Ref | tuple[Ref, ...]:
        if isinstance(n.get("other"), Ref):
            return n.ew(f"{op}imum", n["self"], n["other"], dtype=n.out.dtype)
        dims = n.axes("dim", len(n.shape(n.x)))
        keep = bool(n.get("keepdim", False))
        most = n.reduce(f"a{op}", n.x, dims, keep, n.out.dtype)
        if n.get("dim") is None:
            return most
        return most, n.reduce(f"arg{op}", n.x, dims, keep, "int64")

    return rule


def variance(n: Call) -> Ref:
    """Variance over dimensions, of a sample unless the correction is 0."""
    shape = n.shape(n.x)
    dims = n.axes("dim", len(shape))
    correction = n.get("correction", 1 if n.get("unbiased", True) else 0)
    count = math.prod(shape[d] for d in dims)
    if not isinstance(count, int) or not isinstance(correction, int):
        raise n.error("is over a dimension that only the run knows")
    off = n.ew("sub", n.x, n.reduce("mean", n.x, dims, True, n.out.dtype))
    total = n.reduce("sum", n.ew("mul", off, off), dims, bool(n.get("keepdim")), n.out.dtype)
    return n.ew("mul", total, 1 / (count - correction))


def norm(n: Call) -> Ref:
    """The Euclidean norm over dimensions."""
    if n.get("ord", n.get("p", 2)) != 2:
        raise n.error("is not the Euclidean norm")
    dims = n.axes("dim", len(n.shape(n.x)))
    total = n.reduce("sum", n.ew("mul", n.x, n.x), dims, bool(n.get("keepdim")), n.out.dtype)
    return n.ew("sqrt", total)


def softmax(n: Call) -> Ref:
    dim = n.dim("dim", len(n.shape(n.x)), -1)
    x = n.cast(n.x, n.out.dtype)
    return n.emit("softmax", n.shape(x), n.out.dtype, x=x, dim=dim)


def _off_and_sum(n: Call, x: Ref) -> tuple[Ref, Ref, Ref]:
    """x without its largest, that, and the logarithm of the sum of the powers of the former."""
    dims = n.axes("dim", len(n.shape(x)))
    most = n.reduce("amax", x, dims, True, n.out.dtype)
    off = n.ew("sub", x, most)
    return off, most, n.ew("log", n.reduce("sum", n.ew("exp", off), dims, True, n.out.dtype))


def log_softmax(n: Call) -> Ref:
    off, _, total = _off_and_sum(n, n.cast(n.x, n.out.dtype))
    return n.ew("sub", off, total)


def logsumexp(n: Call) -> Ref:
    _, most, total = _off_and_sum(n, n.x)
    return n.reshape(n.ew("add", total, most), n.out.shape)


def _normed_dims(n: Call) -> tuple[int, ...]:
    given = n["normalized_shape"]
    assert isinstance(given, tuple)
    rank = len(n.shape(n.x))
    return tuple(range(rank - len(given), rank))


def _weighted(n: Call, x: Ref) -> Ref:
    """Weight and bias of a norm, in the result's type."""
    if n.get("weight") is not None:
        x = n.ew("mul", x, n["weight"])
    if n.get("bias") is not None:
        x = n.ew("add", x, n["bias"])
    return n.cast(x, n.out.dtype)


def _wide(n: Call) -> Ref:
    return n.cast(n.x, "float32") if n.dtype(n.x) in _NARROW else n.x


def rms_norm(n: Call) -> Ref | tuple[Ref, ...]:
    x = _wide(n)
    default = 2.0**-7 if n.dtype(n.x) == "bfloat16" else 2.0**-23
    dims = _normed_dims(n)
    mean = n.reduce("mean", n.ew("mul", x, x), dims, True, n.dtype(x))
    scale = n.ew("rsqrt", n.ew("add", mean, n.get("eps", default)))
    return _with_statistics(n, _weighted(n, n.ew("mul", x, scale)), scale)


def layer_norm(n: Call) -> Ref | tuple[Ref, ...]:
    x, dims = _wide(n), _normed_dims(n)
    mean = n.reduce("mean", x, dims, True, n.dtype(x))
    off = n.ew("sub", x, mean)
    power = n.reduce("mean", n.ew("mul", off, off), dims, True, n.dtype(x))
    scale = n.ew("rsqrt", n.ew("add", power, n.get("eps", 1e-5)))
    return _with_statistics(n, _weighted(n, n.ew("mul", off, scale)), mean, scale)


def _with_statistics(n: Call, x: Ref, *more: Ref) -> Ref | tuple[Ref, ...]:
    return x if len(n.node.outs) == 1 else (x, *more)
