"""Operators that change shapes only: Flatten, Reshape, Promote, Expand, Zip, Broadcast (paper table 7)."""

from __future__ import annotations

import numpy as np
import sympy

from .graph import Operator, operator
from .types import Dim, DimKind, ScalarType, StreamType, TileType, TupleType, cardinality, dim, same_size, show_shape


def _index(op: Operator, name: str, least: int, most: int) -> int:
    v = op.args[name]
    if isinstance(v, bool) or not isinstance(v, int) or not least <= v <= most:
        raise op.stream_error(0, f"{name} must be an integer from {least} to {most}, not {v!r}", rule="dimensions count from 0, innermost first")
    return v


class Shape(Operator):
    """A shape operator: the published on-chip rule counts nothing, traffic and FLOPs are zero."""


@operator
class Flatten(Shape):
    """Merges dimensions ``lo`` to ``hi`` into one."""

    arguments = {"lo": "innermost dimension merged", "hi": "outermost dimension merged"}

    def check(self):
        lo = _index(self, "lo", 0, self.inputs[0].rank)
        _index(self, "hi", lo, self.inputs[0].rank)

    def shape_rule(self):
        s, lo, hi = self.inputs[0].type, self.args["lo"], self.args["hi"]
        first, last = len(s.shape) - 1 - hi, len(s.shape) - lo
        merged = s.shape[first:last]
        return [StreamType(s.element, s.shape[:first] + (self.graph.derived(cardinality(merged), *merged),) + s.shape[last:])]

    def lower_machine(self, low):
        lo, hi = self.args["lo"], self.args["hi"]
        src, k = low.take(self, 0), low.inner(self, 0)
        return [src if lo == hi else low.chain(src, "flatten", self, {"lo": lo + k, "hi": hi + k})]

    def lower_published(self, low):
        return low.one(self, "flatten", {"lo": self.args["lo"], "hi": self.args["hi"]})

    def evaluate(self, ev, stream):
        lo, hi = self.args["lo"], self.args["hi"]
        return [[(v, s if s <= lo else lo if s <= hi else s - (hi - lo)) for v, s in stream]]


@operator
class Promote(Shape):
    """Inserts a dimension of size 1: outside all others, or inside dimension ``level``."""

    arguments = {"level": "dimensions that stay inside the new one (default: all)"}
    defaults = {"level": None}

    def check(self):
        if self.args["level"] is None:
            self.args["level"] = len(self.inputs[0].shape)
        _index(self, "level", 0, len(self.inputs[0].shape))

    @property
    def outermost(self) -> bool:
        return self.args["level"] == len(self.inputs[0].shape)

    def shape_rule(self):
        s = self.inputs[0].type
        cut = len(s.shape) - self.args["level"]
        outer = s.shape[0]
        new = dim(1) if not self.outermost or outer.value else Dim(sympy.Piecewise((1, outer.size >= 1), (0, True)), DimKind.DYNAMIC_REGULAR)
        return [StreamType(s.element, s.shape[:cut] + (new,) + s.shape[cut:])]

    def lower_machine(self, low):
        k, level = low.inner(self, 0), self.args["level"]
        if self.outermost and self.inputs[0].shape[0].value == 1:  # the outermost stop ends the stream: no look-ahead
            return [low.chain(low.take(self, 0), "promote", self, {"level": level - 1 + k, "outermost": False})]
        return [low.chain(low.take(self, 0), "promote", self, {"level": level + k, "outermost": self.outermost})]

    def lower_published(self, low):
        level = self.args["level"]
        if not self.outermost:
            return low.one(self, "promote", {"level": level})
        if self.inputs[0].shape[0].value == 1:
            return low.one(self, "promote", {"level": level - 1})
        if level > 1:
            raise low.error(self, f"a stream {self.inputs[0].type} has no new outermost dimension in the published simulator",
                            remedy="promote inside the outermost dimension")
        (port,) = low.one(self, "reshape", {"dim": 0, "chunk": 1, "pad": False, "add_outer": True})
        return [low.chain(port, "flatten", self, {"lo": 0, "hi": 1}, "flatten")]

    def evaluate(self, ev, stream):
        level = self.args["level"]
        out = [(v, s if s < level else s + 1) for v, s in stream]
        if self.outermost and out:
            out[-1] = (out[-1][0], level)
        return [out]


@operator
class Reshape(Shape):
    """Splits dimension ``dim`` into chunks; the innermost may be padded, which also gives a stream that marks the padding."""

    arguments = {"dim": "dimension split", "chunk": "size of a chunk",
                 "pad": "value of padding elements: 0 (default: no padding; the dimension must be divisible)"}
    defaults = {"pad": None}

    def check(self):
        d = _index(self, "dim", 0, self.inputs[0].rank)
        self.positive("chunk")
        size, chunk = self.split, self.args["chunk"]
        if self.args["pad"] is not None:
            if d:
                raise self.stream_error(0, f"dimension {d} cannot be padded", rule="only the innermost dimension is padded")
            if self.args["pad"] != 0:
                raise self.error(f"pad must be 0, not {self.args['pad']!r}", rule="padding elements have no valid rows; they read as zeros")
            return
        if chunk == 1:
            return
        if size.kind is not DimKind.STATIC_REGULAR:
            raise self.stream_error(0, f"dimension {d} is {size.kind.value}", rule="a dimension that is split without padding is static-regular",
                                    remedy="give pad=0" if d == 0 else "flatten it into the innermost dimension and give pad=0")
        if size.value % chunk:
            raise self.stream_error(0, f"dimension {d} is {size}, not a multiple of the chunk {chunk}",
                                    remedy="give pad=0" if d == 0 else "choose a chunk that divides it")

    @property
    def split(self) -> Dim:
        s = self.inputs[0].type
        return s.shape[s.rank - self.args["dim"]]

    def shape_rule(self):
        s, chunk = self.inputs[0].type, self.args["chunk"]
        at = s.rank - self.args["dim"]
        d = s.shape[at]
        outer = d if chunk == 1 else dim(-(-d.value // chunk)) if d.value is not None else self.graph.derived(sympy.ceiling(d.size / chunk), d)
        shape = s.shape[:at] + (outer, dim(chunk)) + s.shape[at + 1 :]
        data = StreamType(s.element, shape)
        return [data] if self.args["pad"] is None else [data, StreamType(ScalarType(1), shape)]

    def optional_output(self, port):
        return port == 1

    def lower_machine(self, low):
        k, pad = low.inner(self, 0), self.args["pad"] is not None
        if pad and self.graph.consumers(self[1]):
            raise low.error(self, "the padding stream has no unit yet", remedy="leave output 1 unread")
        rows, cols = low.grid(low.static_tile(self, 0)) if pad else (1, 1)
        out = low.chain(low.take(self, 0), "reshape", self,
                        {"dim": self.args["dim"] + k, "chunk": self.args["chunk"], "pad": pad, "pad_rows": rows, "pad_cols": cols})
        return [out] + [None] * pad

    def lower_published(self, low):
        pad = self.args["pad"] is not None
        if pad and self.graph.consumers(self[1]):
            raise low.error(self, "the padding stream has no unit yet", remedy="leave output 1 unread")
        return low.one(self, "reshape", {"dim": self.args["dim"], "chunk": self.args["chunk"], "pad": pad, "add_outer": False}) + [None] * pad

    def evaluate(self, ev, stream):
        d, chunk, data, padding = self.args["dim"], self.args["chunk"], [], []
        count = 0

        def emit(value, stop, padded):
            data.append((value, stop))
            padding.append((padded, stop))

        for i, (v, s) in enumerate(stream):
            if s < d:
                emit(v, s, False)
                continue
            count += 1
            last = i == len(stream) - 1
            ends = s > d or last and self.args["pad"] is not None  # the stream's end also ends dimension d
            if count == chunk:
                emit(v, s + 1, False)
                count = 0
            elif ends and self.args["pad"] is not None:
                emit(v, d, False)
                for j in range(chunk - count):
                    emit(np.zeros((0, 0), ev.dtype), s + 1 if j == chunk - count - 1 else d, True)
                count = 0
            else:
                emit(v, s, False)
                if s > d:
                    count = 0
        return [data] if self.args["pad"] is None else [data, padding]


@operator
class Expand(Shape):
    """Repeats each element ``count`` times: a new innermost dimension."""

    arguments = {"count": "copies of each element"}

    def check(self):
        self.positive("count")

    def shape_rule(self):
        s = self.inputs[0].type
        return [StreamType(s.element, s.shape + (dim(self.args["count"]),))]

    def onchip(self, rule):
        e = self.outputs[0].element
        return e.elements * 4 if rule == "published" and isinstance(e, TileType) else e.bytes

    def lower_machine(self, low):
        return [low.expand(self)]

    def lower_published(self, low):
        return low.one(self, "repeat", {"count": self.args["count"]})

    def evaluate(self, ev, stream):
        n = self.args["count"]
        return [[(v, s + 1 if i == n - 1 else 0) for v, s in stream for i in range(n)]]


@operator
class Zip(Shape):
    """Groups two streams of one shape into a stream of pairs."""

    streams = ("first", "second")
    arguments = {}

    def check(self):
        a, b = self.inputs
        if len(a.shape) != len(b.shape) or False in [same_size(x, y) for x, y in zip(a.shape, b.shape)]:
            raise self.stream_error(1, f"has shape {show_shape(b.shape)}, stream {a.name} has {show_shape(a.shape)}", rule="both inputs have one shape",
                                    remedy="reshape, expand or reload one of them")

    def shape_rule(self):
        a, b = self.inputs
        return [StreamType(TupleType((a.element, b.element)), a.shape)]

    def lower_machine(self, low):
        return [low.zip(self)]

    def lower_published(self, low):
        return low.one(self, "zip", {})

    def evaluate(self, ev, a, b):
        return [[((x, y), s) for (x, s), (y, _) in zip(a, b)]]


@operator
class Broadcast(Shape):
    """Copies a stream to ``n`` outputs. Lowering inserts it where a stream has several readers; a program need not."""

    arguments = {"n": "outputs"}

    def check(self):
        self.positive("n")

    def shape_rule(self):
        return [self.inputs[0].type] * self.args["n"]

    def lower_machine(self, low):
        return low.broadcast(self, low.take(self, 0), self.args["n"])

    def lower_published(self, low):
        return low.broadcast(self, low.take(self, 0), self.args["n"])

    def evaluate(self, ev, stream):
        return [stream] * self.args["n"]


__all__ = ["Flatten", "Reshape", "Promote", "Expand", "Zip", "Broadcast"]
