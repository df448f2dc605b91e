"""Coverage of a campaign: operators and their forms, ports, stop levels, and empty tensors, each
with its number of hits and the least that is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..frontend.analysis.forms import forms_of, forms_of_class
from ..frontend.graph import OPERATORS, Graph, Operator
from ..frontend.operators.boundary import Sink
from ..frontend.operators.higher_order import HigherOrder
from ..frontend.operators.random_memory import RandomOffChipStore
from ..frontend.types import SelectorType
from ..machine.beat import MAX_STOP, STOP_DONE
from ..machine.functions import FUNCTIONS
from ..machine.spilling import ROLE
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..testing.judge import Judge
from ..testing.lists import empty_parts

MOST_PORT = 2  # ports from here on count together


class Coverage:
    """Hits by (group, what)."""

    def __init__(self):
        self.hits: Counter[tuple[str, str]] = Counter()

    def add_program(
        self, graph: Graph, streams: dict[tuple[str, int], list], t: int, dtype: str
    ) -> None:
        """Count a program's operators, their forms where elements came
        or went, its tensors, and the elements that its streams carried
        (tiles of t x t of ``dtype``).
        """
        for tensor in graph.tensors.values():
            self.hits["tensor", f"{tensor.role} of {tensor.dtype}, machine of {dtype}"] += 1
        for node in graph.nodes:
            kind = type(node).__name__
            fn = _name(node)
            runs = f"{kind} {fn}" if fn else kind
            self.hits["operator", runs] += 1
            self.hits.update(("operator", made) for made in _composed(node))
            ports = [
                (f"in {self._port(node, i)}", (s.node.name, s.port))
                for i, s in enumerate(node.inputs)
            ]
            ports += [
                (f"out {min(i, MOST_PORT)}", (node.name, i)) for i in range(len(node.outputs))
            ]
            for port, at in ports:
                items = streams[at]
                self.hits["port", f"{kind} {port}"] += len(items)
                self.hits["empty", f"{kind}: a stream without elements"] += not items
                self.hits["empty", f"{kind}: an empty dimension"] += sum(
                    v is None for v, _ in items
                )
            if any(v is not None for _, at in ports for v, _ in streams[at]):
                self.hits.update(("form", form) for form in forms_of(node, t))
            if isinstance(node, Sink):
                continue
            for i, s in enumerate(node.inputs):
                if (
                    isinstance(s.element, SelectorType)
                    and kind in ("Partition", "Reassemble")
                    and i == len(node.inputs) - 1
                ):
                    items = streams[s.node.name, s.port]
                    self.hits["empty", f"{kind}: a selector without a target"] += sum(
                        v is not None and not v for v, _ in items
                    )
                    self.hits["empty", f"{kind}: a selector of several targets"] += sum(
                        v is not None and len(v) > 1 for v, _ in items
                    )
                    named = {t for v, _ in items for t in v or ()}
                    self.hits["empty", f"{kind}: a target that no selector names"] += (
                        s.element.n - len(named)
                    )

    def add_empty_parts(self, judge: Judge) -> bool:
        """Count where the lists of a program's streams have empty ones; True where any has."""
        places = {
            place
            for (name, port), lists in judge.streams.items()
            for place in empty_parts(lists, judge.nodes[name][port].rank + 1)
        }
        self.hits.update(("empty part", place) for place in places)
        return bool(places)

    @staticmethod
    def _port(node, i: int) -> str:
        names = node.streams
        if names and names[0].endswith("*"):
            return (
                names[-1]
                if len(names) > 1 and i == len(node.inputs) - 1
                else str(min(i, MOST_PORT))
            )
        return names[i].rstrip("?") if i < len(names) else str(i)

    def add_run(self, graph: UnitGraph, run: Run) -> None:
        """Count the beats at the inputs of every kind of unit, by stop level, and the bare ones."""
        kinds = [u.kind.name for u in graph.units]
        spilled = {x.name for x in graph.tensors if x.role == ROLE}
        for u, port in zip(graph.ports, run.ports, strict=True):
            if graph.units[u].kind.tensor in spilled:
                self.hits["spilled", f"lines of a {kinds[u]}"] += len(port.accept)
        for c in graph.channels:
            kind = kinds[c.dst[0]]
            trace = run.channels[c.id]
            self.hits["unit", f"{kind} in {min(c.dst[1], MOST_PORT)}"] += len(trace.stop)
            for stop, data in zip(trace.stop.tolist(), trace.data.tolist(), strict=True):
                if stop == STOP_DONE:
                    continue
                self.hits["stop", f"level {stop}"] += 1
                if not data:
                    self.hits["stop", f"bare, level {stop}"] += 1
                    self.hits["unit", f"{kind}: a bare stop"] += 1

    def missing(self, wanted: Iterable[tuple[str, str]], least: int) -> list[tuple[str, str, int]]:
        """(group, what, hits) of all that has fewer than ``least`` hits."""
        return [(*key, self.hits[key]) for key in wanted if self.hits[key] < least]

    def rows(self, groups: Iterable[str]) -> list[dict]:
        """Table rows in order of group and name."""
        return [
            {"group": g, "what": w, "hits": n}
            for (g, w), n in sorted(self.hits.items())
            if g in groups and n
        ]


def _composed(node: Operator) -> Iterator[str]:
    """Names of steps that are several operators, of which this is the last."""
    fn = _name(node)
    of = [_name(s.node) for s in node.inputs]
    before = [_name(s.node) for x in node.inputs for s in x.node.inputs]
    if fn == "either" and of == ["select", "unless"]:
        yield "Map where"
    if fn == "add" and of == ["mul", "mul"] and "rotate" in before:
        yield "Map rotary"
    if isinstance(node, RandomOffChipStore) and node.args.tensor.role == "inout":
        yield "RandomOffChipStore in place"


def _name(node: Operator) -> str | None:
    """Name of the function that an operator runs."""
    return node.args.fn.name if isinstance(node, HigherOrder) else None


STOPS = [("stop", f"level {s}") for s in range(MAX_STOP + 1)] + [
    ("stop", f"bare, level {s}") for s in range(1, MAX_STOP + 1)
]
"""Every level that a beat can have."""

EMPTY_PARTS = [
    ("empty part", f"{place}, dimension {k}")
    for place in ("first", "last", "between", "everywhere", "alone")
    for k in range(3)
]
"""Places of empty lists in a list; one that is alone is in the outermost dimension."""
TENSORS = [
    ("tensor", f"{role} of {dtype}, machine of {machine}")
    for machine in ("fp32", "bf16")
    for role, dtypes in (
        ("input", ("fp32", "bf16", "int32")),
        ("output", ("fp32", "bf16")),
        ("inout", ("fp32", "bf16")),
    )
    for dtype in dtypes
]
SPILLED = [("spilled", f"lines of a {kind}") for kind in ("random_store", "load")]
FUNCTIONS_OF = {
    "Map": [
        *FUNCTIONS,
        "matmul",
        "scale",
        "immediate",
        "row_sum",
        "row_max",
        "col_sum",
        "col_max",
        "transpose",
        "rotate",
        "mask",
        "row_append",
        "row_offset",
        "address",
        "number",
        "where",
        "rotary",
    ],
    "Accum": ["add", "max", "mul", "matmul", "retile_row", "retile_col", "all_read"],
    "Scan": ["add", "max", "mul", "matmul"],
    "FlatMap": [
        "retile_streamify",
        "address_range",
        "expert_addresses",
        "last_tile_filter",
        "integers",
    ],
}
OUTPUTS = {
    "Partition": 3,
    "EagerMerge": 2,
    "TopK": 3,
    "Reshape": 2,
    "Broadcast": 3,
    "LinearOffChipStore": 0,
    "Sink": 0,
}
"""Outputs, or input streams of any number, that are told apart; other operators have one."""
ALWAYS_FULL = ("LinearOffChipStore", "Loop")  # a static number of tiles; what a loop needs to go on


def wanted() -> list[tuple[str, str]]:
    """Goals of a campaign of full size: every operator with every function, in every form, every
    port, every stop level, every way of being empty.
    """
    out = []
    for kind, cls in OPERATORS.items():
        if not cls.__module__.startswith("penstock.frontend"):
            continue
        out += (
            [("operator", f"{kind} {fn}") for fn in FUNCTIONS_OF[kind]]
            if kind in FUNCTIONS_OF
            else [("operator", kind)]
        )
        out += [("form", form) for form in forms_of_class(cls)]
        for name in cls.streams:
            many = name.endswith("*")
            names = (
                [
                    str(k)
                    for k in range(
                        (1 if kind == "Scan" else 2) if cls.higher_order else MOST_PORT + 1
                    )
                ]
                if many
                else [name.rstrip("?")]
            )
            out += [("port", f"{kind} in {n}") for n in names]
        out += [("port", f"{kind} out {k}") for k in range(OUTPUTS.get(kind, 1))]
        if kind not in ALWAYS_FULL:
            out += [
                ("empty", f"{kind}: a stream without elements"),
                ("empty", f"{kind}: an empty dimension"),
            ]
    for kind in ("Partition", "Reassemble"):
        out += [
            ("empty", f"{kind}: {what}")
            for what in (
                "a selector without a target",
                "a selector of several targets",
                "a target that no selector names",
            )
        ]
    out.append(("operator", "RandomOffChipStore in place"))
    return out + TENSORS + SPILLED + EMPTY_PARTS + STOPS
