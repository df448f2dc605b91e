"""Products of logical tiles."""

from __future__ import annotations

import sympy

from ...machine.beat import Tile
from ..functions.tiles import Matmul
from ..graph import Operator
from ..types import dim
from .base import Port


class Products:
    """A part of MachineLowering: Map and Accum with matmul."""

    def matmul(self, node: Operator, fused: int) -> Port:
        """A product of logical tiles, summed over ``fused`` logical dimensions.

        Plain, the stream runs m, k, n (n innermost): tile (m, k) of A is repeated for all n, B is
        kept in a scratchpad and read once per m. Transposed it runs m, n, k: a row of A's tiles is
        kept and read once per n. The accumulator sums over k in between, and over the logical
        dimensions further out. Where M is known only at run time, a token for each row of A's
        physical tiles drives the reads of B; where N is, what is read of B drives the copies of A
        in turn. How many tiles there are along K is nobody's parameter.
        """
        fn: Matmul = node.args["fn"]
        self.apart(node, "matmul")
        a = self.tile(node, 0)
        b = self.tile(node, 1)
        for i, x in enumerate((a, b)):
            if x.dtype != self.m.dtype:
                raise self.error(
                    node,
                    f"stream {node.inputs[i].name} carries {x.dtype}, matmul units of machine "
                    f"{self.config.name} take {self.m.dtype}",
                    remedy=f"put cast(stream, {self.m.dtype!r}) in front",
                )
        m = self.grid(a)[0]
        n = self.grid(b)[0 if fn.transposed else 1]
        row, cols = (
            self.places(d, self.t) for d in fn.sizes(a, b)[1:]
        )  # physical tiles along K and N
        port_a = self.take(node, 0)
        port_b = self.take(node, 1)
        rows = None
        if m is None:
            port_a, token = self.broadcast(node, port_a, 2, "a_fork")
            rows = self.chain(token, "signal", node, {"level": 1}, "a_rows", self.token)
            if (
                not fn.transposed
            ):  # a row's token comes with its last tile: the others wait in the channel
                port_a = port_a.deeper(self.waiting(node, row) + self.depth)

        def read() -> Port:
            return self.scratchpad(
                node,
                port_b,
                2,
                m,
                cols * row,
                "b_buffer",
                f"operand B {{{b.rows}, {b.cols}}}",
                ref=rows,
                level=1,
            )

        what = f"a row of operand A {{{a.rows}, {a.cols}}}"
        if n is not None:
            port_a = (
                self.scratchpad(node, port_a, 1, n, row, "a_buffer", what)
                if fn.transposed
                else self.chain(port_a, "repeat", node, {"count": n}, "a_repeat")
            )
            port_a = self.paced(node, port_a)
            port_b = read()
        else:
            port_b, token = self.broadcast(node, read(), 2, "b_fork")
            if fn.transposed:  # likewise a token for each of B's rows
                port_b = port_b.deeper(self.waiting(node, row) + self.depth)
                port_a = self.scratchpad(
                    node,
                    port_a,
                    1,
                    None,
                    row,
                    "a_buffer",
                    what,
                    ref=self.chain(token, "signal", node, {"level": 1}, "b_rows", self.token),
                    level=1,
                )
            else:
                port_b = port_b.deeper(
                    2 + self.depth
                )  # a token and a copy are on the way meanwhile
                unit = self.unit("expand", node, {"level": 1, "scratchpad": None}, "a_repeat")
                self.connect(
                    self.chain(
                        port_a, "promote", node, {"level": 0, "outermost": False}, "a_place"
                    ),
                    unit,
                    0,
                )
                self.connect(
                    self.chain(token, "signal", node, {"level": 0}, "b_tiles", self.token), unit, 1
                )
                port_a = Port(unit, 0, port_a.payload)
            port_a = self.paced(node, port_a)
        out = Tile(self.t, "fp32")
        product = self.spread(
            node,
            "matmul",
            {"rows_per_cycle": self.m.rows_per_cycle, "transposed": fn.transposed},
            [port_a, port_b],
            out,
            "matmul",
        )
        reduce = [0 if fn.transposed else 1, *range(3, 3 + fused)]
        tiles = (
            self.most_tiles(node.outputs[0].element)
            if fused
            else 1
            if fn.transposed
            else self.graph.most(dim(cols))
        )
        return self.accum(node, product, reduce, tiles, node.outputs[0].element, "accum")

    def waiting(self, node: Operator, tiles: sympy.Expr | int) -> int:
        """Physical tiles of a row that wait in a channel until its last has passed; refused where
        their number has no bound.
        """
        return self.bounded(
            node,
            tiles,
            f"multiplies {node.operands()[0]} by {node.operands()[1]}",
            "a channel is as deep as the physical tiles along K that wait in it",
        )


__all__ = ["Products"]
