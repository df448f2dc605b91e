"""Nodes of a graph as canonical operations: names, shapes, and operations in place."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import sympy

from ..machine.errors import ProgramError
from .form import Argument, Operation, Ref, Size, Value
from .graph import Node

FLOATS = ("float16", "bfloat16", "float32", "float64")
_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS)


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def refusal(what: str, line: str, remedy: str | None = None) -> ProgramError:
    """The error of an operation, at its line of the model."""
    return ProgramError(what, line or "the layer", remedy=remedy)


class Translation:
    """A graph, as far as it is translated.

    Attributes
    ----------
    values
        Values by name: inputs, weights and results of operations.
    operations
        Canonical operations in order.
    pairs
        Sizes that operations need to be equal.
    """

    def __init__(self, values: dict[str, Value]):
        self.values = values
        self.operations: list[Operation] = []
        self.pairs: list[tuple[Size, Size]] = []
        self._current: dict[str, str] = {}  # a name in the graph: the value that it now stands for
        self._root: dict[str, str] = {}  # a name in the graph: whose memory it may share
        self._views: dict[str, tuple[str, list[Operation]]] = {}  # made by slices of another
        self._stale: dict[str, str] = {}  # names whose memory has changed, and the line of it

    def value(self, name: str) -> Value:
        """The value that a name in the graph stands for, or that a canonical operation made."""
        return self.values[self._current.get(name, name)]

    def current(self, name: str) -> str:
        return self._current.get(name, name)

    def resolve(self, argument: Argument, line: str) -> Argument:
        """An argument of a node with the values that its names now stand for."""
        if isinstance(argument, tuple):
            return tuple(self.resolve(a, line) for a in argument)
        if not isinstance(argument, Ref):
            return argument
        if argument.name in self._stale:
            raise refusal(
                f"value {argument.name!r} is read after {self._stale[argument.name]} has changed "
                "the memory that it shares",
                line,
                "let the model make a copy first (clone), or not work in place",
            )
        name = self.current(argument.name)
        if name not in self.values:
            raise refusal(f"value {argument.name!r} is read, and nothing makes it", line)
        return Ref(name)

    def define(self, node: Node, results: Sequence[Ref], made: int) -> None:
        """Give a node's names to its results, of operations from number ``made`` on."""
        wanted = {
            r.name: v
            for v, r in zip(node.outs, results, strict=False)
            if v is not None and r.name != v.name
        }
        read = {n for op in self.operations[made:] for n in op.reads()}
        for i in range(made, len(self.operations)):
            op = self.operations[i]
            for k, out in enumerate(op.outputs):
                v = wanted.get(out.name)
                if v is None or out.name in read or v.name in self.values:
                    continue
                del wanted[out.name], self.values[out.name]
                new = replace(out, name=v.name)
                op = replace(op, outputs=(*op.outputs[:k], new, *op.outputs[k + 1 :]))
                self.operations[i], self.values[v.name] = op, new
        for name, v in wanted.items():
            self._current[v.name] = self.current(name)
        for v, r in zip(node.outs, results, strict=False):
            if v is not None:
                self._check(node, v, self.value(v.name), r)

    def _check(self, node: Node, said: Value, found: Value, result: Ref) -> None:
        if len(said.shape) != len(found.shape) or said.dtype != found.dtype:
            raise refusal(
                f"{node.target} makes {_text(found)}, and the archive says {_text(said)}",
                node.line,
                "export the layer again",
            )
        self.pairs += [(a, b) for a, b in zip(said.shape, found.shape, strict=True) if a != b]

    def share(self, node: Node, parent: str, made: int, always: bool) -> None:
        """Note that results of a node may share the memory of what ``parent`` names; ``always``:
        they do.
        """
        root = self._root.get(parent, parent)
        cuts = self.operations[made:]
        for v in node.outs:
            if v is None:
                continue
            self._root[v.name] = root
            if always and len(node.outs) == 1 and all(op.op in ("slice", "reshape") for op in cuts):
                self._views[v.name] = (parent, cuts)

    def mutate(self, node: Node, name: str, result: Ref) -> None:
        """Let ``result`` be the content of what ``name`` names, and of what it is a slice of."""
        old = self.value(name)
        if len(old.shape) != len(self.values[result.name].shape):
            raise refusal(f"{node.target} changes the shape of {name!r} in place", node.line)
        root = self._root.get(name, name)
        fresh = {name, *(v.name for v in node.outs if v is not None)}
        self._current[name] = result.name
        call = Call(self, node)
        while name in self._views:
            parent, cuts = self._views[name]
            result = _pasted(call, Ref(self.current(parent)), cuts, result)
            self._current[parent] = result.name
            fresh.add(parent)
            name = parent
        shared = [n for n, r in self._root.items() if r == root] + [root]
        self._stale |= {n: node.line or node.target for n in shared if n not in fresh}
        self._root |= {v.name: root for v in node.outs if v is not None}


def _pasted(call: Call, base: Ref, cuts: list[Operation], new: Ref) -> Ref:
    """``base`` with ``new`` where the operations ``cuts`` have cut it."""
    sources = [base]
    for op in cuts:
        args = dict(op.args) | {"x": sources[-1]}
        sources.append(call.emit(op.op, op.out.shape, op.out.dtype, **args))
    for source, op in zip(sources[-2::-1], cuts[::-1], strict=True):
        v = call.value(source)
        if op.op == "reshape":
            new = call.reshape(new, v.shape)
        else:
            args = {k: op.args[k] for k in ("dim", "start", "end", "step")}
            new = call.emit("slice_update", v.shape, v.dtype, x=source, value=new, **args)
    return new


def _text(v: Value) -> str:
    return f"{v.dtype}[{', '.join(map(str, v.shape))}]"


class Call:
    """One node, as its rule sees it.

    Attributes
    ----------
    node, args
        The node; its arguments, with the values that they now stand for.
    """

    def __init__(self, t: Translation, node: Node):
        self._t = t
        self.node = node
        self.args = {k: t.resolve(a, node.line) for k, a in node.args.items()}
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Argument:
        self._read.add(name)
        return self.args[name]

    def get(self, name: str, default: Argument | None = None) -> Argument:
        self._read.add(name)
        found = self.args.get(name)
        return default if found is None else found

    def unread(self) -> list[str]:
        """Arguments but the first that are given, and that the rule has not asked for."""
        names = [k for k, a in self.args.items() if a is not None and a is not False]
        return [k for k in names[1:] if k not in self._read]

    @functools.cached_property
    def x(self) -> Ref:
        """The first tensor: ``self`` or ``input``."""
        for a in self.args.values():
            if isinstance(a, Ref):
                return a
        raise self.error("has no tensor")

    @property
    def out(self) -> Value:
        """The (first) result, as the archive describes it."""
        for v in self.node.outs:
            if v is not None:
                return v
        raise self.error("has no result")

    def error(self, what: str, remedy: str | None = None) -> ProgramError:
        return refusal(f"{self.node.target} {what}", self.node.line, remedy)

    def value(self, x: Argument) -> Value:
        if not isinstance(x, Ref):
            raise self.error(f"has {x!r} where a tensor should be")
        return self._t.values[x.name]

    def shape(self, x: Argument) -> tuple[Size, ...]:
        return self.value(x).shape

    def dtype(self, x: Argument) -> str:
        return self.value(x).dtype

    def same(self, a: Size, b: Size) -> None:
        """Need two sizes to be equal."""
        if a != b:
            if isinstance(a, int) and isinstance(b, int):
                raise self.error(f"has sizes {a} and {b}, which should be equal")
            self._t.pairs.append((a, b))

    def dim(self, name: str, rank: int, default: int = 0) -> int:
        """A dimension's number, from 0."""
        return self.axis(self.get(name, default), rank)

    def axis(self, d: Argument, rank: int) -> int:
        if not isinstance(d, int) or not -max(rank, 1) <= d < max(rank, 1):
            raise self.error(f"has dimension {d!r} of a tensor of {rank}")
        return d % max(rank, 1)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Numbers of dimensions; all where none are given."""
        found = self.get(name, ())
        given = found if isinstance(found, tuple) else (found,)
        return tuple(sorted(self.axis(d, rank) for d in given)) or tuple(range(rank))

    def emit_all(
        self, op: str, outs: Iterable[tuple[tuple[Size, ...], str]], **args: Argument
    ) -> tuple[Ref, ...]:
        """Add an operation with several results of given shapes and types."""
        outputs: list[Value] = []
        for shape, dtype in outs:
            name, i = self.node.name, 0
            while name in self._t.values:
                i += 1
                name = f"{self.node.name}__{i}"
            outputs.append(Value(name, tuple(shape), dtype))
            self._t.values[name] = outputs[-1]
        done = Operation(op, args, tuple(outputs), self.node.module, self.node.line)
        self._t.operations.append(done)
        return tuple(Ref(v.name) for v in outputs)

    def emit(self, op: str, shape: tuple[Size, ...], dtype: str, **args: Argument) -> Ref:
        """Add an operation with one result."""
        return self.emit_all(op, [(shape, dtype)], **args)[0]

    def reshape(self, x: Argument, shape: tuple[Size, ...]) -> Ref:
        v = self.value(x)
        if v.shape == shape:
            return Ref(v.name)
        return self.emit("reshape", shape, v.dtype, x=x)

    def permute(self, x: Argument, dims: Sequence[int]) -> Ref:
        v = self.value(x)
        if list(dims) == list(range(len(v.shape))):
            return Ref(v.name)
        shape = tuple(v.shape[d] for d in dims)
        return self.emit("permute", shape, v.dtype, x=x, dims=tuple(dims))

    def slice(self, x: Argument, dim: int, start: Size, size: Size, step: int = 1) -> Ref:
        """``size`` elements of a dimension, from ``start`` on."""
        v = self.value(x)
        if size == v.shape[dim] and step == 1:
            return Ref(v.name)
        shape = (*v.shape[:dim], size, *v.shape[dim + 1 :])
        end = start + (size - 1) * step + 1 if size != 0 else start
        return self.emit("slice", shape, v.dtype, x=x, dim=dim, start=start, end=end, step=step)

    def expand(self, x: Argument, shape: tuple[Size, ...]) -> Ref:
        v = self.value(x)
        whole = (1,) * (len(shape) - len(v.shape)) + v.shape
        if whole == shape:
            return self.reshape(x, whole)
        return self.emit("expand", shape, v.dtype, x=self.reshape(x, whole))

    def cast(self, x: Argument, dtype: str) -> Ref:
        v = self.value(x)
        return Ref(v.name) if v.dtype == dtype else self.emit("cast", v.shape, dtype, x=x)

    def promoted(self, *parts: Argument) -> str:
        """The type of an operation on tensors and numbers."""
        types = [(len(self.shape(p)), self.dtype(p)) for p in parts if isinstance(p, Ref)]
        ranked = [d for n, d in types if n] or [d for _, d in types]
        best = max(ranked, key=_ORDER.index, default="int64")
        numbers = [p for p in parts if not isinstance(p, Ref)]
        if any(isinstance(p, float) for p in numbers) and not is_float(best):
            return "float32"
        scalars = [d for n, d in types if not n]
        if not is_float(best) and any(is_float(d) for d in scalars):
            return "float32"
        if best == "bool" and any(not isinstance(p, bool) for p in numbers):
            return "int64"
        return best

    def broadcast(self, *shapes: tuple[Size, ...]) -> tuple[Size, ...]:
        rank = max(map(len, shapes), default=0)
        out: list[Size] = [1] * rank
        for s in shapes:
            for i, n in enumerate(s, rank - len(s)):
                if out[i] == 1:
                    out[i] = n
                elif n != 1:
                    self.same(out[i], n)
        return tuple(out)

    def ew(self, op: str, *parts: Argument, dtype: str | None = None) -> Ref:
        """An element-wise operation on tensors and numbers, ``x`` and ``y``."""
        names = ("x", "y", "z")
        args = dict(zip(names, parts, strict=False))
        shape = self.broadcast(*(self.shape(p) for p in parts if isinstance(p, Ref)))
        return self.emit(op, shape, dtype or self.promoted(*parts), **args)

    def reduce(self, op: str, x: Argument, dims: tuple[int, ...], keep: bool, dtype: str) -> Ref:
        """A reduction over dimensions; without ``keep`` they are gone."""
        v = self.value(x)
        shape = tuple(1 if i in dims else n for i, n in enumerate(v.shape))
        done = self.emit(op, shape, dtype, x=x, dims=dims)
        if keep:
            return done
        return self.reshape(done, tuple(n for i, n in enumerate(v.shape) if i not in dims))


def product(shape: Iterable[Size]) -> Size:
    """The number of elements of a shape."""
    found = sympy.Integer(1)
    for n in shape:
        found = found * n
    return int(found) if found.is_Integer else found
