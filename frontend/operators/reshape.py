"""Reshape: a dimension in chunks (paper table 7)."""

from __future__ import annotations

import itertools
from typing import ClassVar

import sympy

from ..arguments import Arguments, argument
from ..graph import Operator, operator
from ..types import (
    NUMBER,
    TILES,
    TUPLE,
    BufferType,
    Dim,
    DimKind,
    ScalarType,
    SelectorType,
    StreamType,
    TileType,
    dim,
)


def dimension_index(op: Operator, name: str, least: int, most: int) -> int:
    v = getattr(op.args, name)
    if isinstance(v, bool) or not isinstance(v, int) or not least <= v <= most:
        raise op.stream_error(
            0,
            f"{name} must be an integer from {least} to {most}, not {v!r}",
            rule="dimensions count from 0, innermost first",
        )
    return v


class Shape(Operator):
    """A shape operator: the published on-chip rule counts nothing, traffic and FLOPs are zero."""


@operator
class Reshape(Shape):
    """Splits dimension ``dim`` into chunks; the innermost may be padded, which also gives a stream
    that marks the padding.
    """

    shapes = (
        "[D_a, ..., D_0] of A (not buffers) -> data [D_a, ..., ceil(D_dim / chunk), chunk, ..., "
        "D_0], and with pad the padding stream of the same shape, scalars of one bit (1: padding)"
    )
    stops = (
        "below dim: copied; the chunk-th element's stop s becomes s + 1; with padding the end of "
        "the dimension comes with the last padding element"
    )
    limits = (
        "without pad the dimension is static and chunk divides it; with pad it is dimension 0",
        "what fills up is an empty tile, 0, or a selector without a target",
        "no pairs are filled up, and no tiles of run-time size: an empty one is an empty group",
        "in the timing `stepsim` tiles only, and nothing may read the padding stream, which it "
        "does not have",
    )
    forms: ClassVar[dict[str, tuple]] = {
        "dim": (0, 1, 2),
        "chunk": (1, 2),
        "carries": (*TILES, NUMBER, TUPLE),
        "padding": ("none", "tile", "selector", "scalar"),
        "marked": (False, True),
    }

    class Args(Arguments):
        dim: int = argument("dimension split")
        chunk: int = argument("size of a chunk")
        pad: int | None = argument(
            "value of padding elements: 0, a tile without valid rows, or a selector without a "
            "target (default: no padding; the dimension must be divisible)",
            None,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.ragged(), dim=0, chunk=4, pad=0)

    @property
    def padding(self) -> str:
        """Kind of element that fills chunks up, or none."""
        if self.args.pad is None:
            return "none"
        e = self.inputs[0].element
        return (
            "tile"
            if isinstance(e, TileType)
            else "selector"
            if isinstance(e, SelectorType)
            else "scalar"
        )

    @property
    def marked(self) -> bool | None:
        """True if something reads where the padding is; None without padding."""
        return bool(self.graph.consumers(self[1])) if self.args.pad is not None else None

    def check(self):
        d = dimension_index(self, "dim", 0, self.inputs[0].rank)
        self.positive("chunk")
        size = self.split
        chunk = self.args.chunk
        if isinstance(self.inputs[0].element, BufferType):
            raise self.stream_error(
                0,
                f"carries {self.inputs[0].element}",
                rule="Reshape takes no buffers",
                remedy="put Streamify in front",
            )
        if self.args.pad is not None:
            e = self.inputs[0].element
            if not isinstance(e, (TileType, ScalarType, SelectorType)) or (
                isinstance(e, TileType) and not e.static
            ):
                raise self.stream_error(
                    0,
                    f"carries {e}",
                    rule="padding elements are tiles of static size, scalars or selectors",
                )
            if d:
                raise self.stream_error(
                    0,
                    f"dimension {d} cannot be padded",
                    rule="only the innermost dimension is padded",
                )
            if self.args.pad != 0:
                raise self.error(
                    f"pad must be 0, not {self.args.pad!r}",
                    rule="padding elements have no valid rows; they read as zeros",
                )
            return
        if chunk == 1:
            return
        if size.kind is not DimKind.STATIC_REGULAR:
            raise self.stream_error(
                0,
                f"dimension {d} is {size.kind.value}",
                rule="a dimension that is split without padding is static-regular",
                remedy="give pad=0"
                if d == 0
                else "flatten it into the innermost dimension and give pad=0",
            )
        if size.number % chunk:
            raise self.stream_error(
                0,
                f"dimension {d} is {size}, not a multiple of the chunk {chunk}",
                remedy="give pad=0" if d == 0 else "choose a chunk that divides it",
            )

    @property
    def split(self) -> Dim:
        s = self.inputs[0].type
        return s.shape[s.rank - self.args.dim]

    def shape_rule(self):
        s = self.inputs[0].type
        chunk = self.args.chunk
        at = s.rank - self.args.dim
        d = s.shape[at]
        outer = (
            d
            if chunk == 1
            else dim(-(-d.value // chunk))
            if d.value is not None
            else self.graph.derived(sympy.ceiling(d.size / chunk), d)
        )
        shape = (*s.shape[:at], outer, dim(chunk), *s.shape[at + 1 :])
        data = StreamType(s.element, shape)
        return [data] if self.args.pad is None else [data, StreamType(ScalarType(1), shape)]

    def optional_output(self, port):
        return port == 1

    def lower_machine(self, low):
        return low.reshape(self)

    def lower_stepsim(self, low):
        pad = self.args.pad is not None
        if pad and self.graph.consumers(self[1]):
            raise low.error(
                self,
                "the padding stream has no unit in the published simulator",
                remedy="leave output 1 unread",
            )
        if pad and not isinstance(self.inputs[0].element, TileType):
            raise low.error(
                self,
                f"padding of {self.inputs[0].element} has no form in the published simulator",
                rule="it pads with tiles",
            )
        return (
            low.one(
                self, "reshape", dim=self.args.dim, chunk=self.args.chunk, pad=pad, add_outer=False
            )
            + [None] * pad
        )

    def evaluate(self, ev, stream):
        d = self.args.dim
        chunk = self.args.chunk
        pad = self.args.pad is not None
        padding = ev.padding(self.inputs[0].element) if pad else None
        count = 0

        def emit(value, stop, padded=False):
            return (
                [(0, value, stop), (1, None if value is None else int(padded), stop)]
                if pad
                else [(value, stop)]
            )

        def fill(stop):
            missing = chunk - count
            return itertools.chain.from_iterable(
                emit(padding, stop if j == missing - 1 else d, True) for j in range(missing)
            )

        last = ev.START
        for v, s in stream:
            element = d and v is None and (s == d or last == d < s)
            if element and chunk == 1:
                raise self.alone()
            last = s
            if s < d:
                yield from emit(v, s)
            elif v is None and s > d:
                yield from emit(None, s + 1)
                count = 0
            else:
                count += 1
                if count == chunk:
                    yield from emit(v, s + 1)
                    count = 0
                elif s > d and pad:
                    yield from emit(v, d)
                    yield from fill(s + 1)
                    count = 0
                else:
                    yield from emit(v, s)
        if count and pad:
            yield from fill(d + 1)
