"""Accum and Scan (paper table 5)."""

from __future__ import annotations

from typing import Any, ClassVar

import sympy

from ...machine.errors import ProgramError
from ...machine.functions import lookup
from ...machine.kinds.numbers import REDUCERS, Signal
from ...machine.limits import ADDRESS_BITS
from ..arguments import argument
from ..functions.streams import Collect, retile_row
from ..functions.tiles import Elementwise, Matmul, add, as_function, is_fp32
from ..graph import operator
from ..types import (
    NUMBER,
    TILES,
    ElementType,
    ScalarType,
    SelectorType,
    StreamType,
    TileType,
    TupleType,
    by_member,
    empty_tile,
    need_tile,
)
from .higher_order import Datapath

REDUCTIONS = ("add", "maximum", "matmul", "retile_row", "retile_col", "all_read")
"""Constructors of the functions that reduce."""


def within_bits(x, element: ElementType) -> bool:
    """True if ``x`` is a scalar of the element's type."""
    return type(x) is int and isinstance(element, ScalarType) and 0 <= x < 1 << element.bits


class Reduction(Datapath):
    """Base of Accum and Scan: a state that every element of a group updates."""

    class Args(Datapath.Args):
        fn: Matmul | Collect | Elementwise
        rank: int
        init: float | tuple | None = argument(
            "state before the first element (default: the function's identity), a list of them "
            "for a tuple's members",
            None,
        )

    args: Args

    reductions: ClassVar[tuple[str, ...]] = REDUCTIONS
    collects: ClassVar[bool] = True
    """True where what collects tiles may be the function."""

    @property
    def op(self) -> str:
        """Name of an element-wise function."""
        fn = self.args.fn
        assert isinstance(fn, Elementwise)
        return fn.op

    def reducing(self) -> Matmul | Collect | Elementwise:
        """The function, checked to be one that reduces."""
        fn = as_function(self.args.fn)
        if isinstance(fn, Matmul) or (isinstance(fn, Collect) and self.collects):
            if self.args.init is None:
                return fn
            raise self.error(f"{fn.name} takes no initial value", remedy="leave init out")
        if isinstance(fn, Elementwise) and fn.arity == 2:
            entry = lookup(fn.op)
            if entry.identity is None and self.args.init is None:
                raise self.error(
                    f"cannot reduce with {fn.name}",
                    rule="a function without an identity starts from a value",
                    remedy="give init",
                )
            if entry.stages == 1:
                return fn
        raise self.error(
            f"cannot reduce with {fn.name}",
            rule="a state that grows with the stream has no place to wait"
            if isinstance(fn, Collect)
            else "an accumulator takes functions of (state, element) in one stage",
            remedy=f"reduce with {', '.join(f'{n}()' for n in self.reductions)}",
        )

    def check(self):
        fn = self.args.fn = self.reducing()
        if isinstance(fn, Elementwise) and len(self.inputs) == 1:
            super().check_function(len(self.operands()))
        else:
            self.check_function(2 if isinstance(fn, Matmul) else 1)
        self.check_rank()
        operands = self.operands()
        dims = self.inputs[0].shape[len(self.inputs[0].shape) - self.args.rank :]
        if isinstance(fn, Collect):
            try:
                self.result = fn.result_of(self.graph, operands[0], dims)
            except ProgramError as e:
                raise self.function_error(e) from None
        elif isinstance(fn, Matmul):
            self.result = self.function_result(*operands)
        else:
            self.result = self.state_type(self.inputs[0].element, self.args.init)

    def state_type(self, element: ElementType, init) -> ElementType:
        """The state over elements of a type, by component where it is a tuple."""
        if isinstance(element, TupleType):
            parts = by_member(init, element)
            if len(parts) != len(element.members):
                raise self.error(f"init has {len(parts)} values for {element}")
            return TupleType(
                tuple(self.state_type(m, x) for m, x in zip(element.members, parts, strict=True))
            )
        if isinstance(element, TileType):
            out = self.function_result(element, element)
            if init is not None and not is_fp32(init, infinite=True):
                raise self.error(f"init must be a number of fp32, not {init!r}")
            if lookup(self.op).identity is None and not element.static:
                raise self.error(
                    f"reduces {element} with {self.args.fn.name}",
                    rule="tiles of run-time size are reduced with functions that have an identity",
                )
            return out
        name = self.number_function(element)
        if init is not None and (name == "or" or not within_bits(init, element)):
            raise self.error(
                f"init must be a number of {element}, not {init!r}"
                if name != "or"
                else "the union of selectors starts from none: leave init out"
            )
        return element

    def number_function(self, element: ElementType) -> str:
        """The function as it reduces numbers."""
        name = self.op
        if isinstance(element, SelectorType) and name == "add":
            if element.n > 128:
                raise self.error(
                    f"unites selectors of {element.n} targets",
                    rule="the union is of selectors of at most 128 targets",
                    remedy="unite those of each half of the targets",
                )
            return "or"
        if isinstance(element, ScalarType) and name in REDUCERS and element.bits <= ADDRESS_BITS:
            return name
        raise self.error(
            f"cannot reduce {element} with {name}",
            rule="scalars of at most 32 bits are reduced with add, mul, max and min, selectors "
            "with add: their union",
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

    def elements(self, streams):
        if not isinstance(self.args.fn, Elementwise):
            return super().elements(streams)
        return (((v,) if v is not None else None, s) for v, s in streams[0])

    def lower_state(self, low, scan: bool = False):
        """The unit that holds the state."""
        port = low.take(self, 0)
        init = self.args.init
        if not isinstance(self.result, TileType):
            name = self.number_function(self.result)
            first = 0 if name == "or" else self.first(self.result, init)
            return low.chain(
                port, self, Signal(level=self.args.rank, fn=name, init=first, scan=scan)
            )
        return low.accum(
            self,
            port,
            range(2, 2 + self.args.rank),
            low.most_tiles(self.result),
            self.result,
            fn=self.op,
            scan=scan,
            init=init,
        )

    def flops(self):
        if isinstance(self.args.fn, Matmul):
            return self.inputs[0].type.count * self.args.fn.flops(*self.operands())
        tiles = [x for x in self.operands() if isinstance(x, TileType)]
        return self.inputs[0].type.count * sum(
            (self.args.fn.flops(x, x) for x in tiles), sympy.Integer(0)
        )

    def start(self, ev):
        """The state of an empty group."""
        fn = self.args.fn
        if isinstance(fn, Collect):
            return fn.start(ev, self.result)
        if isinstance(fn, Matmul):
            return ev.initial("add", self.result)
        return self.shown(ev, None, self.result, self.args.init)

    def shown(self, ev, state, element: ElementType, init):
        """A state as it leaves; None: that of an empty group."""
        if isinstance(element, TupleType):
            parts = (by_member(state, element), element.members, by_member(init, element))
            return tuple(self.shown(ev, *x) for x in zip(*parts, strict=True))
        if not isinstance(element, TileType):
            return self.first(element, init) if state is None else state
        if state is None:
            return ev.initial(self.op, element, init)
        if init is None:
            return state
        values, rows, cols = state
        return values[:rows, :cols]

    def left(self, ev, acc):
        """A state as it leaves."""
        if not isinstance(self.args.fn, Elementwise):
            return acc
        return self.shown(ev, acc, self.result, self.args.init)

    def first(self, element: ElementType, init) -> Any:
        """The state of numbers before the first."""
        name = self.number_function(element)
        if name == "or":
            return frozenset()
        top = (1 << element.bits) - 1 if isinstance(element, ScalarType) else 0
        return init if init is not None else {"mul": 1, "min": top}.get(name, 0)

    def update(self, ev, acc, values):
        fn = self.args.fn
        if isinstance(fn, Elementwise):
            return self.step(ev, acc, values[0], self.inputs[0].element, self.args.init)
        if acc is not None and not isinstance(fn, Collect) and not self.result_tile.static:
            self.check_sizes(ev, acc, values)
        if isinstance(fn, Matmul):
            return ev.matmul(acc, *values, ev.measured(self, *values)[1], fn.transposed)
        return fn.update(ev, self.start(ev) if acc is None else acc, values[0])

    def step(self, ev, acc, value, element: ElementType, init):
        """The state after an element; None: before the first one."""
        if isinstance(element, TupleType):
            parts = (by_member(acc, element), value, element.members, by_member(init, element))
            return tuple(self.step(ev, *x) for x in zip(*parts, strict=True))
        if isinstance(element, SelectorType):
            return value | (acc or frozenset())
        if isinstance(element, ScalarType):
            was = self.first(element, init) if acc is None else acc
            by = {"add": was + value, "mul": was * value, "max": max(was, value)}
            return by.get(self.op, min(was, value)) & ((1 << element.bits) - 1)
        if init is None:
            if acc is None:
                return value
            if not element.static:
                self.check_sizes(ev, acc, (value,), need_tile(element))
            return ev.reduce(self.op, acc, value)
        return ev.reduce_from(self.op, init, acc, value, element)

    def check_sizes(self, ev, acc, values, tile: TileType | None = None) -> None:
        """Tiles of run-time size that are reduced take as many physical tiles each."""
        tile = tile or self.result_tile
        shape = values[0].shape
        fn = self.args.fn
        if len(values) == 2:
            shape = shape[0], values[1].shape[0 if isinstance(fn, Matmul) and fn.transposed else 1]
        ev.check_same_grid(
            f"{self.label}: reduces",
            "those of a group",
            acc.shape,
            shape,
            [i for i, d in enumerate((tile.rows, tile.cols)) if d.value is None],
        )


@operator
class Accum(Reduction):
    """Reduces the inner ``rank`` dimensions: folds a function over the elements of each group.

    An empty group gives the initial value.
    """

    shapes = (
        "[D_a, ..., D_0] of A (not buffers; pairs or two streams for matmul) -> [D_a, ..., D_rank] "
        "of the accumulator"
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
        "tuples: by component, with functions of two operands",
        "retile_row: columns of static number, a band of them fits the row packer",
        "retile_col: tiles of more than t rows have full columns and stand in groups of static "
        "size",
    )
    forms: ClassVar[dict[str, tuple]] = {"rank": (1, 2), "carries": (*TILES, NUMBER)}

    class Args(Reduction.Args):
        fn: Matmul | Collect | Elementwise = argument(
            "add(), mul(), maximum(), or with init any function of (state, element) of one stage; "
            "on numbers too (add of selectors: their union); matmul() over two streams, whose "
            "products are summed; retile_row(), retile_col(), which concatenate tiles; "
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
        return [self.lower_state(low)]

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
                    yield (self.left(ev, acc) if open_ else self.start(ev)), s - b
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
        "not retile_row and retile_col: a state that grows with the stream has no place to wait",
        "matmul: each product is summed alone, then added to the state",
    )
    reductions = ("add", "maximum", "mul", "matmul")
    collects = False
    forms: ClassVar[dict[str, tuple]] = {"rank": (1, 2), "carries": (*TILES, NUMBER)}

    class Args(Reduction.Args):
        fn: Matmul | Elementwise = argument(
            "add(), mul(), maximum(), matmul(), or with init any function of (state, element)"
        )
        rank: int = argument("inner dimensions over which the state runs")

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), fn=add(), rank=1)

    def shape_rule(self):
        return [StreamType(self.result, self.inputs[0].shape)]

    def onchip(self, rule):
        tile = isinstance(self.result, TileType)
        return self.result.elements * 4 if rule == "published" and tile else self.result.bytes

    def lower_machine(self, low):
        fn = self.args.fn
        if isinstance(fn, Matmul):
            return [
                low.accum(
                    self,
                    low.matmul(self, fn, fused=0),
                    range(2, 2 + self.args.rank),
                    low.most_tiles(self.result),
                    self.result_tile,
                    "state",
                    scan=True,
                )
            ]
        return [self.lower_state(low, scan=True)]

    def lower_stepsim(self, low):
        return low.accum(self, scan=True)

    def evaluate(self, ev, *streams):
        acc = None
        fn = self.args.fn
        tile = self.result if isinstance(self.result, TileType) else None
        for values, s in self.elements(streams):
            if values is not None and isinstance(fn, Matmul):
                values = (ev.value(self, self.operands(), values),)
            if values is None or (tile and empty_tile(values[0].shape, tile)):
                # an empty tile of run-time size goes by, like an empty dimension
                yield (None if values is None else values[0]), s
            elif not tile and self.hollow(values[0], self.result):
                raise ev.error(
                    f"{self.label}: a tuple has an empty tile of run-time size, which goes by "
                    "where the other members give a state: scan the members one by one"
                )
            elif isinstance(fn, Matmul):
                if acc is not None and not self.result_tile.static:
                    self.check_sizes(ev, acc, values)
                acc = values[0] if acc is None else ev.reduce("add", acc, values[0])
                yield acc, s
            else:
                acc = self.update(ev, acc, values)
                yield self.left(ev, acc), s
            if s >= self.args.rank:
                acc = None

    def hollow(self, value, element: ElementType) -> bool:
        """True where a member of a tuple is an empty tile of run-time size."""
        if isinstance(element, TupleType):
            return any(map(self.hollow, value, element.members))
        return isinstance(element, TileType) and empty_tile(value.shape, element)
