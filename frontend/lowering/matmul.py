"""Products of logical tiles."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from ...machine.beat import Tile
from ...machine.kinds.compute import Matmul as MatmulUnit
from ...machine.kinds.copies import Expand, Repeat
from ...machine.kinds.numbers import Signal
from ...machine.kinds.shape import Promote
from ..functions.tiles import Matmul
from ..operators.higher_order import Datapath
from ..types import TileType, dim, tiles_along
from .base import Port
from .buffers import Buffers


@dataclass(frozen=True)
class Product:
    """A product of logical tiles, A times B, in physical tiles."""

    node: Datapath
    fn: Matmul
    a: TileType
    b: TileType
    # m, n: physical tiles along M and N; None where only the run knows
    m: int | None
    n: int | None
    # row, cols: the same along K and N as sizes, which may have symbols
    row: sympy.Expr | int
    cols: sympy.Expr | int

    @property
    def row_of_a(self) -> str:
        return f"a row of operand A {{{self.a.rows}, {self.a.cols}}}"


class Products(Buffers):
    """A part of MachineLowering: Map and Accum with matmul."""

    def matmul(self, node: Datapath, fn: Matmul, fused: int) -> Port:
        """A product of logical tiles, summed over ``fused`` logical dimensions.

        Plain, the stream runs m, k, n (n innermost): tile (m, k) of A is repeated for all n, B is
        kept in a scratchpad and read once per m. Transposed it runs m, n, k: a row of A's tiles is
        kept and read once per n. The accumulator sums over k in between, and over the logical
        dimensions further out. Where M is known only at run time, a token for each row of A's
        physical tiles drives the reads of B; where N is, what is read of B drives the copies of A
        in turn. How many tiles there are along K is nobody's parameter.
        """
        product = self.product(node, fn)
        port_a, rows = self.rows_of_a(product)
        if product.n is None:
            port_a, port_b = self.copies_by_tokens(product, port_a, rows)
        else:
            port_a = self.copies(product, product.n, port_a)
            port_b = self.reads_of_b(product, rows)
        out = self.shared(
            node,
            MatmulUnit(rows_per_cycle=self.m.rows_per_cycle, transposed=product.fn.transposed),
            [port_a, port_b],
            Tile(self.t, "fp32"),
            "matmul",
        )
        reduce = [0 if product.fn.transposed else 1, *range(3, 3 + fused)]
        result = node.outputs[0].tile
        return self.accum(node, out, reduce, self.partial(product, fused), result, "accum")

    def product(self, node: Datapath, fn: Matmul) -> Product:
        """The sizes of a product; refused where matmul units do not take its operands."""
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
        row, cols = (tiles_along(d, self.t) for d in fn.sizes(a, b)[1:])
        return Product(node, fn, a, b, m, n, row, cols)

    def rows_of_a(self, product: Product) -> tuple[Port, Port | None]:
        """Operand A, and a token for each row of its physical tiles where M is of run-time size."""
        port = self.take(product.node, 0)
        if product.m is not None:
            return port, None
        port, token = self.broadcast(product.node, port, 2, "a_fork")
        rows = self.chain(token, product.node, Signal(level=1), "a_rows", self.token)
        if not product.fn.transposed:
            # a row's token comes with its last tile: the others wait in the channel
            port = port.deeper(self.waiting(product) + self.depth)
        return port, rows

    def reads_of_b(self, product: Product, rows: Port | None) -> Port:
        """Operand B, once for each row of A's physical tiles."""
        b = product.b
        return self.scratchpad(
            product.node,
            self.take(product.node, 1),
            2,
            product.m,
            product.cols * product.row,
            "b_buffer",
            f"operand B {{{b.rows}, {b.cols}}}",
            ref=rows,
            level=1,
        )

    def copies(self, product: Product, n: int, port: Port) -> Port:
        """Operand A as often as there are physical tiles along N, a static number."""
        if product.fn.transposed:
            what = product.row_of_a
            port = self.scratchpad(product.node, port, 1, n, product.row, "a_buffer", what)
        else:
            port = self.chain(port, product.node, Repeat(count=n), "a_repeat")
        return port

    def copies_by_tokens(
        self, product: Product, port_a: Port, rows: Port | None
    ) -> tuple[Port, Port]:
        """Both operands, where N is of run-time size: what is read of B drives the copies of A."""
        node = product.node
        port_b, token = self.broadcast(node, self.reads_of_b(product, rows), 2, "b_fork")
        if product.fn.transposed:
            # likewise a token for each of B's rows
            port_b = port_b.deeper(self.waiting(product) + self.depth)
            port_a = self.scratchpad(
                node,
                port_a,
                1,
                None,
                product.row,
                "a_buffer",
                product.row_of_a,
                ref=self.chain(token, node, Signal(level=1), "b_rows", self.token),
                level=1,
            )
        else:
            # a token and a copy are on the way meanwhile
            port_b = port_b.deeper(2 + self.depth)
            unit = self.unit(node, Expand(level=1, scratchpad=None), "a_repeat")
            place = Promote(level=0, outermost=False)
            self.connect(self.chain(port_a, node, place, "a_place"), unit, 0)
            self.connect(self.chain(token, node, Signal(level=0), "b_tiles", self.token), unit, 1)
            port_a = Port(unit, 0, port_a.payload)
        return port_a, port_b

    def partial(self, product: Product, fused: int) -> int | None:
        """Partial results at a time, at most; None where they have no bound."""
        if fused:
            return self.most_tiles(product.node.outputs[0].tile)
        return 1 if product.fn.transposed else self.graph.most(dim(product.cols))

    def waiting(self, product: Product) -> int:
        """Physical tiles of a row that wait in a channel until its last has passed; refused where
        their number has no bound.
        """
        return self.bounded(
            product.node,
            product.row,
            f"multiplies {product.a} by {product.b}",
            "a channel is as deep as the physical tiles along K that wait in it",
        )
