"""A program as plain data that can be stored, built again and shrunk: a list of steps, each an
operator with its inputs and arguments.

A step names earlier outputs as ``[step, port]``; a Source holds its elements as nested lists whose
leaves are ``[rows, cols]`` of a tile (its values follow from the recipe's seed), the targets of a
selector, or a number. Sizes in types are ``"static"`` (as the elements have it), ``"dynamic"`` or
``"ragged"`` (a symbol), or ``["of", step, port, i]``: dimension i of that stream (tile sizes: -1
rows, -2 columns).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..frontend import graph as graphs
from ..frontend.functions.tiles import FORMS
from ..frontend.graph import Graph, Stream
from ..frontend.meaning.evaluator import Evaluator
from ..frontend.operators.boundary import Sink, Source
from ..frontend.operators.buffers import Streamify
from ..frontend.operators.compute import Map
from ..frontend.operators.higher_order import HigherOrder
from ..frontend.operators.linear_memory import LinearOffChipLoad, LinearOffChipStore
from ..frontend.operators.random_memory import RandomOffChipLoad, RandomOffChipStore
from ..frontend.operators.routing import Partition
from ..frontend.types import BufferType, Dim, TileType, dim
from ..machine.errors import ProgramError
from ..machine.limits import CHANNEL_DEPTHS, within
from ..runs.expected import evaluator
from ..workloads.dealing import deal, turns

MOST_ELEMENTS = 1 << 22
"""Most elements of a tensor, and of all tiles of a source."""
_F32 = np.finfo(np.float32)
EXTREMES = np.array(
    [np.inf, -np.inf, np.nan, -0.0, _F32.max, -_F32.max, _F32.tiny, _F32.smallest_subnormal],
    np.float32,
)
"""Values at the ends of the format, and beyond."""
_RUN = {"depths": range(1 << 62), "depth": range(CHANNEL_DEPTHS.stop), "stalls": range(1 << 62)}


@dataclass
class Recipe:
    """A program and how it is run."""

    steps: list[dict] = field(default_factory=list)  # its operators in order
    seed: int = 0  # of the values in sources and tensors
    # how it is run: ``depths`` (seed of random channel depths, or None), ``depth`` (least depth of
    # every channel), ``stalls`` (seed of waits at sources and sinks, or None)
    run: dict = field(default_factory=lambda: {"depths": None, "depth": 0, "stalls": None})

    def to_dict(self) -> dict:
        return {"seed": self.seed, "run": self.run, "steps": self.steps}

    @staticmethod
    def from_dict(d: dict) -> Recipe:
        run = {
            name: within(name, d["run"][name], allowed)
            if d["run"][name] is not None or name == "depth"
            else None
            for name, allowed in _RUN.items()
        }
        if not isinstance(d["steps"], list) or not all(
            isinstance(s, dict) and isinstance(s.get("op"), str) for s in d["steps"]
        ):
            raise ProgramError("steps are a list of operators", "recipe")
        return Recipe(d["steps"], within("seed", d["seed"], range(1 << 62), "recipe"), run)

    def copy(self) -> Recipe:
        return copy.deepcopy(self)

    def key(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True)


def references(step: dict) -> set[int]:
    """Indices of the steps that a step depends on."""
    found = (
        {s for s, _ in step.get("ins", ())}
        | ({step["ref"][0]} if step.get("ref") else set())
        | {step[key] for key in ("again", "changes") if key in step}
    )
    for spec in [*step.get("shape", ()), *step.get("tile", ())]:
        if isinstance(spec, list):
            found.add(spec[1])
    return found


def without(recipe: Recipe, gone: set[int]) -> Recipe:
    """The recipe without some steps and all that depend on them."""
    gone = set(gone)
    for i, s in enumerate(recipe.steps):
        if references(s) & gone:
            gone.add(i)
    new = {old: k for k, old in enumerate(i for i in range(len(recipe.steps)) if i not in gone)}
    out = recipe.copy()
    out.steps = [renumbered(s, new) for i, s in enumerate(out.steps) if i not in gone]
    return out


def renumbered(step: dict, new: dict[int, int]) -> dict:
    """A step whose references are renamed."""
    step = copy.deepcopy(step)
    if "ins" in step:
        step["ins"] = [[new[s], p] for s, p in step["ins"]]
    if step.get("ref"):
        step["ref"] = [new[step["ref"][0]], step["ref"][1]]
    for key in ("again", "changes"):
        if key in step:
            step[key] = new[step[key]]
    for key in ("shape", "tile"):
        if step["op"] == "Source" and step.get(key):
            step[key] = [["of", new[x[1]], *x[2:]] if isinstance(x, list) else x for x in step[key]]
    return step


def vary(recipe: Recipe, rng: np.random.Generator, clear: Sequence[int] = ()) -> Recipe:
    """The recipe with other values and waits, and some elements less or more: the same places of
    all sources that are alike there.

    ``clear``: depths (0 the outermost dimension), at one of which all elements go.
    """
    out = recipe.copy()
    out.seed = int(rng.integers(1 << 31))
    if out.run["stalls"] is not None:
        out.run["stalls"] = int(rng.integers(1 << 31))
    sources = [s for s in out.steps if s["op"] == "Source"]
    for edit in range(int(rng.integers(bool(clear), 4))):
        sure = clear and edit == 0
        depth = int(rng.choice(clear)) if sure else int(rng.integers(0, 3))
        sizes = sorted(
            {
                len(x)
                for s in sources
                for x in lists(s["elements"], depth, len(s["shape"]))
                if len(x)
            }
        )
        if not sizes:
            continue
        n = sizes[int(rng.integers(len(sizes)))]
        index = int(rng.integers(n))
        how = 4 if sure else int(rng.integers(5))
        for s in sources:
            for x in list(lists(s["elements"], depth, len(s["shape"]))):
                if len(x) == n and how < 2:
                    x.insert(index, copy.deepcopy(x[index]))
                elif len(x) == n:
                    del x[slice(index, index + 1) if how < 4 else slice(None)]
    return out


def lists(x: list, depth: int, dims: int) -> Iterator[list]:
    """The lists of one dimension of nested ones, 0 the outermost."""
    if depth >= dims:
        return
    if depth == 0:
        yield x
        return
    for y in x:
        yield from lists(y, depth - 1, dims - 1)


class Built:
    """A recipe's program in the making: ``add`` a step at a time; ``evaluate``: also its elements,
    as far as they do not depend on a run.

    Attributes
    ----------
    graph, given, tensors
        The program, the elements of its sources, its input tensors.
    items
        By (step, port): the elements of the stream with their stops.
    """

    def __init__(
        self, t: int, dtype: str, seed: int, *, evaluate: bool = True, name: str = "program"
    ):
        self.graph = Graph(name)
        self.t = t
        self.dtype = dtype
        self.seed = seed
        self.given: dict[str, list] = {}
        self.tensors: dict[str, np.ndarray] = {}
        self.nodes: list[list] = []  # of each step, the operators that can be read
        self.items: dict[tuple[int, int], list] = {}
        self.ev: Evaluator | None = evaluator(self.tensors, t) if evaluate else None
        if self.ev is not None:
            # they grow with the program
            self.ev.tensors = self.tensors
            self.ev.sources = self.given

    def stream(self, at) -> Stream:
        step, port = at
        return self.nodes[step][0][port]

    def add(self, step: dict) -> int:
        """Build one step; PenstockError where a rule forbids it, and then nothing is added."""
        make = getattr(self, f"_{step['op'].lower()}", self._operator)
        index = len(self.nodes)
        saved = self.saved()
        try:
            nodes = make(step, index)
            if self.ev is not None and nodes:
                (node,) = nodes
                outs = self.ev.apply(node, [self.items_of(s) for s in node.inputs])
                self.items |= {(index, port): items for port, items in enumerate(outs)}
        except Exception:
            self.restore(saved)
            raise
        self.nodes.append(nodes)
        return index

    def items_of(self, s: Stream) -> list:
        step = next(i for i, nodes in enumerate(self.nodes) if nodes and nodes[0] is s.node)
        return self.items[step, s.port]

    def saved(self) -> list:
        """State to which :meth:`restore` returns."""
        g = self.graph
        return [
            list(self.nodes),
            dict(self.items),
            list(g.nodes),
            dict(g.tensors),
            dict(g.symbols),
            set(g.derived_symbols),
            dict(g.bounds),
            dict(g.leasts),
            dict(g._derived),
            set(g._names),
            {k: list(v) for k, v in g._readers.items()},
            {k: list(v) for k, v in g._users.items()},
            dict(g._most),
            dict(self.given),
            dict(self.tensors),
            *(
                [dict(self.ev.sizes.symbols), dict(self.ev.sizes.largest), dict(self.ev.outputs)]
                if self.ev
                else []
            ),
        ]

    def restore(self, saved: list) -> None:
        """Take back all steps since."""
        g = self.graph
        (
            self.nodes,
            self.items,
            g.nodes,
            g.tensors,
            g.symbols,
            g.derived_symbols,
            g.bounds,
            g.leasts,
            g._derived,
            g._names,
            g._readers,
            g._users,
            g._most,
            given,
            tensors,
            *more,
        ) = saved
        for now, before in ((self.given, given), (self.tensors, tensors)):
            now.clear()
            now.update(before)
        if self.ev is not None and more:
            self.ev.sizes.symbols, self.ev.sizes.largest, self.ev.outputs = more
            self.ev.ended.clear()
            self.ev.products.clear()  # by the names of operators, which others take

    def shape(self) -> str:
        """The operators and what they read, whatever their names, sizes and elements."""
        at = {n.name: i for i, n in enumerate(self.graph.nodes)}
        return str(
            [
                (
                    type(n).__name__,
                    n.args.fn.name if isinstance(n, HigherOrder) else None,
                    [(at[s.node.name], s.port) for s in n.inputs],
                )
                for n in self.graph.nodes
            ]
        )

    def close(self) -> Graph:
        """Give every stream that nobody reads a Sink, and every on-chip memory somebody that reads
        it.
        """
        read = {
            n.inputs[0].type.buffer.memory for n in self.graph.nodes if isinstance(n, Streamify)
        }
        for node in list(self.graph.nodes):
            for s in node:
                if self.graph.consumers(s) or node.optional_output(s.port):
                    continue
                if isinstance(s.element, BufferType) and s.element.memory not in read:
                    read.add(s.element.memory)
                    s = Streamify(s, name=f"read_{node.name}").stream
                Sink(s, name=f"sink_{node.name}_{s.port}")
        return self.graph

    # -- steps
    # --------------------

    def _operator(self, step: dict, index: int) -> list:
        args = dict(step.get("args", {}))
        if "fn" in step:
            name, given = step["fn"]
            args["fn"] = FORMS[name](**given) if name in FORMS else name
        if step.get("ref"):
            args["ref"] = self.stream(step["ref"])
        if "again" in step or "changes" in step:
            args["tensor"] = self._same(step)
        elif "tensor" in step:
            args["tensor"] = self._tensor(step, index)
        if step["op"] in ("RandomOffChipLoad", "LinearOffChipLoad"):
            args["tile"] = tuple(step["load_tile"])
        return [
            graphs.OPERATORS[step["op"]](
                *map(self.stream, step.get("ins", ())),
                graph=self.graph,
                name=f"{step['op'].lower()}{index}",
                **args,
            )
        ]

    def _same(self, step: dict):
        """The tensor that an earlier step stores, for a load that waits for its acknowledgement; or
        that it loads, for a store of tiles that wait for all of them.
        """
        other = self.nodes[step["again"] if "again" in step else step["changes"]][0]
        waits = [self.stream(at).node for at in (*step.get("ins", ()), step.get("ref")) if at]
        for node in waits:
            waits += [s.node for s in node.inputs if s.node not in waits]
        loads = LinearOffChipLoad, RandomOffChipLoad
        if not isinstance(other, RandomOffChipStore if "again" in step else loads) or (
            other not in waits
        ):
            raise ProgramError("a tensor is stored and loaded by steps that wait for each other")
        return other.args.tensor

    def _tensor(self, step: dict, index: int):
        rows, cols = step["tensor"]
        if step["op"].endswith("Store"):
            dtype = self.stream(step["ins"][-1]).type.tile.dtype
            return self.graph.output(f"y{index}", (rows, cols), dtype)
        declare = self.graph.inout if step.get("inout") else self.graph.input
        ref = declare(f"x{index}", (rows, cols), step.get("dtype", self.dtype))
        values = self._values(index, rows * cols).reshape(rows, cols)
        if ref.dtype == "int32":
            values = values.view(np.int32) >> 24
        self.tensors[ref.name] = values
        return ref

    def _linearoffchipstore(self, step: dict, index: int) -> list:
        """A tensor as large as the stream asks for: ``width`` tiles a row, the last ones cut by
        ``trim``.
        """
        s = self.stream(step["ins"][0])
        count = s.type.count
        e = s.element
        if not count.is_Integer or not isinstance(e, TileType) or not e.static:
            raise ProgramError("a store needs a static stream of static tiles")
        n, (r, c) = int(count), step["trim"]
        width = step["width"] if n % step["width"] == 0 else 1
        high = e.rows.number
        wide = e.cols.number
        rows = n // width * high - min(r, high - 1)
        cols = width * wide - min(c, wide - 1)
        args = {}
        if step.get("backwards"):
            grid = [(i * high, j * wide) for i in range(n // width) for j in range(width)]
            args["order"] = grid[::-1]
        tensor = self.graph.output(f"y{index}", (rows, cols), e.dtype)
        return [LinearOffChipStore(s, tensor, name=f"store{index}", **args)]

    def _source(self, step: dict, index: int) -> list:
        rank = len(step["shape"]) - 1
        sizes: list[set] = [set() for _ in step["shape"]]
        measure(step["elements"], 0, rank, sizes)
        shape = [self._dim(spec, f"n{index}_{i}", sizes[i]) for i, spec in enumerate(step["shape"])]
        if "tile" in step:
            tiles = list(_leaves(step["elements"], rank))
            most = [max((x[axis] for x in tiles), default=1) for axis in range(2)]
            kind = {
                "tile": tuple(
                    self._dim(spec, f"t{index}_{axis}", {most[axis]})
                    if not isinstance(spec, int)
                    else dim(spec)
                    for axis, spec in enumerate(step["tile"])
                ),
                "dtype": step["dtype"],
            }
        else:
            kind = {k: step[k] for k in ("selector", "scalar") if k in step}
        node = Source(graph=self.graph, shape=shape, name=f"source{index}", **kind)
        elements = step["elements"]
        if "tile" in step:
            values = iter(self._values(index, sum(a * b for a, b in _leaves(elements, rank))))

            def tile(x):
                return np.array([next(values) for _ in range(x[0] * x[1])], np.float32).reshape(x)

            self.given[node.name] = _map(elements, rank, tile)
        else:
            self.given[node.name] = _map(elements, rank, lambda x: x)
        return [node]

    def _values(self, index: int, n: int) -> np.ndarray:
        """Values of every magnitude in moderation, with zeros; of one seed in eight, some at the
        ends of the format, infinite or NaN.
        """
        if n > MOST_ELEMENTS:
            raise ProgramError(
                f"step {index} has {n} elements of at most {MOST_ELEMENTS}", "recipe"
            )
        rng = np.random.default_rng([self.seed, index])
        a = rng.standard_normal(n) * 2.0 ** rng.integers(-2, 3, n)
        a = np.where(rng.random(n) < 0.05, 0.0, a).astype(np.float32)
        if self.seed % 8 == 5:
            a = np.where(rng.random(n) < 0.05, rng.choice(EXTREMES, n), a)
        return a

    def _dim(self, spec, name: str, seen: set) -> Dim:
        if isinstance(spec, list):
            s = self.stream(spec[1:3])
            i = spec[3]
            return s.shape[i] if i >= 0 else (s.type.tile.rows, s.type.tile.cols)[-1 - i]
        if spec == "static":
            if len(seen) != 1 or 0 in seen:
                raise ProgramError(f"a static dimension has sizes {sorted(seen)}")
            return dim(next(iter(seen)))
        most = max(seen, default=1) or 1
        return self.graph.dynamic(name, most=most, ragged=spec == "ragged")

    def _feedback(self, step: dict, index: int) -> list:
        """Round trip: tiles go to the region whose report comes back first; the last reports leave
        the loop.
        """
        s = self.stream(step["ins"][0])
        n = s.shape[0].value
        regions = step["regions"]
        k = f"loop{index}_"
        if (
            s.rank
            or n is None
            or n < regions
            or not isinstance(s.element, TileType)
            or s.element.dtype != "fp32"
        ):
            raise ProgramError("a feedback loop takes a static list of fp32 tiles")
        to, close = deal(self.graph, n, regions, k)
        self.given |= turns(n, regions, k)
        route = Partition(s, to, rank=0, outputs=regions, name=f"{k}route")
        close(
            [Map(route[i], fn="exp" if i else "silu", name=f"{k}work{i}") for i in range(regions)]
        )
        return []


def build(
    recipe: Recipe, t: int, dtype: str, *, evaluate: bool = False, name: str = "program"
) -> Built:
    """Build a recipe and close it; PenstockError where a step breaks a rule."""
    out = Built(t, dtype, recipe.seed, evaluate=evaluate, name=name)
    for step in recipe.steps:
        out.add(step)
    out.close()
    return out


def measure(x, at: int, rank: int, sizes: list[set]) -> None:
    sizes[at].add(len(x))
    if at < rank:
        for y in x:
            measure(y, at + 1, rank, sizes)


def _leaves(x, rank: int):
    for y in x:
        if rank:
            yield from _leaves(y, rank - 1)
        else:
            yield y


def _map(x, rank: int, f):
    return [_map(y, rank - 1, f) if rank else f(y) for y in x]
