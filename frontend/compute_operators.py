"""Higher-order operators: Map and Accum (paper table 5)."""

from __future__ import annotations

import sympy

from penstock.machine.errors import ProgramError

from .functions import Elementwise, Matmul, as_function
from .graph import Operator, operator
from .types import StreamType, TupleType, same_size, show_shape


class HigherOrder(Operator):
    """What Map and Accum share: a function over one stream, two streams of one shape, or one stream of tuples."""

    streams = ("*",)
    higher_order = True

    def operands(self) -> tuple:
        """Element types that the function sees."""
        if len(self.inputs) == 1 and isinstance(self.inputs[0].element, TupleType):
            return self.inputs[0].element.members
        return tuple(s.element for s in self.inputs)

    def check_function(self, arity: int) -> None:
        fn = self.args["fn"] = as_function(self.args["fn"])
        operands = self.operands()
        if not self.inputs:
            raise self.error("has no input stream", remedy="pass a stream, or a pair of streams")
        if len(operands) != arity:
            raise self.error(f"{fn.name} takes {arity} operands here, not {len(operands)}",
                             remedy="pass one stream per operand" if len(operands) < arity else "pass fewer streams")
        if len(self.inputs) == 2:
            a, b = self.inputs
            if len(a.shape) != len(b.shape) or False in [same_size(x, y) for x, y in zip(a.shape, b.shape)]:
                raise self.stream_error(1, f"has shape {show_shape(b.shape)}, stream {a.name} has {show_shape(a.shape)}",
                                        rule="both inputs have one shape",
                                        remedy="reshape, expand or reload one of them")
        try:
            self.result = fn.result(*(operands if arity == len(operands) else operands * 2))
        except ProgramError as e:
            raise self.error(e.what, stream="streams " + ", ".join(f"{s.name} {s.type}" for s in self.inputs), rule=e.rule, remedy=e.remedy) from None
        if self.args["interval"] is not None:
            self.positive("interval")
            if self.args["interval"] < 16:
                raise self.error(f"interval must be at least 16 sixteenths of a cycle, not {self.args['interval']}", rule="a unit takes at most one tile a cycle")
        for name in ("units", "compute_bw"):
            if self.args[name] is not None:
                self.positive(name)

    def _matmul_paper(self) -> sympy.Expr:
        a, b = self.operands()
        bytes_ = a.bytes / a.elements
        return 16 * a.cols.size * bytes_ + b.bytes


@operator
class Map(HigherOrder):
    """Applies a function to every element, or to pairs of elements of two streams; the shape stays."""

    arguments = {"fn": "function: matmul(), or an element-wise function",
                 "units": "hardware units that share the work (default: the configuration's)",
                 "compute_bw": "FLOP per cycle in the timing `published` (default: the configuration's)",
                 "write_back": "whether the result is put into a memory unit (timing `published`)",
                 "interval": "least sixteenths of a cycle from one physical tile (of the first operand, as often as it is used) to the next (default: the unit's own interval)"}
    defaults = {"units": None, "compute_bw": None, "write_back": False, "interval": None}

    def check(self):
        self.check_function(as_function(self.args["fn"]).arity)

    def shape_rule(self):
        return [StreamType(self.result, self.inputs[0].shape)]

    def flops(self):
        return self.inputs[0].type.count * self.args["fn"].flops(*self.operands())

    def onchip(self, rule):
        return self._matmul_paper() if rule == "paper" and isinstance(self.args["fn"], Matmul) else sympy.Integer(0)

    def lower_machine(self, low):
        fn = self.args["fn"]
        return [low.matmul(self, fused=0) if isinstance(fn, Matmul) else low.elementwise(self, fn)]

    def lower_published(self, low):
        return low.map(self)

    def evaluate(self, ev, *streams):
        fn, paired = self.args["fn"], len(streams) == 2
        out = []
        for element in zip(*streams):
            values = [v for v, _ in element] if paired else [element[0][0]]
            if not paired and isinstance(self.inputs[0].element, TupleType):
                values = list(values[0])
            if isinstance(fn, Matmul):
                value = ev.matmul(None, values[0], values[1], self.operands()[0], fn.transposed)
            else:
                value = ev.elementwise(fn.name, *values)
            out.append((value, element[0][1]))
        return [out]


@operator
class Accum(HigherOrder):
    """Reduces the inner ``rank`` dimensions: a sum of elements, or of products of two streams' elements (matmul)."""

    arguments = {"fn": "add(), or matmul() over two streams: products are summed", "rank": "inner dimensions reduced", **Map.arguments}
    defaults = Map.defaults

    def check(self):
        fn = self.args["fn"] = as_function(self.args["fn"])
        if not isinstance(fn, Matmul) and fn != Elementwise("add"):
            raise self.error(f"cannot reduce with {fn.name}", remedy="reduce with add() or matmul()")
        if isinstance(fn, Matmul) and len(self.inputs) == 1 and isinstance(self.inputs[0].element, TupleType):
            raise self.stream_error(0, "matmul takes two streams", remedy="pass the two streams, not their Zip")
        self.check_function(2 if isinstance(fn, Matmul) else 1)
        s, b = self.inputs[0].type, self.args["rank"]
        if isinstance(b, bool) or not isinstance(b, int) or not 1 <= b <= s.rank:
            raise self.stream_error(0, f"rank must be an integer from 1 to the stream's rank {s.rank}, not {b!r}")

    def shape_rule(self):
        s = self.inputs[0].type
        return [StreamType(self.result, s.shape[: len(s.shape) - self.args["rank"]])]

    def flops(self):
        operands = self.operands()
        return self.inputs[0].type.count * self.args["fn"].flops(*(operands if len(operands) == 2 else operands * 2))

    def onchip(self, rule):
        if rule == "published":
            return self.result.elements * 4
        if isinstance(self.args["fn"], Matmul):
            return self._matmul_paper() + self.result.bytes
        return self.result.bytes

    def lower_machine(self, low):
        rank = self.args["rank"]
        if isinstance(self.args["fn"], Matmul):
            return [low.matmul(self, fused=rank)]
        tile = low.static_tile(self, 0)
        depth = low.grid(tile)[0] * low.grid(tile)[1]
        return [low.accum(self, low.take(self, 0), reduce=range(2, 2 + rank), tiles=depth, out=self.result)]

    def lower_published(self, low):
        return low.accum(self)

    def evaluate(self, ev, *streams):
        b, out, acc = self.args["rank"], [], None
        for element in zip(*streams):
            stop = element[0][1]
            if isinstance(self.args["fn"], Matmul):
                acc = ev.matmul(acc, element[0][0], element[1][0], self.operands()[0], self.args["fn"].transposed)
            else:
                acc = element[0][0] if acc is None else ev.elementwise("add", acc, element[0][0])
            if stop >= b:
                out.append((acc, stop - b))
                acc = None
        return [out]


def cast(stream, dtype: str):
    """The stream with elements of ``dtype``: a Map of a cast function, or the stream itself where they are so already."""
    from .graph import as_stream
    from .types import TileType, check_dtype

    s = as_stream(stream)
    check_dtype(dtype)
    if isinstance(s.element, TileType) and s.element.dtype == dtype:
        return s
    return Map(s, fn=f"cast_{dtype}", name=f"{s.node.name}_{dtype}").stream


__all__ = ["Map", "Accum", "cast"]
