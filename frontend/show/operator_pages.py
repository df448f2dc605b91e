"""The reference page of operators, from their declarations and one small example of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ...machine.config import load
from ...machine.errors import LoweringError
from ...machine.functions import FUNCTIONS
from ...machine.kinds import KINDS
from ...machine.unitgraph import Unit
from ..functions import streams as f
from ..functions.tiles import add, matmul, row_max, row_sum, scale
from ..graph import FUNCTIONAL, OPERATORS, Graph, Operator
from ..lowering import MachineLowering
from ..operators.boundary import Sink, Source
from ..types import ScalarType, StreamType
from .text import print_graph

Example = Callable[[Graph, dict], Operator]


def _inputs(g: Graph) -> dict:
    """Streams for the examples: x of tiles in N groups of M, single ones, selectors, numbers; a
    ragged dimension D.
    """
    n = g.dynamic("N")
    m = g.dynamic("M")
    d = g.dynamic("D", ragged=True)
    tile = (8, 16)
    return {
        "x": lambda: Source(graph=g, shape=(n, m), tile=tile, name="x"),
        "one": lambda: Source(graph=g, shape=(n, 1), tile=tile, name="one"),
        "flat": lambda name="flat": Source(graph=g, shape=(n,), tile=tile, name=name),
        "ragged": lambda: Source(graph=g, shape=(n, d), tile=tile, name="x"),
        "rows": lambda: Source(graph=g, shape=(n, m), tile=(1, 16), name="x"),
        "choice": lambda *s: Source(graph=g, shape=s or (n,), selector=2, name="selector"),
        "number": lambda name="a": Source(graph=g, shape=(n,), scalar=32, name=name),
        "w": lambda: g.input("w", (32, 32)),
        "y": lambda: g.output("y", (32, 32)),
        "n": n,
        "m": m,
    }


def _examples() -> dict[str, Example]:
    o = OPERATORS
    return {
        "Map": lambda g, i: o["Map"](i["x"](), fn=row_sum()),
        "Accum": lambda g, i: o["Accum"](i["rows"](), fn=f.retile_row(), rank=1),
        "Scan": lambda g, i: o["Scan"](i["x"](), fn=add(), rank=1),
        "FlatMap": lambda g, i: o["FlatMap"](i["x"](), fn=f.retile_streamify()),
        "LinearOffChipLoad": lambda g, i: o["LinearOffChipLoad"](
            i["w"](), tile=(8, 16), shape=(4, 2), ref=i["flat"]("ref")
        ),
        "LinearOffChipStore": lambda g, i: o["LinearOffChipStore"](i["x"](), i["y"]()),
        "RandomOffChipLoad": lambda g, i: o["RandomOffChipLoad"](
            i["number"](), i["w"](), tile=(8, 16)
        ),
        "RandomOffChipStore": lambda g, i: o["RandomOffChipStore"](
            i["number"](), i["flat"](), i["y"]()
        ),
        "Bufferize": lambda g, i: o["Bufferize"](i["ragged"](), rank=1),
        "Streamify": lambda g, i: o["Streamify"](
            o["Bufferize"](i["ragged"](), rank=1, name="b"), repeat=2
        ),
        "Partition": lambda g, i: o["Partition"](i["x"](), i["choice"](), rank=1, outputs=2),
        "Reassemble": lambda g, i: o["Reassemble"](
            i["flat"]("a"), i["flat"]("b"), i["choice"](i["m"]), rank=0
        ),
        "EagerMerge": lambda g, i: o["EagerMerge"](i["x"](), i["x"]()),
        "Flatten": lambda g, i: o["Flatten"](i["x"](), lo=0, hi=1),
        "Promote": lambda g, i: o["Promote"](i["x"](), level=1),
        "Reshape": lambda g, i: o["Reshape"](i["ragged"](), dim=0, chunk=4, pad=0),
        "Expand": lambda g, i: o["Expand"](i["one"](), ref=i["x"](), rank=1),
        "Zip": lambda g, i: o["Zip"](i["flat"]("a"), i["flat"]("b")),
        "Fifo": lambda g, i: o["Fifo"](i["choice"](), depth=8),
        "Broadcast": lambda g, i: o["Broadcast"](i["x"](), n=2),
        "Source": lambda g, i: o["Source"](graph=g, shape=(i["n"],), selector=4),
        "Sink": lambda g, i: o["Sink"](i["x"]()),
        "Loop": lambda g, i: _closed(
            o["Loop"](StreamType(ScalarType(32), (i["n"],)), graph=g), i["number"]()
        ),
    }


def _closed(loop, stream):
    loop.close(stream)
    return loop


def _function_examples() -> list[tuple[str, Callable[[Graph, dict], Operator]]]:
    """Each function as a program writes it, with an operator that runs it."""
    o = OPERATORS

    def tile(g: Graph, i: dict, *size: int, dtype: str = "fp32", shape: tuple = ()):
        return Source(graph=g, shape=shape or (i["n"],), tile=size, dtype=dtype)

    def elementwise(name: str):
        dtype = "bf16" if name == "cast_fp32" else "fp32"
        return lambda g, i: o["Map"](
            *(tile(g, i, 8, 16, dtype=dtype) for _ in range(FUNCTIONS[name].arity)), fn=name
        )

    return [
        *(
            (
                f"{'maximum' if name == 'max' else name}()"
                if not name.startswith("cast")
                else f'"{name}"',
                elementwise(name),
            )
            for name in FUNCTIONS
        ),
        ("scale(factor)", lambda g, i: o["Map"](tile(g, i, 8, 16), fn=scale(0.5))),
        ("row_sum()", lambda g, i: o["Map"](tile(g, i, 8, 16), fn=row_sum())),
        ("row_max()", lambda g, i: o["Map"](tile(g, i, 8, 16), fn=row_max())),
        ("matmul()", lambda g, i: o["Map"](tile(g, i, 8, 16), tile(g, i, 16, 24), fn=matmul())),
        (
            "matmul(transposed=True)",
            lambda g, i: o["Map"](tile(g, i, 8, 16), tile(g, i, 24, 16), fn=matmul(True)),
        ),
        (
            "row_append()",
            lambda g, i: o["Map"](tile(g, i, 8, 16), tile(g, i, 1, 16), fn=f.row_append()),
        ),
        (
            "row_offset()",
            lambda g, i: o["Map"](tile(g, i, 8, 16), i["number"](), fn=f.row_offset()),
        ),
        (
            "address(stride)",
            lambda g, i: o["Map"](i["number"](), i["number"]("b"), fn=f.address(4)),
        ),
        ("retile_row()", lambda g, i: o["Accum"](i["rows"](), fn=f.retile_row(), rank=1)),
        (
            "retile_col()",
            lambda g, i: o["Accum"](
                tile(g, i, 8, 16, shape=(i["n"], i["m"])), fn=f.retile_col(), rank=1
            ),
        ),
        ("all_read()", lambda g, i: o["Accum"](i["x"](), fn=f.all_read(), rank=1)),
        (
            'retile_streamify("rows", size, mask)',
            lambda g, i: o["FlatMap"](tile(g, i, 8, 16), fn=f.retile_streamify("rows", 2), rank=1),
        ),
        (
            'retile_streamify("cols", size, mask)',
            lambda g, i: o["FlatMap"](
                tile(g, i, 8, 16), fn=f.retile_streamify("cols", 2, True), rank=1
            ),
        ),
        (
            "address_range(stride)",
            lambda g, i: o["FlatMap"](
                i["number"](), i["number"]("b"), fn=f.address_range(4), rank=1
            ),
        ),
        (
            "expert_addresses(count)",
            lambda g, i: o["FlatMap"](i["choice"](), fn=f.expert_addresses(3), rank=1),
        ),
        (
            "last_tile_filter()",
            lambda g, i: o["FlatMap"](i["number"](), fn=f.last_tile_filter(), rank=1),
        ),
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
    own = {f"`{u.kind}`{_pace(u)}" for u in low.units if u.node == node.name}
    if not own and streams:
        unit = low.units[low.take(g.consumers(streams[0])[0][0], 0).unit]
        own = (
            {f"a port of the `{unit.kind}`{_pace(unit)} of {unit.node}"}
            if KINDS[unit.kind].memory
            else own
        )
    return ", ".join(sorted(own)) or "none"


def _pace(unit: Unit) -> str:
    k = KINDS[unit.kind].of(unit.params)
    t = load(MACHINE).machine.t
    latency = k.latency(t)
    return "" if latency is None else f" (L {latency}, II {k.interval(t)})"


def _example(make: Example) -> list[str]:
    """What one operator makes of typical streams: types, equations, units."""
    g = Graph("example")
    node = make(g, _inputs(g))
    line = (
        next(x for x in print_graph(g).splitlines() if x.startswith(f"{node.name} = "))
        .split("  #")[0]
        .split(" = ", 1)[1]
    )
    takes = "; ".join(f"{s.name}: {s.type}" for s in node.inputs) or "nothing"
    return [
        f"Example: `{line}`",
        "",
        f"- takes {takes}",
        f"- gives {'; '.join(map(str, node.outputs)) or 'nothing'}",
        f"- off-chip traffic: {node.offchip()} B; operations: {node.flops()} FLOP",
        f"- on-chip requirement: {node.onchip('paper')} B (rule `paper`), "
        f"{node.onchip('published')} B (rule `published`)",
        f"- units: {_units(g, node)}",
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
        "its FLOP ([stepsim.md](stepsim.md)).",
        "",
        "| function | operators | takes | gives | FLOP | units | |",
        "|---|---|---|---|---|---|---|",
    ]
    for text, make in _function_examples():
        g = Graph("example")
        node = make(g, _inputs(g))
        fn = node.args["fn"]
        doc = (
            FUNCTIONS[fn.op].doc
            if getattr(fn, "op", None) in FUNCTIONS and fn.name == fn.op
            else inspect.getdoc(type(fn)).split("\n\n")[0].replace("\n", " ").replace("``", "`")
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
    """Whether Accum or Scan can run a function of theirs: an element-wise one needs an identity."""
    return FUNCTIONS[fn.op].identity is not None if fn.name in FUNCTIONS else True


def _call(cls: type[Operator]) -> str:
    """How an operator is called: streams, then arguments by name, with their defaults."""
    streams = [
        s[:-1] + ", ..." if s.endswith("*") else s for s in cls.streams if not s.endswith("?")
    ]
    named = [f"{s[:-1]}=None" for s in cls.streams if s.endswith("?")] + [
        f"{a}={cls.defaults[a]!r}" if a in cls.defaults else a for a in cls.arguments
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
        "those without have a section of [timing.md](timing.md), sections 3 to 5. How long an "
        "operator takes in the timing `stepsim`: [stepsim.md](stepsim.md).",
        "A stream has stops up to 14, two of them for a tile's own physical tiles.",
        "",
    ]
    functions = {call.__doc__: name for name, call in FUNCTIONAL.items()}
    examples = _examples()
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
        for argument, meaning in cls.arguments.items():
            lines.append(f"- `{argument}`: {meaning}")
        lines += [""] * bool(cls.arguments)
        for title in ("shapes", "stops", "costs", "limits"):
            if text := getattr(cls, title):
                lines += (
                    [f"{title.capitalize()}: {text}.", ""]
                    if isinstance(text, str)
                    else [f"{title.capitalize()}:", "", *(f"- {x}" for x in text), ""]
                )
        if name in examples:
            lines += [*_example(examples[name]), ""]
        timings = [
            t
            for t in ("machine", "stepsim")
            if getattr(cls, f"lower_{t}") is not getattr(Operator, f"lower_{t}")
        ]
        lines += [f"Lowers to: {', '.join(timings) or 'nothing yet'}.", ""]
    return "\n".join(lines + _functions())
