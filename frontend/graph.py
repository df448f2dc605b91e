"""The program graph: streams, operators, and the registry through which an operator is added in one
place.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import sympy

from ..machine.errors import ProgramError
from .arguments import REQUIRED, Arguments
from .located import Located
from .no_arithmetic import NoArithmetic
from .tensors import TensorRef, Tensors
from .types import Dim, ElementType, StreamType, dim, element_kind, same_size, show_shape, shown
from .user_line import for_caller, user_line, user_variable

if TYPE_CHECKING:
    from .lowering import MachineLowering, StepsimLowering
    from .lowering.base import Port
    from .meaning.evaluator import Evaluator
    from .show.operator_pages import Given


class _Typed(NoArithmetic):
    """The stream's part of a stream, and of an operator, which stands for its first output."""

    @property
    def stream(self) -> Stream:
        raise NotImplementedError

    @property
    def type(self) -> StreamType:
        return self.stream.node.outputs[self.stream.port]

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.type.shape

    @property
    def element(self) -> ElementType:
        return self.type.element

    @property
    def rank(self) -> int:
        return self.type.rank

    def assert_shape(self, shape: Sequence) -> Stream:
        """State the stream's shape (the paper's Listing 1, line 27).

        The run checks what cannot be proved here.

        Readers see the stated shape whether they were built before or after: their own types are
        derived anew. Raises ProgramError when the ranks differ, a size is provably another one, or
        a reader's rule breaks.
        """
        stream = self.stream
        want = tuple(dim(d) for d in shape)
        where = f"assert_shape of stream {stream.name} at {user_line()}"
        if len(want) != len(self.shape):
            raise ProgramError(
                f"{show_shape(want)} has {len(want)} dimensions, the stream "
                f"{show_shape(self.shape)} has {len(self.shape)}",
                where,
                remedy="give one size per dimension, outermost first",
            )
        proved = [same_size(a, b) for a, b in zip(want, self.shape, strict=True)]
        if False in proved:
            i = proved.index(False)
            raise ProgramError(
                f"dimension {len(want) - 1 - i} is {self.shape[i]}, not {want[i]}",
                where,
                rule="an asserted shape must agree with the shape rules",
            )
        stream.graph.restate(stream.node, stream.port, want)
        return stream


@dataclass(frozen=True, eq=False)
class Stream(_Typed):
    """One output of an operator.

    Attributes
    ----------
    node, port
        The operator and the index of its output.
    type
        Element type and shape. ``assert_shape`` restates it, for all readers alike.
    """

    node: Operator
    port: int

    @property
    def stream(self) -> Stream:
        return self

    def __getitem__(self, port: int) -> Stream:
        """An output of its operator, by index."""
        return self.node[port]

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.node)

    @property
    def graph(self) -> Graph:
        return self.node.graph

    @property
    def line(self) -> str:
        return self.node.line

    @property
    def name(self) -> str:
        return self.node.name if len(self.node.outputs) == 1 else f"{self.node.name}.{self.port}"

    def __repr__(self) -> str:
        return f"<stream {self.name}: {self.type}>"


class Operator(_Typed, Located):
    """A node of the program graph. Subclass it and register the subclass with :func:`operator`.

    One subclass states everything about an operator: what it takes (``streams``, ``Args``),
    the type of what it gives (``shape_rule``), its costs (``offchip``, ``flops``, ``onchip``), its
    lowering (``lower_machine``, ``lower_stepsim``) and its meaning (``evaluate``). Graph, checks,
    analysis, text form, drawing and documentation read that.

    Attributes
    ----------
    streams : tuple of str
        Names of the input streams, in port order. ``"x*"`` stands for any number of streams (one
        such entry at most), ``"x?"`` for one that is given by keyword and may be left out.
    Args, args
        Class of the arguments (:class:`~penstock.frontend.arguments.Arguments`), and those of this
        operator.
    shapes, stops, costs, limits : str (limits: or several)
        For the reference page: types and shapes, the stop-token rule, costs in general, and what is
        refused with the reason.
    """

    streams: tuple[str, ...] = ("input",)
    Args: ClassVar[type[Arguments]] = Arguments
    shapes: str = ""  # element types and shapes, outermost first: what it takes -> what it gives
    stops: str = ""  # the stop-token rule, in words
    costs: str = ""  # off-chip traffic and on-chip requirement, in words; empty: none
    limits: str | tuple[str, ...] = ""  # what it does not take, and why
    forms: ClassVar[dict[str, tuple]] = {}  # how forms differ (frontend/analysis/forms.py)
    higher_order = False  # runs a function on elements: counts as compute

    graph: Graph
    inputs: list[Stream]
    args: Arguments
    outputs: list[StreamType]
    asserted: dict

    def __init__(self, *inputs, name: str | None = None, graph: Graph | None = None, **args):
        kind = type(self).__name__
        self.line = user_line()
        self.name = name or user_variable() or kind
        if name is not None and (
            not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name)
        ):
            raise ProgramError(
                f"name must be an identifier, not {name!r}",
                f"operator {kind} at {self.line}",
                remedy="choose one that is no word of Python" if name in keyword.kwlist else None,
            )
        self.asserted = {}
        self.outputs = []
        self.inputs = self._streams(inputs, args)
        self.args = self._arguments(args)
        self.graph = self._joined(graph)
        self.name = self.graph.unique(self.name, given=name is not None)
        self.infer()
        self.graph.add(self, given=name is not None)

    def _streams(self, inputs: Sequence, args: dict) -> list[Stream]:
        """The input streams; a tensor or a type among them, and optional streams among the
        arguments, change sides.
        """
        streams = []
        for x in inputs:
            if isinstance(x, (TensorRef, StreamType)):
                args["tensor" if isinstance(x, TensorRef) else "type"] = x
            elif isinstance(x, (list, tuple)) and not _is_port(x):
                streams += x
            else:
                streams.append(x)
        given = len(streams)
        optional = [args.pop(s[:-1], None) for s in self.streams if s.endswith("?")]
        try:
            found = [as_stream(s) for s in streams + [s for s in optional if s is not None]]
        except ProgramError as e:
            raise self.error(e.what, remedy=e.remedy) from None
        fixed = [s for s in self.streams if s[-1] not in "*?"]
        some = any(s.endswith("*") for s in self.streams)
        if given < len(fixed) + some or (given > len(fixed) and not some):
            names = ", ".join(
                s.rstrip("*") + (", ..." if s.endswith("*") else "") for s in self.streams
            )
            raise self.error(
                f"takes {f'{len(fixed) + 1} or more' if some else len(fixed)} input streams "
                f"({names}), not {given}"
            )
        return found

    def _arguments(self, args: dict) -> Arguments:
        """The arguments, complete and known."""
        declared = self.Args.declared
        made = self.Args(args)
        wrong = [f"unknown argument {k!r}" for k in args if k not in declared]
        wrong += [f"argument {k!r} is missing" for k, v in vars(made).items() if v is REQUIRED]
        if wrong:
            raise self.error(wrong[0], remedy=f"arguments are {', '.join(declared) or 'none'}")
        return made

    def _joined(self, graph: Graph | None) -> Graph:
        """The one graph of its streams and tensors, or the one given."""
        parts = (*self.inputs, *vars(self.args).values())
        graphs: list[Any] = [x.graph for x in parts if isinstance(x, (Stream, TensorRef))]
        graphs += [graph] if graph is not None else []
        if not graphs:
            raise self.error(
                "belongs to no graph",
                remedy="give it an input stream or a tensor of a graph, or graph=g",
            )
        if any(g is not graphs[0] for g in graphs):
            raise self.error("joins streams of two graphs", remedy="build one program in one Graph")
        return graphs[0]

    def infer(self) -> None:
        """Check the operator and derive the types of its outputs; again whenever the type of an
        input was restated.
        """
        try:
            self.check()
            outputs = list(self.shape_rule())
        except ProgramError as e:
            if e.where and e.where.startswith("operator "):
                raise
            raise self.error(e.what, stream=e.where, rule=e.rule, remedy=e.remedy) from None
        for port, shape in self.asserted.items():
            outputs[port] = StreamType(outputs[port].element, shape)
        self.outputs = outputs

    def check(self) -> None:
        """Check arguments and input types; raise through :meth:`error`.

        Runs again when an input's type is restated.
        """

    def shape_rule(self) -> Sequence[StreamType]:
        """The type of each output."""
        raise NotImplementedError

    def offchip(self) -> sympy.Expr:
        """Off-chip traffic in bytes."""
        return sympy.Integer(0)

    def offchip_lines(self, line_bytes: int) -> sympy.Expr:
        """Off-chip lines of that size that whole tiles take: each line once a tile; a tile whose
        place an address gives, where its rows lie in the fewest lines.
        """
        return sympy.Integer(0)

    def flops(self) -> sympy.Expr:
        """Floating-point operations of the whole run."""
        return sympy.Integer(0)

    def onchip(self, rule: str) -> sympy.Expr:
        """Bytes on chip under a named rule (frontend/analysis/metrics.py)."""
        return sympy.Integer(0)

    @classmethod
    def example(cls, given: Given) -> Operator | None:
        """One of its kind for the reference page; ``given`` makes typical streams and tensors
        (:class:`~penstock.frontend.show.operator_pages.Given`). None: the page has no example.
        """
        return None

    def lower_machine(self, low: MachineLowering) -> Sequence[Port | None]:
        """Units for the timing `machine`.

        Returns one port per output; None for one that is connected already.
        """
        raise low.unsupported(self)

    def lower_stepsim(self, low: StepsimLowering) -> Sequence[Port | None]:
        """Units for the timing `stepsim`; ports as of :meth:`lower_machine`."""
        raise low.unsupported(self)

    def evaluate(self, ev: Evaluator, *inputs: Iterator[tuple[Any, int]]) -> Iterator[tuple]:
        """The operator's NumPy meaning, as a generator; each input is an iterator of (value, stop).

        Yields (value, stop), or (output, value, stop) where the operator has several outputs. A
        value of None is a bare stop (docs/timing.md section 3.4): an empty tensor.
        """
        raise self.error(
            "has no NumPy meaning",
            remedy="define evaluate(ev, *inputs), a generator of (value, stop)",
        )

    def check_complete(self) -> None:
        """Check rules that concern a whole program."""

    def optional_output(self, port: int) -> bool:
        """True if an output may stay without a reader."""
        return False

    @property
    def tensor(self) -> TensorRef | None:
        """The off-chip tensor that it reads or writes."""
        tensor = getattr(self.args, "tensor", None)
        return tensor if isinstance(tensor, TensorRef) else None

    @property
    def carries(self) -> str:
        """Kind of element of the first stream: of :data:`penstock.frontend.types.ELEMENT_KINDS`."""
        return element_kind((self.inputs or self)[0].element)

    def stream_error(
        self, i: int, what: str, rule: str | None = None, remedy: str | None = None
    ) -> ProgramError:
        s = self.inputs[i]
        return self.error(what, stream=f"stream {s.name} {s.type}", rule=rule, remedy=remedy)

    def positive(self, *names: str) -> None:
        """Check that arguments are integers of at least 1."""
        for name in names:
            v = getattr(self.args, name)
            if isinstance(v, bool) or not isinstance(v, int) or v < 1:
                raise self.error(
                    f"{name} must be an integer of at least 1, not {shown(v)}",
                    remedy=self.run_time(name, v),
                )

    def run_time(self, name: str, v) -> str | None:
        """Remedy where the argument ``name`` is a size, or a list with one, that only the run
        knows.
        """
        sizes = v if isinstance(v, (list, tuple)) else [v]
        if not any(isinstance(d, Dim) and d.value is None for d in sizes):
            return None
        return (
            "what only the run knows comes by a stream: pass ref"
            if "ref?" in self.streams and name != "tile"
            else "a size that only the run knows cannot stand here"
        )

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
    return (
        isinstance(x, tuple)
        and len(x) == 2
        and isinstance(x[0], Operator)
        and isinstance(x[1], int)
    )


def as_stream(x) -> Stream:
    """A stream from a stream, an operator (its first output) or a pair (operator, output)."""
    if isinstance(x, Stream):
        return x
    if isinstance(x, Operator):
        return x.stream
    if _is_port(x):
        return x[0][x[1]]
    raise ProgramError(
        f"{x!r} is not a stream", remedy="pass an operator, a stream, or (operator, output index)"
    )


OPERATORS: dict[str, type[Operator]] = {}
FUNCTIONAL: dict[str, object] = {}


Declared = TypeVar("Declared", bound=Operator)


def operator(cls: type[Declared]) -> type[Declared]:
    """Register an operator class (also from outside the tree) and derive its function form.

    ``Accum(x, fn=add(), rank=1)`` makes the operator; ``accum(x, fn=add(), rank=1)`` makes it and
    returns its output stream (a tuple of streams where there are several).
    """
    if cls.__name__ in OPERATORS and OPERATORS[cls.__name__].__module__ != cls.__module__:
        raise ProgramError(
            f"an operator named {cls.__name__!r} is already registered",
            remedy="choose another name",
        )
    OPERATORS[cls.__name__] = cls

    @for_caller
    def call(*inputs, **args):
        node = cls(*inputs, **args)
        return node.stream if len(node.outputs) == 1 else tuple(node) or None

    call.__name__ = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
    call.__doc__ = inspect.getdoc(cls)
    FUNCTIONAL[call.__name__] = call
    return cls


class Graph(Tensors):
    """A STeP program: off-chip tensors, operators in order of creation, and symbols."""

    printer: ClassVar[Callable[[Graph], str]]
    """Makes the text of a program; the text form (text.py) sets it."""

    def __init__(self, name: str = "program"):
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ProgramError(f"a program's name must be an identifier, not {name!r}")
        super().__init__()
        self.name = name
        self.nodes: list[Operator] = []
        self._names: set[str] = set()
        self._variables: dict[str, Operator] = {}  # operators without a given name
        self._count: dict[str, int] = {}  # name -> the number that the next one of it tries
        self._readers: dict[tuple[Operator, int], list[tuple[Operator, int]]] = {}
        self._users: dict[str, list[Operator]] = {}

    def unique(self, name: str, given: bool = True) -> str:
        """``name``, or the first of ``name_1``, ``name_2``, ... that no operator has; variables
        count from 2. An operator that has it from its variable leaves it to a given one.
        """
        if given and (other := self._variables.pop(name, None)):
            other.name = self._free(name, 2)
            self._names.add(other.name)
            self._variables[other.name] = other
            self._infer_from(other)
            return name
        if name not in self._names:
            return name
        return self._free(name, 1 if given or name in OPERATORS else 2)

    def _free(self, name: str, first: int) -> str:
        i = self._count.get(name, first)
        while f"{name}_{i}" in self._names:
            i += 1
        self._count[name] = i
        return f"{name}_{i}"

    def add(self, node: Operator, given: bool = True) -> None:
        """Append a checked operator."""
        self.nodes.append(node)
        self._names.add(node.name)
        if not given:
            self._variables[node.name] = node
        if node.tensor:
            self._users.setdefault(node.tensor.name, []).append(node)
        for i, s in enumerate(node.inputs):
            self.reads(node, i, s)

    def users(self, tensor: TensorRef) -> list[Operator]:
        """The operators that read or write a tensor."""
        return self._users.get(tensor.name, [])

    def reads(self, node: Operator, i: int, stream: Stream) -> None:
        """Note that input ``i`` of a node reads a stream."""
        self._readers.setdefault((stream.node, stream.port), []).append((node, i))

    def restate(self, node: Operator, port: int, shape: tuple[Dim, ...]) -> None:
        """Give an output the shape that the program asserts, and derive the types of all that
        depends on it anew.
        """
        before = [(n, n.outputs) for n in self.nodes]
        had = node.asserted.get(port)
        node.asserted[port] = shape
        try:
            self._infer_from(node)
        except ProgramError:
            node.asserted.pop(port)
            if had is not None:
                node.asserted[port] = had
            for n, outputs in before:
                n.outputs = outputs
            raise

    def _infer_from(self, node: Operator) -> None:
        """Derive the types of an operator's outputs, and of all that depends on them, anew."""
        changed = {node}
        node.infer()
        for n in self.nodes:
            if n is not node and any(s.node in changed for s in n.inputs):
                n.infer()
                changed.add(n)

    def consumers(self, stream: Stream) -> list[tuple[Operator, int]]:
        """Readers of a stream as (operator, input index), in order of creation."""
        return self._readers.get((stream.node, stream.port), [])

    def check(self) -> Graph:
        """Whole-program checks: no stream is left without a reader, and no tensor that a run gives
        without what stores it.
        """
        if not self.nodes:
            raise ProgramError("has no operators", f"program {self.name}")
        for node in self.nodes:
            node.check_complete()
            for i, s in enumerate(node):
                if not self.consumers(s) and not node.optional_output(i):
                    raise node.error(
                        "nothing reads its output",
                        stream=f"stream {s.name} {s.type}",
                        rule="every stream has a reader",
                        remedy="store it with LinearOffChipStore, give it to a Sink, or leave the "
                        "operator out",
                    )
        stored = {n.tensor.name for n in self.nodes if n.tensor and hasattr(n, "acknowledges")}
        for t in self.tensors.values():
            if t.role != "input" and t.name not in stored:
                how = "LinearOffChipStore" if t.role == "output" else "RandomOffChipStore"
                raise ProgramError(
                    "nothing stores it",
                    f"{t.role} tensor {t.name} of program {self.name}",
                    f"every {t.role} tensor is stored",
                    f"store a stream to it with {how}, or leave the tensor out",
                )
        return self

    def __str__(self) -> str:
        return Graph.printer(self)
