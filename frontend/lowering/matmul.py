"""Products of logical tiles."""

from __future__ import annotations

from penstock.machine.beat import Tile

from ..functions import Matmul
from ..graph import Operator
from .base import Port


class Products:
    """A part of MachineLowering: Map and Accum with matmul."""

    def matmul(self, node: Operator, fused: int) -> Port:
        """A product of logical tiles, summed over ``fused`` logical dimensions.

        Plain, the stream runs m, k, n (n innermost): tile (m, k) of A is repeated for all n, B is kept in a scratchpad and read once
        per m. Transposed it runs m, n, k: a row of A's tiles is kept and read once per n. The accumulator sums over k in
        between, and over the logical dimensions further out. Where A's rows are known only at run time, a token for each row of its
        physical tiles drives the reads of B.
        """
        fn: Matmul = node.args["fn"]
        self.apart(node, "matmul")
        a, b = self.tile(node, 0), self.static_tile(node, 1)
        for i, x in enumerate((a, b)):
            if x.dtype != self.m.dtype:
                raise self.error(node, f"stream {node.inputs[i].name} carries {x.dtype}, matmul units of machine {self.config.name} take {self.m.dtype}",
                                 remedy=f"put cast(stream, {self.m.dtype!r}) in front")
        if a.cols.value is None:
            raise self.error(node, f"stream {node.inputs[0].name} carries {a}", rule="of operand A only the rows may be of run-time size")
        m, k = self.grid(a)
        n = self.grid(b)[0 if fn.transposed else 1]
        port_a, port_b = self.take(node, 0), self.take(node, 1)
        rows = None
        if m is None:
            port_a, token = self.broadcast(node, port_a, 2, "a_fork")
            rows = self.chain(token, "signal", node, {"level": 1}, "a_rows", self.token)
        if fn.transposed:
            port_a = self.scratchpad(node, port_a, 1, n, k, "a_buffer", f"a row of operand A {{{a.rows}, {a.cols}}}")
        else:
            if rows is not None:  # a row's token comes with its last tile: the others wait in the channel
                port_a = port_a.deeper(k + self.depth)
            port_a = self.chain(port_a, "repeat", node, {"count": n}, "a_repeat")
        port_a = self.paced(node, port_a)
        port_b = self.scratchpad(node, port_b, 2, m, n * k, "b_buffer", f"operand B {{{b.rows}, {b.cols}}}", ref=rows, level=1)
        out = Tile(self.t, "fp32")
        product = self.spread(node, "matmul", {"rows_per_cycle": self.m.rows_per_cycle, "transposed": fn.transposed}, [port_a, port_b], out, "matmul")
        reduce = [0 if fn.transposed else 1, *range(3, 3 + fused)]
        tiles = self.most_tiles(node.outputs[0].element) if fused else 1 if fn.transposed else n
        return self.accum(node, product, reduce, tiles, node.outputs[0].element, "accum")


__all__ = ["Products"]
