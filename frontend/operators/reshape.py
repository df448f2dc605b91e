"""Reshape: a dimension in chunks (paper table 7)."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import sympy

from ..arguments import Arguments, argument
from ..functions.tiles import is_fp32
from ..graph import Operator, operator
from ..types import (
    NUMBER,
    TILES,
    TUPLE,
    BufferType,
    Dim,
    DimKind,
    ElementType,
    ScalarType,
    SelectorType,
    StreamType,
    TileType,
    TupleType,
    by_member,
    dim,
    empty_tile,
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
        "tiles of run-time size are filled up with empty ones (pad 0), two at least in a chunk: "
        "an empty one alone has no form",
        "no buffers: the paper's Reshape takes other types",
        "in the timing `stepsim` tiles only, and nothing may read the padding stream, which it "
        "does not have",
    )
    forms: ClassVar[dict[str, tuple]] = {
        "dim": (0, 1, 2),
        "chunk": (1, 2),
        "carries": (*TILES, NUMBER, TUPLE),
        "padding": ("none", "tile", "selector", "scalar", "tuple"),
        "marked": (False, True),
    }

    class Args(Arguments):
        dim: int = argument("dimension split")
        chunk: int = argument("size of a chunk")
        pad: float | tuple | None = argument(
            "padding elements: of tiles 0, one without valid rows, or a number, that of all its "
            "elements; a scalar; of selectors 0 or a list of targets; of tuples 0 or a list for "
            "the members (default: no padding; the dimension must be divisible)",
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
            else "tuple"
            if isinstance(e, TupleType)
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
            self.check_pad(self.inputs[0].element, self.args.pad)
            if d:
                raise self.stream_error(
                    0,
                    f"dimension {d} cannot be padded",
                    rule="only the innermost dimension is padded",
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

    def check_pad(self, element: ElementType, pad) -> None:
        """Check that a pad is one of an element type."""
        listed = isinstance(pad, (tuple, list))
        if isinstance(element, TupleType):
            members = element.members
            pads = by_member(pad, element)
            if len(pads) != len(members) or (not listed and pad != 0):
                raise self.error(f"pad must be 0 or a list of {len(members)}, not {pad!r}")
            for m, x in zip(members, pads, strict=True):
                self.check_pad(m, x)
            return
        number = is_fp32(pad, infinite=True) or pad != pad
        suits = (
            number and (element.static or pad == 0)
            if isinstance(element, TileType)
            else (pad == 0 and type(pad) is int)
            or (
                listed and len(set(pad)) == len(pad) and set(pad) <= set(range(min(element.n, 128)))
            )
            if isinstance(element, SelectorType)
            else isinstance(element, ScalarType)
            and type(pad) is int
            and pad in range(1 << element.bits)
        )
        if not suits:
            raise self.error(
                f"pad must be an element of {element}, not {pad!r}",
                rule="tiles are filled up with a number (those of run-time size with 0, an empty "
                "one), scalars with a scalar, selectors with 0 or a list of "
                "different targets below 128",
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
        if pad and (not isinstance(self.inputs[0].element, TileType) or self.args.pad != 0):
            raise low.error(
                self,
                f"padding {self.inputs[0].element} with {self.args.pad!r} has no form in the "
                "published simulator",
                rule="it pads with tiles without valid rows",
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
        padding = ev.padding(self.inputs[0].element, self.args.pad) if pad else None
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
            alone = isinstance(v, np.ndarray) and empty_tile(v.shape, self.inputs[0].type.tile)
            if (element or (alone and not d)) and chunk == 1:
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
