"""FlatMap (paper table 5)."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

import sympy

from ...machine.beat import MAX_STOP
from ...machine.errors import ProgramError
from ...machine.kinds.shape import Promote
from ..arguments import argument
from ..functions.streams import Expanding, address_range, retile_streamify
from ..functions.tiles import FORMS, as_function
from ..graph import OPERATORS, Operator, Stream, as_stream, operator
from ..types import NUMBER, TILES, Dim, StreamType, TileType, dim, same_shape
from ..user_line import user_line
from .higher_order import HigherOrder


def own_function(fn: Callable[..., Any], rank: int, *inputs: Stream, **more: Any) -> Operator:
    """The stream that a program's own function gives, checked to have ``rank`` dimensions more, or
    one more that is merged; ``more``: a name.
    """
    where = f"operator FlatMap at {user_line()}"
    if type(rank) is not int or rank not in range(MAX_STOP):
        raise ProgramError(f"rank must be from 0 to {MAX_STOP - 1}, not {rank!r}", where)
    if more.keys() - {"name"}:
        raise ProgramError(f"has no argument {min(more.keys() - {'name'})!r}", where)
    made = as_stream(fn(*inputs))
    outer = inputs[0].shape
    if made.rank != inputs[0].rank + max(1, rank) or not same_shape(
        made.shape[: len(outer)], outer
    ):
        raise ProgramError(
            f"its function gives a stream {made.type} of {inputs[0].type}",
            where,
            f"a function of rank {rank} gives {max(1, rank)} dimensions more within those given"
            f"{' (its innermost two are merged)' if not rank else ''}",
        )
    return OPERATORS["Flatten"](made, lo=0, hi=int(not rank), **more)


@operator
class FlatMap(HigherOrder):
    """Expands each element to several: with ``rank`` 0 into the innermost dimension, with ``rank``
    1 into a dimension of their own, with more into the innermost of so many.

    A function of one's own takes the stream and gives one of ``rank`` dimensions more (of one more
    with rank 0, which is merged into the innermost).
    """

    shapes = (
        "[D_a, ..., D_0] of A (not buffers) -> rank 0: [D_a, ..., D_1, the sum of the parts]; "
        "rank r: [D_a, ..., D_0, 1, ..., 1, the parts of each], r dimensions more (0 for 1 where "
        "an element has no parts)"
    )
    stops = (
        "the last part of an element of stop s gets s + rank; within, parts "
        "carry none. An element without parts is an empty group (rank 1 or more) or nothing "
        "(rank 0)"
    )
    limits = (
        "generators take their two numbers as two streams",
        "an element that gives nothing is not alone in its dimension",
        "retile_streamify: without mask sizes that divide a tile of static size; tiles of "
        "run-time size by columns where they are one physical tile high or wide, or single "
        "columns",
    )
    forms: ClassVar[dict[str, tuple]] = {"rank": (0, 1, 2), "carries": (*TILES, NUMBER)}

    class Args(HigherOrder.Args):
        fn: Expanding = argument(
            "retile_streamify(along, size, mask), address_range(stride), "
            "expert_addresses(count), last_tile_filter(), integers()"
        )
        rank: int = argument(
            "0: the parts of all elements of the innermost dimension follow each other in it; r: "
            "r dimensions more, the parts of an element in the innermost",
            0,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), fn=retile_streamify())

    def __new__(cls, *inputs, fn=None, rank=0, **more) -> Any:
        """A function of one's own is applied to the stream as it is: its operators are the
        program's.
        """
        if isinstance(fn, FunctionType) and fn not in FORMS.values():
            return own_function(fn, rank, *map(as_stream, inputs), **more)
        return super().__new__(cls)

    def check(self):
        fn = as_function(self.args.fn)
        if not isinstance(fn, Expanding):
            raise self.error(
                f"cannot expand with {fn.name}",
                remedy=(
                    "expand with retile_streamify, address_range, expert_addresses, "
                    "last_tile_filter or integers"
                ),
            )
        self.args.fn = fn
        self.check_function(fn.arity)
        if isinstance(self.args.rank, bool) or self.args.rank not in range(MAX_STOP):
            raise self.error(f"rank must be from 0 to {MAX_STOP - 1}, not {self.args.rank!r}")
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
            present = sympy.Piecewise((1, self.count.size >= 1), (0, True))
            one = dim(1) if self.count.value else self.graph.derived(present, self.count)
            return [StreamType(self.result, (*shape, *[one] * (self.args.rank - 1), self.count))]
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
        for i in range(1, self.args.rank):
            port = low.chain(port, self, Promote(level=k + 1, outermost=False), f"rank{i}")
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
                yield (parts[-1] if parts else None), s + max(1, self.args.rank)

        yield from (
            expanded() if self.args.rank else ev.flatten(self, expanded(), self.expanded, 0, 1)
        )


def counted(n: Stream) -> Stream:
    """A stream with a new innermost dimension, of as many elements as each number says."""
    return FlatMap(n, n, fn=address_range(0), rank=1, name=f"{n.node.name}_times").stream
