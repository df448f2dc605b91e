"""Nodes of an archive's graph, as its JSON has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..machine.errors import ProgramError
from . import sizes
from .archive import DTYPES
from .form import Argument, Ref, Size, Value
from .inlining import inlined

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in [^\n]*(?:\n\s+([^\n]*))?')
_HIDDEN = ("torch/", "<")
"""Files whose lines are not the model's own."""
_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


@dataclass(frozen=True)
class Node:
    """A call of an operation of PyTorch.

    Attributes
    ----------
    name, target
        Its name in the graph; the operation, as ``aten.mul.Tensor``.
    args
        Arguments by the names of its schema; sizes are expressions.
    outs
        Tensors that it returns; None: one that is not used.
    module, line
        As of an :class:`~.form.Operation`.
    """

    name: str
    target: str
    args: dict[str, Argument]
    outs: tuple[Value | None, ...]
    module: str
    line: str

    @property
    def base(self) -> str:
        """The operation without its overload: ``aten.mul``."""
        return ".".join(self.target.split(".")[:2])


class Graph:
    """The graph of an archive; a JSON that is not as the schema says is a KeyError or the like.

    Attributes
    ----------
    values
        Tensors of the graph by name.
    symbols
        Least and most of each symbol of a size.
    """

    def __init__(self, model: dict[str, Any], where: str):
        self.where = where
        module = model["graph_module"]
        self._graph = inlined(module["graph"])
        self.signature = module["signature"]
        self.values = {n: self._value(n, m) for n, m in self._graph["tensor_values"].items()}
        self._sizes = {
            n: self._size(s, n) for n, s in self._graph.get("sym_int_values", {}).items()
        }
        self._floats = self._graph.get("sym_float_values", {})
        self.symbols = {n: self._range(n, r) for n, r in model["range_constraints"].items()}
        self.guards = [g for g in model.get("guards_code", []) if isinstance(g, str)]

    def nodes(self) -> Iterator[Node]:
        """Nodes in order; those of sizes and of assertions are left out."""
        yield from (self._node(n) for n in self._graph["nodes"] if not _is_silent(n))

    def _node(self, n: Mapping[str, Any]) -> Node:
        meta = n.get("metadata") or {}
        outs: list[Value | None] = []
        for o in n["outputs"]:
            ((kind, found),) = o.items()
            names = found if kind in ("as_tensors", "as_optional_tensors") else [found]
            outs += [
                self.values.get(v.get("name", "")) if isinstance(v, dict) else None for v in names
            ]
        return Node(
            str(n.get("name") or (outs[0].name if outs and outs[0] else n["target"])),
            str(n["target"]).removeprefix("torch.ops."),
            {str(i["name"]): self._argument(i["arg"]) for i in n["inputs"]},
            tuple(outs),
            _module(str(meta.get("nn_module_stack") or "")),
            _line(str(meta.get("stack_trace") or "")),
        )

    def _argument(self, arg: Mapping[str, Any]) -> Argument:
        ((kind, value),) = arg.items()
        match kind:
            case "as_none":
                return None
            case "as_tensor":
                return Ref(value["name"])
            case "as_tensors":
                return tuple(Ref(t["name"]) for t in value)
            case "as_optional_tensors":
                return tuple(self._argument(t) for t in value)
            case "as_sym_int":
                return self._named_size(value)
            case "as_sym_ints":
                return tuple(self._named_size(v) for v in value)
            case "as_float":
                return _FLOATS[value] if isinstance(value, str) else float(value)
            case "as_sym_float":
                return self._named_float(value)
            case "as_scalar_type":
                return self._dtype(value)
            case "as_int" | "as_bool" | "as_string":
                return value
            case "as_ints" | "as_floats" | "as_bools":
                return tuple(value)
            case "as_device" | "as_layout" | "as_memory_format":
                return None  # where and how a tensor is stored
        raise ProgramError(f"has an argument of kind {kind!r}, which is not read", self.where)

    def _named_size(self, v: Mapping[str, Any]) -> Size:
        return self._sizes[v["as_name"]] if "as_name" in v else int(v["as_int"])

    def _named_float(self, v: Mapping[str, Any]) -> Argument:
        if "as_float" in v:
            return float(v["as_float"])
        text = self._floats[v["as_name"]]["as_expr"]["expr_str"]
        return sizes.parse(text, self.where)

    def _value(self, name: str, meta: Mapping[str, Any]) -> Value:
        shape = tuple(self._size(s, name) for s in meta["sizes"])
        return Value(name, shape, self._dtype(meta["dtype"]))

    def _dtype(self, code: int) -> str:
        if code not in DTYPES:
            raise ProgramError(f"type {code} of the schema is not read", self.where)
        return DTYPES[code].name

    def _size(self, s: Mapping[str, Any], name: str) -> Size:
        size: Size = (
            int(s["as_int"])
            if "as_int" in s
            else sizes.parse(s["as_expr"]["expr_str"], f"{self.where}, value {name}")
        )
        if isinstance(size, int) and abs(size) > sizes.MOST_SIZE:
            raise ProgramError(
                f"size {size} is out of range", f"{self.where}, value {name}", "0 to 2**40"
            )
        return size

    def _range(self, name: str, r: Mapping[str, Any]) -> tuple[int, int | None]:
        least, most = r.get("min_val"), r.get("max_val")
        low, high = int(least or 0), None if most is None else int(most)
        if low < 0 or (high is not None and not low <= high):
            raise ProgramError(
                f"symbol {name} must have a range from 0 on, not {low} to {high}", self.where
            )
        return low, None if high is None or high >= sizes.MOST_SIZE else high


def _is_silent(n: Mapping[str, Any]) -> bool:
    """True for a node of sizes, which their expressions stand for, and for an assertion."""
    target = str(n["target"]).removeprefix("torch.ops.")
    if target.startswith(("_operator.", "math.", "torch.sym_", "aten.sym_", "aten._assert_")):
        return True
    return target.startswith("aten.sym_constrain") or target.startswith("aten._check")


def _module(stack: str) -> str:
    """Path of the innermost module: ``layer.mlp`` of "L__self__layer.mlp,layer.mlp,Class"."""
    paths = [part.split(",")[1] for part in stack.split(";") if part.count(",") >= 2]
    path = paths[-1] if paths else ""
    return "" if path.startswith("_empty_nn_module") else path


def _line(trace: str) -> str:
    """The innermost line that is not torch's own: "package/file.py:12: text"."""
    for file, number, text in reversed(_FRAME.findall(trace)):
        path = re.split(r"(?:site|dist)-packages/", file)[-1]
        if not path.startswith(_HIDDEN):
            return f"{path}:{number}: {text.strip()}" if text else f"{path}:{number}"
    return ""
