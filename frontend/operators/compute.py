"""Higher-order operators: Map, Accum, Scan and FlatMap (paper table 5)."""

from __future__ import annotations

from typing import ClassVar

import sympy

from ...machine.errors import ProgramError
from ...machine.functions import lookup
from ..arguments import argument
from ..functions.streams import (
    Collect,
    Expanding,
    RowAppend,
    RowOffset,
    retile_row,
    retile_streamify,
)
from ..functions.tiles import (
    Elementwise,
    Function,
    Matmul,
    RowReduce,
    add,
    as_function,
    row_sum,
    spread_of,
)
from ..graph import as_stream, operator
from ..types import (
    NUMBER,
    TILES,
    TUPLE,
    Dim,
    StreamType,
    TileType,
    TupleType,
    check_dtype,
    empty_tile,
)
from ..user_line import for_caller, user_variable
from .higher_order import Datapath, HigherOrder

REDUCTIONS = ("add", "maximum", "matmul", "retile_row", "retile_col", "all_read")
"""Constructors of the functions that reduce."""


@operator
class Map(Datapath):
    """Applies a function to each element, or to pairs of those of two streams; the shape stays."""

    shapes = (
        "[D_a, ..., D_0] of A (not buffers), or two streams of A and B of one shape, or pairs "
        "(A, B) -> [D_a, ..., D_0] of the function's result"
    )
    stops = "copied; operands of two streams carry equal ones"
    costs = (
        "on chip, matmul: 16 x columns of A + the weight tile B (rule `paper`), nothing "
        "(`published`)"
    )
    limits = (
        "one stream of pairs suits element-wise functions only: other units have an input for "
        "each operand",
        "matmul: sizes known only at run time agree in K",
        "matmul: K has a bound (`most`) where a row of tiles waits for its token: M of run-time "
        "size, or, transposed, N of run-time size",
        "matmul: K is not empty. Such a product would be zeros that nothing writes; Accum adds "
        "nothing for it",
        "matmul: where B is empty and A is not, A has static size and one row of physical tiles; "
        "not transposed, one physical tile",
        "row_sum, row_max: a row without a column, of a tile of static rows and run-time "
        "columns, gives 0 or -inf",
        "element-wise functions: tiles of two operands have one size where only the run tells it",
        "a second operand of one column or one row, spread over run-time columns: these have a "
        "bound (`most`), for the first operand waits in its channel",
        "a column of more than t rows is not spread over an empty tile",
        "row_append, row_offset: rows of static number; row_offset: no empty tile of run-time "
        "columns",
    )
    forms: ClassVar[dict[str, tuple]] = {
        "carries": (*TILES, NUMBER, TUPLE),
        "spread": ("none", "rows", "cols", "both"),
        "run_time_columns": (
            "row_sum",
            "row_max",
            "spread rows",
            "spread cols",
            "spread both",
            "row_append",
            "row_offset",
        ),
    }

    class Args(Datapath.Args):
        fn: Function = argument(
            "function of one or two elements: matmul(), element-wise ones (a second operand of "
            "one row or column stands for all), "
            "scale(c), immediate(name, c), row_sum(), row_max(), row_append(), row_offset(), "
            "address(stride)"
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), fn=row_sum())

    @property
    def run_time_columns(self) -> str | None:
        """The work done over columns whose number is known only at run time: rows are reduced,
        appended or cut, or how a second operand is repeated; None for all else.
        """
        fn = self.args.fn
        first = self.operands()[0]
        if not isinstance(first, TileType) or first.cols.value is not None:
            return None
        return (
            fn.name
            if isinstance(fn, (RowReduce, RowAppend, RowOffset))
            else f"spread {self.spread}"
            if self.spread not in (None, "none")
            else None
        )

    @property
    def spread(self) -> str | None:
        """Spread of the second operand of an element-wise function over the first; None for other
        functions.
        """
        fn = self.args.fn
        return (
            (spread_of(self.tile_pair()) or "none")
            if isinstance(fn, Elementwise) and fn.arity == 2
            else None
        )

    def check(self):
        fn = self.args.fn = as_function(self.args.fn)
        self.check_function(fn.arity)
        self.result = self.function_result(*self.operands())

    def shape_rule(self):
        return [StreamType(self.result, self.inputs[0].shape)]

    def flops(self):
        return self.inputs[0].type.count * self.args.fn.flops(*self.operands())

    def onchip(self, rule):
        return (
            self._matmul_paper()
            if rule == "paper" and isinstance(self.args.fn, Matmul)
            else sympy.Integer(0)
        )

    def lower_machine(self, low):
        return [self.args.fn.lower(low, self)]

    def lower_stepsim(self, low):
        return low.map(self)

    def evaluate(self, ev, *streams):
        operands = self.operands()
        for values, s in self.elements(streams):
            with self.located():
                out = None if values is None else ev.value(self, operands, values)
            yield out, s


class Reduction(Datapath):
    """Base of Accum and Scan: a state that every element of a group updates."""

    class Args(Datapath.Args):
        fn: Matmul | Collect | Elementwise
        rank: int

    args: Args

    reductions: ClassVar[tuple[str, ...]] = REDUCTIONS
    collects: ClassVar[bool] = True
    """True where a product or what collects tiles may be the function."""

    def reducing(self) -> Matmul | Collect | Elementwise:
        """The function, checked to be one that reduces."""
        fn = as_function(self.args.fn)
        if isinstance(fn, (Matmul, Collect)) and self.collects:
            return fn
        if isinstance(fn, Elementwise) and fn.arity == 2 and lookup(fn.op).identity is not None:
            return fn
        raise self.error(
            f"cannot reduce with {fn.name}",
            remedy=f"reduce with {', '.join(f'{n}()' for n in self.reductions)}",
        )

    def check(self):
        fn = self.args.fn = self.reducing()
        if (
            isinstance(fn, Matmul)
            and len(self.inputs) == 1
            and isinstance(self.inputs[0].element, TupleType)
        ):
            raise self.stream_error(
                0, "matmul takes two streams", remedy="pass the two streams, not their Zip"
            )
        self.check_function(2 if isinstance(fn, Matmul) else 1)
        self.check_rank()
        operands = self.operands()
        dims = self.inputs[0].shape[len(self.inputs[0].shape) - self.args.rank :]
        if isinstance(fn, Collect):
            try:
                self.result = fn.result_of(self.graph, operands[0], dims)
            except ProgramError as e:
                raise self.function_error(e) from None
        else:
            self.result = self.function_result(
                *(operands if isinstance(fn, Matmul) else operands * 2)
            )

    def check_rank(self) -> None:
        s = self.inputs[0].type
        b = self.args.rank
        if s.rank == 0:
            raise self.stream_error(
                0,
                "has no inner dimension to reduce",
                "the outermost dimension of a stream is not reduced",
                "put Promote(stream) in front, which makes it an inner one",
            )
        if isinstance(b, bool) or not isinstance(b, int) or not 1 <= b <= s.rank:
            raise self.stream_error(
                0, f"rank must be an integer from 1 to the stream's rank {s.rank}, not {b!r}"
            )

    def flops(self):
        operands = self.operands()
        return self.inputs[0].type.count * self.args.fn.flops(
            *(operands if len(operands) == 2 else operands * 2)
        )

    def start(self, ev):
        """The state of an empty group."""
        fn = self.args.fn
        return (
            fn.start(ev, self.result)
            if isinstance(fn, Collect)
            else ev.initial("add" if isinstance(fn, Matmul) else fn.op, self.result)
        )

    def update(self, ev, acc, values):
        fn = self.args.fn
        if acc is not None and not isinstance(fn, Collect) and not self.result_tile.static:
            self.check_sizes(ev, acc, values)
        if isinstance(fn, Matmul):
            return ev.matmul(acc, *values, ev.measured(self, *values)[1], fn.transposed)
        if isinstance(fn, Collect):
            return fn.update(ev, self.start(ev) if acc is None else acc, values[0])
        return values[0] if acc is None else ev.reduce(fn.op, acc, values[0])

    def check_sizes(self, ev, acc, values) -> None:
        """Tiles of run-time size that are reduced take as many physical tiles each."""
        shape = values[0].shape
        fn = self.args.fn
        if len(values) == 2:
            shape = shape[0], values[1].shape[0 if isinstance(fn, Matmul) and fn.transposed else 1]
        ev.check_same_grid(
            f"{self.label}: reduces",
            "those of a group",
            acc.shape,
            shape,
            [
                i
                for i, d in enumerate((self.result_tile.rows, self.result_tile.cols))
                if d.value is None
            ],
        )


@operator
class Accum(Reduction):
    """Reduces the inner ``rank`` dimensions: folds a function over the elements of each group.

    An empty group gives the initial value.
    """

    shapes = (
        "[D_a, ..., D_0] of A (not buffers; two streams for matmul) -> [D_a, ..., D_rank] of the "
        "accumulator"
    )
    stops = (
        "s below rank: nothing leaves; s = rank: a plain result; above: s - rank. An empty group "
        "gives the initial value"
    )
    costs = (
        "on chip: the accumulator, a result tile (rules `paper` and, at 4 B an element, "
        "`published`); matmul by rule `paper` as in Map, and the result tile"
    )
    limits = (
        "what it sums are tiles of as many physical tiles in a group: a pass over it visits the "
        "accumulators of the one before",
        "not over pairs",
        "retile_row: columns of static number, a band of them fits the row packer",
        "retile_col: tiles of more than t rows have full columns and stand in groups of static "
        "size",
    )
    forms: ClassVar[dict[str, tuple]] = {"rank": (1, 2), "carries": (*TILES, NUMBER)}

    class Args(Reduction.Args):
        fn: Matmul | Collect | Elementwise = argument(
            "add(), maximum(); matmul() over two streams, whose products are summed; "
            "retile_row(), retile_col(), which concatenate tiles; "
            "all_read(), a token per group"
        )
        rank: int = argument("inner dimensions reduced")

    @classmethod
    def example(cls, given):
        return cls(given.rows(), fn=retile_row(), rank=1)

    def shape_rule(self):
        s = self.inputs[0].type
        return [StreamType(self.result, s.shape[: len(s.shape) - self.args.rank])]

    def onchip(self, rule):
        if rule == "published":
            return (
                self.result.elements * 4 if isinstance(self.result, TileType) else sympy.Integer(0)
            )
        if isinstance(self.args.fn, Matmul):
            return self._matmul_paper() + self.result.bytes
        return self.result.bytes

    def lower_machine(self, low):
        fn = self.args.fn
        rank = self.args.rank
        if isinstance(fn, Matmul):
            return [low.matmul(self, fn, fused=rank)]
        if isinstance(fn, Collect):
            return [fn.lower_accum(low, self)]
        return [
            low.accum(
                self,
                low.take(self, 0),
                range(2, 2 + rank),
                low.most_tiles(self.result),
                self.result_tile,
                fn=fn.op,
            )
        ]

    def lower_stepsim(self, low):
        return low.accum(self)

    def evaluate(self, ev, *streams):
        fn = self.args.fn
        b = self.args.rank
        acc = None
        open_ = False
        last = ev.START
        for values, s in self.elements(streams):
            if values is not None and isinstance(fn, Matmul) and not ev.measured(self, *values)[1]:
                # a product over an empty K adds nothing: its operands are empty on the wire
                values = None
            if values is not None:
                acc = self.update(ev, acc, values)
                open_ = True
            if s >= b:
                if not open_ and s > b and last > b:
                    yield None, s - b  # the groups themselves are missing
                else:
                    yield (acc if open_ else self.start(ev)), s - b
                acc = None
                open_ = False
            last = s


@operator
class Scan(Reduction):
    """Accum that gives the state after every element: the running sum or maximum over the inner
    ``rank`` dimensions. The shape stays.
    """

    shapes = "[D_a, ..., D_0] of tiles -> the same shape of the accumulator"
    stops = "copied; one of at least rank starts the state anew"
    costs = "on chip: the accumulator, a result tile"
    limits = (
        "add() and maximum(): a state that grows with the stream (retile_row) has no place to wait"
    )
    reductions = ("add", "maximum")
    collects = False
    forms: ClassVar[dict[str, tuple]] = {"rank": (1, 2), "carries": TILES}

    class Args(Reduction.Args):
        fn: Elementwise = argument("add() or maximum()")
        rank: int = argument("inner dimensions over which the state runs")

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), fn=add(), rank=1)

    def shape_rule(self):
        return [StreamType(self.result, self.inputs[0].shape)]

    def onchip(self, rule):
        return self.result.elements * 4 if rule == "published" else self.result.bytes

    def lower_machine(self, low):
        return [
            low.accum(
                self,
                low.take(self, 0),
                range(2, 2 + self.args.rank),
                low.most_tiles(self.result),
                self.result_tile,
                fn=self.args.fn.op,
                scan=True,
            )
        ]

    def lower_stepsim(self, low):
        return low.accum(self, scan=True)

    def evaluate(self, ev, *streams):
        acc = None
        for values, s in self.elements(streams):
            if values is None or empty_tile(
                values[0].shape, self.result_tile
            ):  # an empty tile of run-time size goes by, like an empty dimension
                yield (None if values is None else values[0]), s
            else:
                acc = self.update(ev, acc, values)
                yield acc, s
            if s >= self.args.rank:
                acc = None


@operator
class FlatMap(HigherOrder):
    """Expands each element to several: with ``rank`` 0 into the innermost dimension, with ``rank``
    1 into a dimension of their own.
    """

    shapes = (
        "[D_a, ..., D_0] of A (not buffers) -> rank 0: [D_a, ..., D_1, the sum of the parts]; "
        "rank 1: [D_a, ..., D_0, the parts of each]"
    )
    stops = (
        "the last part of an element of stop s gets s (rank 0) or s + 1 (rank 1); within, parts "
        "carry none. An element without parts is an empty group (rank 1) or nothing (rank 0)"
    )
    limits = (
        "generators take their two numbers as two streams",
        "an element that gives nothing is not alone in its dimension",
        "retile_streamify: without mask sizes that divide a tile of static size; tiles of "
        "run-time size by columns where they are one physical tile high or wide, or single "
        "columns",
    )
    forms: ClassVar[dict[str, tuple]] = {"rank": (0, 1), "carries": (*TILES, NUMBER)}

    class Args(HigherOrder.Args):
        fn: Expanding = argument(
            "retile_streamify(along, size, mask), address_range(stride), "
            "expert_addresses(count), last_tile_filter()"
        )
        rank: int = argument(
            "0: the parts of all elements of the innermost dimension follow each other in it; 1: "
            "the parts of an element are a new dimension",
            0,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), fn=retile_streamify())

    def check(self):
        fn = as_function(self.args.fn)
        if not isinstance(fn, Expanding):
            raise self.error(
                f"cannot expand with {fn.name}",
                remedy=(
                    "expand with retile_streamify, address_range, expert_addresses or "
                    "last_tile_filter"
                ),
            )
        self.args.fn = fn
        self.check_function(fn.arity)
        if isinstance(self.args.rank, bool) or self.args.rank not in (0, 1):
            raise self.error(f"rank must be 0 or 1, not {self.args.rank!r}")
        last = self.inputs[-1]
        try:
            self.result, self.count = fn.parts(
                self.graph,
                (last.node, last.port, fn.name if isinstance(self.operands()[0], TileType) else ""),
                *self.operands(),
            )
        except ProgramError as e:
            raise self.function_error(e) from None

    @property
    def expanded(self) -> tuple[Dim, ...]:
        """The shape with the parts of each element as a dimension."""
        return (*self.inputs[0].shape, self.count)

    def shape_rule(self):
        shape = self.inputs[0].shape
        if self.args.rank:
            return [StreamType(self.result, self.expanded)]
        return [
            StreamType(
                self.result,
                (
                    *shape[:-1],
                    self.graph.derived(shape[-1].size * self.count.size, shape[-1], self.count),
                ),
            )
        ]

    def lower_machine(self, low):
        port = self.args.fn.lower_flat(low, self)
        k = 2 if isinstance(self.result, TileType) else 0
        return [
            port
            if self.args.rank
            else low.flatten(port, self, k, k + 1, self.graph.holds(self.expanded, 0, 1), "flatten")
        ]

    def lower_stepsim(self, low):
        return low.expanding(self)

    def evaluate(self, ev, *streams):
        fn = self.args.fn
        operands = self.operands()

        # the stops that end a list of its results with one element
        ends = 1 if self.args.rank else 2

        def expanded():
            last = ev.START
            for values, s in self.elements(streams):
                parts = [] if values is None else list(fn.values(ev, operands, *values))
                if values is not None and not parts and min(s, last) >= ends:
                    raise self.alone()
                last = s
                for p in parts[:-1]:
                    yield p, 0
                yield (parts[-1] if parts else None), s + 1

        yield from (
            expanded() if self.args.rank else ev.flatten(self, expanded(), self.expanded, 0, 1)
        )


@for_caller
def cast(stream, dtype: str):
    """The stream with elements of ``dtype``: a Map of a cast function, or the stream itself where
    they are so already.
    """
    s = as_stream(stream)
    check_dtype(dtype)
    if isinstance(s.element, TileType) and s.element.dtype == dtype:
        return s
    name = None if user_variable() else f"{s.node.name}_{dtype}"
    return Map(s, fn=f"cast_{dtype}", name=name).stream
