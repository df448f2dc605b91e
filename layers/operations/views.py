"""Rules of views, copies and parts of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ..form import Argument, Ref, Size
from ..sizes import MOST_SIZE
from ..translation import Call, product


def same(n: Call) -> Ref:
    """The tensor itself, in another type where the archive says so."""
    return n.cast(n.x, n.out.dtype)


def reshape(n: Call) -> Ref:
    n.same(product(n.shape(n.x)), product(n.out.shape))
    return n.reshape(n.x, n.out.shape)


def transpose(n: Call) -> Ref:
    rank = len(n.shape(n.x))
    names = ("dim0", "dim1") if "dim0" in n.args else ("axis0", "axis1")
    a, b = (n.dim(d, rank) for d in names)
    dims = list(range(rank))
    dims[a], dims[b] = b, a
    return n.permute(n.x, dims)


def matrix_transpose(n: Call) -> Ref:
    rank = len(n.shape(n.x))
    dims = list(range(rank))
    return n.permute(n.x, dims[:-2] + dims[-2:][::-1])


def reverse(n: Call) -> Ref:
    return n.permute(n.x, range(len(n.shape(n.x)))[::-1])


def permute(n: Call) -> Ref:
    rank = len(n.shape(n.x))
    dims = n["dims"]
    assert isinstance(dims, tuple)
    return n.permute(n.x, [n.axis(d, rank) for d in dims])


def movedim(n: Call) -> Ref:
    rank = len(n.shape(n.x))
    source, target = (_many(n, n[k], rank) for k in ("source", "destination"))
    rest = [d for d in range(rank) if d not in source]
    for t, s in sorted(zip(target, source, strict=True)):
        rest.insert(t, s)
    return n.permute(n.x, rest)


def _many(n: Call, dims: Argument, rank: int) -> list[int]:
    return [n.axis(d, rank) for d in (dims if isinstance(dims, tuple) else (dims,))]


def slice_(n: Call) -> Ref:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape))
    start = _place(n.get("start", 0), shape[dim])
    step = n.get("step", 1)
    assert isinstance(step, int)
    return n.slice(n.x, dim, start, n.out.shape[dim], step)


def _place(at: Argument, size: Size) -> Size:
    """A place from 0 on; one from the end is below 0, and one beyond it is the end."""
    if isinstance(at, int):
        if at < 0:
            return max(size + at, 0) if isinstance(size, int) else size + at
        return size if at >= MOST_SIZE or (isinstance(size, int) and at > size) else at
    return at


def narrow(n: Call) -> Ref:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape))
    return n.slice(n.x, dim, _place(n["start"], shape[dim]), n.out.shape[dim])


def select(n: Call) -> Ref:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape))
    part = n.slice(n.x, dim, _place(n["index"], shape[dim]), 1)
    return n.reshape(part, (*shape[:dim], *shape[dim + 1 :]))


def split(n: Call) -> tuple[Ref, ...]:
    """Parts of a dimension, one after the other, as large as the archive says."""
    dim = n.dim("dim", len(n.shape(n.x)))
    found: list[Ref] = []
    start: Size = 0
    for v in n.node.outs:
        if v is None:
            raise n.error("has a part without a name")
        found.append(n.slice(n.x, dim, start, v.shape[dim]))
        start += v.shape[dim]
    return tuple(found)


def unbind(n: Call) -> tuple[Ref, ...]:
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape))
    rest = (*shape[:dim], *shape[dim + 1 :])
    parts = [n.slice(n.x, dim, i, 1) for i in range(len(n.node.outs))]
    return tuple(n.reshape(p, rest) for p in parts)


def expand(n: Call) -> Ref:
    return n.expand(n.x, n.out.shape)


def repeat(n: Call) -> Ref:
    repeats = n["repeats"] if "repeats" in n.args else n["dims"]
    assert isinstance(repeats, tuple)
    shape = n.shape(n.x)
    rank = max(len(shape), len(repeats))
    shape = (1,) * (rank - len(shape)) + shape
    repeats = (1,) * (rank - len(repeats)) + repeats
    pairs = list(zip(repeats, shape, strict=True))
    ones = tuple(s for r, m in pairs for s in ((1, m) if r != 1 else (m,)))
    wide = tuple(s for r, m in pairs for s in ((r, m) if r != 1 else (m,)))
    return n.reshape(n.expand(n.reshape(n.x, ones), wide), n.out.shape)


def repeat_interleave(n: Call) -> Ref:
    repeats = n["repeats"]
    if isinstance(repeats, Ref):
        raise n.error("repeats by numbers that only the run knows")
    x, shape = n.x, n.shape(n.x)
    if n.get("dim") is None:
        shape = (product(shape),)
        x = n.reshape(x, shape)
    dim = n.dim("dim", len(shape))
    one = n.reshape(x, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
    wide = n.expand(one, (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return n.reshape(wide, n.out.shape)


def cat(n: Call) -> Ref:
    given = n["tensors"]
    assert isinstance(given, tuple)
    parts = [p for p in given if n.shape(p) != (0,)]
    dim = n.dim("dim", len(n.out.shape))
    return join(n, parts, dim)


def join(n: Call, parts: Sequence[Argument], dim: int) -> Ref:
    """Tensors one after the other along a dimension."""
    if not parts:
        return n.emit("full", n.out.shape, n.out.dtype, value=0)
    first = n.value(parts[0])
    size: Size = 0
    for p in parts:
        v = n.value(p)
        if v.dtype != first.dtype:
            raise n.error(f"mixes types {first.dtype} and {v.dtype}", "convert one of them first")
        for i, (a, b) in enumerate(zip(first.shape, v.shape, strict=True)):
            if i != dim:
                n.same(a, b)
        size += v.shape[dim]
    if len(parts) == 1:
        return Ref(first.name)
    shape = (*first.shape[:dim], size, *first.shape[dim + 1 :])
    return n.emit("cat", shape, first.dtype, tensors=tuple(parts), dim=dim)


def stack(n: Call) -> Ref:
    parts = n["tensors"]
    assert isinstance(parts, tuple)
    dim = n.dim("dim", len(n.out.shape))
    ones = []
    for p in parts:
        shape = n.shape(p)
        ones.append(n.reshape(p, (*shape[:dim], 1, *shape[dim:])))
    return join(n, ones, dim)


def pad(n: Call) -> Ref:
    pads = n["pad"]
    if n.get("mode", "constant") != "constant":
        raise n.error(f"pads by {n['mode']!r}")
    return n.emit("pad", n.out.shape, n.out.dtype, x=n.x, pads=pads, value=n.get("value", 0))


def flip(n: Call) -> Ref:
    dims = n.axes("dims", len(n.shape(n.x)))
    return n.emit("flip", n.out.shape, n.out.dtype, x=n.x, dims=dims)


def roll(n: Call) -> Ref:
    args = {"shifts": n["shifts"], "dims": n.get("dims", ())}
    return n.emit("roll", n.out.shape, n.out.dtype, x=n.x, **args)


def slice_update(n: Call) -> Ref:
    """slice_scatter and select_scatter: a tensor with a part replaced."""
    shape = n.shape(n.x)
    dim = n.dim("dim", len(shape))
    source = n["src"]
    step = n.get("step", 1)
    assert isinstance(step, int)
    if "index" in n.args:
        start = _place(n["index"], shape[dim])
        source = n.reshape(source, (*shape[:dim], 1, *shape[dim + 1 :]))
    else:
        start = _place(n.get("start", 0), shape[dim])
    size = n.shape(source)[dim]
    args = {"dim": dim, "start": start, "end": start + (size - 1) * step + 1, "step": step}
    return n.emit("slice_update", shape, n.out.dtype, x=n.x, value=source, **args)


def drop(n: Call) -> Ref:
    """Dropout, which a layer that is evaluated does not do."""
    if n.get("train", n.get("training", False)) and n.get("p", 0):
        raise n.error("drops values at random", "export the layer in eval mode: layer.eval()")
    return n.x
