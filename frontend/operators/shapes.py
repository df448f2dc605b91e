"""Operators that change shapes only: Flatten, Promote, Expand, Zip, Broadcast (paper table 7), and
Fifo, which changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import sympy

from ...machine.kinds.shape import Promote as PromoteUnit
from ...machine.limits import CHANNEL_DEPTHS
from ..arguments import Arguments, argument
from ..graph import Operator, Stream, as_stream, operator
from ..meaning.elements import pairs
from ..types import (
    BUFFER,
    ELEMENT_KINDS,
    NUMBER,
    TILES,
    TUPLE,
    BufferType,
    Dim,
    DimKind,
    StreamType,
    TileType,
    TupleType,
    cardinality,
    dim,
    leaves_of,
    same_shape,
    same_size,
    show_shape,
    shown,
)
from .buffers import read_through
from .flat_map import counted
from .reshape import Reshape, Shape, dimension_index


@operator
class Flatten(Shape):
    """Merges dimensions ``lo`` to ``hi`` into one."""

    shapes = (
        "[D_a, ..., D_hi, ..., D_lo, ..., D_0] of any type -> [D_a, ..., the product of D_lo to "
        "D_hi, ..., D_0]; a new ragged dimension where one of them is ragged"
    )
    stops = "s up to lo: s; up to hi: lo; above: s - (hi - lo)"
    limits = (
        "a part may be empty where its size is known only at run time, without least=1, and the "
        "merged dimension is not the outermost: a part's last beat then waits for the next, so a "
        "loop through it may need least=1",
        "a group that is empty when merged does not stand alone in its group: the wire has no form "
        "for it, and the run ends with an error",
    )
    forms: ClassVar[dict[str, tuple]] = {
        "lo": (0, 1),
        "merged": (1, 2, 3),
        "carries": ELEMENT_KINDS,
    }

    class Args(Arguments):
        lo: int = argument("innermost dimension merged")
        hi: int = argument("outermost dimension merged")

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), lo=0, hi=1)

    @property
    def merged(self) -> int:
        """Dimensions that become one."""
        return self.args.hi - self.args.lo + 1

    def check(self):
        lo = dimension_index(self, "lo", 0, self.inputs[0].rank)
        dimension_index(self, "hi", lo, self.inputs[0].rank)

    def shape_rule(self):
        s = self.inputs[0].type
        lo = self.args.lo
        hi = self.args.hi
        first = len(s.shape) - 1 - hi
        last = len(s.shape) - lo
        merged = s.shape[first:last]
        return [
            StreamType(
                s.element,
                (
                    *s.shape[:first],
                    self.graph.derived(cardinality(merged), *merged),
                    *s.shape[last:],
                ),
            )
        ]

    def lower_machine(self, low):
        lo = self.args.lo
        hi = self.args.hi
        src = low.take(self, 0)
        k = low.inner(self, 0)
        hold = self.graph.holds(self.inputs[0].shape, lo, hi)
        return [src if lo == hi else low.flatten(src, self, lo + k, hi + k, hold)]

    def lower_stepsim(self, low):
        return low.one(self, "flatten", lo=self.args.lo, hi=self.args.hi)

    def evaluate(self, ev, stream):
        yield from ev.flatten(self, stream, self.inputs[0].shape, self.args.lo, self.args.hi)


@operator
class Promote(Shape):
    """Inserts a dimension of size 1: outside all others, or inside dimension ``level``.

    Around an empty dimension it is empty, of size 0.
    """

    shapes = (
        "[D_a, ..., D_0] of any type -> [1, D_a, ..., D_0], or [D_a, ..., D_level, 1, "
        "D_{level-1}, ..., D_0]; 0 for 1 where what is inside is empty"
    )
    stops = (
        "s below level: s; else s + 1. Outermost: the stream's last element ends it; an empty "
        "stream stays empty"
    )
    limits = (
        "in the timing `stepsim` no stop marks the end of a stream. So a new outermost dimension "
        "is around rank 0, around a dimension of 1, or (level 2) around what a Reshape has just "
        "split"
    )
    forms: ClassVar[dict[str, tuple]] = {
        "outermost": (False, True),
        "level": (0, 1, 2),
        "carries": ELEMENT_KINDS,
    }

    class Args(Arguments):
        level: int = argument("dimensions that stay inside the new one (default: all)", None)

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), level=1)

    def check(self):
        if self.args.level is None:
            self.args.level = len(self.inputs[0].shape)
        dimension_index(self, "level", 0, len(self.inputs[0].shape))

    @property
    def outermost(self) -> bool:
        return self.args.level == len(self.inputs[0].shape)

    def shape_rule(self):
        s = self.inputs[0].type
        cut = len(s.shape) - self.args.level
        inside = (
            s.shape[cut] if self.args.level else dim(1)
        )  # the outermost dimension that stays inside
        present = sympy.Piecewise((1, inside.size >= 1), (0, True))
        new = (
            dim(1)
            if inside.value
            else Dim(present, DimKind.DYNAMIC_REGULAR)
            if self.outermost
            else self.graph.derived(present, inside)
        )
        return [StreamType(s.element, (*s.shape[:cut], new, *s.shape[cut:]))]

    def lower_machine(self, low):
        k = low.inner(self, 0)
        level = self.args.level
        if (
            self.outermost and self.inputs[0].shape[0].value == 1
        ):  # the outermost stop ends the stream: no look-ahead
            return [
                low.chain(
                    low.take(self, 0), self, PromoteUnit(level=level - 1 + k, outermost=False)
                )
            ]
        return [
            low.chain(
                low.take(self, 0), self, PromoteUnit(level=level + k, outermost=self.outermost)
            )
        ]

    def lower_stepsim(self, low):
        level = self.args.level
        if not self.outermost:
            return low.one(self, "promote", level=level)
        if self.inputs[0].shape[0].value == 1:
            return low.one(self, "promote", level=level - 1)
        chunks = self.inputs[0]
        if (
            level == 2
            and isinstance(chunks.node, Reshape)
            and chunks.node.args.dim == 0
            and chunks.node.inputs[0].rank == 0
            and len(self.graph.consumers(chunks)) == 1
        ):
            return [low.with_outer(self)]
        if level > 1:
            raise low.error(
                self,
                f"a stream {self.inputs[0].type} has no new outermost dimension in the published "
                "simulator",
                remedy="promote inside the outermost dimension",
            )
        (port,) = low.one(self, "reshape", dim=0, chunk=1, pad=False, add_outer=True)
        return [low.chain(port, self, low.kind("flatten", lo=0, hi=1), "flatten")]

    def evaluate(self, ev, stream):
        level = self.args.level
        if not self.outermost:
            yield from ((v, s if s < level else s + 1) for v, s in stream)
            return
        held = next(stream, None)
        for beat in stream:
            yield held
            held = beat
        if held is not None:
            yield held[0], level


@operator
class Expand(Shape):
    """Repeats elements: each ``count`` times, a new innermost dimension; or as often as a reference
    stream has elements in its place.

    By reference the inner ``rank`` dimensions are of size 1, and the result has the reference's
    shape.
    """

    shapes = (
        "count: [D_a, ..., D_0] of any type -> [D_a, ..., D_0, count]. By reference: [D_a, ..., "
        "D_rank, 1, ..., 1] and a reference [D_a, ..., D_0] -> [D_a, ..., D_0]; or [D_a, ..., D_0] "
        "and a reference [D_a, ..., D_0, E] -> [D_a, ..., D_0, E]"
    )
    stops = (
        "count: copies are plain, the last has s + 1. By reference: the reference's; one of at "
        "least rank takes the element"
    )
    costs = "on chip: a result tile (rules `paper` and, at 4 B an element, `published`)"
    limits = (
        "references to buffers, by count or as the reference: a read of each buffer gives it up "
        "and counts",
    )
    streams = ("input", "ref?")
    forms: ClassVar[dict[str, tuple]] = {
        "count": (1, 2),
        "rank": (1, 2),
        "carries": (*TILES, NUMBER, BUFFER, TUPLE),
    }

    class Args(Arguments):
        count: int = argument(
            "copies of each element, or a stream of numbers: of none it makes an empty group", None
        )
        rank: int = argument("with ref: inner dimensions that are repeated (default 1)", None)

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.one(), ref=given.x(), rank=1)

    def _streams(self, inputs, args):
        count = args.get("count")
        if isinstance(count, (Stream, Operator)) and args.get("ref") is None:
            args["ref"] = counted(as_stream(args.pop("count")))
        found = super()._streams(inputs, args)
        if len(found) == 2 and isinstance(found[1].element, BufferType):
            found[1] = read_through(found[1])
        if len(found) == 1 and isinstance(found[0].element, BufferType) and type(count) is int:
            times = Expand(
                read_through(found[0]), count=args.pop("count"), name=f"{found[0].node.name}_times"
            )
            found.append(times.stream)
        return found

    @property
    def by_reference(self) -> bool:
        return len(self.inputs) == 2

    @property
    def added(self) -> bool:
        """True if the copies are a new dimension, of the reference."""
        return self.by_reference and len(self.inputs[1].shape) > len(self.inputs[0].shape)

    def check(self):
        if not self.by_reference:
            if self.args.rank is not None or self.args.count is None:
                raise self.error(
                    "has neither count nor ref"
                    if self.args.count is None
                    else "has rank without ref",
                    remedy="give count, or ref and rank",
                )
            self.positive("count")
            element = self.inputs[0].element
            if isinstance(element, TupleType) and self.args.count > 1:
                for x in leaves_of(element):
                    if isinstance(x, BufferType):
                        raise self.stream_error(
                            0,
                            f"carries {element}",
                            rule="copies of a reference to a buffer are counted where it is alone",
                            remedy="expand the members by the count, and Zip the copies",
                        )
            return
        if self.args.count is not None:
            raise self.error("has both count and ref", remedy="give count, or ref and rank")
        a, ref = self.inputs
        if self.added and self.args.rank is None:
            if len(ref.shape) == len(a.shape) + 1 and same_shape(ref.shape[:-1], a.shape):
                return
            raise self.stream_error(
                1,
                f"has shape {show_shape(ref.shape)}, stream {a.name} has {show_shape(a.shape)}",
                rule="without rank the reference has the stream's shape and one more dimension",
            )
        if self.args.rank is None:
            self.args.rank = 1
        b = self.args.rank
        if isinstance(b, bool) or not isinstance(b, int) or not 1 <= b <= a.rank:
            raise self.stream_error(
                0, f"rank must be an integer from 1 to the stream's rank {a.rank}, not {b!r}"
            )
        for i, d in enumerate(a.shape[len(a.shape) - b :]):
            if same_size(d, dim(1)) is False:
                raise self.stream_error(
                    0,
                    f"dimension {b - 1 - i} is {d}, not 1",
                    rule="the inner dimensions that are repeated have size 1",
                )
        cut = len(a.shape) - b
        if len(ref.shape) != len(a.shape) or not same_shape(ref.shape[:cut], a.shape[:cut]):
            raise self.stream_error(
                1,
                f"has shape {show_shape(ref.shape)}, stream {a.name} has {show_shape(a.shape)}",
                rule=(
                    "the reference has the stream's shape but for the dimensions that are repeated"
                ),
            )

    def shape_rule(self):
        s = self.inputs[0].type
        return [
            StreamType(
                s.element,
                self.inputs[1].shape if len(self.inputs) == 2 else (*s.shape, dim(self.args.count)),
            )
        ]

    def onchip(self, rule):
        e = self.outputs[0].element
        return e.elements * 4 if rule == "published" and isinstance(e, TileType) else e.bytes

    def lower_machine(self, low):
        return [low.expand_by_reference(self) if self.by_reference else low.expand(self)]

    def lower_stepsim(self, low):
        if self.added:
            raise low.formless(self)
        if self.by_reference:
            return low.one(self, "expand", rank=self.args.rank)
        return low.one(self, "repeat", count=self.args.count)

    def evaluate(self, ev, stream, ref=None):
        if ref is None:
            n = self.args.count
            for v, s in stream:
                if v is None:
                    yield None, s + 1
                else:
                    yield from ((v, s + 1 if i == n - 1 else 0) for i in range(n))
            return
        b = 1 if self.added else self.args.rank
        held = None
        for r, s in ref:
            if held is None:
                held = next(stream, None)
                if held is not None and self.added:
                    held = held[0], held[1] + 1
                if held is None:
                    raise self.error(
                        "its reference goes on when the input has ended",
                        rule="one group of references per element",
                    )
            if r is not None and held[0] is None:
                raise self.error(
                    f"its reference has an element where its input is empty, before stop {held[1]}",
                    rule="the reference has the stream's shape outside",
                )
            yield (None if r is None else held[0]), s
            if s >= b:
                if held[1] != s:
                    raise self.error(
                        f"an element of stop {held[1]} meets references that end with {s}",
                        rule="the reference has the stream's shape outside",
                    )
                held = None
        ev.at_end(self, stream, "has elements left when its reference has ended")


@operator
class Zip(Shape):
    """Groups two streams of one shape into a stream of pairs."""

    shapes = "two streams [D_a, ..., D_0] of any types -> [D_a, ..., D_0] of pairs"
    stops = "copied; both carry equal ones"
    limits = (
        "pairs of as many physical tiles are one beat, and have one size where only the run tells "
        "it; the members of other pairs travel side by side",
        "in the timing `stepsim` a pair has two words",
    )
    streams = ("first", "second")

    @classmethod
    def example(cls, given):
        return cls(given.flat("a"), given.flat("b"))

    def check(self):
        a, b = self.inputs
        if not same_shape(a.shape, b.shape):
            raise self.stream_error(
                1,
                f"has shape {show_shape(b.shape)}, stream {a.name} has {show_shape(a.shape)}",
                rule="both inputs have one shape",
                remedy="reshape, expand or reload one of them",
            )

    def shape_rule(self):
        a, b = self.inputs
        return [StreamType(TupleType((a.element, b.element)), a.shape)]

    def lower_machine(self, low):
        return [low.zip(self)]

    def lower_stepsim(self, low):
        return low.pair(self)

    def evaluate(self, ev, a, b):
        for both, s in pairs(self, a, b, "both inputs have one shape"):
            if both is not None and all(isinstance(x, np.ndarray) for x in both):
                with self.located():
                    ev.agree("pairs", [x.element for x in self.inputs], *(x.shape for x in both))
            yield both, s


@operator
class Fifo(Shape):
    """Lets a stream run ahead: its channel holds ``depth`` elements at least.

    Where paths part and join again, the faster one needs room for what the slower one keeps (a
    selector that waits for the rows it has routed).
    """

    shapes = "[D_a, ..., D_0] of any type -> the same"
    stops = "copied"
    forms: ClassVar[dict[str, tuple]] = {"carries": ELEMENT_KINDS}

    class Args(Arguments):
        depth: int = argument("elements that the channel holds")

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.choice(), depth=8)

    def check(self):
        self.positive("depth")
        if self.args.depth not in CHANNEL_DEPTHS:
            raise self.error(
                f"depth must be at most {CHANNEL_DEPTHS[-1]}, not {shown(self.args.depth)}"
            )

    def shape_rule(self):
        return [self.inputs[0].type]

    def lower_machine(self, low):
        element = self.inputs[0].element
        tiles = 1
        if isinstance(element, TileType):
            tiles = low.bounded(
                self,
                low.tiles_of(element),
                f"stream {self.inputs[0].name} carries {element}",
                "a channel is as deep as the physical tiles of its elements ask for",
            )
        return [
            replace(low.take(self, 0), depth=self.args.depth * tiles + 1)
        ]  # one for Done, which the other readers of the stream wait for too

    def lower_stepsim(self, low):
        return [replace(low.take(self, 0), depth=self.args.depth)]

    def evaluate(self, ev, stream):
        yield from stream


@operator
class Broadcast(Shape):
    """Copies a stream to ``n`` outputs.

    Lowering inserts it where a stream has several readers; a program need not.
    """

    shapes = "[D_a, ..., D_0] of any type -> the same, n times"
    stops = "copied"
    forms: ClassVar[dict[str, tuple]] = {"n": (1, 2, 3), "carries": ELEMENT_KINDS}

    class Args(Arguments):
        n: int = argument("outputs")

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), n=2)

    def check(self):
        self.positive("n")

    def shape_rule(self):
        return [self.inputs[0].type] * self.args.n

    def lower_machine(self, low):
        return low.broadcast(self, low.take(self, 0), self.args.n, "", self.inputs[0].element)

    def lower_stepsim(self, low):
        return low.broadcast(self, low.take(self, 0), self.args.n)

    def evaluate(self, ev, stream):
        for v, s in stream:
            yield from ((i, v, s) if self.args.n > 1 else (v, s) for i in range(self.args.n))
