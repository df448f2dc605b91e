"""Dynamic routing and merging: Partition, Reassemble, EagerMerge (paper table 6)."""

from __future__ import annotations

from typing import ClassVar

from ...machine.arith import canonical
from ...machine.errors import RunError
from ...machine.limits import NUMBER_BITS
from ..arguments import Arguments, argument
from ..functions.streams import LastTileFilter
from ..graph import Operator, Stream, operator
from ..types import (
    BUFFER,
    NUMBER,
    TILES,
    BufferType,
    Dim,
    DimKind,
    SelectorType,
    StreamType,
    TileType,
    TupleType,
    cardinality,
    dim,
    same_element,
    same_shape,
    show_shape,
)
from .boundary import Source
from .flat_map import FlatMap
from .shapes import Fifo

ROUTED = (*TILES, NUMBER, BUFFER)  # kinds of elements


class Routing(Operator):
    """Base of the routing operators: units of ``rank`` inner dimensions, and selectors that state
    where a unit goes or comes from.
    """

    def check_selector(self, i: int, targets: int, what: str) -> None:
        s = self.inputs[i]
        if not isinstance(s.element, SelectorType):
            raise self.stream_error(
                i, f"carries {s.element}", rule="the selector must be a stream of selectors"
            )
        if s.element.n != targets:
            wide = "wider than" if s.element.n > targets else "narrower than"
            raise self.stream_error(
                i,
                f"has {s.element.n} targets, {wide} the {targets} {what}",
                rule="a selector has one bit per stream",
                remedy=f"give {s.element.n} {what}, or a selector of {targets}",
            )

    def check_limit(self, n: int) -> None:
        if n > NUMBER_BITS:
            raise self.error(
                f"has {n} targets",
                rule=f"a selector has at most {NUMBER_BITS} targets",
                remedy="route in two steps",
            )

    def check_alike(self, inputs) -> None:
        """Streams that are merged carry one type of element and agree in all dimensions but the
        outermost.
        """
        first = inputs[0]
        for i, s in enumerate(inputs):
            if s.rank != first.rank or not same_shape(s.shape[1:], first.shape[1:]):
                raise self.stream_error(
                    i,
                    f"has shape {show_shape(s.shape)}, stream {first.name} has "
                    f"{show_shape(first.shape)}",
                    rule="streams that are merged agree in all dimensions but the outermost",
                )
            if (
                isinstance(s.element, BufferType)
                and isinstance(first.element, BufferType)
                and s.element.memory != first.element.memory
            ):
                raise self.stream_error(
                    i,
                    f"refers to buffers in memory {s.element.memory}, stream {first.name} to "
                    f"memory {first.element.memory}",
                    rule="references that are merged belong to one memory",
                    remedy="give both Bufferizes one memory=...",
                )
            if not same_element(s.element, first.element):
                raise self.stream_error(
                    i,
                    f"carries {s.element}, stream {first.name} carries {first.element}",
                    rule="streams that are merged carry one type",
                    remedy="load or compute elements that agree",
                )

    def merged(self, sizes: list[Dim], key: object) -> Dim:
        """A size that differs between merged streams: the same symbol where all agree, else a new
        ragged one.
        """
        if all(d == sizes[0] for d in sizes) and not sizes[0].kind.ragged:
            return sizes[0]
        kind = DimKind.DYNAMIC_RAGGED
        bounds = [most for d in sizes if (most := self.graph.most(d)) is not None]
        most = max(bounds) if len(bounds) == len(sizes) else None
        return self.graph.fresh("M", (self, key), kind, most)

    def merged_element(self, elements: list, key: str = ""):
        first = elements[0]
        if isinstance(first, TileType):
            return TileType(
                self.merged([e.rows for e in elements], f"{key}rows"),
                self.merged([e.cols for e in elements], f"{key}cols"),
                first.dtype,
            )
        if isinstance(first, BufferType):
            shape = tuple(
                self.merged(list(d), f"{key}buffer{i}")
                for i, d in enumerate(zip(*(e.shape for e in elements), strict=True))
            )
            return BufferType(
                self.merged_element([e.element for e in elements], f"{key}b"), shape, first.memory
            )
        if isinstance(first, TupleType):
            return TupleType(
                tuple(
                    self.merged_element([e.members[i] for e in elements], f"{key}{i}")
                    for i in range(len(first.members))
                )
            )
        return first

    def split_dims(self, shape: tuple[Dim, ...], key: object) -> tuple[Dim, ...]:
        """Inner dimensions of a part of a stream: a ragged size is another one there."""
        return tuple(
            self.graph.fresh("P", (self, key, i), d.kind, self.graph.most(d))
            if d.kind.ragged
            else d
            for i, d in enumerate(shape)
        )


def units(tokens, rank: int):
    """Cut a stream into units: lists of (value, stop) up to the first stop of at least ``rank``."""
    unit = []
    for v, s in tokens:
        unit.append((v, s))
        if s >= rank:
            yield unit
            unit = []


@operator
class Partition(Routing):
    """Sends each unit of ``rank`` inner dimensions to the outputs that its selector names: several,
    one, or none.
    """

    shapes = (
        "[D_a, ..., D_0] of any type, selectors [D_a, ..., D_rank] -> for each output i [P_i, "
        "D_{rank-1}, ..., D_0], P_i what the run sends there; ragged dimensions are other ones "
        "in each output"
    )
    stops = (
        "a unit ends with rank + the selector's stop, and leaves each output with rank (0: plain)"
    )
    limits = f"at most {NUMBER_BITS} outputs, the bits of a selector"
    streams = ("input", "selector")
    forms: ClassVar[dict[str, tuple]] = {"rank": (0, 1, 2), "outer": (0, 1), "carries": ROUTED}

    class Args(Arguments):
        rank: int = argument("inner dimensions of a unit (0: each element)")
        outputs: int = argument("number of outputs")
        in_turn: bool = argument(
            "whether the selectors, a Source's, name one output after the other; the timing "
            "`stepsim` then has the published Parallelize, which reads neither selector nor memory",
            False,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), given.choice(), rank=1, outputs=2)

    @property
    def outer(self) -> int:
        """Rank of the selector."""
        return self.inputs[-1].rank

    def check(self):
        s = self.inputs[0].type
        b = self.args.rank
        if isinstance(b, bool) or not isinstance(b, int) or not 0 <= b <= s.rank:
            raise self.stream_error(
                0, f"rank must be an integer from 0 to the stream's rank {s.rank}, not {b!r}"
            )
        self.positive("outputs")
        self.check_limit(self.args.outputs)
        self.check_selector(1, self.args.outputs, "outputs")
        a, sel = self.inputs
        if not same_shape(sel.shape, a.shape[: len(a.shape) - b]):
            raise self.stream_error(
                1,
                f"has shape {show_shape(sel.shape)}, the units of stream {a.name} have "
                f"{show_shape(a.shape[: len(a.shape) - b])}",
                rule="one selector per unit",
                remedy="give selectors of that shape, or partition another rank",
            )
        if self.args.in_turn and not isinstance(sel.node, Source):
            raise self.stream_error(
                1, "is no Source's", rule="selectors that deal in turn are given from outside"
            )

    def shape_rule(self):
        s = self.inputs[0].type
        b = self.args.rank
        total = Dim(cardinality(self.inputs[1].shape), DimKind.DYNAMIC_REGULAR)
        out = []
        for i in range(self.args.outputs):
            size = self.graph.fresh(
                f"{self.name}_", (self, i), DimKind.DYNAMIC_REGULAR, self.graph.most(total)
            )
            out.append(
                StreamType(s.element, (size, *self.split_dims(s.shape[len(s.shape) - b :], i)))
            )
        return out

    def lower_machine(self, low):
        return low.partition(self)

    def lower_stepsim(self, low):
        if self.args.in_turn:
            return low.parallelize(self)
        return low.route(self, "partition", self.args.outputs, self.args.rank)

    def in_turn(self, selector):
        """The selectors, checked to name the outputs in turn where the program says so."""
        for i, (targets, q) in enumerate(selector):
            if self.args.in_turn and targets != {i % self.args.outputs}:
                raise self.error(
                    f"selector {i} does not name output {i % self.args.outputs}",
                    rule="in_turn: unit i goes to output i mod outputs, and nowhere else",
                    remedy="leave in_turn out, or deal in turn",
                )
            yield targets, q

    def evaluate(self, ev, stream, selector):
        b = self.args.rank
        for targets, q in self.in_turn(selector):
            if targets is None:
                v, s = next(stream, (None, None))
                if s is None:
                    raise self.error("has more selectors than units", rule="one selector per unit")
                if v is not None or s != b + q:
                    raise self.error(
                        f"a bare selector of stop {q} meets a unit",
                        rule="selector and data have equal shapes",
                    )
                continue
            for v, s in stream:
                for port in sorted(targets):
                    yield port, v, min(s, b)
                if s >= b:
                    break
            else:
                raise self.error("has more selectors than units", rule="one selector per unit")
            if s != b + q:
                raise self.error(
                    f"a unit ends with stop {s}, its selector with {q}",
                    rule="a unit ends with its selector's stop + rank",
                )
        ev.at_end(self, stream, "has more units than selectors")


def one_hot(selectors: Stream) -> bool:
    """True if each selector has a target, as that is how they are made."""
    while isinstance(selectors.node, Fifo):
        selectors = selectors.node.inputs[0]
    node = selectors.node
    if isinstance(node, FlatMap):
        return isinstance(node.args.fn, LastTileFilter)
    return isinstance(node, EagerMerge | TopK)


@operator
class Reassemble(Routing):
    """Per selector, collects one unit of each selected input, in the order in which they arrive,
    into a new dimension.
    """

    shapes = (
        "inputs i [N_i, U_{rank-1}, ..., U_0] of any type, selectors [D_b, ..., D_0] -> [D_b, "
        "..., D_0, the inputs taken, U_{rank-1}, ..., U_0]; a U that differs between inputs "
        "becomes a ragged one"
    )
    stops = (
        "a unit's last element leaves with rank, the last one of a selector with rank + 1 + the "
        "selector's stop. A selector without a target gives an empty dimension"
    )
    limits = (
        f"at most {NUMBER_BITS} inputs",
        "references to buffers of one memory",
        "an empty dimension ends a run in the timing `stepsim`, whose streams have none",
        "a selector that names nothing, or an empty unit, is not alone in its dimension",
    )
    streams = ("inputs*", "selector")
    forms: ClassVar[dict[str, tuple]] = {"rank": (0, 1, 2), "outer": (0, 1), "carries": ROUTED}
    outer = Partition.outer

    class Args(Arguments):
        rank: int = argument(
            "rank of the inputs, and of a unit: their dimensions but the outermost"
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.flat("a"), given.flat("b"), given.choice(given.m), rank=0)

    def check(self):
        *data, _sel = self.inputs
        self.check_limit(len(data))
        self.check_selector(len(data), len(data), "inputs")
        self.check_alike(data)
        b = self.args.rank
        if isinstance(b, bool) or b != data[0].rank:
            raise self.stream_error(
                0,
                f"rank must be the rank of the inputs, {data[0].rank}, not {b!r}",
                rule="an input is a stream of units",
                remedy="flatten the dimensions outside the units into one",
            )

    def shape_rule(self):
        *data, sel = self.inputs
        least = int(one_hot(sel))
        taken = self.graph.fresh("S", self, DimKind.DYNAMIC_RAGGED, len(data), least)
        inner = tuple(
            self.merged(list(d), i)
            for i, d in enumerate(zip(*(s.shape[1:] for s in data), strict=True))
        )
        return [
            StreamType(self.merged_element([s.element for s in data]), (*sel.shape, taken, *inner))
        ]

    def lower_machine(self, low):
        return [low.reassemble(self)]

    def lower_stepsim(self, low):
        return low.route(self, "reassemble", len(self.inputs) - 1, self.args.rank)

    def evaluate(self, ev, *streams):
        b, (*data, selector) = self.args.rank, streams
        arrival = ev.arrival(self)
        begins = True
        for targets, q in selector:
            alone, begins = begins and q > 0, q > 0
            if alone and targets == frozenset():
                raise self.alone()
            if not targets:
                yield None, b + 1 + q
                continue
            left = sorted(targets)
            while left:
                i = arrival(left)
                left.remove(i)
                for k, (v, s) in enumerate(data[i]):
                    if v is None and s >= b and not k and len(targets) == 1:
                        raise self.alone()
                    yield v, s if s < b else b if left else b + 1 + q
                    if s >= b:
                        break
                else:
                    raise RunError(
                        f"input {i} has no unit for a selector that names it", self.label
                    )
        for i, s in enumerate(data):
            ev.at_end(self, s, f"input {i} has a unit that no selector names")


@operator
class EagerMerge(Routing):
    """Merges units in the order in which they arrive.

    Output 0: the data; output 1: for each unit, a one-hot selector of the input it came from.
    """

    shapes = (
        "inputs i [N_i, U_{a-1}, ..., U_0] of any type -> data [sum of N_i, U_{a-1}, ..., U_0]; "
        "selectors [sum of N_i]"
    )
    stops = "those of the units; selectors are plain"
    limits = (f"at most {NUMBER_BITS} inputs", "references to buffers of one memory")
    streams = ("inputs*",)
    forms: ClassVar[dict[str, tuple]] = {"rank": (0, 1, 2), "carries": ROUTED}

    @classmethod
    def example(cls, given):
        return cls(given.x(), given.x())

    @property
    def rank(self) -> int:
        """Inner dimensions of a unit."""
        return self.inputs[0].rank

    def check(self):
        self.check_limit(len(self.inputs))
        self.check_alike(self.inputs)

    def shape_rule(self):
        sizes = [s.shape[0] for s in self.inputs]
        kind = (
            DimKind.DYNAMIC_REGULAR
            if any(d.kind.dynamic for d in sizes)
            else DimKind.STATIC_REGULAR
        )
        count = Dim(sum(d.size for d in sizes), kind)
        inner = tuple(
            self.merged(list(d), i)
            for i, d in enumerate(zip(*(s.shape[1:] for s in self.inputs), strict=True))
        )
        return [
            StreamType(self.merged_element([s.element for s in self.inputs]), (count, *inner)),
            StreamType(SelectorType(len(self.inputs)), (count,)),
        ]

    def lower_machine(self, low):
        return low.eager_merge(self)

    def lower_stepsim(self, low):
        return low.route(self, "eager_merge", len(self.inputs), self.rank)

    def evaluate(self, ev, *data):
        b = self.inputs[0].rank
        open_ = list(range(len(data)))
        arrival = ev.arrival(self)
        while open_:
            i = arrival(open_)
            first = next(data[i], None)
            if first is None:
                open_.remove(i)
                continue
            yield 1, frozenset({i}), 0
            v, s = first
            yield 0, v, s
            while s < b:
                v, s = next(data[i])
                yield 0, v, s


@operator
class TopK(Routing):
    """Chooses the ``k`` largest elements of each tile of one row.

    Output 0: a selector of their columns; output 1: each column, one-hot, the largest first;
    output 2: the elements, tiles of one. Of equal elements the first comes first; a NaN is above
    all, and -0 equals +0. With k = 1 it is the arg-max.
    """

    shapes = (
        "[D_a, ..., D_0] of tiles {1, C} fp32 -> selectors [D_a, ..., D_0]; selectors "
        "[D_a, ..., D_0, k]; tiles {1, 1} fp32 [D_a, ..., D_0, k]"
    )
    stops = "those of the rows; in outputs 1 and 2 the last of a row has one more, others none"
    limits = (
        f"at most {NUMBER_BITS} columns and 8 chosen ones, not more than columns",
        "a run without values takes all elements to be equal",
    )

    class Args(Arguments):
        k: int = argument("elements to choose, 1 to 8")
        outputs: int | None = argument("targets of a selector; None: the columns", None)

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.rows(), k=2)

    @property
    def columns(self) -> int:
        """Columns of a row."""
        e = self.inputs[0].element
        if isinstance(e, TileType) and e.dtype == "fp32" and e.rows.value == 1 and e.cols.value:
            return e.cols.value
        raise self.stream_error(
            0, f"carries {e}", rule="TopK takes tiles of one row, fp32, of static columns"
        )

    @property
    def targets(self) -> int:
        """Targets of a selector."""
        return self.args.outputs or self.columns

    def check(self):
        columns = self.columns
        self.positive("k", *([] if self.args.outputs is None else ["outputs"]))
        if self.args.k > min(8, columns):
            raise self.error(
                f"chooses {self.args.k} of {columns} columns",
                rule="TopK chooses at most 8, and at most all",
            )
        self.check_limit(self.targets)
        if self.targets < columns:
            raise self.error(
                f"has {self.targets} targets for {columns} columns", rule="a column is a target"
            )

    def shape_rule(self):
        shape = self.inputs[0].shape
        chosen = (*shape, dim(self.args.k))
        selector = SelectorType(self.targets)
        one = TileType(dim(1), dim(1), "fp32")
        return [StreamType(selector, shape), StreamType(selector, chosen), StreamType(one, chosen)]

    def lower_machine(self, low):
        return low.top_k(self)

    def evaluate(self, ev, stream):
        for v, s in stream:
            if v is None:
                for port in range(3):
                    yield port, None, s + (port > 0)
                continue
            if v.shape[0] != 1 or v.shape[1] < self.args.k:
                raise ev.error(
                    f"TopK takes rows of at least {self.args.k} elements, not a tile of "
                    f"{v.shape[0]} x {v.shape[1]}"
                )
            row = canonical(v[0])
            below = [(1, -x, i) if x == x else (0, 0, i) for i, x in enumerate(row)]
            best = [i for *_, i in sorted(below)[: self.args.k]]
            yield 0, frozenset(best), s
            for place, i in enumerate(best):
                stop = s + 1 if place == self.args.k - 1 else 0
                yield 1, frozenset({i}), stop
                yield 2, row[i].reshape(1, 1), stop
