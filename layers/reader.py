"""Reader of archives: the passes from a graph to the form of its layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import simplify, sizes
from .archive import Archive
from .arrangement import arranged
from .attention import with_attention, with_linear
from .experts import with_experts
from .folding import folded
from .form import Layer, Operation, Output, Ref, Value, Weight
from .graph import Graph
from .masks import with_masks
from .meaning import DATA
from .operations import translate
from .translation import Translation, refusal


def read(path: str | Path) -> Layer:
    """The layer that an archive holds.

    Raises
    ------
    ProgramError
        The archive is damaged or of another schema, or the layer has an operation that no canonical
        one stands for: the message has the model's own line.
    """
    archive = Archive(path)
    try:
        graph = Graph(archive.model, archive.path.name)
        inputs, weights = _inputs(graph, dict(archive.weights()), archive)
        results = graph.signature["output_specs"]
        t = Translation(
            {v.name: v for v in inputs} | {name: w.value for name, w in weights.items()}
        )
        for node in graph.nodes():
            translate(node, t)
        outputs = _outputs(results, t, inputs, archive)
        if kept := next((w for name, w in weights.items() if t.current(name) != name), None):
            raise archive.error(
                f"writes {kept.path!r} in place, which no run keeps",
                "let it be an input of the layer, and its new content a result",
            )
    except (KeyError, TypeError, AttributeError, ValueError, StopIteration) as e:
        raise archive.error(f"is not as the schema says: {type(e).__name__} {e}") from None
    guards = sizes.equalities(graph.guards, {v.name: v for v in inputs})
    layer = Layer(
        archive.path.stem,
        str(archive.path),
        archive.digest,
        tuple(inputs),
        weights,
        graph.symbols,
        (),
        (),
        tuple(t.operations),
        outputs,
    )
    layer = simplify.with_sizes(simplify.without_unread(folded(layer)), guards + t.pairs)
    layer = simplify.with_control(with_linear(with_attention(arranged(layer))))
    layer = with_experts(with_masks(layer))
    layer = simplify.without_unread(simplify.collapsed(layer))
    _check(layer)
    used = {str(s) for v in layer.inputs for s in sizes.symbols_of(v.shape)}
    return replace(layer, symbols={s: r for s, r in layer.symbols.items() if s in used})


def _check(layer: Layer) -> None:
    """Refuse what is neither control nor an operation on values of the run."""
    known = {s for v in layer.inputs for s in sizes.symbols_of(v.shape)}
    views = set(layer.weights)
    for op in layer.operations:
        if set(op.reads()) <= views:
            views |= {v.name for v in op.outputs}
        if op.op == "index" and op.args["x"].name in views:
            raise refusal(
                f"weights are gathered (value {op.out.name!r}) by indices of the run, and it is no "
                "choice of experts",
                op.line,
                "write experts as transformers does, from a topk to a weighted sum over it; let "
                "rows of a table be an input of the layer",
            )
    for op in layer.operations:
        if op.op not in DATA and op.op != "experts" and not _is_mark(layer, op):
            raise refusal(
                f"operation {op.op!r} (value {op.out.name!r}) is on values that only the run knows",
                op.line,
                "make it of integer inputs alone, or write it with other operations; an archive "
                "is best saved as exported, without run_decompositions",
            )
        for s in sizes.symbols_of(op.out.shape) - known:
            raise refusal(
                f"size {s} of value {op.out.name!r} is decided by values of the run",
                op.line,
                "only the rows of experts may be so decided",
            )


def _is_mark(layer: Layer, op: Operation) -> bool:
    """True for a number written where a top-k has chosen."""
    if op.op != "scatter" or op.args["add"]:
        return False
    choice = layer.maker(op.args["index"], "reshape")
    return choice is not None and choice.op == "topk" and not isinstance(op.args["value"], Ref)


def _inputs(
    graph: Graph, stored: Mapping[str, Weight], archive: Archive
) -> tuple[list[Value], dict[str, Weight]]:
    """User inputs in order, and weights by the names of their values."""
    inputs: list[Value] = []
    weights: dict[str, Weight] = {}
    for spec in graph.signature["input_specs"]:
        ((kind, s),) = spec.items()
        if kind == "user_input":
            if "as_tensor" in s["arg"]:
                inputs.append(graph.values[s["arg"]["as_tensor"]["name"]])
            continue
        if kind not in ("parameter", "buffer", "tensor_constant"):
            if kind == "constant_input":
                continue
            raise archive.error(f"has an input of kind {kind!r}, which is no tensor")
        name, path = s["arg"]["name"], s[f"{kind}_name"]
        if path not in stored:
            raise archive.error(f"has no weight {path!r}")
        w, said = stored[path], graph.values[name]
        if (w.value.shape, w.value.dtype) != (said.shape, said.dtype):
            raise archive.error(
                f"weight {path!r} is {w.value.dtype}{list(w.value.shape)}, and the graph says "
                f"{said.dtype}{list(said.shape)}"
            )
        value = replace(w.value, name=name)
        weights[name] = replace(w, value=value, parameter=kind == "parameter")
    return inputs, weights


def _outputs(
    specs: list[dict[str, Any]], t: Translation, inputs: list[Value], archive: Archive
) -> tuple[Output, ...]:
    """Results in order, and behind them the new content of inputs that are written in place."""
    found: list[Output] = []
    changed: dict[str, str] = {}
    for spec in specs:
        ((kind, s),) = spec.items()
        if kind == "user_output":
            if "as_tensor" in s["arg"]:
                found.append(Output(t.resolve(Ref(s["arg"]["as_tensor"]["name"]), "").name))
        elif kind == "user_input_mutation":
            changed[s["user_input_name"]] = t.resolve(Ref(s["arg"]["name"]), "").name
        else:
            raise archive.error(f"has a result of kind {kind!r}, which is not kept")
    for v in inputs:
        name = changed.get(v.name, t.current(v.name))
        if name != v.name:
            if Output(name) not in found:
                found.append(Output(name))
            found = [replace(o, mutates=v.name) if o.name == name else o for o in found]
    if not found:
        raise archive.error("has no result")
    return tuple(found)
