"""Graphs within a graph, of regions without gradients or with a fixed precision: put in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_WRAPS = "torch.ops.higher_order.wrap_with_"
_TABLES = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values")


def inlined(graph: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a graph with the graphs that it wraps in its place."""
    found = {table: dict(graph.get(table) or {}) for table in _TABLES}
    nodes: list[Any] = []
    for n in graph["nodes"]:
        if not str(n["target"]).startswith(_WRAPS):
            nodes.append(n)
            continue
        args = [i["arg"] for i in n["inputs"]]
        at = next(i for i, a in enumerate(args) if "as_graph" in a)
        wrapped, inner = args[at]["as_graph"]["name"], inlined(args[at]["as_graph"]["graph"])
        names: dict[str, str] = {}
        for sides in ((inner["inputs"], args[at + 1 :]), (inner["outputs"], n["outputs"])):
            for inside, outside in zip(*(list(_names(s)) for s in sides), strict=True):
                names.setdefault(inside, outside)
        for table in _TABLES:
            for name, value in inner[table].items():
                found[table].setdefault(names.setdefault(name, f"{wrapped}_{name}"), value)
        nodes += [_renamed(x, names) for x in inner["nodes"]]
    return {**graph, **found, "nodes": nodes}


def _names(arg: Any) -> Iterator[str]:
    """Names of the values in arguments, in order."""
    if isinstance(arg, list):
        for a in arg:
            yield from _names(a)
    elif isinstance(arg, dict):
        for key, a in arg.items():
            if key == "as_name" or (key == "name" and isinstance(a, str)):
                yield a
            else:
                yield from _names(a)


def _renamed(x: Any, names: Mapping[str, str], key: str = "") -> Any:
    """JSON with values renamed; a node's own name, too."""
    if isinstance(x, list):
        return [_renamed(a, names) for a in x]
    if isinstance(x, dict):
        return {k: _renamed(a, names, k) for k, a in x.items()}
    return names.get(x, x) if key in ("name", "as_name") and isinstance(x, str) else x
