"""One Newton iteration of a circuit's DC operating point as a dataflow graph: devices, stamping,
sparse LU with a fixed order of pivots, triangular solves, convergence test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ....machine.errors import ProgramError
from ...core.dataflow import DataflowGraph
from ...core.ops import Op
from ..builder import Builder, Depth, Value, merge
from ..factor import Factors, factorise
from .devices import stamp
from .netlist import Circuit
from .stamps import Number, Stamps, Sum, times

RELATIVE = 1e-5
ABSOLUTE = 1e-6
"""An iteration has converged if no node moves by more than the root of the squares of these, as a
share of its voltage and in volts, and no junction is limited.
"""
LONGEST = 10.0
"""Longest step of a node that no voltage source sets, in volts."""
GROUNDED = "give each node a path to ground"
CONSTANT_USES = 8
"""Uses of a constant's node; beyond, it gets another."""


def newton_graph(circuit: Circuit) -> DataflowGraph:
    """The graph of one iteration, for fp32.

    Inputs, 0 by default: node voltages ``v(NODE)`` in volts, currents ``i(SOURCE)`` in amperes from
    the first node of a voltage source through it to the second, and ``DEVICE.u``, the voltages at
    which junctions were evaluated, in units of their thermal voltage. Outputs have the names of the
    inputs, and the values of the next iteration; ``converged`` is 1 or 0. The order of pivots is
    that of the matrix at the default inputs (:func:`~penstock.overlay.graphs.factor.factorise`).

    Raises
    ------
    ProgramError
        The matrix at the default inputs is singular; named is an unknown without a pivot.
    """
    sources, held = _set_nodes(circuit)
    pivots = _pivots(circuit, sources)
    s = _stamped(circuit)
    g = s.g
    depth = Depth(g)
    tests: list[Value] = [~limited for limited in s.limited]
    for (name, x), step in zip(s.x.items(), _solved(s, pivots, depth), strict=True):
        dx = g.lift(step)
        square = dx * dx
        if name.startswith("v(") and name not in held:
            far, near = g.switch(LONGEST**2 < square, dx)
            dx = merge(LONGEST - (far < 0.0) * (2 * LONGEST), near)
        after = x + dx
        g.output(name, after)
        if name.startswith("v("):
            tests.append(square <= after * after * RELATIVE**2 + ABSOLUTE**2)
    g.output("converged", depth.join(Op.GATE, tests))
    return replace(g.graph(), meta={"unknowns": list(s.x)})


def _stamped(circuit: Circuit) -> Stamps:
    """The circuit's equations on new nodes."""
    unknowns = [f"v({node})" for node in circuit.nodes]
    unknowns += [f"i({e.name})" for e in circuit.elements if e.kind == "v"]
    s = Stamps(Builder(circuit.title or "circuit", CONSTANT_USES), unknowns)
    for e in circuit.elements:
        stamp(s, e)
    return s


def _set_nodes(circuit: Circuit) -> tuple[dict[str, str], set[str]]:
    """Unknowns: of each voltage source's current the voltage that it sets; and the voltages that
    sources hold against ground.
    """
    sources = [e for e in circuit.elements if e.kind == "v"]
    reached = {"0"}
    held: set[str] = set()
    found: dict[str, str] = {}
    while sources:
        e = next((e for e in sources if reached & {*e.nodes}), None)
        if e is None:
            held = held or {*reached}
            reached.add(sources[0].nodes[0])
            continue
        sources.remove(e)
        new = {*e.nodes} - reached
        if not new:
            raise ProgramError(
                f"{e.name} closes a loop of voltage sources", e.where, remedy="add a resistor"
            )
        reached |= new
        found[f"i({e.name})"] = f"v({new.pop()})"
    return found, {f"v({node})" for node in held or reached}


def _pivots(circuit: Circuit, sources: dict[str, str]) -> Factors:
    """Order of pivots for the values of the first iteration; the diagonal is preferred, but for the
    nodes that sources set: their equation is the source's, and theirs is that of its current.
    """
    s = _stamped(circuit)
    depth = Depth(s.g)
    names = list(s.x)
    n = len(names)
    swapped = np.arange(n)
    for pair in sources.items():
        i, v = (s.index[name] for name in pair)
        swapped[[i, v]] = v, i
    places = [(row, column) for row, column in s.matrix if column < n]
    for row, column in places:
        s.g.output(f"{row},{column}", s.matrix[row, column].total(depth))
    graph = s.g.graph()
    values = graph.results(graph.evaluate())
    data = np.array([values[f"{i},{j}"] for i, j in places], np.float64)
    rows, columns = np.array(places).T
    a = sp.csc_array((data, (swapped[rows], columns)), shape=(n, n))
    found = factorise(a, where=f"circuit {circuit.title}", names=names)
    return replace(found, rows=swapped[found.rows])


class _Elimination:
    """Elimination in the order of pivots, block by block.

    Every row's entries in columns of voltages, ground's among them, add up to 0, before and after
    each step. So a pivot on the diagonal of the circuit's matrix is minus the sum of the others:
    that keeps a conductance of GMIN beside one a billion times as large, which their difference
    would lose.
    """

    def __init__(self, s: Stamps, f: Factors, depth: Depth):
        n = len(f.pivot)
        self.where = f"circuit {s.g.title}"
        self.depth = depth
        self.names = [list(s.x)[column] for column in f.cols]
        at = np.append(np.empty(n, int), n)
        at[f.cols] = np.arange(n)
        self.rows: list[dict[int, Sum]] = [{} for _ in range(n)]
        for (row, column), entry in s.matrix.items():
            self.rows[f.inverse[row]][int(at[column])] = entry
        self.voltage = [name.startswith("v(") for name in self.names] + [True]
        self.own = [i == j and v for i, j, v in zip(f.rows, f.cols, self.voltage, strict=False)]
        self.right = [s.right[row] for row in f.rows]
        self.outside = [Sum() for _ in range(n)]  # entries beyond the block, in columns of voltages
        self.x: list[Number] = [0.0] * n

    def solve(self, begin: int, end: int) -> None:
        """Solve a block; those behind it are solved."""
        for row in range(begin, end):
            for column in [c for c in self.rows[row] if c >= end]:
                entry = self.rows[row].pop(column).total(self.depth)
                if self.voltage[column]:
                    self.outside[row].add(entry)
                if column < len(self.x):
                    self.right[row].add(times(entry, self.x[column]), -1)
        pivots: list[Number] = []
        upper: list[list[tuple[int, Number]]] = []
        for k in range(begin, end):
            above = [(c, e.total(self.depth)) for c, e in sorted(self.rows[k].items()) if c > k]
            upper.append(above)
            pivots.append(self.pivot(k, above))
            self.eliminate(k, end, pivots[-1], above)
        for k in reversed(range(begin, end)):
            total = self.right[k]
            for column, entry in upper[k - begin]:
                total.add(times(entry, self.x[column]), -1)
            self.x[k] = total.total(self.depth) / pivots[k - begin]

    def pivot(self, k: int, above: list[tuple[int, Number]]) -> Number:
        """The pivot of a row whose other entries are known."""
        if not self.own[k]:
            return self.rows[k][k].total(self.depth)
        others = Sum()
        others.add(self.outside[k].total(self.depth), -1)
        for column, entry in above:
            if self.voltage[column]:
                others.add(entry, -1)
        total = others.total(self.depth)
        if not isinstance(total, Value) and not total:
            raise ProgramError(
                f"is singular: no pivot in {self.names[k]}", self.where, remedy=GROUNDED
            )
        return total

    def eliminate(self, k: int, end: int, pivot: Number, above: list[tuple[int, Number]]) -> None:
        """Take a pivot's row out of those below it in the block."""
        right = self.right[k].total(self.depth)
        outside = self.outside[k].total(self.depth)
        for row in range(k + 1, end):
            if k not in self.rows[row]:
                continue
            share = self.rows[row].pop(k).total(self.depth) / pivot
            for column, entry in above:
                if column != row or not self.own[row]:
                    self.rows[row].setdefault(column, Sum()).add(times(share, entry), -1)
            self.outside[row].add(times(share, outside), -1)
            self.right[row].add(times(share, right), -1)


def _solved(s: Stamps, f: Factors, depth: Depth) -> list[Number]:
    """The step of each unknown."""
    e = _Elimination(s, f, depth)
    for begin, end in list(zip(f.starts, f.starts[1:], strict=False))[::-1]:
        e.solve(begin, end)
    return [e.x[k] for k in np.argsort(f.cols)]
