"""Operations whose result does not depend on what they seem to read, and parts that are joined."""

from __future__ import annotations

from dataclasses import replace

from .form import Layer, Operation, Ref
from .simplify import read_by, renamed
from .translation import is_float

_PLAIN = ("full", "reshape", "expand", "cast", "not")


def folded(layer: Layer) -> Layer:
    """The layer with what is known before any value: a choice of all (of groups of experts, where
    there is one group), a selection by one constant, and a tensor that is written part by part.
    """
    makers: dict[str, Operation] = {}
    names: dict[str, str] = {}
    kept: list[Operation] = []
    for op in layer.operations:
        op = replace(op, args={k: renamed(a, names) for k, a in op.args.items()})
        op = _turned(_whole(_chosen(op, makers), makers), makers)
        same = _uniform(layer, op, makers) if op.op == "where" else _best(op, makers)
        if same is not None:
            names[op.out.name] = same
            continue
        kept.append(op)
        makers |= {v.name: op for v in op.outputs}
    outputs = tuple(replace(o, name=names.get(o.name, o.name)) for o in layer.outputs)
    return replace(layer, operations=tuple(kept), outputs=outputs)


def _chosen(op: Operation, makers: dict[str, Operation]) -> Operation:
    """A number for all that a topk chooses, where it chooses all: a tensor of the number."""
    if op.op != "scatter" or isinstance(op.args["value"], Ref) or op.args["add"]:
        return op
    choice = makers.get(op.args["index"].name)
    dim = op.args["dim"]
    if choice is None or choice.op != "topk" or choice.args["dim"] != dim:
        return op
    if choice.out.shape != op.out.shape or op.args["index"].name != choice.outputs[1].name:
        return op
    return replace(op, op="full", args={"value": op.args["value"]})


def _uniform(layer: Layer, op: Operation, makers: dict[str, Operation]) -> str | None:
    """The side that a selection always selects, where its condition is one constant."""
    steps = read_by(makers.values(), [op.args["x"].name])
    if not steps or any(s.op not in _PLAIN for s in steps) or steps[0].op != "full":
        return None
    if sum(s.op == "full" for s in steps) != 1 or steps[0].args["value"] not in (0, 1):
        return None
    if any(s.op == "not" and s.out.dtype != "bool" for s in steps):
        return None
    condition = bool(steps[0].args["value"])
    for s in steps:
        condition = condition is not (s.op == "not")
    chosen = op.args["y" if condition else "z"]
    if not isinstance(chosen, Ref):
        return None
    found = {v.name: v for v in layer.inputs} | {n: w.value for n, w in layer.weights.items()}
    found |= {v.name: v for s in makers.values() for v in s.outputs}
    v = found[chosen.name]
    same = v.shape == op.out.shape and v.dtype == op.out.dtype and is_float(v.dtype)
    return chosen.name if same else None


def _turned(op: Operation, makers: dict[str, Operation]) -> Operation:
    """A selection by the opposite of a condition, with its sides exchanged."""
    condition = makers.get(op.args["x"].name) if op.op == "where" else None
    if condition is None or condition.op != "not" or condition.out.dtype != "bool":
        return op
    args = {"x": condition.args["x"], "y": op.args["z"], "z": op.args["y"]}
    return replace(op, args=args)


def _best(op: Operation, makers: dict[str, Operation]) -> str | None:
    """The values of a topk, where they are gathered again by its indices."""
    if op.op != "gather":
        return None
    choice = makers.get(op.args["index"].name)
    if choice is None or choice.op != "topk" or op.args["index"].name != choice.outputs[1].name:
        return None
    same = (choice.args["x"], choice.args["dim"]) == (op.args["x"], op.args["dim"])
    return choice.outputs[0].name if same else None


def _whole(op: Operation, makers: dict[str, Operation]) -> Operation:
    """A tensor all of whose parts along a dimension are written: the parts, joined."""
    parts: dict[object, tuple[object, Ref]] = {}
    step: Operation | None = op
    while step is not None and step.op == "slice_update":
        args = step.args
        if args["dim"] != op.args["dim"] or args["step"] != 1 or not isinstance(args["value"], Ref):
            return op
        parts.setdefault(args["start"], (args["end"], args["value"]))
        step = makers.get(args["x"].name)
    at: object = 0
    joined: list[Ref] = []
    while at in parts:
        at, part = parts.pop(at)
        joined.append(part)
    if not joined or parts or at != op.out.shape[op.args["dim"]]:
        return op
    return replace(op, op="cat", args={"tensors": tuple(joined), "dim": op.args["dim"]})
