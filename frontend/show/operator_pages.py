"""The reference page of operators, from their declarations and one small example of each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from ...machine.config import load
from ...machine.errors import LoweringError
from ...machine.functions import FUNCTIONS
from ...machine.unitgraph import Unit
from ..arguments import REQUIRED
from ..functions import layout, tiles
from ..functions import streams as f
from ..functions.tiles import Elementwise, immediate, matmul, row_max, row_sum, scale
from ..graph import FUNCTIONAL, OPERATORS, Graph, Operator, TensorRef
from ..lowering import MachineLowering
from ..operators.boundary import Loop, Sink, Source
from ..operators.compute import Map
from ..operators.flat_map import FlatMap
from ..operators.higher_order import HigherOrder
from ..operators.linear_memory import LinearOffChipLoad
from ..operators.reduction import Accum
from ..types import Dim
from .text import print_graph


class Given:
    """Parts of an operator's example: streams over N groups of M tiles, and tensors.

    Attributes
    ----------
    graph
        The graph of the example.
    n, m, d
        Its dimensions; D is ragged.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.n = graph.dynamic("N")
        self.m = graph.dynamic("M")
        self.d = graph.dynamic("D", ragged=True)

    def tiles(self, *shape: Dim | int, tile: tuple[int, int] = (8, 16), **options) -> Source:
        """A stream of tiles."""
        return Source(graph=self.graph, shape=shape, tile=tile, **options)

    def x(self) -> Source:
        """Tiles in N groups of M."""
        return self.tiles(self.n, self.m, name="x")

    def one(self) -> Source:
        """Tiles in N groups of one."""
        return self.tiles(self.n, 1, name="one")

    def flat(self, name: str = "flat") -> Source:
        """N tiles."""
        return self.tiles(self.n, name=name)

    def ragged(self) -> Source:
        """Tiles in N groups of several sizes."""
        return self.tiles(self.n, self.d, name="x")

    def rows(self) -> Source:
        """Tiles of one row, in N groups of M."""
        return self.tiles(self.n, self.m, tile=(1, 16), name="x")

    def choice(self, *shape: Dim) -> Source:
        """Selectors of two targets."""
        return Source(graph=self.graph, shape=shape or (self.n,), selector=2, name="selector")

    def number(self, name: str = "a") -> Source:
        """N numbers."""
        return Source(graph=self.graph, shape=(self.n,), scalar=32, name=name)

    def w(self) -> TensorRef:
        """A tensor to load."""
        return self.graph.input("w", (32, 32))

    def y(self) -> TensorRef:
        """A tensor to store."""
        return self.graph.output("y", (32, 32))


Example = Callable[[Given], HigherOrder]


def _function_examples() -> list[tuple[str, Example]]:
    """Each function as a program writes it, with an operator that runs it."""

    def elementwise(name: str) -> Example:
        dtype = "bf16" if name == "cast_fp32" else "fp32"
        arity = FUNCTIONS[name].arity
        return lambda i: Map(*(i.tiles(i.n, dtype=dtype) for _ in range(arity)), fn=name)

    def text(name: str) -> str:
        name = {"max": "maximum"}.get(name, name)
        return f"{name}()" if hasattr(tiles, name) else f'"{name}"'

    return [
        *((text(name), elementwise(name)) for name in FUNCTIONS),
        ("scale(factor)", lambda i: Map(i.tiles(i.n), fn=scale(0.5))),
        ('immediate("min", number)', lambda i: Map(i.tiles(i.n), fn=immediate("min", 6.0))),
        ("row_sum()", lambda i: Map(i.tiles(i.n), fn=row_sum())),
        ("row_max()", lambda i: Map(i.tiles(i.n), fn=row_max())),
        ("col_sum()", lambda i: Map(i.tiles(i.n), fn=layout.col_sum())),
        ("col_max()", lambda i: Map(i.tiles(i.n), fn=layout.col_max())),
        ("transpose()", lambda i: Map(i.tiles(i.n), fn=layout.transpose())),
        ("rotate(form)", lambda i: Map(i.tiles(i.n), fn=layout.rotate("pairs"))),
        ("mask(along, fill)", lambda i: Map(i.tiles(i.n), i.number(), fn=layout.mask("diagonal"))),
        ("matmul()", lambda i: Map(i.tiles(i.n), i.tiles(i.n, tile=(16, 24)), fn=matmul())),
        (
            "matmul(transposed=True)",
            lambda i: Map(i.tiles(i.n), i.tiles(i.n, tile=(24, 16)), fn=matmul(True)),
        ),
        (
            "row_append()",
            lambda i: Map(i.tiles(i.n), i.tiles(i.n, tile=(1, 16)), fn=f.row_append()),
        ),
        ("row_offset()", lambda i: Map(i.tiles(i.n), i.number(), fn=f.row_offset())),
        ("address(stride)", lambda i: Map(i.number(), i.number("b"), fn=f.address(4))),
        ("retile_row()", lambda i: Accum(i.rows(), fn=f.retile_row(), rank=1)),
        ("retile_col()", lambda i: Accum(i.tiles(i.n, i.m), fn=f.retile_col(), rank=1)),
        ("all_read()", lambda i: Accum(i.x(), fn=f.all_read(), rank=1)),
        (
            'retile_streamify("rows", size, mask)',
            lambda i: FlatMap(i.tiles(i.n), fn=f.retile_streamify("rows", 2), rank=1),
        ),
        (
            'retile_streamify("cols", size, mask)',
            lambda i: FlatMap(i.tiles(i.n), fn=f.retile_streamify("cols", 2, True), rank=1),
        ),
        (
            "address_range(stride)",
            lambda i: FlatMap(i.number(), i.number("b"), fn=f.address_range(4), rank=1),
        ),
        (
            "expert_addresses(count)",
            lambda i: FlatMap(i.choice(), fn=f.expert_addresses(3), rank=1),
        ),
        (
            "integers()",
            lambda i: FlatMap(
                LinearOffChipLoad(i.graph.input("n", (4, 16), "int32"), tile=(1, 16)),
                fn=f.integers(),
            ),
        ),
        ("last_tile_filter()", lambda i: FlatMap(i.number(), fn=f.last_tile_filter(), rank=1)),
    ]


MACHINE = "paper_hdl"
"""Configuration whose latencies and intervals the page shows."""


def _units(g: Graph, node: Operator) -> str:
    """The units of an operator, with latency and interval."""
    streams = list(node)
    for s in streams:
        Sink(s)
    for other in list(g.nodes):
        for s in other:
            if not g.consumers(s):
                Sink(s)
    low = MachineLowering(g, load(MACHINE))
    try:
        low.lower_nodes()
    except LoweringError as e:
        return f"refused, {e.what}"
    own = {f"`{u.kind.name}`{_pace(u)}" for u in low.units if u.node == node.name}
    if not own and streams:
        unit = low.units[low.take(g.consumers(streams[0])[0][0], 0).unit]
        own = (
            {f"a port of the `{unit.kind.name}`{_pace(unit)} of {unit.node}"}
            if unit.kind.memory
            else own
        )
    return ", ".join(sorted(own)) or "none"


def _pace(unit: Unit) -> str:
    k = unit.kind
    t = load(MACHINE).machine.t
    latency = k.latency(t)
    return "" if latency is None else f" (L {latency}, II {k.interval(t)})"


def example_call(node: Operator) -> str:
    """An operator of an example as a program calls it; ``g`` is its graph."""
    if isinstance(node, Loop):
        return f"Loop(type={node.inputs[0].name}.type, graph=g).close({node.inputs[0].name})"
    start = f"{node.name} = "
    lines = print_graph(node.graph).splitlines()
    call = next(x for x in lines if x.startswith(start)).removeprefix(start).split("  #")[0]
    if not node.streams:
        return call[:-1] + ", graph=g)"
    optional = [s[:-1] for s in node.streams if s.endswith("?")]
    for name, s in zip(optional, node.inputs[len(node.streams) - len(optional) :], strict=False):
        call = re.sub(rf"(?<=[( ]){s.name}(?=[,)])", f"{name}={s.name}", call, count=1)
    return call


def _example(make: Callable[[Given], Operator | None]) -> list[str]:
    """Results of one operator for typical streams: types, equations, units."""
    g = Graph("example")
    node = make(Given(g))
    if node is None:
        return []
    takes = "; ".join(f"{s.name}: {s.type}" for s in node.inputs) or "nothing"
    return [
        f"Example: `{example_call(node)}`",
        "",
        f"- takes {takes}",
        f"- gives {'; '.join(map(str, node.outputs)) or 'nothing'}",
        f"- off-chip traffic: {node.offchip()} B; operations: {node.flops()} FLOP",
        f"- on-chip requirement: {node.onchip('paper')} B (rule `paper`), "
        f"{node.onchip('published')} B (rule `published`)",
        f"- units: {_units(g, node)}",
        "",
    ]


def _functions() -> list[str]:
    """A table of the functions."""
    lines = [
        "## Functions",
        "",
        "Of `Map`, `Accum`, `Scan` and `FlatMap`; an element-wise function is also "
        '`function("name")`, and a string with its name does. Each row is an example with its '
        "units; lengths of groups are symbols.",
        "In the timing `stepsim` a function takes the longest of load, compute and store by "
        "its FLOP ([the `stepsim` timing](stepsim.md)).",
        "",
        "| function | operators | takes | gives | FLOP | units | |",
        "|---|---|---|---|---|---|---|",
    ]
    for text, make in _function_examples():
        g = Graph("example")
        node = make(Given(g))
        fn = node.args.fn
        doc = (
            FUNCTIONS[fn.name].doc
            if isinstance(fn, Elementwise)
            else (inspect.getdoc(type(fn)) or "")
            .split("\n\n")[0]
            .replace("\n", " ")
            .replace("``", "`")
        )
        kinds = " ".join(
            sorted(o for o in fn.operators if o in ("Map", "FlatMap") or _reduces(o, fn))
        )
        takes = "; ".join(str(s.type) for s in node.inputs)
        lines.append(
            f"| `{text}` | {kinds} | {takes} | {'; '.join(map(str, node.outputs))} | "
            f"{node.flops()} | {_units(g, node)} | {doc} |"
        )
    return [*lines, ""]


def _reduces(kind: str, fn) -> bool:
    """True if Accum or Scan can run a function of theirs: an element-wise one needs an identity."""
    return FUNCTIONS[fn.op].identity is not None if fn.name in FUNCTIONS else True


def _call(cls: type[Operator]) -> str:
    """Call of an operator: streams, then arguments by name, with their defaults."""
    streams = [
        s[:-1] + ", ..." if s.endswith("*") else s for s in cls.streams if not s.endswith("?")
    ]
    named = [f"{s[:-1]}=None" for s in cls.streams if s.endswith("?")] + [
        a if x.default is REQUIRED else f"{a}={x.default!r}" for a, x in cls.Args.declared.items()
    ]
    return f"{cls.__name__}({', '.join([*streams, *(['*', *named] if named else [])])})"


def operator_reference() -> str:
    """Markdown: every registered operator with its call, arguments, shapes, stop rule, costs,
    limits, an example with its equations and units, and the timings it lowers to; every function.
    """
    lines = [
        "# Operators",
        "",
        "Made from the declarations in `frontend/`. Dimensions count from 0, innermost first; a "
        "stop rides on the last element of its dimension.",
        "Dimensions are written outermost first; equations are of the example's streams. "
        f"*Units* are those of the timing `machine`, with latency and interval on `{MACHINE}` (t "
        f"= {load(MACHINE).machine.t});",
        "those without have a section of [the timing contract](timing.md), sections 3 to 5. How "
        "long an operator takes in the timing `stepsim`: [its rules](stepsim.md).",
        "A stream has stops up to 14, two of them for a tile's own physical tiles.",
        "",
    ]
    functions = {call.__doc__: name for name, call in FUNCTIONAL.items()}
    for name, cls in OPERATORS.items():
        lines += [
            f"## {name}",
            "",
            inspect.getdoc(cls),
            "",
            f"`{_call(cls)}`; as a function: `{functions[inspect.getdoc(cls)]}`.",
            "",
        ]
        streams = [
            f"`{s[:-1]}` (optional, by name)"
            if s.endswith("?")
            else f"`{s[:-1]}` (one or more)"
            if s.endswith("*")
            else f"`{s}`"
            for s in cls.streams
        ]
        lines += [f"Streams: {', '.join(streams) or 'none'}.", ""]
        lines += [f"- `{name}`: {x.doc}" for name, x in cls.Args.declared.items()]
        lines += [""] * bool(cls.Args.declared)
        for title in ("shapes", "stops", "costs", "limits"):
            if text := getattr(cls, title):
                lines += (
                    [f"{title.capitalize()}: {text}.", ""]
                    if isinstance(text, str)
                    else [f"{title.capitalize()}:", "", *(f"- {x}" for x in text), ""]
                )
        lines += _example(cls.example)
        timings = [
            t
            for t in ("machine", "stepsim")
            if getattr(cls, f"lower_{t}") is not getattr(Operator, f"lower_{t}")
        ]
        lines += [f"Lowers to: {', '.join(timings) or 'nothing yet'}.", ""]
    return "\n".join(lines + _functions())
