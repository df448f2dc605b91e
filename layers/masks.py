"""Masks that are control, classified by what they are: causal, a run-time count of columns, or
nothing; any other is applied as it is.

A mask is evaluated on sizes beyond every number in its computation, for all kinds of integer
inputs, so a window of columns is never taken for a causal mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import sympy

from .archive import Archive
from .checking import sizes_for
from .form import Argument, Layer, Operation, Ref, Size, Value
from .interpret import Evaluation
from .simplify import read_by
from .translation import is_float

SAMPLES = 6
MOST_COLUMNS = 2048
"""Columns that a mask is evaluated for; one with larger numbers in it is applied as it is."""
MOST_PLACES = 256
"""Rows of a cache of fixed length of which each is tried as the new one's; of more, so many."""
HIDDEN = -1e4
"""A number below which a score has no part."""


def with_masks(layer: Layer) -> Layer:
    """The layer with the masks of its attentions classified."""
    done = []
    control = list(layer.control)
    for op in layer.operations:
        mask, at = op.args.get("mask"), _place(layer, op)
        if op.op == "attention" and mask is not None and mask.name not in layer.weights:
            part = read_by(layer.control, [mask.name])
            if part and at:
                op = _in_place(layer, op, read_by(layer.control, [mask.name, at.name]), at)
            elif part:
                op = _spread(layer, _classified(layer, op, part, control), control)
        done.append(op)
    return replace(layer, control=tuple(control), operations=tuple(done))


def _place(layer: Layer, op: Operation) -> Ref | None:
    """The index of the rows of a cache of fixed length that an attention's new keys take."""
    keys = layer.maker(op.args.get("k"))
    return keys.args["at"] if keys is not None and keys.op == "append" else None


def _in_place(layer: Layer, op: Operation, part: tuple[Operation, ...], at: Ref) -> Operation:
    """Attention over a cache of fixed length: of the columns up to its new row's, no mask."""
    name, rows = op.args["mask"].name, layer.values[op.args["k"].name].shape[2]
    if layer.values[name].shape[-1] != rows:
        return op
    samples = _samples(layer, part, name, rows)
    for s in samples:
        taken, place = _taken(np.atleast_2d(s.values[name])), s.values[at.name]
        if taken is None or place.size != 1:
            return op
        if (taken != (np.arange(taken.shape[-1]) <= place)).any():
            return op
    args = {"mask": None, "lengths": at, "last": "next"}
    return replace(op, args=dict(op.args) | args) if samples else op


def _spread(layer: Layer, op: Operation, control: list[Operation]) -> Operation:
    """Attention whose mask, if it has one, has the rows of its scores."""
    mask, rows = op.args["mask"], op.out.shape[-2]
    v = layer.values[mask.name] if mask is not None else op.out
    if len(v.shape) != 4 or v.shape[-2] == rows:
        return op
    wide = Value(f"{op.out.name}__mask", (*v.shape[:2], rows, v.shape[3]), v.dtype)
    control.append(Operation("expand", {"x": mask}, (wide,), op.module, op.line))
    return replace(op, args=dict(op.args) | {"mask": Ref(wide.name)})


def _classified(
    layer: Layer, op: Operation, part: tuple[Operation, ...], control: list[Operation]
) -> Operation:
    name = op.args["mask"].name
    samples = _samples(layer, part, name)
    if not samples:
        return op
    args = dict(op.args) | {"mask": None}
    masks = [np.atleast_2d(s.values[name]) for s in samples]
    shapes = [m.shape for m in masks]
    parts = [p for m in masks if (p := _taken(m)) is not None]
    if len(parts) < len(samples):
        return op
    if all(p.all() for p in parts):
        return replace(op, args=args)
    square = all(s[-1] == s[-2] for s in shapes)
    if square and all((p == np.tri(p.shape[-1], dtype=bool)).all() for p in parts):
        return replace(op, args=args | {"causal": True})
    if any(s[-2] != 1 or s[:-3] not in ((), s[:1]) or s[1:-2] not in ((), (1,)) for s in shapes):
        return op
    keys = layer.makers.get(op.args["k"].name)
    if keys is None or keys.op != "append":  # only a cache is read as far as a count says
        return op
    for last in (None, "end"):
        counts = [_counts(p.reshape(len(p), -1), bool(last)) for p in parts]
        if all(c is not None for c in counts):
            most = [s[-1] - bool(last) for s in shapes]
            lengths = _lengths(
                layer, op, part, list(zip(samples, counts, most, strict=True)), control
            )
            if lengths is not None:
                return replace(op, args=args | {"lengths": lengths, "last": last})
    return op


def _taken(mask: np.ndarray) -> np.ndarray | None:
    """The columns that take part, of a mask that says no more."""
    if mask.dtype == bool:
        return mask
    taken = mask == 0
    return taken if (taken | (mask < HIDDEN)).all() else None


def _counts(taken: np.ndarray, last: bool) -> np.ndarray | None:
    """Columns from the first on in each row of a mask; ``last``: besides the last column."""
    part = taken[:, :-1] if last else taken
    if last and not taken[:, -1].all():
        return None
    counts = part.sum(1)
    prefix = np.arange(part.shape[1]) < counts[:, None]
    return counts if (prefix == part).all() else None


def _lengths(layer, op, part, samples, control) -> Ref | None:
    """The value of the mask's computation that is the count of columns, or one less; ``samples``:
    evaluations, their counts, and the most that these may be.
    """
    batch = layer.values[op.args["q"].name].shape[0]
    reads = dict.fromkeys(n for p in part for n in p.reads())
    for more in (0, 1):
        for name in reads:
            if all(_counted(s.values.get(name), c, more, most) for s, c, most in samples):
                return _as_vector(layer, op, name, more, batch, control)
    return None


def _counted(x: np.ndarray | None, counts: np.ndarray, more: int, most: int) -> bool:
    if x is None or x.dtype.kind not in "iu" or x.size != counts.size:
        return False
    return bool((np.clip(x.reshape(-1) + more, 0, most) == counts).all())


def _as_vector(layer, op, name, more, batch, control) -> Ref:
    """A count [batch] in int64, of control that is added."""
    v = layer.values[name]
    if v.shape != (batch,):
        out = Value(f"{op.out.name}__lengths", (batch,), v.dtype)
        control.append(Operation("reshape", {"x": Ref(name)}, (out,), op.module, op.line))
        v = out
    if more:
        out = replace(v, name=f"{op.out.name}__counts")
        args = {"x": Ref(v.name), "y": more}
        control.append(Operation("add", args, (out,), op.module, op.line))
        v = out
    return Ref(v.name)


def _samples(
    layer: Layer, part: tuple[Operation, ...], name: str, places: Size = 0
) -> list[Evaluation]:
    """Evaluations of a mask on integer inputs that are drawn, on each number that they may be
    compared with, and on ``places`` numbers; none where it is too large, or some indices are out of
    its tables.
    """
    numbers = [n for op in part for a in op.args.values() for n in _integers(a)]
    if places:
        numbers = [n for n in numbers if n != places]  # its own end is tried below
    beyond = 2 * max((abs(n) for n in numbers), default=1) + 5
    if beyond > MOST_COLUMNS:
        return []
    rng = np.random.default_rng(0)
    archive = Archive(layer.archive)
    needed = {n for op in part for n in op.reads()}
    weights = {n: archive.array(layer.weights[n]) for n in needed if n in layer.weights}
    integers = [v for v in layer.inputs if not is_float(v.dtype)]
    several = range(0, places, places // MOST_PLACES + 1) if isinstance(places, int) else ()
    near = sorted({n + d for n in [*numbers, *several] for d in (-1, 0, 1)}) if integers else []
    found: list[Evaluation] = []
    for i, number in enumerate([None] * SAMPLES + near):
        run = Evaluation(weights, sizes_for(layer, beyond + i % SAMPLES))
        for v in integers:
            shape = tuple(run.size(s) for s in v.shape)
            top = max((run.size(s) for s in layer.values[name].shape), default=1) + 1
            drawn = rng.integers(0, 2 if v.dtype == "bool" else top, shape)
            if number is not None and v.dtype != "bool":
                drawn[...] = number
            run.values[v.name] = drawn.astype(v.dtype)
        try:
            run.run(part)
        except (IndexError, ValueError):
            if number is None:
                return []
        else:
            found.append(run)
    return found


def _integers(a: Argument) -> Iterator[int]:
    """Whole numbers in an argument, but those of sizes' ends."""
    match a:
        case tuple():
            for x in a:
                yield from _integers(x)
        case bool():
            pass
        case int():
            yield a
        case float() if abs(a) < MOST_COLUMNS:
            yield round(a)
        case sympy.Expr():
            yield from (int(n) for n in a.atoms(sympy.Integer))
