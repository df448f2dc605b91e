"""Operators at which streams enter, leave and go round: Source, Sink and Loop."""

from __future__ import annotations

from typing import ClassVar

from ...machine.errors import ProgramError
from ...machine.kinds import ends
from ..arguments import Arguments, argument
from ..graph import Operator, Stream, as_stream, operator
from ..types import (
    NUMBER,
    TILES,
    Dim,
    ScalarType,
    SelectorType,
    StreamType,
    TileType,
    check_dtype,
    dim,
    same_element,
    same_shape,
)


@operator
class Source(Operator):
    """A stream from outside the fabric: of tiles, selectors or scalars; the run is given its
    elements.
    """

    shapes = "nothing -> shape of tiles, selectors or scalars"
    stops = "as the nested lists say"
    streams = ()
    forms: ClassVar[dict[str, tuple]] = {"carries": (*TILES, NUMBER)}

    class Args(Arguments):
        shape: tuple[Dim, ...] = argument("stream shape, outermost first")
        tile: tuple[Dim, ...] | None = argument("[rows, cols] of a tile in elements", None)
        dtype: str = argument("element type of the tile", "fp32")
        selector: int | None = argument("or: targets of a selector", None)
        scalar: int | None = argument("or: bits of a scalar", None)

    args: Args

    @classmethod
    def example(cls, given):
        return cls(graph=given.graph, shape=(given.n,), selector=4)

    def check(self):
        kinds = [n for n in ("tile", "selector", "scalar") if getattr(self.args, n) is not None]
        if len(kinds) != 1:
            raise self.error(
                f"has {' and '.join(kinds) or 'none of tile, selector and scalar'}",
                rule="a source streams one kind of element",
                remedy="give one of tile, selector, scalar",
            )
        for name in ("shape", "tile"):
            if name in ("shape", *kinds):
                sizes = getattr(self.args, name)
                if not isinstance(sizes, (tuple, list)) or not sizes:
                    raise self.error(f"{name} must be a list of sizes, not {sizes!r}")
                setattr(self.args, name, tuple(dim(d) for d in sizes))
        if (tile := self.args.tile) is not None:
            if len(tile) != 2:
                raise self.error(f"tile must be [rows, cols], not {len(tile)} sizes")
            check_dtype(self.args.dtype)
        else:
            self.positive(*kinds)

    def shape_rule(self):
        args = self.args
        if args.tile is not None:
            rows, cols = args.tile
            element = TileType(rows, cols, args.dtype)
        elif args.selector is not None:
            element = SelectorType(args.selector)
        else:
            element = ScalarType(args.scalar or 0)
        return [StreamType(element, args.shape)]

    def lower_machine(self, low):
        return [
            low.port(low.unit(self, ends.Source()), 0, low.payload(self.outputs[0].element, self))
        ]

    def lower_stepsim(self, low):
        return low.source(self)

    def evaluate(self, ev):
        yield from ev.source(self)


@operator
class Sink(Operator):
    """A stream to outside the fabric; the run gives its elements."""

    shapes = "[D_a, ..., D_0] of any type -> nothing"
    stops = "taken"

    @classmethod
    def example(cls, given):
        return cls(given.x())

    def shape_rule(self):
        return []

    def lower_machine(self, low):
        low.drop(self, low.take(self, 0), self.inputs[0].element)
        return []

    def lower_stepsim(self, low):
        low.feed(self, 0, low.unit(self, low.kind("sink")), 0)
        return []

    def evaluate(self, ev, stream):
        ev.sinks[self.name] = list(stream)
        return iter(())


@operator
class Loop(Operator):
    """A stream that a later operator closes: feedback.

    It has the type it is given; ``close`` says where it comes from.

    What is fed back must not wait for itself. So a loop needs an operator that takes first elements
    from elsewhere: a Reassemble or an EagerMerge with an input outside the loop.
    """

    shapes = "the stream that close() is given, of the type -> that type"
    stops = "copied"
    streams = ()

    class Args(Arguments):
        type: StreamType = argument("StreamType of the stream")

    args: Args

    @classmethod
    def example(cls, given):
        loop = cls(StreamType(ScalarType(32), (given.n,)), graph=given.graph)
        loop.close(given.number())
        return loop

    def check(self):
        if not isinstance(self.args.type, StreamType):
            raise self.error(
                f"type must be a StreamType, not {self.args.type!r}",
                remedy=(
                    "pass StreamType(SelectorType(4), (dim(16),)), or the type of a stream like it"
                ),
            )

    def shape_rule(self):
        if self.inputs:
            self.check_end(self.inputs[0])
        return [self.args.type]

    def check_end(self, s: Stream) -> None:
        want = self.args.type
        if not same_shape(s.shape, want.shape) or not same_element(s.element, want.element):
            raise self.error(
                f"is closed with a stream {s.type}, its own is {want}",
                stream=f"stream {s.name}",
                rule="a loop gives back what it takes",
            )

    def close(self, stream) -> Stream:
        """Feed the loop with a stream, and return the stream that the loop gives."""
        if self.inputs:
            raise self.error(f"is closed already, with stream {self.inputs[0].name}")
        s = as_stream(stream)
        if s.graph is not self.graph:
            raise self.error("joins streams of two graphs", remedy="build one program in one Graph")
        self.check_end(s)
        self.inputs = [s]
        self.graph.reads(self, 0, s)
        return self.stream

    def check_complete(self):
        if not self.inputs:
            raise ProgramError(
                "is open",
                f"{self.label} at {self.line}",
                "a loop is closed with the stream that feeds it",
                "call close(stream)",
            )

    def lower_machine(self, low):
        return [low.loop(self)]

    def lower_stepsim(self, low):
        return low.loop(self)

    def evaluate(self, ev, stream):
        yield from stream
