"""The text form of a program: prints, and reads back to an equal program.

One line per tensor, symbol and operator, in order; what follows ``#`` is for the reader. Lines are
calls in Python's syntax, read through ``ast``: nothing in a text is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import sympy

from ...machine.errors import ProgramError
from ..functions.tiles import FORMS, Function
from ..graph import OPERATORS, Graph, Operator, Stream, TensorRef
from ..operators.boundary import Loop
from ..types import (
    BufferType,
    Dim,
    DimKind,
    ElementType,
    ScalarType,
    SelectorType,
    StreamType,
    TileType,
    TupleType,
    dim,
)


def print_graph(graph: Graph) -> str:
    lines = [f"program({graph.name!r})"]
    for name, d in graph.symbols.items():
        if name not in graph.derived_symbols:
            most = f", {graph.bounds[name]}" if name in graph.bounds else ""
            least = f", least={graph.leasts[name]}" if name in graph.leasts else ""
            lines.append(f"symbol({name!r}, {d.kind.value!r}{most}{least})")
    lines += [
        f"{t.role}({t.name!r}, [{t.rows}, {t.cols}], {t.dtype!r})" for t in graph.tensors.values()
    ]
    for node in graph.nodes:
        loop = isinstance(node, Loop)
        parts = [] if loop else [_stream(s) for s in node.inputs]
        parts += [f"{k}={_value(v)}" for k, v in node.args.stated.items()]
        line = f"{node.name} = {type(node).__name__}({', '.join(parts)})"
        lines.append(f"{line}  # {'; '.join(map(str, node.outputs))}" if node.outputs else line)
        for port, shape in node.asserted.items():
            lines.append(f"assert_shape({_stream(node[port])}, {_value(shape)})")
    lines += [
        f"close({node.name}, {_stream(node.inputs[0])})"
        for node in graph.nodes
        if isinstance(node, Loop) and node.inputs
    ]
    return "\n".join(lines) + "\n"


Graph.printer = print_graph


def _stream(s) -> str:
    return s.node.name if len(s.node.outputs) == 1 else f"{s.node.name}[{s.port}]"


def _value(v) -> str:
    if isinstance(v, Function):
        return str(v)
    match v:
        case StreamType(element=e, shape=shape):
            return f"stream({_value(shape)}, {_value(e)})"
        case TileType(rows=r, cols=c, dtype=dtype):
            return f"tile({_value(r)}, {_value(c)}, {dtype!r})"
        case SelectorType(n=n):
            return f"selector({n})"
        case ScalarType(bits=n):
            return f"scalar({n})"
        case BufferType(element=e, shape=shape, memory=memory):
            return f"buffer({_value(e)}, {_value(shape)}, {memory!r})"
        case TupleType(members=members):
            return f"tuple({', '.join(map(_value, members))})"
    if isinstance(v, TensorRef):
        return f"tensor({v.name!r})"
    if isinstance(v, Dim):
        return str(v.size)
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(map(_value, v)) + "]"
    return repr(v)


def _dims(shape) -> tuple[Dim, ...]:
    return tuple(map(dim, shape))


TYPES: dict[str, Callable[..., ElementType | StreamType]] = {
    "stream": lambda shape, element: StreamType(element, _dims(shape)),
    "tile": lambda rows, cols, dtype: TileType(dim(rows), dim(cols), dtype),
    "selector": SelectorType,
    "scalar": ScalarType,
    "buffer": lambda element, shape, memory: BufferType(element, _dims(shape), memory),
    "tuple": lambda *members: TupleType(members),
}
"""Types as a text writes them."""


class _Reader:
    def __init__(self, where: str):
        self.where = where
        self.line = 0
        self.started: Graph | None = None
        self.nodes: dict[str, Operator] = {}

    def error(self, what: str, remedy: str | None = None) -> ProgramError:
        return ProgramError(what, f"{self.where}:{self.line}", remedy=remedy)

    @property
    def graph(self) -> Graph:
        """The program that the first line started."""
        if self.started is None:
            raise self.error("no program", "the first line is program('name')")
        return self.started

    def read(self, text: str) -> Graph:
        for self.line, line in enumerate(text.splitlines(), 1):
            try:
                body = ast.parse(line.strip()).body
            except SyntaxError:
                raise self.error(
                    f"not a line of a program: {line.strip()!r}",
                    "one call a line, as print_graph writes them",
                ) from None
            for statement in body:
                self.statement(statement)
        return self.graph

    def statement(self, s: ast.stmt) -> None:
        target = None
        if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
            target = s.targets[0].id
        elif not isinstance(s, ast.Expr):
            raise self.error(f"not a call: {ast.unparse(s)}")
        call = s.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise self.error(f"not a call: {ast.unparse(s)}")
        name = call.func.id
        if self.started is None:
            if name != "program":
                raise self.error("no program yet", "the first line is program('name')")
            self.started = Graph(self.word(call.args[0]))
        elif name == "symbol":
            symbol, kind, *most = call.args
            self.graph.symbol(
                self.word(symbol),
                DimKind(self.word(kind)),
                *[self.number(x) for x in most],
                **{str(k.arg): self.number(k.value) for k in call.keywords},
            )
        elif name == "close":
            loop = self.stream(call.args[0]).node
            if not isinstance(loop, Loop):
                raise self.error(f"closes {loop.name}, which is no Loop")
            loop.close(self.stream(call.args[1]))
        elif name in ("input", "output", "inout"):
            tensor, shape, dtype = call.args
            sizes = [self.number(n) for n in self.items(shape)]
            self.graph.tensor(self.word(tensor), sizes, self.word(dtype), name)
        elif name == "assert_shape":
            stream, shape = call.args
            self.stream(stream).assert_shape([self.dimension(d) for d in self.items(shape)])
        elif name in OPERATORS:
            self.operator(OPERATORS[name], target, call)
        else:
            raise self.error(f"unknown operator {name!r}", f"known: {', '.join(OPERATORS)}")

    def operator(self, cls: type[Operator], target: str | None, call: ast.Call) -> None:
        args = self.named(call)
        streams: list[object] = [self.stream(a) for a in call.args]
        required = [s for s in cls.streams if not s.endswith("?")]
        if not any(s.endswith("*") for s in cls.streams):
            optional = [s[:-1] for s in cls.streams if s.endswith("?")]
            args |= dict(zip(optional, streams[len(required) :], strict=False))
            streams = streams[: len(required)]
        node = cls(*streams, name=target, graph=self.graph, **args)
        if target is not None:
            self.nodes[target] = node

    def named(self, call: ast.Call) -> dict[str, object]:
        """The arguments that a call gives by name."""
        args = {}
        for k in call.keywords:
            if k.arg is None:
                raise self.error(f"not an argument by name: {ast.unparse(k)}")
            args[k.arg] = self.value(k.value)
        return args

    def stream(self, e: ast.expr) -> Stream:
        port = 0
        if isinstance(e, ast.Subscript):
            port = self.number(e.slice)
            e = e.value
        if not isinstance(e, ast.Name) or e.id not in self.nodes:
            raise self.error(f"no stream {ast.unparse(e)!r} so far")
        return self.nodes[e.id][port]

    def word(self, e: ast.expr) -> str:
        """A string."""
        value = self.value(e)
        if not isinstance(value, str):
            raise self.error(f"not a string: {ast.unparse(e)}")
        return value

    def number(self, e: ast.expr) -> int:
        """An integer."""
        value = self.value(e)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"not an integer: {ast.unparse(e)}")
        return value

    def items(self, e: ast.expr) -> list[ast.expr]:
        """The items of a list."""
        if not isinstance(e, ast.List):
            raise self.error(f"not a list: {ast.unparse(e)}")
        return e.elts

    def dimension(self, e: ast.expr) -> Dim:
        """A symbol, a number or an expression of such."""
        if isinstance(e, ast.Name) and e.id in self.graph.symbols:
            return self.graph.symbols[e.id]
        expr = self.size(e)
        parts = [self.graph.symbols[str(s)] for s in expr.free_symbols]
        kind = DimKind.STATIC_REGULAR
        for p in parts:
            kind = kind.join(p.kind)
        return Dim(expr, kind) if parts else dim(expr)

    def value(self, e: ast.expr) -> object:
        """The value that an argument of a call stands for."""
        match e:
            case ast.Constant(value=v):
                return v
            case ast.List(elts=items):
                return [self.value(x) for x in items]
            case ast.Call(func=ast.Name(id=name)) if name in FORMS:
                return FORMS[name](*[self.value(x) for x in e.args], **self.named(e))
            case ast.Call(func=ast.Name(id=name), args=args) if name in TYPES:
                return TYPES[name](*map(self.value, args))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float(v))):
                return -v
            case ast.Call(func=ast.Name(id="tensor"), args=[name]):
                ref = self.graph.tensors.get(self.word(name))
                if ref is None:
                    raise self.error(f"no tensor {self.word(name)!r} so far")
                return ref
        return self.dimension(e)

    def size(self, e: ast.expr) -> sympy.Expr:
        match e:
            case ast.Constant(value=int(v)):
                return sympy.Integer(v)
            case ast.Name(id=name) if name in self.graph.symbols:
                return self.graph.symbols[name].size
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -self.size(x)
            case ast.BinOp(left=a, op=op, right=b):
                x = self.size(a)
                y = self.size(b)
                match op:
                    case ast.Add():
                        return x + y
                    case ast.Sub():
                        return x - y
                    case ast.Mult():
                        return x * y
                    case ast.Div():
                        return x / y
                    case ast.Pow():
                        return x**y
            case ast.Call(func=ast.Name(id=name), args=args) if name in (
                "ceiling",
                "floor",
                "Max",
                "Min",
            ):
                return getattr(sympy, name)(*[self.size(a) for a in args])
        raise self.error(
            f"not a size: {ast.unparse(e)}",
            "numbers, declared symbols, + - * / ** and ceiling, floor, Max, Min",
        )


def read_graph(text: str, where: str = "program text") -> Graph:
    """Read a program's text form; raises ProgramError with the line."""
    return _Reader(where).read(text)
