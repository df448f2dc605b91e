"""Lines of a program: its variables, streams and tensors as text."""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import sympy

from ..machine.errors import ProgramError
from .form import Argument, Layer, Operation, Ref, Size, Value
from .patterns import Found, search
from .translation import is_float, product
from .values import early_operations, size_names

WIDTH = 100
FRONT = (
    "Fifo",
    "Map",
    "Sink",
    "cast",
    "immediate",
    "matmul",
    "rotary",
    "rotate",
    "row_max",
    "row_sum",
    "scale",
    "where",
)
BLOCKS = (
    "attention",
    "beside",
    "cached_attention",
    "each",
    "experts",
    "heads",
    "held",
    "join",
    "linear",
    "marked",
    "mean",
    "mean_of_heads",
    "over_heads",
    "picked",
    "regroup",
    "rms_norm",
    "rows",
    "softmax",
    "split",
    "store",
    "top_k",
)


@dataclass(frozen=True)
class Data:
    """A stream of the program.

    Attributes
    ----------
    name
        Its variable.
    width
        Columns of a tile.
    height
        Rows of a tile, as text.
    roles
        Of heads: each dimension of the tensor is of tokens outside of a tile (``n``) or in it
        (``t``), of heads (``h``), of columns (``c``), or 1.
    regrouped
        Operators on its way that give their first element after several.
    makers
        Variables that it is made of.
    """

    name: str
    width: Size
    height: str
    roles: tuple[str, ...] = ()
    heads: Size = 1
    regrouped: int = 0
    makers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Appended:
    """A cache with new rows; ``at``: the value that is their index where its length is fixed."""

    cache: str
    rows: Data
    variable: str
    at: str = ""


@dataclass(frozen=True)
class Turned:
    """Rows that are a result in another order."""

    rows: Data


@dataclass(frozen=True)
class Chosen:
    """Indices of the ``k`` largest of ``width``: its variable has a selector and an order."""

    name: str
    k: int
    width: Size
    regrouped: int
    makers: frozenset[str]


@dataclass(frozen=True)
class Off:
    """A tensor off chip, as text, with its shape."""

    text: str
    shape: tuple[Size, ...]
    at: str = ""


class Lines:
    """The lines of a program.

    Attributes
    ----------
    lines
        Of the function's body, without indentation.
    used
        Names that the lines need from the front end and from the blocks.
    settings
        The schedule's tables by module.
    products
        Results and summands of a module's products.
    """

    def __init__(self, layer: Layer):
        self.layer = layer
        self.lines: list[str] = []
        self.used: set[str] = set()
        self.settings: dict[str, dict[str, int]] = {}
        self.products: dict[str, list[tuple[int, int]]] = {}
        self.names = size_names(layer)
        first = next((v for v in layer.inputs if is_float(v.dtype)), None)
        turned = layer.values.get(f"{first.name}__turned", first) if first else None
        self.tokens = turned.shape[:-1] if turned else (1,)
        self.found: dict[str, object] = {}
        self.taken: Counter = Counter()
        self.module: str | None = None
        early = {v.name for op in early_operations(layer) for v in op.outputs}
        values = layer.values
        for name in [*layer.weights, *(v.name for v in layer.inputs), *early]:
            path = layer.weights[name].path if name in layer.weights else name
            path = name if path in values else path
            self.found[name] = Off(f"w[{text(path)}]", values[name].shape)
        for op in early_operations(layer):
            if source := _alias(op, values):
                off = self.found[source]
                assert isinstance(off, Off)
                self.found[op.out.name] = replace(off, shape=op.out.shape)
        self.early = early
        late = [op for op in layer.operations if op.out.name not in early]
        off = {n: f.shape for n, f in self.found.items() if isinstance(f, Off)}
        self.patterns: dict[str, Found] = search(late, [o.name for o in layer.outputs], off)
        for word in ("g", "w", "s", "e", "height", "dtype", "layer", *self.names.values()):
            self.taken[word] += 1

    # ---- text
    # ----------------------------------------------------------------------

    def size(self, s: Size) -> str:
        """A size as an expression of the program's parameters."""
        if isinstance(s, int):
            return str(s)
        named = {x: sympy.Symbol(self.names[x.name]) for x in s.free_symbols}
        return str(s.xreplace(named))

    def variable(self, hint: str) -> str:
        name = re.sub(r"\W", "_", hint.partition("__")[0] or hint)
        if keyword.iskeyword(name) or name in BLOCKS or name in FRONT:
            name += "_"
        self.taken[name] += 1
        count = self.taken[name]
        return name if count == 1 else self.variable(f"{name.rstrip('_')}_{count}")

    def use(self, name: str) -> str:
        self.used.add(name)
        return name

    def call(self, function: str, *args: str, **named: str) -> str:
        """A call as text; what it calls is imported."""
        self.use(function.partition(".")[0])
        parts = [*args, *(f"{k}={v}" for k, v in named.items())]
        return f"{function}({', '.join(parts)})"

    def map(self, fn: str, *args: str) -> str:
        if not fn.startswith('"'):
            self.use(fn.partition("(")[0])
        return self.call("Map", *args, fn=fn)

    def assign(self, hint: str, text: str, like: Data, *more: Data, **changes) -> Data:
        """A line that makes a stream."""
        name = self.variable(hint)
        self.lines += wrapped(f"{name} = {text}")
        makers = frozenset().union(*(d.makers | {d.name} for d in (like, *more)))
        regrouped = max(d.regrouped for d in (like, *more))
        changes.setdefault("regrouped", regrouped)
        return replace(like, name=name, makers=makers, **changes)

    def refuse(self, op: Operation, what: str, remedy: str | None = None) -> ProgramError:
        return ProgramError(f"{op.op} {what}", op.line or op.module or "the layer", remedy=remedy)

    def comment(self, module: str) -> None:
        if module != self.module:
            self.module = module
            self.lines += ["", f"# {module}"] if module else [""]

    # ---- operands
    # ----------------------------------------------------------------------

    def data(self, op: Operation, argument: Argument) -> Data:
        """An argument as a stream; a tensor is loaded as tokens, once."""
        assert isinstance(argument, Ref)
        found = self.found[argument.name]
        if isinstance(found, Off) and not found.at:
            name = self.variable(argument.name)
            height = "height"
            tokens = found.shape[:-1]
            other = len(tokens) == len(self.tokens) and tokens != self.tokens
            if other or product(tokens) != product(self.tokens):
                height = self.size((1, *tokens)[-1])
            self.lines += wrapped(f"{name} = {self.call('rows', found.text, height)}")
            found = Data(name, found.shape[-1], height)
            self.found[argument.name] = found
        if not isinstance(found, Data):
            raise self.refuse(op, f"reads {argument.name!r}, which is no stream of tiles")
        return found

    def is_data(self, argument: Argument) -> bool:
        return isinstance(argument, Ref) and isinstance(self.found.get(argument.name), Data)

    def beside(self, op: Operation, off: Off, x: Data, shape: Sequence[Size]) -> str:
        """A tensor as a stream that goes with ``x``, a value of ``shape``."""
        own = (1,) * (len(shape) - len(off.shape)) + tuple(off.shape)
        if off.at or all(s == 1 for s in own[:-1]):
            return self.call("each", off.text, x.name, *([off.at] if off.at else []))
        if not x.roles:
            tokens, mine = list(shape[:-1]), list(own[:-1])
        else:
            at = [i for i, r in enumerate(x.roles) if r in "nt"]
            tokens, mine = [shape[i] for i in at], [own[i] for i in at]
            if any(own[i] != 1 for i, r in enumerate(x.roles) if r == "h"):
                raise self.refuse(op, "has an operand of its own for each head")
        if tokens == mine:
            text = self.call("rows", off.text, x.height)
        elif mine[0] == 1 and mine[1:] == tokens[1:]:
            text = self.call("rows", off.text, x.height, self.size(tokens[0]))
        else:
            raise self.refuse(op, f"spreads an operand {self.shape(own)} over {self.shape(shape)}")
        return self.call("over_heads", text, self.size(x.heads)) if "h" in x.roles else text

    def shape(self, shape: Iterable[Size]) -> str:
        return f"[{', '.join(map(self.size, shape))}]"

    def join(self, a: Data, b: Data) -> tuple[str, str]:
        """Two streams as operands: the one that is ahead has room to wait."""
        first, second = a.name, b.name
        if a.regrouped < b.regrouped:
            first = self.call("held", a.name)
        elif b.regrouped < a.regrouped:
            second = self.call("held", b.name)
        elif a.name in b.makers:
            first = self.call("Fifo", a.name, depth="1")
        elif b.name in a.makers:
            second = self.call("Fifo", b.name, depth="1")
        return first, second

    def same_tiles(self, op: Operation, a: Data, b: Data) -> tuple[Data, Data]:
        """Two streams in tiles of one form."""
        if a.roles or b.roles:
            if "h" in a.roles and "h" in b.roles and a.heads == b.heads:
                return a, b
            raise self.refuse(op, "takes heads and what has none")
        if a.height == b.height:
            return a, b
        if b.height == "1":
            return a, self._regrouped(b, a.height)
        return self._regrouped(a, b.height), b

    def _regrouped(self, x: Data, height: str) -> Data:
        text = self.call("regroup", x.name, height)
        more = x.regrouped + (height != "1")
        return self.assign(f"{x.name}_tiles", text, x, height=height, regrouped=more)


def _alias(op: Operation, values: dict[str, Value]) -> str | None:
    """The value that an operation only names anew: of other dimensions of 1, times 1, or in
    another float type.
    """
    (source, *_) = [*op.reads(), ""]
    if op.op == "reshape":
        old, new = values[source].shape, op.out.shape
        same = [s for s in old if s != 1] == [s for s in new if s != 1]
        return source if same and (old[-1:] == new[-1:]) else None
    if op.op == "cast":
        return source if is_float(values[source].dtype) and is_float(op.out.dtype) else None
    return source if op.op == "mul" and op.args["y"] == 1.0 else None


def wrapped(line: str) -> list[str]:
    """A line of code, its outermost call's arguments one a line where it is too long."""
    if len(line) <= WIDTH - 8 or not line.endswith(")"):
        return [line]
    start = line.index("(")
    parts, depth, last = [], 0, start + 1
    for i, c in enumerate(line[start:], start):
        depth += (c in "([{") - (c in ")]}")
        if (c == "," and depth == 1) or (depth == 0 and c == ")"):
            parts.append(line[last:i].strip())
            last = i + 1
    return [line[: start + 1], *(f"    {p}," for p in parts), ")"]


def text(value: str) -> str:
    """A text as Python writes it, in double quotes."""
    return json.dumps(value)


def imported(module: str, names: list[str]) -> list[str]:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {n}," for n in names), ")"]
