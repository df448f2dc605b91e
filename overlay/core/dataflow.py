"""Dataflow graphs of the token overlay: what the placers, the schedulers, the model and the RTL
image are made from. Plain NumPy data.

Counting conventions, as in the published tables: inputs and constants
are nodes; an *edge* is one use of a node as an operand (x * x has two);
*depth* is the number of nodes on the longest path, the source included.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...machine.errors import ProgramError, nearest
from .dataflow_text import load
from .ops import ARITY, Op, apply, format_of
from .regions import Regions, regions, selected

_ARITY = np.array([ARITY[op] for op in Op], np.int8)


def is_name(s: str) -> bool:
    """True if ``s`` can name a node or an output in the file form."""
    return bool(s) and s not in ("graph", "output") and not any(c in " \t\r\n\v\f=#" for c in s)


MOST_NODES = 1 << 22
"""Most nodes of a graph that is repeated."""


@dataclass(frozen=True)
class Statistics:
    """Counts of a graph (module docstring); ``ops`` counts the operations by name, ``max_fan_out``
    the most uses of one node.
    """

    nodes: int
    edges: int
    depth: int
    inputs: int
    constants: int
    outputs: int
    max_fan_out: int
    ops: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"ops": dict(self.ops)}


@dataclass(frozen=True, eq=False)
class DataflowGraph:
    """A graph of binary and unary operations, in topological order.

    Parameters
    ----------
    op : uint8 [n]
        :class:`~penstock.overlay.core.ops.Op` codes.
    a, b : int32 [n]
        Operand nodes, each below the node's own index; -1 where the operation has no such operand.
    value : float64 [n]
        Of a constant its value, of an input its default, else 0. Rounded to the format when used.
    name : dict
        Node -> name, of every input, and of every output that is an operation or constant.
    outputs : sequence of int
        Output nodes.
    output_names : sequence of str
        Their names, unique; by default ``name`` of the node. (One node may be several outputs, or
        an input and an output.)
    title : str
        What the graph is, for tables.
    meta : dict
        What the graph was made from: of a factorisation ``factors``, of a front solve its
        ``column`` too (`overlay/graphs/lu.py`); of a STeP program ``rounds``
        (`overlay/graphs/step.py`). Copies side by side have none.

    Raises
    ------
    ProgramError
        For arrays of unequal length, a missing, superfluous or later operand, an unknown code, or
        names that are missing or not unique.
    """

    op: np.ndarray
    a: np.ndarray
    b: np.ndarray
    value: np.ndarray
    name: Mapping[int, str]
    outputs: Sequence[int]
    output_names: Sequence[str] = ()
    title: str = "graph"
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self):
        for key, dtype in (
            ("op", np.uint8),
            ("a", np.int32),
            ("b", np.int32),
            ("value", np.float64),
        ):
            array = np.array(getattr(self, key), dtype)
            array.flags.writeable = False
            object.__setattr__(self, key, array)
        object.__setattr__(self, "name", dict(self.name))
        object.__setattr__(self, "outputs", tuple(int(i) for i in self.outputs))
        object.__setattr__(
            self,
            "output_names",
            tuple(self.output_names) or tuple(self.label(i) for i in self.outputs),
        )
        self._check()

    def _check(self):
        where = f"dataflow graph {self.title}"
        n = len(self.op)
        if any(len(x) != n for x in (self.a, self.b, self.value)):
            raise ProgramError("op, a, b and value have different lengths", where)
        if n == 0:
            raise ProgramError("has no nodes", where)
        if self.op.max() >= len(Op):
            i = int(np.argmax(self.op))
            raise ProgramError(
                f"unknown operation code {self.op[i]}", f"{where}, node {self.label(i)}"
            )
        arity = _ARITY[self.op]
        index = np.arange(n)
        for operand, array, wanted in (
            ("first", self.a, arity >= 1),
            ("second", self.b, arity == 2),
        ):
            for wrong, what in (
                (wanted & (array < 0), f"{operand} operand is missing"),
                (~wanted & (array != -1), f"has a {operand} operand"),
                (
                    wanted & (array >= index),
                    f"{operand} operand comes later, or is the node itself",
                ),
            ):
                if wrong.any():
                    i = int(np.argmax(wrong))
                    raise ProgramError(
                        what,
                        f"{where}, node {self.label(i)} ({Op(self.op[i]).name})",
                        "binary operations have two operands, unary ones one, sources none; "
                        "operands come before their users",
                    )
        if not self.outputs:
            raise ProgramError(
                "has no outputs", where, remedy="name at least one node as an output"
            )
        if len(self.output_names) != len(self.outputs) or len(set(self.output_names)) != len(
            self.outputs
        ):
            raise ProgramError("output names must be unique, one per output", where)
        for i in self.outputs:
            if not 0 <= i < n:
                raise ProgramError(f"output {i} is not a node", where, f"nodes are 0 to {n - 1}")
        if len(set(self.name.values())) != len(self.name) or any(
            int(i) not in self.name for i in self.inputs
        ):
            raise ProgramError("every input needs a name, and no two nodes may share one", where)
        for s in (*self.name.values(), *self.output_names):
            if not is_name(s):
                raise ProgramError(
                    f"{s!r} cannot be a name",
                    where,
                    "a name has no blank, = or #, and is not empty, graph or output",
                )
        if self.conditional:
            _ = self.regions

    def label(self, node: int) -> str:
        """The node's name, or %index."""
        return self.name.get(int(node), f"%{int(node)}")

    def __len__(self) -> int:
        return len(self.op)

    @cached_property
    def inputs(self) -> np.ndarray:
        """Input nodes, in order."""
        return np.flatnonzero(self.op == Op.INPUT)

    @cached_property
    def edges(self) -> np.ndarray:
        """[edges, 3]: producer, consumer, slot (0: first operand, 1: second), by consumer, then
        slot.
        """
        index = np.arange(len(self), dtype=np.int32)
        uses = np.stack(
            [
                np.stack([self.a, index, np.zeros_like(index)], 1),
                np.stack([self.b, index, np.ones_like(index)], 1),
            ],
            1,
        ).reshape(-1, 3)
        return uses[uses[:, 0] >= 0]

    @cached_property
    def fan_out(self) -> np.ndarray:
        """[n]: uses of each node."""
        return np.bincount(self.edges[:, 0], minlength=len(self))

    @cached_property
    def level(self) -> np.ndarray:
        """[n]: nodes on the longest path that ends in each node, itself included; 1 for sources."""
        level: list[int] = [0] * (len(self) + 1)  # the last stands for "no operand"
        operands: list[list[int]] = np.stack([self.a, self.b], axis=1).tolist()
        for i, (a, b) in enumerate(operands):
            x = level[a]
            y = level[b]
            level[i] = (x if x > y else y) + 1
        return np.array(level[:-1], np.int32)

    @cached_property
    def depth(self) -> int:
        """Nodes on the longest path."""
        return int(self.level.max())

    @cached_property
    def statistics(self) -> Statistics:
        counts = np.bincount(self.op, minlength=len(Op))
        return Statistics(
            len(self),
            len(self.edges),
            self.depth,
            int(counts[Op.INPUT]),
            int(counts[Op.CONST]),
            len(self.outputs),
            int(self.fan_out.max()),
            {op.name.lower(): int(counts[op]) for op in Op if ARITY[op] and counts[op]},
        )

    @cached_property
    def conditional(self) -> bool:
        """True if some nodes are in conditional regions."""
        return bool((self.op >= Op.THEN).any())

    @cached_property
    def regions(self) -> Regions:
        """Conditional regions of the graph."""
        return regions(self)

    def selected(self) -> DataflowGraph:
        """The graph that executes both sides of each region and selects, for static PEs; itself
        where there are none.
        """
        return self.with_regions(())[0]

    def with_regions(self, kept: Container[int]) -> tuple[DataflowGraph, np.ndarray]:
        """The graph in which the outermost regions of the conditions ``kept`` alone stay
        conditional, and of each of its nodes the one here from which it stems.
        """
        if not self.conditional:
            return self, np.arange(len(self))
        new, at = selected(self, kept)
        op, a, b, value = (np.array(column) for column in zip(*new.rows, strict=True))
        graph = DataflowGraph(
            op,
            a,
            b,
            value,
            {at[i]: s for i, s in self.name.items() if self.op[i] not in (Op.THEN, Op.ELSE)},
            [at[i] for i in self.outputs],
            self.output_names,
            self.title,
            self.meta,
        )
        return graph, np.array(new.origin)

    @cached_property
    def groups(self) -> list[tuple[Op, np.ndarray]]:
        """Operations of one kind and level together, in an order in which all can be evaluated."""
        key = self.level.astype(np.int64) * len(Op) + self.op
        order = np.argsort(key, kind="stable")
        order = order[_ARITY[self.op[order]] > 0]
        if not len(order):
            return []
        return [
            (Op(int(self.op[g[0]])), g)
            for g in np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
        ]

    def check_format(self, fmt: str) -> None:
        """ProgramError if the graph has an operation that the format has not."""
        f = format_of(fmt)
        for i in np.flatnonzero(~np.isin(self.op, [int(op) for op in f.ops]))[:1]:
            raise ProgramError(
                f"{fmt} has no {Op(self.op[i]).name.lower()}",
                f"dataflow graph {self.title}, node {self.label(i)}",
                remedy="use fp32",
            )

    def sources(
        self, inputs: Mapping[str, np.ndarray] | np.ndarray | None = None, fmt: str = "fp32"
    ) -> np.ndarray:
        """``[n, *batch]`` in the format's dtype: constants and inputs in their places, the rest
        zero.

        ``inputs`` maps names to values of one shape ``batch`` (those not named have their default),
        or is an array ``[inputs, *batch]`` in the order of ``self.inputs``. ProgramError names an
        unknown input or a wrong shape.
        """
        dtype = format_of(fmt).dtype
        where = f"dataflow graph {self.title}"
        with np.errstate(over="ignore", under="ignore"):
            if isinstance(inputs, np.ndarray):
                if inputs.shape[:1] != (len(self.inputs),):
                    raise ProgramError(
                        f"input array has shape {list(inputs.shape)}",
                        where,
                        f"its first axis counts the {len(self.inputs)} inputs",
                    )
                given = inputs.astype(dtype)
                nodes = self.inputs
                batch = inputs.shape[1:]
            else:
                inputs = inputs or {}
                known = {self.name[int(i)]: int(i) for i in self.inputs}
                for name in inputs:
                    if name not in known:
                        raise ProgramError(
                            f"there is no input {name!r}",
                            where,
                            remedy=nearest(name, list(known)[:20], "inputs are"),
                        )
                try:
                    given = np.broadcast_arrays(*(np.asarray(v, dtype) for v in inputs.values()))
                except ValueError:
                    raise ProgramError(
                        "values of the inputs have different shapes", where
                    ) from None
                nodes = [known[k] for k in inputs]
                batch = given[0].shape if given else ()
            base = np.where(self.op < Op.ADD, self.value, 0).astype(dtype)
        values = np.broadcast_to(
            base.reshape((-1,) + (1,) * len(batch)), (len(self), *batch)
        ).copy()
        for node, v in zip(nodes, given, strict=True):
            values[node] = v
        return values

    def evaluate(
        self, inputs: Mapping[str, np.ndarray] | np.ndarray | None = None, fmt: str = "fp32"
    ) -> np.ndarray:
        """Every node's value, bit for bit as the ALU computes it: ``[n,
        *batch]`` in the format's dtype (``inputs``: :meth:`sources`); of a node that does not fire,
        the one that it would have.
        """
        self.check_format(fmt)
        values = self.sources(inputs, fmt)
        flat = values.reshape(len(self), -1)
        for op, nodes in self.groups:
            if op is Op.MERGE:
                flat[nodes] = self.regions.merged(nodes, flat)
                continue
            flat[nodes] = apply(
                op, flat[self.a[nodes]], flat[self.b[nodes]] if ARITY[op] == 2 else None
            )
        return values

    def results(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name, taken from :meth:`evaluate`'s array (or one read back from an
        overlay).
        """
        return {name: values[i] for name, i in zip(self.output_names, self.outputs, strict=True)}

    def subgraph_of_outputs(self) -> DataflowGraph:
        """The graph without the nodes that no output depends on."""
        used = np.zeros(len(self) + 1, bool)
        used[list(self.outputs)] = True
        for i in range(len(self) - 1, -1, -1):
            if used[i]:
                used[self.a[i]] = used[self.b[i]] = True  # -1 marks the spare entry
        used = used[:-1]
        new = np.append(np.cumsum(used, dtype=np.int64) - 1, -1)
        return DataflowGraph(
            self.op[used],
            new[self.a[used]],
            new[self.b[used]],
            self.value[used],
            {int(new[i]): s for i, s in self.name.items() if used[i]},
            [int(new[i]) for i in self.outputs],
            self.output_names,
            self.title,
            self.meta,
        )

    def repeated(self, count: int) -> DataflowGraph:
        """``count`` copies side by side that share nothing; names of copy k start with ``k.``."""
        if count < 1:
            raise ProgramError(
                f"number of instances must be at least 1, not {count}",
                f"dataflow graph {self.title}",
            )
        if count * len(self) > MOST_NODES:
            raise ProgramError(
                f"{count} instances have {count * len(self)} nodes",
                f"dataflow graph {self.title}",
                f"at most {MOST_NODES}",
            )
        n = len(self)
        first = np.repeat(np.arange(count) * len(self), len(self))

        def shift(x: np.ndarray) -> np.ndarray:
            return np.where(np.tile(x, count) < 0, -1, np.tile(x, count) + first)

        return DataflowGraph(
            np.tile(self.op, count),
            shift(self.a),
            shift(self.b),
            np.tile(self.value, count),
            {k * n + i: f"{k}.{s}" for k in range(count) for i, s in self.name.items()},
            [k * n + i for k in range(count) for i in self.outputs],
            [f"{k}.{s}" for k in range(count) for s in self.output_names],
            f"{self.title}*{count}",
        )

    def text(self) -> str:
        """The readable file form (docs/dataflow_graphs.md); :meth:`parse` reads it back. Node k
        without a name is written %k.
        """
        label = [self.label(i) for i in range(len(self))]
        columns = (self.op.tolist(), self.a.tolist(), self.b.tolist(), self.value.tolist())
        lines = [f"graph {self.title}"]
        for name, op, a, b, v in zip(label, *columns, strict=True):
            operands: list[str] = [repr(v)] if op < Op.ADD else [label[k] for k in (a, b) if k >= 0]
            lines.append(f"{name} = {Op(op).name.lower()} {' '.join(operands)}")
        outputs = zip(self.output_names, self.outputs, strict=True)
        lines += [f"output {s} = {label[i]}" for s, i in outputs]
        return "\n".join(lines) + "\n"

    @staticmethod
    def parse(text: str, file: str = "text") -> DataflowGraph:
        """The graph of a text; ProgramError names file and line."""
        return DataflowGraph(**load(text, file))
