"""A judge of programs: the contents of each stream as nested Python lists, one function an
operator.

It knows no beats and no stops, and shares nothing with the meaning, the model or the hardware but
the contract: operators with their arguments, types, and the arithmetic of one tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import networkx as nx

from ..frontend.graph import Graph, Operator, TensorRef
from ..frontend.operators.shapes import Expand
from ..frontend.operators.tensors import OffChip
from ..machine.image import DTYPES
from .judged_operators import RULES, SIDE_BY_SIDE
from .judged_tiles import UnjudgedError
from .lists import alike, check_form, trimmed


@dataclass
class Judge:
    """A program with its inputs; ``order``: by name of an EagerMerge or Reassemble, the inputs in
    the order in which a run took their units.

    Attributes
    ----------
    streams
        The lists of each stream, by operator and output; those of a Sink are its input's.
    outputs
        Stored tensors by name, each in its dtype.
    """

    graph: Graph
    tensors: dict[str, np.ndarray]
    t: int
    sources: dict[str, list]
    order: dict[str, list[int]] = field(default_factory=dict)
    streams: dict[tuple[str, int], list] = field(default_factory=dict)
    stored: dict[str, np.ndarray] = field(default_factory=dict)
    partial: bool = False

    def __post_init__(self) -> None:
        self.nodes = {n.name: n for n in self.graph.nodes}
        edges = nx.DiGraph([(s.node.name, n.name) for n in self.graph.nodes for s in n.inputs])
        edges.add_nodes_from(self.nodes)
        self.edges = edges
        whole = nx.condensation(edges)
        for part in nx.topological_sort(whole):
            names = whole.nodes[part]["members"]
            members = [n for n in self.graph.nodes if n.name in names]
            loops = [n for n in members if type(n).__name__ == "Loop"]
            if loops:
                self._go_round(members, loops)
            for node in members if not loops else ():
                self._take(node)
        self.outputs = {
            name: a.astype(DTYPES[self.graph.tensors[name].dtype])
            for name, a in self.stored.items()
        }

    def _go_round(self, members: list[Operator], loops: list[Operator]) -> None:
        """Operators of a loop: each round their streams are longer, until one adds nothing."""
        inside = self.edges.subgraph(n.name for n in members if n not in loops)
        order = [self.nodes[name] for name in nx.topological_sort(inside)]
        ends = {loop.name: (loop.inputs[0].node.name, loop.inputs[0].port) for loop in loops}
        found: dict[str, list] = {name: [] for name in ends}
        self.partial = True
        while True:
            self.streams |= {(name, 0): x for name, x in found.items()}
            for node in order:
                self._take(node)
            if not self.partial:
                return
            before = found
            found = {name: self.streams[at] for name, at in ends.items()}
            self.partial = not all(alike(found[name], before[name]) for name in ends)

    def _take(self, node: Operator) -> None:
        kind = type(node).__name__
        if kind not in RULES:
            raise UnjudgedError(f"{kind} is no operator that is judged", node.label)
        inputs = [self.streams[s.node.name, s.port] for s in node.inputs]
        if self.partial and kind in SIDE_BY_SIDE and len(inputs) > 1:
            own = node.args.rank if isinstance(node, Expand) else 0
            inputs = trimmed(min(s.rank for s in node.inputs) + 1 - own, inputs)
        for port, x in enumerate(RULES[kind](self, node, *inputs)):
            self.streams[node.name, port] = x
            if not self.partial:
                check_form(x, node.outputs[port].rank + 1, node[port])

    # -- memory
    # --------------------

    def values(self, ref: TensorRef) -> np.ndarray:
        """A tensor before the run."""
        if ref.role == "output":
            return np.zeros((ref.rows, ref.cols), np.float32)
        if ref.dtype == "int32":
            return np.asarray(self.tensors[ref.name]).astype(np.int64)
        return np.asarray(self.tensors[ref.name]).astype(DTYPES[ref.dtype]).astype(np.float32)

    def read(self, node: OffChip) -> np.ndarray:
        """A tensor as a load sees it: behind the stores on which the load waits."""
        ref = node.args.tensor
        stores = [n for n in self.graph.users(ref) if type(n).__name__.endswith("Store")]
        behind = [nx.has_path(self.edges, n.name, node.name) for n in stores]
        if any(behind) and not all(behind):
            raise UnjudgedError("a load waits for one store of its tensor of several", node.label)
        return self.stored[ref.name] if any(behind) else self.values(ref)

    def store(self, ref: TensorRef, places: Iterable[tuple[int, int]], tiles: list) -> None:
        """Write tiles into a tensor, each at its element row and column."""
        out = self.stored.setdefault(ref.name, self.values(ref))
        for (r, c), tile in zip(places, tiles, strict=not self.partial):
            if tile.size:
                out[r : r + tile.shape[0], c : c + tile.shape[1]] = tile

    def units(self, node: Operator) -> Iterator[int]:
        """The inputs of a merge in the order in which their units arrived."""
        if node.name not in self.order:
            raise UnjudgedError("the order of its inputs was not recorded", node.label)
        return iter(self.order[node.name])
