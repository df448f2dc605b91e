"""Attention as a layer may write it, made one operation: products around a softmax, heads of keys
and values repeated for groups of queries, caches with new rows.
"""

from __future__ import annotations

from dataclasses import replace

from .form import Argument, Layer, Operation, Ref
from .simplify import without_unread


def with_attention(layer: Layer) -> Layer:
    """The layer with each attention an operation ``attention`` on heads that are not repeated, and
    each cache that new rows are written to an ``append``.
    """
    found = tuple(_attention(layer, op) or op for op in layer.operations)
    layer = replace(layer, operations=found)
    found = tuple(_grouped(layer, op) if op.op == "attention" else op for op in layer.operations)
    layer = without_unread(replace(layer, operations=found))
    return replace(layer, operations=tuple(_append(layer, op) for op in layer.operations))


def with_linear(layer: Layer) -> Layer:
    """The layer with products by transposed weights as ``linear``."""
    weights = set(layer.weights)
    for op in layer.operations:
        if op.op in ("slice", "reshape") and set(op.reads()) <= weights:
            weights.add(op.out.name)

    def changed(op: Operation) -> Operation:
        view = layer.maker(op.args["y"]) if op.op == "matmul" else None
        if view is None or view.op != "permute" or view.args["dims"] != (1, 0):
            return op
        if view.args["x"].name not in weights:
            return op
        args = {"x": op.args["x"], "weight": view.args["x"], "bias": None}
        return replace(op, op="linear", args=args)

    return without_unread(replace(layer, operations=tuple(map(changed, layer.operations))))


def _attention(layer: Layer, op: Operation) -> Operation | None:
    """``attention`` for the product of a softmax and values, if its scores are a product."""
    if op.op != "matmul" or len(op.out.shape) != 4:
        return None
    found = _scores(layer, op.args["x"])
    if found is None:
        return None
    scores, sink = found
    mask: Argument = None
    scale = 1.0
    while scores is not None and scores.op in ("add", "mul", "div", "where"):
        x, y = scores.args["x"], scores.args["y"]
        if scores.op == "mul" and isinstance(y, int | float):
            scale *= y
        elif scores.op == "div" and isinstance(y, int | float):
            scale /= y
        elif scores.op == "add" and mask is None and scale == 1 and isinstance(y, Ref):
            masks = [_is_mask(layer, a) for a in (x, y)]
            if masks.count(True) != 1:
                return None
            mask, x = (x, y) if masks[0] else (y, x)
        elif scores.op == "where" and mask is None and scale == 1 and _hidden(scores.args["z"]):
            mask, x = x, y
        else:
            return None
        scores = layer.maker(x, "cast")
    if scores is None or scores.op != "matmul":
        return None
    keys = layer.maker(scores.args["y"])
    if keys is None or keys.op != "permute" or keys.args["dims"] != (0, 1, 3, 2):
        return None
    q, k, v = scores.args["x"], keys.args["x"], op.args["y"]
    if len(layer.values[q.name].shape) != 4:
        return None
    args = {"q": q, "k": k, "v": v, "mask": mask, "causal": False, "scale": scale, "groups": 1}
    return replace(op, op="attention", args=args | {"lengths": None, "last": None, "sink": sink})


def _scores(layer: Layer, shares: Ref) -> tuple[Operation | None, Ref | None] | None:
    """The operation whose softmax shares are, and the sink beside it that has no value."""
    op, sink = layer.maker(shares, "cast"), None
    cut = op is not None and op.op == "slice"
    if cut:
        columns = tuple(op.args[k] for k in ("dim", "start", "step"))  # type: ignore[union-attr]
        op = layer.maker(op.args["x"], "cast") if columns == (3, 0, 1) else None  # type: ignore
    if op is None or op.op != "softmax" or op.args["dim"] != 3:
        return None
    scores = _shifted(layer, layer.maker(op.args["x"], "cast"))
    if not cut or scores is None:
        return scores, None
    if (sink := _sink(layer, scores)) is None:
        return None
    first = scores.args["tensors"][0]
    same = layer.values[first.name].shape[3] == layer.values[shares.name].shape[3]
    return (layer.maker(first, "cast"), sink) if same else None


def _shifted(layer: Layer, scores: Operation | None) -> Operation | None:
    """Scores before their largest is taken off, which changes no softmax."""
    if scores is None or scores.op != "sub":
        return scores
    most = layer.maker(scores.args["y"], "cast")
    same = most is not None and most.op == "amax" and most.args["dims"] == (3,)
    plain = same and most.args["x"] == scores.args["x"]  # type: ignore[union-attr]
    return layer.maker(scores.args["x"], "cast") if plain else scores


def _sink(layer: Layer, scores: Operation) -> Ref | None:
    """The weight [heads] that scores have as their last column."""
    if scores.op != "cat" or scores.args["dim"] != 3 or len(scores.args["tensors"]) != 2:
        return None
    own = layer.maker(scores.args["tensors"][1], "cast", "expand")
    if own is None or own.op != "reshape" or own.args["x"].name not in layer.weights:
        return None
    heads = (scores.out.shape[1],)
    fits = own.out.shape[-3:] == (*heads, 1, 1) and layer.values[own.args["x"].name].shape == heads
    return own.args["x"] if fits else None


def _hidden(z: Argument) -> bool:
    """True for a number that takes a score out of a softmax."""
    return isinstance(z, int | float) and z < -1e4


def _is_mask(layer: Layer, x: Argument) -> bool:
    """True for what is added to scores without being made of products: its maker is none."""
    op = layer.maker(x, "cast", "reshape", "expand", "slice", "mul", "div")
    return op is None or op.op not in ("matmul", "linear", "add", "sub")


def _grouped(layer: Layer, op: Operation) -> Operation:
    """Attention on keys and values before their heads are repeated, and a mask for all heads."""
    mask = layer.maker(op.args["mask"], "reshape")
    if mask is not None and mask.op == "expand" and len(mask.out.shape) == 4:
        x = layer.values[mask.args["x"].name].shape
        whole = mask.out.shape == layer.values[op.args["mask"].name].shape
        if whole and x[1] == 1 and x[0] == mask.out.shape[0]:
            op = replace(op, args=dict(op.args) | {"mask": mask.args["x"]})
    repeats = [_repeated(layer, op.args[k]) for k in ("k", "v")]
    if None in repeats:
        return op
    (k, groups), (v, same) = repeats  # type: ignore[misc]
    if groups != same or groups == 1:
        return op
    args = {"k": k, "v": v, "groups": op.args["groups"] * groups}
    return replace(op, args=dict(op.args) | args)


def _repeated(layer: Layer, x: Ref) -> tuple[Ref, int] | None:
    """The value [B, H, C, D] that has each head G times in [B, H G, C, D], and G."""
    shape = layer.values[x.name].shape
    merged = layer.maker(x)
    if merged is not None and merged.op == "expand":
        inner = layer.values[merged.args["x"].name].shape
        ok = inner == (shape[0], 1, *shape[2:]) and isinstance(shape[1], int)
        return (merged.args["x"], shape[1]) if ok else None  # type: ignore[return-value]
    wide = layer.maker(merged.args["x"]) if merged and merged.op == "reshape" else None
    if wide is None or wide.op != "expand" or len(wide.out.shape) != 5:
        return None
    b, h, g, *rest = wide.out.shape
    one = layer.values[wide.args["x"].name].shape
    if one != (b, h, 1, *rest) or not isinstance(g, int) or shape != (b, h * g, *rest):
        return None
    source = layer.maker(wide.args["x"])
    while source is not None and source.op == "reshape":
        base = source.args["x"]
        if layer.values[base.name].shape == (b, h, *rest):
            return base, g
        source = layer.maker(base)
    return None


def _append(layer: Layer, op: Operation) -> Operation:
    """``append`` for new rows behind those of an input, or in their place at indices, that is a
    result, too.
    """
    at, dim = op.args.get("index"), op.args.get("dim")
    if op.op == "cat" and len(op.args["tensors"]) == 2:
        cache, rows = op.args["tensors"]
    elif op.op == "index_rows" and not op.args["add"]:
        cache, rows = op.args["x"], op.args["value"]
        shape = list(op.out.shape)
        shape[dim : dim + 1] = layer.values[at.name].shape  # type: ignore[union-attr]
        if not isinstance(rows, Ref) or layer.values[rows.name].shape != tuple(shape):
            return op
    else:
        return op
    inputs = {v.name for v in layer.inputs}
    if cache.name not in inputs or op.out.name not in {o.name for o in layer.outputs}:
        return op
    return replace(op, op="append", args={"cache": cache, "rows": rows, "dim": dim, "at": at})
