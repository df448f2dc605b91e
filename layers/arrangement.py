"""Arrangement of dimensions: views, in the order of what they are views of.

A chain of reshapes, permutations and slices becomes a slice of columns, a split of dimensions and
a permutation. An operation on rows whose order a view has changed is one on the rows as they were,
and its result the view: so a layer that works on [tokens, batch, columns], or cuts queries, keys
and values out of the columns of one product, is one on [batch, tokens, columns].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import sympy

from .form import Argument, Layer, Operation, Ref, Size, Value
from .meaning import ELEMENTS
from .simplify import without_unread
from .translation import is_float, product

ALONG_ROWS = ("linear", "softmax", "mean", "sum", "amax", "amin")


@dataclass(frozen=True, order=True)
class Atom:
    """A part of a dimension of a base, with its place in it."""

    dim: int
    place: tuple[int, ...]
    size: Size


@dataclass(frozen=True)
class View:
    """Atoms of a base in each dimension of a value; a new dimension of 1 has none."""

    base: Value
    dims: tuple[tuple[Atom, ...], ...]

    @property
    def atoms(self) -> list[Atom]:
        return [a for d in self.dims for a in d]


def arranged(layer: Layer) -> Layer:
    """The layer with its views in order; inputs [tokens, batch, columns] are loaded by batch."""
    done = _Arrangement(layer, turned=False)
    if done.tokens_first:
        done = _Arrangement(layer, turned=True)
    outputs = tuple(replace(o, name=done.made(o.name)) for o in layer.outputs)
    return without_unread(replace(layer, operations=tuple(done.found), outputs=outputs))


def _is_sorted(atoms: Sequence[Atom]) -> bool:
    keys = [(a.dim, a.place) for a in atoms]
    return keys == sorted(keys)


def _over(n: Size, m: Size) -> Size | None:
    """n / m, where that is whole whatever the symbols are."""
    if isinstance(n, int) and isinstance(m, int):
        return n // m if n % m == 0 else None
    whole, rest = sympy.fraction(sympy.cancel(sympy.sympify(n) / m))
    if rest != 1:
        return None
    return int(whole) if whole.is_Integer else whole


def _grouped(atoms: Sequence[Atom], shape: Sequence[Size]) -> tuple[tuple[Atom, ...], ...] | None:
    """Atoms in order as the dimensions of a shape, split where need be."""
    left, dims = list(atoms), []
    for size, following in zip(shape, [*shape[1:], 0], strict=False):
        need, dim = size, []
        if size == 1 and left and left[0].size == 1:
            dim.append(left.pop(0))
        while need != 1:
            if not left or need == 0:
                return None
            a = left.pop(0)
            rest = _over(need, a.size)
            if rest is None:
                inner = _over(a.size, need)
                if inner is None:
                    return None
                left.insert(0, Atom(a.dim, (*a.place, 1), inner))
                a, rest = Atom(a.dim, (*a.place, 0), need), 1
            dim.append(a)
            need = rest
        while left and left[0].size == 1 and following != 1:
            dim.append(left.pop(0))
        dims.append(tuple(dim))
    return None if left else tuple(dims)


class _Arrangement:
    def __init__(self, layer: Layer, *, turned: bool):
        self.found: list[Operation] = []
        self.values = dict(layer.values)
        self.views: dict[str, View] = {}
        self.off = {v.name for v in layer.inputs if not is_float(v.dtype)} | set(layer.weights)
        self.memo: dict[object, Value] = {}
        self.plain: dict[str, Operation] = {}  # reshapes of what is in order
        self.tokens_first = False
        for v in layer.inputs if turned else ():
            if len(v.shape) == 3 and is_float(v.dtype):
                shape = (v.shape[1], v.shape[0], v.shape[2])
                args = {"x": Ref(v.name), "dims": (1, 0, 2)}
                base = self._emit(
                    Operation("permute", args, (Value(f"{v.name}__turned", shape, v.dtype),))
                )
                b, t, c = self._whole(base).dims
                self.views[v.name] = View(base, (t, b, c))
        for op in layer.operations:
            self._take(op)

    # ---- views
    # ----------------------------------------------------------------------

    def _whole(self, v: Value) -> View:
        return View(v, tuple((Atom(i, (), n),) for i, n in enumerate(v.shape)))

    def _view(self, name: str) -> View:
        return self.views.get(name) or self._whole(self.values[name])

    def _emit(self, op: Operation) -> Value:
        self.found.append(op)
        self.values |= {v.name: v for v in op.outputs}
        if set(op.reads()) <= self.off:
            self.off |= {v.name for v in op.outputs}
        return op.out

    def made(self, name: str) -> str:
        """The name of a value, once the operations of its view are there."""
        view, v = self.views.get(name), self.values[name]
        if view is None:
            return name
        op = self.plain.get(name)
        if op is not None:
            return self._step("reshape", self.values[self.made(op.args["x"].name)], v, v.shape).name
        return self._make(view, v).name

    def _make(self, view: View, v: Value) -> Value:
        """A view as a value of the shape and, where it is new, the name of ``v``."""
        base = view.base
        if _is_sorted(view.atoms):
            return self._step("reshape", base, v, v.shape)
        blocks: list[list[Atom]] = []
        order = sorted(view.atoms, key=lambda a: (a.dim, a.place))
        after = dict(pairwise(order))
        for dim in view.dims:
            for i, a in enumerate(dim):
                if i and after.get(dim[i - 1]) == a:
                    blocks[-1].append(a)
                else:
                    blocks.append([a])
        inner = sorted(blocks, key=lambda b: (b[0].dim, b[0].place))
        sizes = [_size(b) for b in inner]
        split = self._step("reshape", base, replace(v, name=f"{v.name}__split"), sizes)
        dims = tuple(inner.index(b) for b in blocks)
        shape = tuple(sizes[d] for d in dims)
        name = v.name if shape == v.shape else f"{v.name}__order"
        moved = self._step("permute", split, replace(v, name=name), shape, dims=dims)
        return self._step("reshape", moved, v, v.shape)

    def _step(self, op: str, x: Value, v: Value, shape: Sequence[Size], **args: Argument) -> Value:
        shape = tuple(shape)
        if op == "reshape" and shape == x.shape:
            return x
        key = (op, x.name, shape, *args.values())
        if key not in self.memo:
            out = Value(v.name, shape, x.dtype)
            self.memo[key] = self._emit(Operation(op, {"x": Ref(x.name), **args}, (out,), *self.at))
        return self.memo[key]

    # ---- operations
    # ----------------------------------------------------------------------

    def _take(self, op: Operation) -> None:
        self.at = (op.module, op.line)
        view = self._viewed(op)
        if view is not None:
            self.views[op.out.name] = view
            return
        if op.op in ("matmul", "linear") or op.op in ELEMENTS or self._along_rows(op):
            if self._on_rows(op):
                return
        if op.op == "attention":
            b, _, t, _ = self._view(op.args["q"].name).dims
            self.tokens_first |= bool(b and t and not _is_sorted([*b, *t]))
        self._emit(replace(op, args={k: self._argument(a) for k, a in op.args.items()}))

    def _argument(self, a: Argument) -> Argument:
        if isinstance(a, tuple):
            return tuple(map(self._argument, a))
        return Ref(self.made(a.name)) if isinstance(a, Ref) else a

    def _along_rows(self, op: Operation) -> bool:
        dims = op.args.get("dims", (op.args.get("dim"),))
        return op.op in ALONG_ROWS and dims == (len(op.out.shape) - 1,)

    def _viewed(self, op: Operation) -> View | None:
        """The result of an operation as a view, if it is one."""
        if op.op not in ("reshape", "permute", "slice"):
            return None
        view = self._view(op.args["x"].name)
        if op.op == "permute":
            return View(view.base, tuple(view.dims[d] for d in op.args["dims"]))
        if op.op == "reshape":
            dims = _grouped(view.atoms, op.out.shape)
            if dims is not None and _is_sorted(view.atoms):
                self.plain[op.out.name] = op
            return View(view.base, dims) if dims is not None else None
        return self._cut(op, view)

    def _cut(self, op: Operation, view: View) -> View | None:
        """A slice as a view of a slice of the base: of what is outermost in its dimension."""
        x, dim = op.args["x"].name, op.args["dim"]
        if x not in self.views or len(view.dims[dim]) != 1:
            return None
        (atom,) = view.dims[dim]
        if atom.place == () and not self._is_moved(view):
            return None  # of columns as the base has them
        beside = [a for a in view.atoms if a.dim == atom.dim]
        inner = _size([a for a in beside if a != atom])
        if atom != min(beside) or (inner != 1 and op.args["step"] != 1):
            return None
        size = op.out.shape[dim]
        base, args = view.base, {"x": Ref(view.base.name), "dim": atom.dim, "step": op.args["step"]}
        args |= {k: op.args[k] * inner for k in ("start", "end")}
        shape = (*base.shape[: atom.dim], size * inner, *base.shape[atom.dim + 1 :])
        out = Value(f"{op.out.name}__cut", shape, base.dtype)
        cut = self._emit(Operation("slice", args, (out,), op.module, op.line))
        new = () if size == 1 else (replace(atom, size=size),)
        dims = [new if d == (atom,) else d for d in view.dims]
        return View(cut, tuple(dims))

    def _on_rows(self, op: Operation) -> bool:
        """Do an operation on rows in the order of its base; False if there is no other order."""
        if op.op == "matmul" and len(op.out.shape) > 2 and self._on_heads(op):
            return True
        rank = len(op.out.shape)
        names = [a.name for a in op.args.values() if isinstance(a, Ref)]
        if op.op in ("linear", "matmul"):
            names = names[:1]
        views = [self._view(n) for n in names if len(self.values[n].shape) == rank]
        lead = next((v for v in views if v.base.name not in self.off and self._is_moved(v)), None)
        weight = op.op == "matmul" and len(self.values[op.args["y"].name].shape) != 2
        if lead is None or weight:
            return False
        tokens = [a for d in lead.dims[:-1] for a in d]
        order = sorted(range(len(tokens)), key=lambda i: (tokens[i].dim, tokens[i].place))
        args = dict(op.args)
        for k, a in op.args.items():
            if isinstance(a, Ref) and a.name in names:
                moved = self._reordered(self.values[a.name], lead, order)
                if moved is None:
                    return False
                args[k] = moved
            else:
                args[k] = self._argument(a)
        sizes = [tokens[i].size for i in order]
        if "dims" in args or "dim" in args:
            key = "dims" if "dims" in args else "dim"
            args[key] = (len(sizes),) if key == "dims" else len(sizes)
        out = Value(f"{op.out.name}__rows", (*sizes, *op.out.shape[rank - 1 :]), op.out.dtype)
        made = self._emit(replace(op, args=args, outputs=(out,)))
        *atoms, last = self._whole(made).dims
        back = {tokens[i]: atoms[n] for n, i in enumerate(order)}
        dims = [tuple(b for a in d for b in back[a]) for d in lead.dims[:-1]]
        self.views[op.out.name] = View(made, (*dims, last))
        return True

    def _is_moved(self, view: View) -> bool:
        """True for rows in another order than the base, or heads of a base that lie together."""
        if len(view.dims) == 4 and all(len(d) < 2 for d in view.dims):
            return not _is_sorted([*view.dims[0], *view.dims[2]])  # heads lie between
        tokens = [a for d in view.dims[:-1] for a in d]
        together = len(view.base.shape) == 4 and any(len(d) > 1 for d in view.dims[:-1])
        return together or not _is_sorted(tokens)

    def _reordered(self, v: Value, lead: View, order: Sequence[int]) -> Ref | None:
        """An operand with the rows of ``lead`` apart and in another order."""
        rank = len(lead.dims)
        if len(v.shape) < rank:
            return Ref(self.made(v.name)) if len(v.shape) == 1 else None
        if any(n != 1 and n != _size(d) for n, d in zip(v.shape[:-1], lead.dims[:-1], strict=True)):
            return None
        sizes = [
            a.size if n != 1 else 1
            for n, d in zip(v.shape[:-1], lead.dims[:-1], strict=True)
            for a in d
        ]
        own = self._view(v.name)
        dims = _grouped(own.atoms, (*sizes, v.shape[rank - 1]))
        if dims is None:
            return None
        shape = (*(sizes[i] for i in order), v.shape[rank - 1])
        view = View(own.base, tuple(dims[i] for i in (*order, len(order))))
        return Ref(self._make(view, replace(v, name=f"{v.name}__rows", shape=shape)).name)

    def _on_heads(self, op: Operation) -> bool:
        """A product of heads that lie together with the batch, as one of four dimensions; keys are
        turned last.
        """
        x, y = (self._view(op.args[k].name) for k in ("x", "y"))
        sizes = [[a.size for a in v.dims[0]] for v in (x, y)]
        outer = op.out.shape[:-2]
        if len(outer) == 1 and len(sizes[0]) == 2 and sizes[0] == sizes[1]:
            outer = tuple(sizes[0])
        elif len(outer) != 2 or len(x.dims) != 4 or len(y.dims) != 4:
            return False
        self.tokens_first |= not _is_sorted([*x.dims[0][:1], *x.dims[-2]])
        operands = []
        for v, name in ((x, op.args["x"].name), (y, op.args["y"].name)):
            apart = [(a,) for a in v.dims[0]] if len(v.dims) == 3 else list(v.dims[:2])
            shape = (*outer, *self.values[name].shape[-2:])
            rows, columns = v.dims[-2:]
            turned = v is y and rows and columns and not _is_sorted([*rows, *columns])
            if turned:
                rows, columns = columns, rows
                shape = (*outer, shape[3], shape[2])
            made = replace(self.values[name], name=f"{name}__heads", shape=shape)
            done = self._make(View(v.base, (*apart, rows, columns)), made)
            if turned:
                done = self._step(
                    "permute",
                    done,
                    replace(done, name=f"{name}__turned"),
                    (*outer, shape[3], shape[2]),
                    dims=(0, 1, 3, 2),
                )
            operands.append(Ref(done.name))
        name = op.out.name if len(op.out.shape) == 4 else f"{op.out.name}__heads"
        out = Value(name, (*outer, *op.out.shape[-2:]), op.out.dtype)
        made = self._emit(replace(op, args={"x": operands[0], "y": operands[1]}, outputs=(out,)))
        if len(op.out.shape) == 3:
            b, h, *rest = self._whole(made).dims
            self.views[op.out.name] = View(made, ((*b, *h), *rest))
        return True


def _size(atoms: Sequence[Atom]) -> Size:
    return product(a.size for a in atoms)
