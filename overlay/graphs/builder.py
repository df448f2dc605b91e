"""Graphs from NumPy-like expressions.

    g = Builder("example")
    a, b, c = g.input("a", 1.0), g.input("b"), g.input("c")
    g.output("y", where(a < b, (a + b) * c, exp(c)))
    graph = g.graph()

Equal sub-expressions become one node. Comparisons give 1.0 or 0.0; ``&``, ``|`` and ``~`` combine
them. A conditional region is what is computed from the values of a ``switch``, up to a ``merge``:

    small, large = g.switch(a < b, a)
    g.output("z", merge(exp(small), large * c))

What else it needs from outside is switched as it is used.
"""

from __future__ import annotations

import ast
import heapq
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import numpy as np

from ...machine.errors import ProgramError
from ..core.dataflow import DataflowGraph
from ..core.ops import COMMUTATIVE, Op

Row = tuple[Op, int, int, float]
"""A node: operation, operands (-1: none) and value."""
Region = tuple[tuple[int, Op], ...]
"""Nested regions, the outermost first: the node of each condition, and THEN or ELSE."""


def columns(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes as the four arrays of a :class:`~penstock.overlay.core.dataflow.DataflowGraph`."""
    op, a, b, value = zip(*rows, strict=True) if rows else ((), (), (), ())
    return (
        np.array(op, np.uint8),
        np.array(a, np.int32),
        np.array(b, np.int32),
        np.array(value, np.float64),
    )


class Builder:
    """Collects nodes; see the module's example.

    Parameters
    ----------
    title
        Of the graph.
    constant_uses
        Uses after which a constant gets another node, so that no node feeds a large part of the
        graph; None: one node for all.
    """

    def __init__(self, title: str = "graph", constant_uses: int | None = None):
        self.title = title
        self.constant_uses = constant_uses
        self._asked: dict[bytes, int] = {}
        self._rows: list[Row] = []
        self._known: dict = {}
        self._names: dict[int, str] = {}
        self._outputs: list[tuple[str, int]] = []
        self._region: dict[int, Region] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def input(self, name: str, default: float = 0.0) -> Value:
        """The input called ``name``; asked for again, the same node."""
        known = self._known.get(("input", name))
        if known is None:
            known = self._new(("input", name), (Op.INPUT, -1, -1, float(default)))
            self._names[known] = name
        return Value(self, known)

    def constant(self, value: float) -> Value:
        """A constant; equal ones (bit for bit) are one node, but for ``constant_uses``."""
        bits = np.float64(value).tobytes()
        asked = self._asked[bits] = self._asked.get(bits, -1) + 1
        key = ("const", bits, asked // self.constant_uses if self.constant_uses else 0)
        return Value(
            self,
            self._known.get(key, -1)
            if key in self._known
            else self._new(key, (Op.CONST, -1, -1, float(value))),
        )

    def op(self, op: Op, a: Value, b: Value | None = None) -> Value:
        """One operation."""
        i = a.node
        j = -1 if b is None else b.node
        region = self._region.get(i, ())
        if b is not None and op is not Op.MERGE:
            region = max(region, self._region.get(j, ()), key=len)
            i, j = self._into(i, region), self._into(j, region)
        if op in COMMUTATIVE and j < i:
            i, j = j, i
        key = (op, i, j)
        node = self._known[key] if key in self._known else self._new(key, (op, i, j, 0.0))
        if op in (Op.THEN, Op.ELSE):
            region = (*region, (i, op))
        self._region[node] = region[:-1] if op is Op.MERGE else region
        return Value(self, node)

    def _into(self, node: int, region: Region) -> int:
        """A value of an outer region in an inner one."""
        at = self._region.get(node, ())
        if at != region[: len(at)]:
            raise ProgramError("operands are of different regions", self.title, remedy="merge them")
        for condition, side in region[len(at) :]:
            node = self.op(side, Value(self, condition), Value(self, node)).node
        return node

    def switch(self, condition: Value, x) -> tuple[Value, Value]:
        """``x`` in the region that is taken where the condition is not zero, and in the one that is
        taken where it is.
        """
        x = self.lift(x)
        return self.op(Op.THEN, condition, x), self.op(Op.ELSE, condition, x)

    def _new(self, key, row) -> int:
        self._known[key] = len(self._rows)
        self._rows.append(row)
        return len(self._rows) - 1

    def lift(self, x) -> Value:
        """``x`` as a value of this builder."""
        if isinstance(x, Value):
            if x.builder is not self:
                raise ProgramError("two graphs are mixed in one expression", self.title)
            return x
        if not isinstance(x, (int, float, np.number)):
            raise ProgramError(f"{x!r} is not a number", self.title)
        return self.constant(float(x))

    def output(self, name: str, x) -> None:
        """Name ``x`` an output."""
        self._outputs.append((name, self.lift(x).node))

    def graph(self) -> DataflowGraph:
        """The graph of what the outputs depend on (and of inputs, constants and operations nothing
        else).
        """
        whole = DataflowGraph(
            *columns(self._rows),
            self._names,
            [i for _, i in self._outputs],
            [s for s, _ in self._outputs],
            self.title,
        )
        return whole.subgraph_of_outputs()


def _both_ways(op: Op) -> tuple[Callable[..., Value], Callable[..., Value]]:
    """Methods of an operation: with the value as the first operand, and as the second."""

    def first(self: Value, other: object) -> Value:
        return self.builder.op(op, self, self.builder.lift(other))

    def second(self: Value, other: object) -> Value:
        return self.builder.op(op, self.builder.lift(other), self)

    return first, second


class Value:
    """A node of a graph being built; Python's arithmetic and comparisons make new ones."""

    __slots__ = ("builder", "node")
    __array_ufunc__ = None

    def __init__(self, builder: Builder, node: int):
        self.builder = builder
        self.node = node

    __add__, __radd__ = _both_ways(Op.ADD)
    __sub__, __rsub__ = _both_ways(Op.SUB)
    __mul__, __rmul__ = _both_ways(Op.MUL)
    __truediv__, __rtruediv__ = _both_ways(Op.DIV)
    __and__, __rand__ = _both_ways(Op.GATE)
    __or__, __ror__ = _both_ways(Op.JOIN)
    __lt__, __gt__ = _both_ways(Op.LT)
    __le__, __ge__ = _both_ways(Op.LE)

    def __eq__(self, o):
        return self.builder.op(Op.EQ, self, self.builder.lift(o))

    def __ne__(self, o):
        return ~(self == o)

    def __invert__(self):
        return self == 0.0

    def __neg__(self):
        return -0.0 - self

    def __pos__(self):
        return self

    def __abs__(self):
        return absolute(self)

    def __pow__(self, n):
        return power(self, n)

    def __rpow__(self, base):
        return exp(self * float(np.log(base)))

    def __bool__(self):
        raise ProgramError(
            "a node's value is not known while its graph is built",
            self.builder.title,
            remedy="use where(condition, x, y), and & | ~ between comparisons",
        )


class Depth:
    """Longest path to each node of a graph that is being built."""

    def __init__(self, g: Builder):
        self.g = g
        self._of: list[int] = []

    def of(self, v: Value) -> int:
        """Nodes on the longest path to ``v``, sources not counted."""
        for _, a, b, _ in self.g._rows[len(self._of) :]:
            self._of.append(1 + max((self._of[k] for k in (a, b) if k >= 0), default=-1))
        return self._of[v.node]

    def join(self, op: Op, items: Iterable[Value]) -> Value:
        """A tree of one operation that joins what is there first."""
        heap = [(self.of(v), v.node, k, v) for k, v in enumerate(items)]
        heapq.heapify(heap)
        for k in range(-len(heap) + 1, 0):
            v = self.g.op(op, heapq.heappop(heap)[-1], heapq.heappop(heap)[-1])
            heapq.heappush(heap, (self.of(v), v.node, k, v))
        return heap[0][-1]


def sqrt(x: Value) -> Value:
    """Square root."""
    return x.builder.op(Op.SQRT, x)


def exp(x: Value) -> Value:
    """e**x."""
    return x.builder.op(Op.EXP, x)


def log(x: Value) -> Value:
    """Natural logarithm."""
    return x.builder.op(Op.LOG, x)


def _builder(*values) -> Builder:
    found = next((v.builder for v in values if isinstance(v, Value)), None)
    if found is None:
        raise ProgramError("no operand is a node of a graph")
    return found


def where(condition, x, y) -> Value:
    """``x`` where the condition is not zero, else ``y``: bit for bit; the other one's NaN does not
    matter.
    """
    g = _builder(condition, x, y)

    def zero(v):
        return not isinstance(v, Value) and float(v) == 0.0 and not np.signbit(v)

    parts = []
    if not zero(x):
        parts.append(g.op(Op.GATE, g.lift(condition), g.lift(x)))
    if not zero(y):
        parts.append(g.op(Op.GATE, ~g.lift(condition), g.lift(y)))
    return parts[0] if len(parts) == 1 else g.op(Op.JOIN, *parts) if parts else g.constant(0.0)


def merge(x, y) -> Value:
    """The end of the two sides of a region: the value of the one that is taken."""
    g = _builder(x, y)
    x, y = g.lift(x), g.lift(y)
    deep = max(g._region.get(x.node, ()), g._region.get(y.node, ()), key=len)
    if not deep:
        raise ProgramError("no operand of a merge is in a region", g.title)
    condition, side = deep[-1]
    other = (*deep[:-1], (condition, Op.ELSE if side is Op.THEN else Op.THEN))
    both = (deep, other) if g._region.get(x.node, ()) == deep else (other, deep)
    sides = (g._into(v.node, region) for v, region in zip((x, y), both, strict=True))
    return g.op(Op.MERGE, *(Value(g, node) for node in sides))


def maximum(x, y) -> Value:
    """``y`` where x < y, else ``x`` (so x if either is a NaN)."""
    return where(_builder(x, y).lift(x) < y, y, x)


def minimum(x, y) -> Value:
    """``y`` where y < x, else ``x`` (so x if either is a NaN)."""
    return where(_builder(x, y).lift(y) < x, y, x)


def absolute(x: Value) -> Value:
    """Magnitude."""
    return where(x < 0.0, -x, x)


def power(x: Value, n) -> Value:
    """x**n: whole numbers by multiplications, halves by a square root as well, any other exponent
    by exp(n log x).
    """
    if isinstance(n, Value) or (2 * n) % 1:
        return exp(log(x) * n)
    if n < 0:
        return 1.0 / power(x, -n)
    whole = int(n)
    half = n % 1 != 0
    result = None
    square = x
    while whole:
        if whole & 1:
            result = square if result is None else result * square
        whole >>= 1
        square = square * square if whole else square
    if half:
        result = sqrt(x) if result is None else result * sqrt(x)
    return x.builder.constant(1.0) if result is None else result


_UNKNOWN = "not among what a graph can do"
_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
_COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS = {
    "sqrt": (sqrt, 1),
    "exp": (exp, 1),
    "log": (log, 1),
    "abs": (absolute, 1),
    "where": (where, 3),
    "maximum": (maximum, 2),
    "minimum": (minimum, 2),
}


def expression(text: str, title: str = "expr") -> DataflowGraph:
    """The graph of assignments in NumPy notation, separated by semicolons or lines: ``s = a + b; y
    = s * where(s < c, s, 2.0)``.

    Names never assigned are inputs; those assigned and not used again are outputs. ProgramError
    points at what cannot be read.
    """
    try:
        return _expression(text, title)
    except (RecursionError, MemoryError):
        raise ProgramError(
            "an expression is nested too deeply", title, remedy="split it into assignments"
        ) from None


def _expression(text: str, title: str) -> DataflowGraph:
    text = "\n".join(line.strip() for line in text.replace(";", "\n").split("\n"))
    try:
        body = ast.parse(text).body
    except SyntaxError as e:
        raise ProgramError(
            f"cannot read {(e.text or text).strip()[:80]!r}: {e.msg}", title
        ) from None
    except ValueError as e:  # of thousands of digits
        raise ProgramError(f"cannot be read: {e}", title) from None
    reader = _Reader(text, title)
    for statement in body:
        reader.statement(statement, alone=len(body) == 1)
    return reader.graph()


class _Reader:
    """Assignments, one after the other, as nodes of a graph."""

    def __init__(self, text: str, title: str):
        self.text = text
        self.title = title
        self.builder = Builder(title)
        self.assigned: dict[str, Value] = {}
        self.used: set[str] = set()

    def refuse(self, node: ast.expr | ast.stmt, what: str) -> NoReturn:
        known = f"there are + - * / **, comparisons, & | ~ and {', '.join(_CALLS)}"
        raise ProgramError(
            f"cannot read {ast.get_source_segment(self.text, node)!r}: {what}",
            f"{self.title}, line {node.lineno}, column {node.col_offset + 1}",
            remedy=known if what == _UNKNOWN else None,
        )

    def statement(self, statement: ast.stmt, alone: bool) -> None:
        """An assignment, or an expression that stands ``alone`` and is called ``result``."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=v):
                if name in self.assigned:
                    self.refuse(statement, f"{name} is assigned twice")
                if ("input", name) in self.builder._known:
                    self.refuse(statement, f"{name} is used before it is assigned")
                self.assigned[name] = self.builder.lift(self.value(v))
            case ast.Expr(value=v) if alone:
                self.assigned["result"] = self.builder.lift(self.value(v))
            case _:
                self.refuse(statement, "a statement is NAME = EXPRESSION")

    def value(self, node: ast.expr) -> Value | float:
        """An expression; of numbers alone, a number."""
        match node:
            case ast.Constant(value=int() | float() as v):
                return float(v)
            case ast.Name(id=name):
                self.used.add(name)
                return self.assigned[name] if name in self.assigned else self.builder.input(name)
            case ast.BinOp(left=x, op=op, right=y) if type(op) in _BINARY:
                x = self.value(x)
                y = self.value(y)
                try:
                    return _BINARY[type(op)](x, y)
                except (ArithmeticError, TypeError) as e:  # of two numbers
                    self.refuse(node, str(e))
            case ast.UnaryOp(op=op, operand=x) if type(op) in _UNARY:
                return _UNARY[type(op)](self.value(x))
            case ast.Compare(left=x, ops=[op], comparators=[y]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self.value(x), self.value(y))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
                return self.call(node, name, args)
        self.refuse(node, _UNKNOWN)

    def call(self, node: ast.expr, name: str, args: list[ast.expr]) -> Value:
        f, count = _CALLS[name]
        if len(args) != count:
            self.refuse(node, f"{name} has {count} operand{'s' * (count > 1)}")
        values = [self.value(x) for x in args]
        return f(*values) if count > 1 else f(self.builder.lift(values[0]))

    def graph(self) -> DataflowGraph:
        if not self.assigned:
            raise ProgramError("is empty", self.title)
        for name, v in self.assigned.items():
            if name not in self.used:
                self.builder.output(name, v)
        return self.builder.graph()
