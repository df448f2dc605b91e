"""The program graph: streams, operators, and the registry through which an operator is added in one place."""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sympy

from penstock.machine.errors import ProgramError

from .types import Dim, DimKind, StreamType, check_dtype, dim, same_size, show_shape

_PACKAGE = str(Path(__file__).parent)


def _user_line() -> str:
    """File and line of the nearest caller outside the front end."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_PACKAGE) and "workloads" not in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


@dataclass(frozen=True)
class TensorRef:
    """An off-chip tensor of a program."""

    graph: "Graph" = field(repr=False, compare=False)
    name: str
    rows: int
    cols: int
    dtype: str
    role: str  # "input" | "output"


@dataclass(frozen=True, eq=False)
class Stream:
    """One output of an operator.

    Attributes
    ----------
    node, port
        The operator and the index of its output.
    type
        Element type and shape. ``assert_shape`` replaces it.
    """

    node: "Operator"
    port: int

    @property
    def graph(self) -> "Graph":
        return self.node.graph

    @property
    def type(self) -> StreamType:
        return self.node.outputs[self.port]

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.type.shape

    @property
    def element(self):
        return self.type.element

    @property
    def rank(self) -> int:
        return self.type.rank

    @property
    def name(self) -> str:
        return self.node.name if len(self.node.outputs) == 1 else f"{self.node.name}.{self.port}"

    def assert_shape(self, shape: Sequence) -> "Stream":
        """State the stream's shape (the paper's Listing 1, line 26). The run checks what cannot be proved here.

        Raises ProgramError when the ranks differ or a size is provably another one.
        """
        want = tuple(dim(d) for d in shape)
        where = f"assert_shape of stream {self.name} at {_user_line()}"
        if len(want) != len(self.shape):
            raise ProgramError(f"{show_shape(want)} has {len(want)} dimensions, the stream {show_shape(self.shape)} has {len(self.shape)}",
                               where, remedy="give one size per dimension, outermost first")
        proved = [same_size(a, b) for a, b in zip(want, self.shape)]
        if False in proved:
            i = proved.index(False)
            raise ProgramError(f"dimension {len(want) - 1 - i} is {self.shape[i]}, not {want[i]}", where,
                               rule="an asserted shape must agree with the shape rules")
        self.node.asserted[self.port] = want
        self.node.outputs[self.port] = StreamType(self.element, want)
        return self

    def __repr__(self) -> str:
        return f"<stream {self.name}: {self.type}>"


class Operator:
    """A node of the program graph. Subclass it and register the subclass with :func:`operator`.

    One subclass states everything about an operator: what it takes (``streams``, ``arguments``), the type of what it gives
    (``shape_rule``), its costs (``offchip``, ``flops``, ``onchip``), its lowering (``lower_machine``, ``lower_published``)
    and its meaning (``evaluate``). Graph, checks, analysis, text form, drawing and documentation read that.

    Attributes
    ----------
    streams : tuple of str
        Names of the input streams, in port order; ``"*"`` as the only entry: any number.
    arguments : dict
        Argument name -> one line of meaning. Values are held in ``args``.
    defaults : dict
        Arguments that may be left out, with their values.
    """

    streams: tuple[str, ...] = ("input",)
    arguments: dict[str, str] = {}
    defaults: dict = {}
    higher_order = False  # runs a function on elements: counts as compute

    graph: "Graph"
    name: str
    inputs: list[Stream]
    args: dict
    outputs: list[StreamType]
    asserted: dict
    line: str

    def __init__(self, *inputs, name: str | None = None, **args):
        cls = type(self)
        self.line = _user_line()
        self.name = name or cls.__name__
        if name is not None and (not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name)):
            raise ProgramError(f"name must be an identifier, not {name!r}", f"operator {cls.__name__} at {self.line}")
        given = args.pop("graph", None)
        self.inputs, self.asserted, self.outputs = [], {}, []
        positional = [x for x in inputs if not isinstance(x, TensorRef)]
        args.update({"tensor": x for x in inputs if isinstance(x, TensorRef)})
        if len(positional) == 1 and isinstance(positional[0], (list, tuple)) and not _is_port(positional[0]):
            positional = list(positional[0])
        n = len(positional) if cls.streams == ("*",) else len([s for s in cls.streams if not s.endswith("?")])
        streams = list(positional)
        for s in cls.streams:
            if s.endswith("?") and s[:-1] in args:
                extra = args.pop(s[:-1])
                if extra is not None:
                    streams.append(extra)
        try:
            self.inputs = [as_stream(s) for s in streams]
        except ProgramError as e:
            raise self.error(e.what, remedy=e.remedy) from None
        if len(positional) != n:
            raise self.error(f"takes {n} input streams ({', '.join(cls.streams)}), not {len(positional)}")
        unknown = [k for k in args if k not in cls.arguments]
        missing = [k for k in cls.arguments if k not in args and k not in cls.defaults]
        if unknown or missing:
            what = f"unknown argument {unknown[0]!r}" if unknown else f"argument {missing[0]!r} is missing"
            raise self.error(what, remedy=f"arguments are {', '.join(cls.arguments) or 'none'}")
        self.args = {k: args.get(k, cls.defaults.get(k)) for k in cls.arguments}
        graphs = [s.graph for s in self.inputs] + [v.graph for v in self.args.values() if isinstance(v, TensorRef)] + [given] * (given is not None)
        if not graphs:
            raise self.error("belongs to no graph", remedy="give it an input stream or a tensor of a graph")
        if any(g is not graphs[0] for g in graphs):
            raise self.error("joins streams of two graphs", remedy="build one program in one Graph")
        self.graph = graphs[0]
        self.name = self.graph.unique(name or cls.__name__)
        try:
            self.check()
            self.outputs = list(self.shape_rule())
        except ProgramError as e:
            if e.where and e.where.startswith("operator "):
                raise
            raise self.error(e.what, stream=e.where, rule=e.rule, remedy=e.remedy) from None
        self.graph.add(self)

    # -- declaration -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check arguments and input types; raise through :meth:`error`."""

    def shape_rule(self) -> Sequence[StreamType]:
        """The type of each output."""
        raise NotImplementedError

    def offchip(self) -> sympy.Expr:
        """Off-chip traffic in bytes."""
        return sympy.Integer(0)

    def flops(self) -> sympy.Expr:
        """Floating-point operations of the whole run."""
        return sympy.Integer(0)

    def onchip(self, rule: str) -> sympy.Expr:
        """On-chip bytes under a named rule (frontend/analysis.py)."""
        return sympy.Integer(0)

    def lower_machine(self, low) -> Sequence:
        """Units for the timing `machine`; ``low`` is a frontend.lowering.MachineLowering. Returns one port per output."""
        raise low.unsupported(self)

    def lower_published(self, low) -> Sequence:
        """Units for the timing `published`; ``low`` is a frontend.lowering.PublishedLowering."""
        raise low.unsupported(self)

    def evaluate(self, ev, *inputs):
        """The operator's NumPy meaning; ``ev`` is a frontend.reference.Evaluator, each input a list of (value, stop)."""
        raise NotImplementedError(f"operator {type(self).__name__} has no NumPy meaning")

    def optional_output(self, port: int) -> bool:
        """Whether an output may stay without a reader."""
        return False

    # -- helpers -----------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        kind = type(self).__name__
        return f"operator {self.name}" if self.name == kind or re.fullmatch(rf"{kind}_\d+", self.name) else f"operator {self.name} ({kind})"

    def error(self, what: str, *, stream: str | None = None, rule: str | None = None, remedy: str | None = None) -> ProgramError:
        where = f"{self.label} at {self.line}" if self.line else self.label
        if stream:
            where += f", {stream}"
        return ProgramError(what, where, rule, remedy)

    def stream_error(self, i: int, what: str, rule: str | None = None, remedy: str | None = None) -> ProgramError:
        s = self.inputs[i]
        return self.error(what, stream=f"stream {s.name} {s.type}", rule=rule, remedy=remedy)

    def positive(self, *names: str) -> None:
        """Check that arguments are integers of at least 1."""
        for name in names:
            v = self.args[name]
            if isinstance(v, bool) or not isinstance(v, int) or v < 1:
                raise self.error(f"{name} must be an integer of at least 1, not {v!r}")

    def __getitem__(self, port: int) -> Stream:
        if not 0 <= port < len(self.outputs):
            raise self.error(f"has no output {port}", remedy=f"it has {len(self.outputs)}")
        return Stream(self, port)

    def __iter__(self):
        return (Stream(self, i) for i in range(len(self.outputs)))

    @property
    def stream(self) -> Stream:
        """The first output."""
        return self[0]

    def __repr__(self) -> str:
        return f"<{self.label}: {', '.join(map(str, self.outputs))}>"


def _is_port(x) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], Operator) and isinstance(x[1], int)


def as_stream(x) -> Stream:
    """A stream from a stream, an operator (its first output) or a pair (operator, output)."""
    if isinstance(x, Stream):
        return x
    if isinstance(x, Operator):
        return x.stream
    if _is_port(x):
        return x[0][x[1]]
    raise ProgramError(f"{x!r} is not a stream", remedy="pass an operator, a stream, or (operator, output index)")


OPERATORS: dict[str, type[Operator]] = {}
FUNCTIONAL: dict[str, object] = {}


def operator(cls: type[Operator]) -> type[Operator]:
    """Register an operator class (also from outside the tree) and derive its function form.

    ``Accum(x, fn=add(), rank=1)`` makes the operator; ``accum(x, fn=add(), rank=1)`` makes it and returns its output stream
    (a tuple of streams where there are several).
    """
    if cls.__name__ in OPERATORS and OPERATORS[cls.__name__].__module__ != cls.__module__:
        raise ProgramError(f"an operator named {cls.__name__!r} is already registered", remedy="choose another name")
    OPERATORS[cls.__name__] = cls

    def call(*inputs, **args):
        node = cls(*inputs, **args)
        return node.stream if len(node.outputs) == 1 else tuple(node) or None

    call.__name__ = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
    call.__doc__ = inspect.getdoc(cls)
    FUNCTIONAL[call.__name__] = call
    return cls


class Graph:
    """A STeP program: off-chip tensors, operators in order of creation, and symbols."""

    def __init__(self, name: str = "program"):
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ProgramError(f"a program's name must be an identifier, not {name!r}")
        self.name = name
        self.nodes: list[Operator] = []
        self.tensors: dict[str, TensorRef] = {}
        self.symbols: dict[str, Dim] = {}
        self.derived_symbols: set[str] = set()  # names that the shape rules made
        self._names: dict[str, int] = {}
        self._readers: dict[tuple[str, int], list[tuple[Operator, int]]] = {}

    def unique(self, name: str) -> str:
        """``name``, or the first of ``name_1``, ``name_2``, ... that no operator has."""
        if name not in self._names:
            return name
        i = self._names[name]
        while f"{name}_{i}" in self._names:
            i += 1
        self._names[name] = i
        return f"{name}_{i}"

    def add(self, node: Operator) -> None:
        """Append a checked operator."""
        self.nodes.append(node)
        self._names[node.name] = 1
        for i, s in enumerate(node.inputs):
            self._readers.setdefault((s.node.name, s.port), []).append((node, i))

    def tensor(self, name: str, shape: Sequence[int], dtype: str, role: str = "input") -> TensorRef:
        """Declare an off-chip tensor of ``shape`` [rows, cols]."""
        where = f"tensor {name} at {_user_line()}"
        try:
            check_dtype(dtype)
        except ProgramError as e:
            raise ProgramError(e.what, where) from None
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(f"a tensor's name must be an identifier, not {name!r}", where)
        if len(shape) != 2:
            raise ProgramError(f"shape must be [rows, cols], not {list(shape)!r}", where)
        for n in shape:
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise ProgramError(f"rows and cols must be integers of at least 1, not {list(shape)!r}", where)
        if name in self.tensors:
            raise ProgramError("is declared twice", where, remedy="use the first declaration, or another name")
        self.tensors[name] = TensorRef(self, name, shape[0], shape[1], dtype, role)
        return self.tensors[name]

    def input(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> TensorRef:
        """Declare an off-chip input tensor."""
        return self.tensor(name, shape, dtype, "input")

    def output(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> TensorRef:
        """Declare an off-chip output tensor."""
        return self.tensor(name, shape, dtype, "output")

    def dynamic(self, name: str, *, ragged: bool = False) -> Dim:
        """A dimension whose size the data decide."""
        return self.symbol(name, DimKind.of(dynamic=True, ragged=ragged))

    def ragged(self, name: str) -> Dim:
        """A static-ragged dimension."""
        return self.symbol(name, DimKind.STATIC_RAGGED)

    def symbol(self, name: str, kind: DimKind) -> Dim:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ProgramError(f"a symbol's name must be an identifier, not {name!r}")
        if name in self.symbols:
            raise ProgramError(f"symbol {name!r} is declared twice", remedy="choose another name")
        self.symbols[name] = Dim(sympy.Symbol(name, integer=True, nonnegative=True), kind)
        return self.symbols[name]

    def derived(self, expr: sympy.Expr, *parts: Dim) -> Dim:
        """A dimension of size ``expr`` over ``parts``: a new ragged symbol if one of them is ragged (ragged absorbs)."""
        kind = DimKind.STATIC_REGULAR
        for p in parts:
            kind = kind.join(p.kind)
        if kind.ragged:
            if sum(p.size != 1 for p in parts) == 1 and expr in [p.size for p in parts]:
                return next(p for p in parts if p.size == expr)
            i = 0
            while f"R{i}" in self.symbols:
                i += 1
            self.derived_symbols.add(f"R{i}")
            return self.symbol(f"R{i}", kind)
        return Dim(sympy.sympify(expr), kind)

    def consumers(self, stream: Stream) -> list[tuple[Operator, int]]:
        """Readers of a stream as (operator, input index), in order of creation."""
        return self._readers.get((stream.node.name, stream.port), [])

    def check(self) -> "Graph":
        """Whole-program checks: something is stored, and no stream is left without a reader."""
        if not self.nodes:
            raise ProgramError("has no operators", f"program {self.name}")
        for node in self.nodes:
            for i, s in enumerate(node):
                if not self.consumers(s) and not node.optional_output(i):
                    raise node.error("nothing reads its output", stream=f"stream {s.name} {s.type}",
                                     rule="every stream has a reader", remedy="store it with LinearOffChipStore, or leave the operator out")
        return self

    def __str__(self) -> str:
        from .text import print_graph

        return print_graph(self)
