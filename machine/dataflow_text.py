"""The file form of dataflow graphs (.dfg): one statement a line, in any order that has no cycle.

graph half_sum
x = input 1.5
y = input
k = const 0.5
%3 = add x y
half = mul %3 k
output z = half
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .errors import ProgramError, nearest
from .token_ops import ARITY, Op

if TYPE_CHECKING:
    from .dataflow import DataflowGraph


__all__ = ["dump", "load"]

_OPS = {op.name.lower(): op for op in Op}


def dump(graph: DataflowGraph) -> str:
    """The text of a graph; node k without a name is written %k."""
    label = [graph.label(i) for i in range(len(graph))]
    lines = [f"graph {graph.title}"]
    for i, (op, a, b, v) in enumerate(
        zip(
            graph.op.tolist(),
            graph.a.tolist(),
            graph.b.tolist(),
            graph.value.tolist(),
            strict=False,
        )
    ):
        operands = [repr(v)] if op < Op.ADD else [label[a]] if b < 0 else [label[a], label[b]]
        lines.append(f"{label[i]} = {Op(op).name.lower()} {' '.join(operands)}")
    lines += [
        f"output {s} = {label[i]}" for s, i in zip(graph.output_names, graph.outputs, strict=False)
    ]
    return "\n".join(lines) + "\n"


def load(make: type[DataflowGraph], text: str, file: str = "text") -> DataflowGraph:
    """The graph of a text, an instance of ``make``.

    Raises ProgramError, with file and line, for a statement that cannot be read, a name defined
    twice or not at all, a wrong number of operands, a bad number or a NaN, no output, and
    operations that depend on themselves (with the cycle).
    """
    title = "graph"
    rows = {}
    outputs = {}
    line_of = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        where = f"{file}:{number}"
        if not line:
            continue
        if line.startswith("graph ") and "=" not in line:
            title = line[6:].strip()
            continue
        left, equals, right = line.partition("=")
        left = left.split()
        words = right.split()
        if not equals or not left or not words:
            raise ProgramError(
                f"cannot read {line!r}",
                where,
                "a line is NAME = OPERATION OPERANDS, output NAME = NODE, or graph TITLE",
            )
        if left[0] == "output":
            if len(left) != 2 or len(words) != 1:
                raise ProgramError(
                    f"cannot read {line!r}", where, "an output is written output NAME = NODE"
                )
            if left[1] in outputs:
                raise ProgramError(f"output {left[1]} is defined twice", where)
            outputs[left[1]] = (words[0], where)
            continue
        if len(left) != 1:
            raise ProgramError(f"cannot read {line!r}", where, "a name has no blanks")
        name = left[0]
        op = _OPS.get(words[0].lower())
        if name in rows:
            raise ProgramError(
                f"node {name} is defined twice",
                where,
                remedy=f"the first is on line {line_of[name]}",
            )
        if op is None:
            raise ProgramError(
                f"unknown operation {words[0]!r}", where, remedy=nearest(words[0], _OPS)
            )
        want = ARITY[op]
        operands = words[1:]
        if op < Op.ADD:
            if len(operands) > 1 or (op is Op.CONST and not operands):
                raise ProgramError(
                    f"{words[0]} {name} has {len(operands)} values",
                    where,
                    "const has one value, input one or none (its default, 0)",
                )
            try:
                rows[name] = (op, (), float(operands[0]) if operands else 0.0)
            except ValueError:
                raise ProgramError(f"{operands[0]!r} is not a number", where) from None
            if np.isnan(rows[name][2]):
                raise ProgramError(
                    f"the value of {name} is a NaN",
                    where,
                    "a value is a number or an infinity",
                    "a NaN may come of operations, or be given as an input of a run",
                )
        else:
            if len(operands) != want:
                raise ProgramError(
                    f"{words[0]} has {len(operands)} operand{'s' * (len(operands) != 1)}",
                    where,
                    f"{words[0]} has {want}",
                    "a missing operand must be named" if len(operands) < want else None,
                )
            rows[name] = (op, tuple(operands), 0.0)
        line_of[name] = number
    if not rows:
        raise ProgramError("has no nodes", file, "a graph has at least one NAME = OPERATION line")
    for name, (_, operands, _) in rows.items():
        for o in operands:
            if o not in rows:
                raise ProgramError(f"operand {o} is not defined", f"{file}:{line_of[name]}")
    for name, (node, where) in outputs.items():
        if node not in rows:
            raise ProgramError(f"output {name} names {node}, which is not defined", where)
    if not outputs:
        raise ProgramError("has no outputs", file, remedy="add a line: output NAME = NODE")
    index = {name: i for i, name in enumerate(_topological(rows, line_of, file))}
    ordered = list(index)
    a = np.full(len(index), -1, np.int32)
    b = a.copy()
    for name, (_, operands, _) in rows.items():
        for array, o in zip((a, b), operands, strict=False):
            array[index[name]] = index[o]
    names = {i: s for i, s in enumerate(ordered) if s != f"%{i}"}
    return make(
        np.array([rows[s][0] for s in ordered], np.uint8),
        a,
        b,
        np.array([rows[s][2] for s in ordered]),
        names,
        [index[node] for node, _ in outputs.values()],
        list(outputs),
        title,
    )


def _topological(rows: dict, line_of: dict, file: str) -> list[str]:
    """Names, operands first, otherwise in the order written."""
    done = set()
    order = []
    for name in rows:
        path = [(name, iter(rows[name][1]))] if name not in done else []
        inside = {name}
        while path:
            top, rest = path[-1]
            for o in rest:
                if o in inside:
                    names = [s for s, _ in path]
                    cycle = [*names[names.index(o) :], o]
                    raise ProgramError(
                        f"the graph has a cycle: {' <- '.join(cycle)}",
                        f"{file}:{line_of[o]}",
                        "a node does not depend on itself",
                        "break it with an input, and feed the value back by the next run",
                    )
                if o not in done:
                    path.append((o, iter(rows[o][1])))
                    inside.add(o)
                    break
            else:
                path.pop()
                inside.discard(top)
                done.add(top)
                order.append(top)
    return order
