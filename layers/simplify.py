"""Passes over a form: sizes that are equal, values that nothing reads, control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import sympy

from . import sizes
from .form import Argument, Body, Layer, Operation, Ref, Size, Value
from .meaning import PRODUCTS, VIEWS
from .translation import is_float


def with_sizes(layer: Layer, pairs: list[tuple[Any, Any]]) -> Layer:
    """The layer with sizes that are to be equal substituted; what cannot be, is an equality."""
    found, left = sizes.unify(pairs)
    symbols = dict(layer.symbols)
    for symbol, value in found.items():
        least, most = symbols.pop(str(symbol), (0, None))
        if isinstance(value, sympy.Symbol):
            low, high = symbols.get(str(value), (0, None))
            ends = [m for m in (most, high) if m is not None]
            symbols[str(value)] = (max(least, low), min(ends, default=None))
    return replace(
        layer,
        inputs=tuple(_of_size(v, found) for v in layer.inputs),
        symbols=symbols,
        equalities=tuple((sizes.replace(a, found), sizes.replace(b, found)) for a, b in left),
        operations=tuple(resized(op, found) for op in layer.operations),
    )


def _of_size(v: Value, found: Mapping) -> Value:
    return replace(v, shape=tuple(sizes.replace(s, found) for s in v.shape))


def resized(op: Operation, found: Mapping) -> Operation:
    """An operation with sizes substituted."""
    args = {k: _argument(a, found) for k, a in op.args.items()}
    return replace(op, args=args, outputs=tuple(_of_size(v, found) for v in op.outputs))


def _argument(a: Argument, found: Mapping) -> Argument:
    match a:
        case sympy.Expr():
            return sizes.replace(a, found)
        case tuple():
            return tuple(_argument(x, found) for x in a)
        case Body():
            inner = tuple(resized(op, found) for op in a.operations)
            return replace(a, rows=_of_size(a.rows, found), operations=inner)
    return a


def renamed(a: Argument, names: Mapping[str, str]) -> Argument:
    """An argument with values replaced by others."""
    match a:
        case Ref(name=name):
            return Ref(names.get(name, name))
        case tuple():
            return tuple(renamed(x, names) for x in a)
        case Body():
            return replace(a, weights={k: renamed(w, names) for k, w in a.weights.items()})
    return a


def read_by(operations: Iterable[Operation], wanted: Iterable[str]) -> tuple[Operation, ...]:
    """Operations that values ``wanted`` need, in order."""
    needed = set(wanted)
    kept: list[Operation] = []
    for op in reversed(list(operations)):
        if any(v.name in needed for v in op.outputs):
            kept.append(op)
            needed.update(op.reads())
    return tuple(kept[::-1])


def without_unread(layer: Layer) -> Layer:
    """The layer without operations and weights that no output needs."""
    wanted = {o.name for o in layer.outputs}
    operations = read_by(layer.operations, wanted)
    wanted |= {n for op in operations for n in op.reads()}
    control = read_by(layer.control, wanted)
    wanted |= {n for op in control for n in op.reads()}
    weights = {n: w for n, w in layer.weights.items() if n in wanted}
    return replace(layer, weights=weights, control=control, operations=operations)


def collapsed(layer: Layer) -> Layer:
    """The layer with chains of reshapes as one, and none where a shape stays as it is."""
    shapes = {name: v.shape for name, v in layer.values.items()}
    operations, names = collapse(layer.operations, shapes)
    outputs = tuple(replace(o, name=names.get(o.name, o.name)) for o in layer.outputs)
    return replace(layer, operations=operations, outputs=outputs)


def collapse(
    operations: Iterable[Operation], shapes: Mapping[str, tuple[Size, ...]]
) -> tuple[tuple[Operation, ...], dict[str, str]]:
    """The same for operations on values of given shapes, and what values are called now."""
    names: dict[str, str] = {}
    base: dict[str, str] = {}
    found: list[Operation] = []
    for op in operations:
        op = replace(op, args={k: renamed(a, names) for k, a in op.args.items()})
        if op.op == "reshape":
            given: str = op.args["x"].name
            x = base.get(given, given)
            if shapes[x] == op.out.shape:
                names[op.out.name] = x
                continue
            base[op.out.name] = x
            op = replace(op, args={"x": Ref(x)})
        found.append(op)
    return tuple(found), names


def with_control(layer: Layer) -> Layer:
    """The layer with its control apart: what integer inputs, weights and sizes alone decide.

    A view of a weight is none of it: it is how the weight is loaded. Neither are products, nor rows
    of parameters.
    """
    learned = {n for n, w in layer.weights.items() if w.parameter}
    known = {v.name for v in layer.inputs if not is_float(v.dtype)} | set(layer.weights)
    weights = set(layer.weights)
    control: list[Operation] = []
    others: list[Operation] = []
    for op in layer.operations:
        reads = set(op.reads())
        names = {v.name for v in op.outputs}
        gathers = op.op == "index" and op.args["x"].name in learned
        if not reads <= known or op.op in PRODUCTS or gathers:
            others.append(op)
        elif op.op in VIEWS and reads and reads <= weights:
            weights |= names
            known |= names
            others.append(op)
        else:
            known |= names
            control.append(op)
    needed = {n for op in control for n in op.reads()}
    for op in reversed(others):  # views of weights that control reads
        if any(v.name in needed for v in op.outputs):
            needed.update(op.reads())
            control = [op, *control] if op.out.name in weights else control
    others = [op for op in others if op not in control]
    return replace(layer, control=tuple(control), operations=tuple(others))
