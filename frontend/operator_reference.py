"""The reference page of operators, made from their declarations and from one small example of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from penstock.machine.config import load
from penstock.machine.errors import LoweringError
from penstock.machine.kinds import KINDS

from .graph import FUNCTIONAL, OPERATORS, Graph, Operator
from .text import print_graph

Example = Callable[[Graph, dict], Operator]


def _inputs(g: Graph) -> dict:
    """Streams for the examples: x of tiles in N groups of M, single ones, selectors, numbers; a ragged dimension D."""
    from .edge_operators import Source

    n, m, d = g.dynamic("N"), g.dynamic("M"), g.dynamic("D", ragged=True)
    tile = (8, 16)
    return {
        "x": lambda: Source(graph=g, shape=(n, m), tile=tile, name="x"), "one": lambda: Source(graph=g, shape=(n, 1), tile=tile, name="one"),
        "flat": lambda name="flat": Source(graph=g, shape=(n,), tile=tile, name=name), "ragged": lambda: Source(graph=g, shape=(n, d), tile=tile, name="x"),
        "rows": lambda: Source(graph=g, shape=(n, m), tile=(1, 16), name="x"), "choice": lambda *s: Source(graph=g, shape=s or (n,), selector=2, name="selector"),
        "number": lambda name="a": Source(graph=g, shape=(n,), scalar=32, name=name), "w": lambda: g.input("w", (32, 32)), "y": lambda: g.output("y", (32, 32)),
        "n": n, "m": m,
    }


def _examples() -> dict[str, Example]:
    from . import stream_functions as f
    from .functions import add, row_sum
    from .types import ScalarType, StreamType

    o = OPERATORS
    return {
        "Map": lambda g, i: o["Map"](i["x"](), fn=row_sum()),
        "Accum": lambda g, i: o["Accum"](i["rows"](), fn=f.retile_row(), rank=1),
        "Scan": lambda g, i: o["Scan"](i["x"](), fn=add(), rank=1),
        "FlatMap": lambda g, i: o["FlatMap"](i["x"](), fn=f.retile_streamify()),
        "LinearOffChipLoad": lambda g, i: o["LinearOffChipLoad"](i["w"](), tile=(8, 16), shape=(4, 2), ref=i["flat"]("ref")),
        "LinearOffChipStore": lambda g, i: o["LinearOffChipStore"](i["x"](), i["y"]()),
        "RandomOffChipLoad": lambda g, i: o["RandomOffChipLoad"](i["number"](), i["w"](), tile=(8, 16)),
        "RandomOffChipStore": lambda g, i: o["RandomOffChipStore"](i["number"](), i["flat"](), i["y"]()),
        "Bufferize": lambda g, i: o["Bufferize"](i["ragged"](), rank=1),
        "Streamify": lambda g, i: o["Streamify"](o["Bufferize"](i["ragged"](), rank=1, name="b"), repeat=2),
        "Partition": lambda g, i: o["Partition"](i["x"](), i["choice"](), rank=1, outputs=2),
        "Reassemble": lambda g, i: o["Reassemble"](i["flat"]("a"), i["flat"]("b"), i["choice"](i["m"]), rank=0),
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
        "Loop": lambda g, i: _closed(o["Loop"](StreamType(ScalarType(32), (i["n"],)), graph=g), i["number"]()),
    }


def _closed(loop, stream):
    loop.close(stream)
    return loop


def _example(make: Example) -> list[str]:
    """What one operator makes of typical streams: types, equations, units."""
    from .edge_operators import Sink
    from .lowering import MachineLowering

    g = Graph("example")
    node = make(g, _inputs(g))
    line = next(x for x in print_graph(g).splitlines() if x.startswith(f"{node.name} = ")).split("  #")[0].split(" = ", 1)[1]
    takes = "; ".join(f"{s.name}: {s.type}" for s in node.inputs) or "nothing"
    lines = [f"Example: `{line}`", "", f"- takes {takes}", f"- gives {'; '.join(map(str, node.outputs)) or 'nothing'}",
             f"- off-chip traffic: {node.offchip()} B; operations: {node.flops()} FLOP", f"- on-chip requirement: {node.onchip('paper')} B (rule `paper`), {node.onchip('published')} B (rule `published`)"]
    for s in node:
        Sink(s)
    for other in list(g.nodes):
        for s in other:
            if not g.consumers(s):
                Sink(s)
    low = MachineLowering(g, load("paper_hdl"))
    try:
        low.lower_nodes()
        names = {u.kind for u in low.units if u.node == node.name}
        lines.append("- units: " + (", ".join(f"`{n}`{_pace(n)}" for n in sorted(names)) or "none"))
    except LoweringError as e:
        lines.append(f"- units: refused, {e.what}")
    return lines


def _pace(kind: str) -> str:
    k = KINDS.get(kind)
    return " (L 0, II 1)" if k is not None and k.latency is not None and k.interval is not None and k.latency.__name__ == "_zero" else ""


def operator_reference() -> str:
    """Markdown: every registered operator with its streams, arguments, stop rule, an example with its equations, and the timings it lowers to."""
    lines = ["# Operators", "", "Made from the declarations in `frontend/`. Dimensions count from 0, innermost first; a stop rides on the last element of its dimension.",
             "How long a unit takes is in [timing.md](timing.md) by kind; a unit without a note has its own latency and interval there.", ""]
    functions, examples = {call.__doc__: name for name, call in FUNCTIONAL.items()}, _examples()
    for name, cls in OPERATORS.items():
        lines += [f"## {name}", "", inspect.getdoc(cls), "", f"As a function: `{functions[inspect.getdoc(cls)]}`.", ""]
        streams = [f"`{s[:-1]}` (optional, by name)" if s.endswith("?") else f"`{s[:-1]}` (one or more)" if s.endswith("*") else f"`{s}`" for s in cls.streams]
        lines += [f"Streams: {', '.join(streams) or 'none'}.", ""]
        for argument, meaning in cls.arguments.items():
            lines.append(f"- `{argument}`: {meaning}")
        lines += [""] * bool(cls.arguments)
        if cls.stops:
            lines += [f"Stops: {cls.stops}.", ""]
        if name in examples:
            lines += [*_example(examples[name]), ""]
        timings = [t for t in ("machine", "published") if getattr(cls, f"lower_{t}") is not getattr(Operator, f"lower_{t}")]
        lines += [f"Lowers to: {', '.join(timings) or 'nothing yet'}.", ""]
    return "\n".join(lines)
