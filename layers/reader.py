"""From an archive to the form of its layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import simplify, sizes
from .archive import Archive
from .attention import with_attention
from .form import Layer, Output, Value, Weight
from .graph import Graph
from .masks import with_masks
from .operations import translate
from .translation import Translation


def read(path: str | Path) -> Layer:
    """The layer that an archive holds.

    Raises
    ------
    ProgramError
        The archive is damaged or of another schema, or the layer has an operation that no canonical
        one stands for: the message has the model's own line.
    """
    archive = Archive(path)
    graph = Graph(archive.model, archive.path.name)
    try:
        inputs, weights = _inputs(graph, dict(archive.weights()), archive)
        results = graph.signature["output_specs"]
        t = Translation(
            {v.name: v for v in inputs} | {name: w.value for name, w in weights.items()}
        )
        for node in graph.nodes():
            translate(node, t)
        outputs = _outputs(results, t, inputs, archive)
    except (KeyError, TypeError, AttributeError, ValueError) as e:
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
    layer = simplify.with_sizes(simplify.without_unread(layer), guards + t.pairs)
    layer = simplify.with_control(with_attention(layer))
    return simplify.without_unread(with_masks(layer))


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
        weights[name] = replace(w, value=replace(w.value, name=name))
    return inputs, weights


def _outputs(
    specs: list[dict[str, Any]], t: Translation, inputs: list[Value], archive: Archive
) -> tuple[Output, ...]:
    """Results in order, and inputs that the layer writes in place."""
    found: list[Output] = []
    changed: dict[str, str] = {}
    for spec in specs:
        ((kind, s),) = spec.items()
        if kind == "user_output":
            if "as_tensor" in s["arg"]:
                found.append(Output(t.current(s["arg"]["as_tensor"]["name"])))
        elif kind == "user_input_mutation":
            changed[s["user_input_name"]] = t.current(s["arg"]["name"])
        else:
            raise archive.error(f"has a result of kind {kind!r}, which is not kept")
    for v in inputs:
        name = changed.get(v.name, t.current(v.name))
        if name != v.name:
            found.append(Output(name, v.name))
    if not found:
        raise archive.error("has no result")
    return tuple(found)
