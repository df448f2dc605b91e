"""Evaluation of a program in NumPy: every operator's meaning on whole streams, in the order the
machine works in.

A stream is a sequence of ``(value, stop)``; a tile's value is its valid part, so the last tile of a
tensor may be smaller than its type; a value of None is a bare stop. Operators are generators that
take elements as they need them, so feedback loops need nothing of their own. How elements are
computed is a parameter: with the machine's arithmetic (``penstock.runs.expected``) the stored
tensors are the model's and the RTL's bit for bit; with float64 they are what errors are measured
against.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import networkx as nx

from ...machine.errors import ProgramError, RunError
from ...machine.functions import lookup
from ...machine.image import DTYPES
from ..functions.tiles import float64_of
from ..graph import Graph, Operator, TensorRef
from ..types import ScalarType, TileType, TupleType, by_member, ceil_div
from .elements import START, tokens
from .process import Feed, Process
from .sizes import Sizes

UNTILED = 1 << 20
"""Edge of a tile where nothing is tiled."""


class Evaluator:
    """Evaluates a program.

    Parameters
    ----------
    tensors
        Input tensors by name, [rows, cols].
    t
        Edge of a physical tile: a product is summed over t columns of A at a time, in this order.
    dot
        ``dot(a, b)``: product of a [M, t] and b [t, N].
    functions
        ``functions(name)`` gives an element-wise function: arrays of one shape in, one out.
    dtype
        NumPy type of all values.
    sources
        Elements of each Source, by operator name, as nested lists (frontend/meaning/elements.py).
    order
        By name of an EagerMerge or Reassemble: the inputs in the order in which their units arrived
        in a run.
    """

    START = START

    def __init__(
        self,
        tensors: dict[str, np.ndarray],
        t: int,
        dot: Callable[..., np.ndarray],
        functions: Callable[[str], Callable[..., np.ndarray]],
        dtype,
        sources: dict | None = None,
        order: dict[str, list[int]] | None = None,
    ):
        self.tensors = tensors
        self.t = t
        self.dot = dot
        self.functions = functions
        self.dtype = np.dtype(dtype)
        self.sources = sources or {}
        self.order = order or {}
        self.outputs: dict[str, np.ndarray] = {}
        self.sinks: dict[str, list] = {}
        self.ended: list[tuple] = []
        self.sizes = Sizes()
        self.streams: dict[tuple[str, int], list[tuple]] = {}
        self.products: dict[tuple, tuple[int, int, int]] = {}
        self.keeps_history = False
        self.history: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        self.accesses: dict[str, list[tuple[int, int, int, int, int]]] = {}

    def run(self, graph: Graph) -> dict[str, np.ndarray]:
        """Evaluate all operators; the stored tensors by name, of the evaluator's own dtype.

        Raises RunError where a stream has not the shape that its type, or an assertion, says.
        Afterwards ``sinks`` holds what each Sink took, ``streams`` what every (operator, output)
        gave, and ``sizes`` the sizes that its symbols took. Where ``keeps_history`` is set,
        ``history`` holds for each element that an operator gave its output and the elements taken
        of each input by then, and ``accesses`` the step and the place (rows and columns, from and
        to) of each read and write of a tensor that is stored.
        """
        edges = nx.DiGraph([(s.node.name, n.name) for n in graph.nodes for s in n.inputs])
        edges.add_nodes_from(n.name for n in graph.nodes)
        parts = list(nx.strongly_connected_components(edges))
        of = {n.name: n for n in graph.nodes}
        order = {n.name: i for i, n in enumerate(graph.nodes)}
        whole = nx.condensation(edges, parts)
        streams: dict[tuple[str, int], Feed] = {}
        for part in nx.lexicographical_topological_sort(
            whole, key=lambda p: min(order[n] for n in whole.nodes[p]["members"])
        ):
            nodes = sorted(
                (of[n] for n in whole.nodes[part]["members"]), key=lambda n: order[n.name]
            )
            started = [self.process(n) for n in nodes]
            for p in started:
                for i in range(len(p.node.outputs)):
                    streams[p.node.name, i] = Feed(p, i)
            for p in started:
                p.start([iter(streams[s.node.name, s.port]) for s in p.node.inputs])
            for p in started:
                while not p.done:
                    p.step()
        self.streams = {at: feed.items for at, feed in streams.items()}
        for node, stream, what in self.ended:
            if next(stream, None) is not None:
                raise RunError(what, node.label)
        for node in graph.nodes:
            for s in node:
                self.sizes.check(s, streams[s.node.name, s.port].items)
        return self.outputs

    def apply(self, node, inputs: list[list]) -> list[list]:
        """Outputs of one operator, one by one, for inputs that are at hand as lists; shapes are
        checked as in :meth:`run`.
        """
        process = self.process(node)
        feeds = [Feed(process, i) for i in range(len(node.outputs))]
        process.start([iter(x) for x in inputs])
        while not process.done:
            process.step()
        for s, feed in zip(node, feeds, strict=True):
            self.sizes.check(s, feed.items)
        return [feed.items for feed in feeds]

    def process(self, node: Operator) -> Process:
        """An operator to be started."""
        history = self.history.setdefault(node.name, []) if self.keeps_history else None
        return Process(node, partial(node.evaluate, self), history)

    def active(self, graph: Graph) -> set[str]:
        """Names of the operators that were given an element, or gave one."""
        some = {at for at, items in self.streams.items() if any(v is not None for v, _ in items)}
        return {
            n.name
            for n in graph.nodes
            if any((s.node.name, s.port) in some for s in (*n.inputs, *n))
        }

    def tensor(self, ref: TensorRef) -> np.ndarray:
        if ref.name not in self.tensors:
            raise ProgramError(
                "no values given",
                f"input tensor {ref.name}",
                remedy=f"pass an array of shape [{ref.rows}, {ref.cols}]",
            )
        a = np.asarray(self.tensors[ref.name])
        if a.shape != (ref.rows, ref.cols):
            raise ProgramError(
                f"has shape {list(a.shape)}, the program says [{ref.rows}, {ref.cols}]",
                f"input tensor {ref.name}",
            )
        if ref.dtype == "int32":
            return a.astype(np.int64)
        return a.astype(DTYPES[ref.dtype]).astype(self.dtype)

    def at_end(self, node, stream, what: str) -> None:
        """Check, when all is done, that nothing is left of a stream: its end may depend on the
        operator's own.
        """
        self.ended.append((node, stream, what))

    def stored(self, ref: TensorRef) -> np.ndarray:
        """The values of a stored tensor so far: a random store changes them."""
        if ref.name not in self.outputs:
            start = (
                self.tensor(ref).copy()
                if ref.role != "output"
                else np.zeros((ref.rows, ref.cols), self.dtype)
            )
            self.outputs[ref.name] = start
        return self.outputs[ref.name]

    def cut(self, a: np.ndarray, row: int, col: int, rows: int, cols: int) -> np.ndarray:
        """A tile of a tensor's values, as far as it lies within them."""
        return a[row : row + rows, col : col + cols]

    def latest(self, ref: TensorRef, row: int, col: int, rows: int, cols: int) -> np.ndarray:
        """A tile of a tensor that is written, as it is now."""
        return self.cut(self.stored(ref), row, col, rows, cols).copy()

    def access(self, node, row: int, col: int, rows: int, cols: int) -> None:
        """Note a read or write of a tensor that is stored, where there is a history."""
        if self.keeps_history:
            step = len(self.history[node.name])
            place = step, int(row), int(col), int(row + rows), int(col + cols)
            self.accesses.setdefault(node.name, []).append(place)

    def put(self, out: np.ndarray, row: int, col: int, tile: np.ndarray) -> None:
        """Write a tile into a tensor's values."""
        rows, cols = tile.shape
        out[row : row + rows, col : col + cols] = tile

    def value(self, node, operands: tuple, values: tuple):
        """Result of an operator's function for an element."""
        return node.args.fn.value(self, operands, *values)

    def measured(self, node, a: np.ndarray, b: np.ndarray) -> tuple[int, int, int]:
        """M, K and N of a product of an operator, found once for tiles of equal sizes."""
        at = node.name, a.shape, b.shape
        if at not in self.products:
            self.products[at] = node.args.fn.measured(self, node.operands(), a, b)
        return self.products[at]

    def source(self, node) -> list:
        """The elements of a Source with their stops."""
        if node.name not in self.sources:
            raise ProgramError(
                "no elements given",
                node.label,
                remedy=(
                    "give them as nested lists: streams(seed, **params) of the program returns "
                    "{name: elements}"
                ),
            )
        out = tokens(self.sources[node.name], node.outputs[0], node.label)
        return [
            (
                v.astype(DTYPES[node.outputs[0].element.dtype]).astype(self.dtype)
                if isinstance(v, np.ndarray)
                else v,
                s,
            )
            for v, s in out
        ]

    def arrival(self, node) -> Callable[[list[int]], int]:
        """Next input of a node that takes units as they arrive: of the inputs in question, the one
        whose turn it is.

        As recorded in ``order``; without a record the inputs take turns.
        """
        recorded = iter(self.order[node.name]) if node.name in self.order else None
        last = -1

        def pick(candidates: list[int]) -> int:
            nonlocal last
            if recorded is not None:
                i = next(recorded, candidates[0])
                if i not in candidates:
                    raise RunError(
                        f"input {i} arrives in the record, {candidates} are possible", node.label
                    )
                return i
            last = next((i for i in candidates if i > last), candidates[0])
            return last

        return pick

    @staticmethod
    def error(what: str) -> RunError:
        """An element that a function cannot take."""
        return RunError(what, "evaluation")

    def check_same_grid(self, does: str, rule: str, a, b, axes=(0, 1)) -> None:
        """Check that tiles of shapes ``a`` and ``b`` with elements have as many physical tiles
        along ``axes``.
        """
        for axis in axes:
            if 0 not in (*a, *b) and ceil_div(a[axis], self.t) != ceil_div(b[axis], self.t):
                raise self.error(
                    f"{does} tiles of {a[axis]} and {b[axis]} {('rows', 'columns')[axis]}: "
                    f"{rule} take as many physical tiles"
                )

    def agree(self, does: str, types, a, b) -> None:
        """Check that two tiles that are taken together, of ``types`` and of shapes ``a`` and ``b``,
        have one size where it is known only at run time.

        Of a static size a tile has all its physical tiles, however many of its rows and columns are
        valid.
        """
        for axis, sizes in enumerate(zip(*((x.rows, x.cols) for x in types), strict=True)):
            run_time = any(d.value is None for d in sizes)
            if run_time and not (0 in a and 0 in b) and a[axis] != b[axis]:
                raise RunError(
                    f"{does} tiles of {a[axis]} and {b[axis]} {('rows', 'columns')[axis]}",
                    "evaluation",
                    "tiles that are taken together have one size where only the run tells it",
                    "assert one shape for both, or give them a static size",
                )

    def flatten(self, node, items, shape, lo: int, hi: int):
        """Merge dimensions ``lo`` to ``hi`` of a stream of ``shape``, with bare stops
        (docs/timing.md, `flatten`).
        """
        hold = node.graph.holds(shape, lo, hi)
        last = START
        ended = True  # the last element, or empty group, ends more than its group
        held = None
        for v, s in items:
            if v is None and lo < s <= hi and (last > lo or not lo):
                last = s
                continue
            inside = v is None and s > hi and lo < last <= hi
            if inside and not held and (not hold or (s > hi + 1 and ended)):
                raise RunError(
                    f"an empty group stands alone in its group, where dimensions {lo} to {hi} "
                    "are merged: such a stream cannot be written"
                    if hold
                    else f"an empty part ends a group, where dimensions {lo} to {hi} are merged",
                    node.location,
                )
            out = v, s if s <= lo else lo if s <= hi else s - (hi - lo)
            if held and inside:
                yield held[0], out[1]
                held = None
            else:
                if held:
                    yield held
                held = None
                if hold and lo < s <= hi:
                    held = out
                else:
                    yield out
            last = s
            ended = s > hi + 1
        if held:
            yield held

    def padding(self, element, pad) -> np.ndarray | int | frozenset | tuple:
        """A padding element: of tiles one without a valid row or column for 0, else full of the
        value.
        """
        if isinstance(element, TupleType):
            pads = by_member(pad, element)
            return tuple(map(self.padding, element.members, pads))
        if isinstance(element, TileType):
            value = np.float32(pad).astype(DTYPES[element.dtype])
            return np.full(element.static_shape if pad else (0, 0), value, self.dtype)
        return pad if isinstance(element, ScalarType) else frozenset(pad or ())

    def initial(self, name: str, t: TileType, init: float | None = None) -> np.ndarray:
        """Result of a reduction of no elements: its initial value, which is the function's identity
        where none is given, or no row where the tile's size is known only at run time.
        """
        if not t.static:
            return np.zeros(
                (
                    0 if t.rows.value is None else t.rows.value,
                    0 if t.cols.value is None else t.cols.value,
                ),
                self.dtype,
            )
        value = identity_of(name) if init is None else np.float32(init)
        return np.full(t.static_shape, value, self.dtype)

    def elementwise(self, name: str, *operands: np.ndarray) -> np.ndarray:
        """A function on the valid part of the first operand; the second reads as zero outside its
        own.
        """
        first, *rest = operands
        return self.functions(name)(first, *(_fit(x, first.shape) for x in rest)).astype(self.dtype)

    def reduce(self, name: str, acc: np.ndarray, x: np.ndarray) -> np.ndarray:
        """One step of a reduction: where a tile has no value it counts as the identity."""
        shape = max(acc.shape[0], x.shape[0]), max(acc.shape[1], x.shape[1])
        identity = identity_of(name)
        return self.functions(name)(_fit(acc, shape, identity), _fit(x, shape, identity)).astype(
            self.dtype
        )

    def reduce_from(self, name: str, init: float, state, x: np.ndarray, t: TileType):
        """One step of a reduction from an initial value: (values, valid rows, valid columns)."""
        identity = lookup(name).identity or 0.0
        values, rows, cols = state or (np.zeros((0, 0), self.dtype), 0, 0)
        rows, cols = max(rows, x.shape[0]), max(cols, x.shape[1])
        shape = t.static_shape if t.static else (rows, cols)
        if lookup(name).identity is None and name != "sub" and x.shape != shape:
            raise self.error(
                f"a reduction with {name}, which has no identity, takes whole tiles of "
                f"{shape[0]} x {shape[1]} elements, not one of {x.shape[0]} x {x.shape[1]}"
            )
        start = np.full(shape, np.float32(init), self.dtype)
        if state is not None:
            if values.shape != shape:
                start = self.functions(name)(start, np.full(shape, identity, self.dtype))
            start[: values.shape[0], : values.shape[1]] = values
        out = self.functions(name)(start, _fit(x, shape, identity)).astype(self.dtype)
        return out, rows, cols

    def row_reduce(self, name: str, x: np.ndarray) -> np.ndarray:
        """Each row to one column: a balanced tree over t columns at a time, these in order."""
        if not x.size:
            return np.zeros((x.shape[0], 0), self.dtype)
        width = min(
            self.t, 2 << (x.shape[1] - 1).bit_length()
        )  # one step with identities is enough: it makes 0 of -0, further ones change nothing

        def column(i: int) -> np.ndarray:
            part = _fit(x[:, i : i + self.t], (x.shape[0], width), identity_of(name))
            while part.shape[1] > 1:
                part = self.functions(name)(part[:, 0::2], part[:, 1::2]).astype(self.dtype)
            return part

        out = column(0)
        for i in range(self.t, x.shape[1], self.t):
            out = self.functions(name)(out, column(i)).astype(self.dtype)
        return out

    def matmul(
        self, acc: np.ndarray | None, a: np.ndarray, b: np.ndarray, k: int, transposed: bool
    ) -> np.ndarray:
        """acc + a b over ``k`` columns of A, t at a time (all of them where nothing is tiled); the
        first product of all is taken as it is.
        """
        if transposed:
            b = b.T
        if not k:
            return np.zeros((a.shape[0], b.shape[1]), self.dtype) if acc is None else acc
        t = k if self.t == UNTILED else self.t
        k = ceil_div(k, t) * t
        a = _fit(a, (a.shape[0], k))
        b = _fit(b, (k, b.shape[1]))
        products = (self.dot(a[:, i : i + t], b[i : i + t]) for i in range(0, k, t))
        if acc is None:
            acc = next(products)
        for product in products:
            acc = self.reduce("add", acc, product)
        return acc


def identity_of(name: str) -> float:
    """The identity of a function that reduces; RunError where it has none."""
    identity = lookup(name).identity
    if identity is None:
        raise RunError(f"{name} has no identity, so nothing is reduced with it", "evaluation")
    return identity


def _fit(a: np.ndarray, shape: tuple[int, int], fill: float = 0.0) -> np.ndarray:
    """``a`` cut or padded to ``shape``."""
    if a.shape == shape:
        return a
    out = np.full(shape, fill, a.dtype)
    rows = min(a.shape[0], shape[0])
    cols = min(a.shape[1], shape[1])
    out[:rows, :cols] = a[:rows, :cols]
    return out


def evaluate64(
    graph: Graph,
    tensors: dict[str, np.ndarray],
    sources: dict | None = None,
    order: dict | None = None,
) -> dict[str, np.ndarray]:
    """The stored tensors in float64: no rounding but that of the inputs to their own type."""
    return Evaluator(tensors, UNTILED, np.matmul, float64_of, np.float64, sources, order).run(graph)
