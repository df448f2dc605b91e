"""The file form of dataflow graphs (.dfg): one statement a line, in any order that has no cycle.

graph half_sum x = input 1.5 y = input k = const 0.5 %3 = add x y half = mul %3 k output z = half
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...machine.errors import ProgramError, nearest
from .ops import ARITY, Op

_OPS = {op.name.lower(): op for op in Op}


def load(text: str, file: str = "text") -> dict[str, Any]:
    """The graph of a text, as the arguments of
    :class:`~penstock.overlay.core.dataflow.DataflowGraph`.

    Raises ProgramError, with file and line, for a statement that cannot be read, a name defined
    twice or not at all, a wrong number of operands, a bad number or a NaN, no output, and
    operations that depend on themselves (with the cycle).
    """
    read = _Statements(file)
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if line:
            read.statement(line, number)
    read.check()
    rows = read.rows
    index = {name: i for i, name in enumerate(_topological(rows, file))}
    ordered = [rows[name] for name in index]
    operands = np.full((2, len(index)), -1, np.int32)
    for i, row in enumerate(ordered):
        for side, name in enumerate(row.operands):
            operands[side, i] = index[name]
    return {
        "op": np.array([row.op for row in ordered], np.uint8),
        "a": operands[0],
        "b": operands[1],
        "value": np.array([row.value for row in ordered]),
        "name": {i: name for i, name in enumerate(index) if name != f"%{i}"},
        "outputs": [index[node] for node, _ in read.outputs.values()],
        "output_names": list(read.outputs),
        "title": read.title,
    }


class _Row(NamedTuple):
    """A node as it is written."""

    op: Op
    operands: tuple[str, ...]
    value: float
    line: int


class _Statements:
    """Statements of a text, each checked by itself; then :meth:`check` as a whole."""

    def __init__(self, file: str):
        self.file = file
        self.title = "graph"
        self.rows: dict[str, _Row] = {}
        self.outputs: dict[str, tuple[str, str]] = {}
        """Output -> the node that it names, and where."""

    def statement(self, line: str, number: int) -> None:
        where = f"{self.file}:{number}"
        if line.startswith("graph ") and "=" not in line:
            self.title = line[6:].strip()
            return
        before, equals, after = line.partition("=")
        left = before.split()
        right = after.split()
        if not equals or not left or not right:
            raise ProgramError(
                f"cannot read {line!r}",
                where,
                "a line is NAME = OPERATION OPERANDS, output NAME = NODE, or graph TITLE",
            )
        if left[0] == "output":
            if len(left) != 2 or len(right) != 1:
                raise ProgramError(
                    f"cannot read {line!r}", where, "an output is written output NAME = NODE"
                )
            if left[1] in self.outputs:
                raise ProgramError(f"output {left[1]} is defined twice", where)
            self.outputs[left[1]] = (right[0], where)
            return
        if len(left) != 1:
            raise ProgramError(f"cannot read {line!r}", where, "a name has no blanks")
        self._node(left[0], right, number)

    def _node(self, name: str, words: list[str], number: int) -> None:
        where = f"{self.file}:{number}"
        word, *given = words
        op = _OPS.get(word.lower())
        if name in self.rows:
            raise ProgramError(
                f"node {name} is defined twice",
                where,
                remedy=f"the first is on line {self.rows[name].line}",
            )
        if op is None:
            raise ProgramError(f"unknown operation {word!r}", where, remedy=nearest(word, _OPS))
        if op < Op.ADD:
            self.rows[name] = _Row(op, (), _value(op, name, words, where), number)
            return
        want = ARITY[op]
        if len(given) != want:
            raise ProgramError(
                f"{word} has {len(given)} operand{'s' * (len(given) != 1)}",
                where,
                f"{word} has {want}",
                "a missing operand must be named" if len(given) < want else None,
            )
        self.rows[name] = _Row(op, tuple(given), 0.0, number)

    def check(self) -> None:
        """Every name that is used is a node's, and there are nodes and outputs."""
        if not self.rows:
            raise ProgramError(
                "has no nodes", self.file, "a graph has at least one NAME = OPERATION line"
            )
        for row in self.rows.values():
            for o in row.operands:
                if o not in self.rows:
                    raise ProgramError(f"operand {o} is not defined", f"{self.file}:{row.line}")
        for name, (node, where) in self.outputs.items():
            if node not in self.rows:
                raise ProgramError(f"output {name} names {node}, which is not defined", where)
        if not self.outputs:
            raise ProgramError("has no outputs", self.file, remedy="add a line: output NAME = NODE")


def _value(op: Op, name: str, words: list[str], where: str) -> float:
    """The value of a constant or an input."""
    word, *given = words
    if len(given) > 1 or (op is Op.CONST and not given):
        raise ProgramError(
            f"{word} {name} has {len(given)} values",
            where,
            "const has one value, input one or none (its default, 0)",
        )
    try:
        value = float(given[0]) if given else 0.0
    except ValueError:
        raise ProgramError(f"{given[0]!r} is not a number", where) from None
    mantissa = given[0].lower().partition("e")[0] if given else ""
    zero = not value and any(c in "123456789" for c in mantissa)
    if zero or (math.isinf(value) and "inf" not in mantissa):
        rule = "a value that is finite, and not 0, is so in float64"
        raise ProgramError(f"the value of {name} is {given[0]}", where, rule)
    if math.isnan(value):
        raise ProgramError(
            f"the value of {name} is a NaN",
            where,
            "a value is a number or an infinity",
            "a NaN may come of operations, or be given as an input of a run",
        )
    return value


def _topological(rows: dict[str, _Row], file: str) -> list[str]:
    """Names, operands first, otherwise in the order written."""
    done: set[str] = set()
    order: list[str] = []
    for name in rows:
        path = [(name, iter(rows[name].operands))] if name not in done else []
        inside = {name}
        while path:
            top, rest = path[-1]
            for o in rest:
                if o in inside:
                    names = [s for s, _ in path]
                    cycle = [*names[names.index(o) :], o]
                    raise ProgramError(
                        f"the graph has a cycle: {' <- '.join(cycle)}",
                        f"{file}:{rows[o].line}",
                        "a node does not depend on itself",
                        "break it with an input, and feed the value back by the next run",
                    )
                if o not in done:
                    path.append((o, iter(rows[o].operands)))
                    inside.add(o)
                    break
            else:
                path.pop()
                inside.discard(top)
                done.add(top)
                order.append(top)
    return order
