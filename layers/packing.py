"""Parts of packed columns: a slice of a view becomes a view of a slice of columns.

Queries, keys and values that one product makes are cut out of its columns, whatever order the
model arranges its dimensions in before.
"""

from __future__ import annotations

from dataclasses import replace

from .form import Layer, Operation, Ref, Value
from .simplify import without_unread
from .translation import product


def unpacked(layer: Layer) -> Layer:
    """The layer with slices before permutations and before columns are split."""
    makers: dict[str, Operation] = {}
    shapes = {n: v.shape for n, v in layer.values.items()}
    found: list[Operation] = []
    cut: set[str] = set()
    for op in layer.operations:
        steps = _moved(op, makers, shapes)
        if op.op == "reshape" and op.args["x"].name in cut:
            steps = _squeezed(op, makers, shapes)
        if len(steps) > 1:
            cut.add(op.out.name)
        for step in steps:
            found.append(step)
            makers[step.out.name] = step
            shapes |= {v.name: v.shape for v in step.outputs}
    columns = {op.args["x"].name for op in found if op.op == "slice" and _is_last(op)}
    parts = [s for op in found for s in (_biased(op) if op.out.name in columns else [op])]
    return without_unread(replace(layer, operations=tuple(parts)))


def _is_last(op: Operation) -> bool:
    return op.args["dim"] == len(op.out.shape) - 1


def _biased(op: Operation) -> list[Operation]:
    """A product whose columns are cut, with its bias apart."""
    if op.op != "linear" or op.args["bias"] is None:
        return [op]
    plain = replace(op.out, name=f"{op.out.name}__product")
    args = {"x": Ref(plain.name), "y": op.args["bias"]}
    made = replace(op, args=dict(op.args) | {"bias": None}, outputs=(plain,))
    return [made, replace(op, op="add", args=args)]


def _moved(op: Operation, makers: dict, shapes: dict) -> list[Operation]:
    """An operation as a slice of columns and views of it, if it is a part of packed columns."""
    view = makers.get(op.args["x"].name) if op.op == "slice" else None
    if view is None or view.op not in ("permute", "reshape"):
        return [op]
    dim, x = op.args["dim"], view.args["x"].name
    if view.op == "permute":
        dims = view.args["dims"]
        part = _cut(op, x, dims[dim], shapes, 1)
        steps = _moved(part, makers, shapes)
        last = replace(op, op="permute", args={"x": Ref(part.out.name), "dims": dims})
        return [*steps, last] if len(steps) > 1 else [op]
    lead = len(shapes[x]) - 1
    wide = view.out.shape
    if dim != lead or len(wide) <= lead + 1 or wide[:lead] != shapes[x][:lead]:
        return [op]
    inner = product(wide[lead + 1 :])
    if not isinstance(inner, int) or op.args["step"] != 1:
        return [op]
    part = _cut(op, x, lead, shapes, inner)
    last = replace(op, op="reshape", args={"x": Ref(part.out.name)})
    return [*_moved(part, makers, shapes), last]


def _cut(op: Operation, x: str, dim: int, shapes: dict, factor: int) -> Operation:
    """The slice of ``x`` that is a slice of a view of it."""
    start, end = (op.args[k] * factor for k in ("start", "end"))
    size = op.out.shape[op.args["dim"]] * factor
    shape = (*shapes[x][:dim], size, *shapes[x][dim + 1 :])
    name = f"{op.out.name}__{len(shape)}"
    args = {"x": Ref(x), "dim": dim, "start": start, "end": end, "step": op.args["step"]}
    return replace(op, args=args, outputs=(Value(name, shape, op.out.dtype),))


def _squeezed(op: Operation, makers: dict, shapes: dict) -> list[Operation]:
    """A permutation of a tensor without the dimensions of 1 that it would lose behind it."""
    view = makers.get(op.args["x"].name)
    if view is None or view.op != "permute":
        return [op]
    dims, whole = view.args["dims"], view.out.shape
    kept = [d for d, n in zip(dims, whole, strict=True) if n != 1]
    if len(kept) == len(dims) or tuple(n for n in whole if n != 1) != op.out.shape:
        return [op]
    x, order = view.args["x"].name, sorted(kept)
    inner = Value(f"{op.out.name}__1", tuple(shapes[x][d] for d in order), op.out.dtype)
    first = replace(op, args={"x": Ref(x)}, outputs=(inner,))
    args = {"x": Ref(inner.name), "dims": tuple(order.index(d) for d in kept)}
    return [first, replace(op, op="permute", args=args)]
