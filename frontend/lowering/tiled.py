"""Base of lowering to physical tiles: sizes in tiles, payloads, addresses of tensors, and the units
that several operators use.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import sympy

from ...machine.beat import LINE_BYTES, MAX_STOP, BufferRef, Payload, Scalar, Selector, Tile, Tuple
from ...machine.config import Config
from ...machine.errors import LoweringError
from ...machine.functions import fp32_bits
from ...machine.kinds import Kind
from ...machine.kinds.accum import Accum
from ...machine.kinds.copies import Broadcast, Merge, Split
from ...machine.kinds.numbers import Signal
from ...machine.limits import ADDRESS_BITS, ADDRESSES
from ...machine.unitgraph import Tensor
from ..graph import Graph, Operator, Stream, TensorRef
from ..operators.higher_order import Datapath
from ..types import (
    BufferType,
    ElementType,
    ScalarType,
    SelectorType,
    TileType,
    TupleType,
    ceil_div,
    dim,
    element_bytes,
    tiles_along,
)
from .base import Lowering, Port, inner_dims


class TiledLowering(Lowering):
    """Physical tiles and the unit kinds of machine/kinds/.

    Attributes
    ----------
    m
        The configuration's machine.
    tensors, used
        Tensors that have an address, by name; bytes of off-chip memory that they take.
    buffers
        On-chip memory -> the scratchpad that holds it.
    readers
        Streamify -> its port of the scratchpad, and the input of its reference, if it has one.
    undriven
        Scratchpad that no Streamify reads -> its reader, until something drives it.
    fit
        Scratchpads whose pages hold their writers' largest buffers.
    """

    timing = "machine"

    def __init__(self, graph: Graph, config: Config):
        super().__init__(graph, config)
        self.m = config.machine
        self.t = self.m.t
        self.depth = self.m.channel_depth
        self.deep = self.m.deep
        self.token = Scalar(1)
        self.tensors: dict[str, Tensor] = {}
        self.used = 0
        self.buffers: dict[str, int] = {}
        self.readers: dict[str, tuple[int, int | None]] = {}
        self.undriven: dict[int, Port] = {}
        self.fit: set[int] = set()

    def publish(
        self, stream: Stream, port: Port, readers: list[tuple[Operator, int]] | None = None
    ) -> None:
        top = (
            stream.rank + inner_dims(stream.element) + 1
        )  # a repeat inside a unit adds a dimension on the way
        if top > MAX_STOP:
            raise self.error(
                stream.node,
                f"stream {stream.name} {stream.type} needs stops up to {top}, a beat has "
                f"{MAX_STOP}",
                remedy="flatten dimensions",
            )
        super().publish(stream, port, readers)

    # -- tiles
    # --------------------------------------------------------------------------

    def inner(self, node: Operator, i: int) -> int:
        return inner_dims(node.inputs[i].element)

    def tile(self, node: Operator, i: int) -> TileType:
        """The element type of an input that carries tiles of any size."""
        t = node.inputs[i].element
        if not isinstance(t, TileType):
            raise self.error(node, f"stream {node.inputs[i].name} carries {t}, not tiles")
        return t

    def static_tile(self, node: Operator, i: int) -> TileType:
        return self.check_static(node.inputs[i].element, node, node.inputs[i].name)

    def check_static(self, tile: ElementType, node: Operator, stream: str) -> TileType:
        if not isinstance(tile, TileType):
            raise self.error(node, f"stream {stream} carries {tile}, not tiles")
        if not tile.static:
            raise self.error(
                node,
                f"stream {stream} carries {tile} of run-time size",
                remedy="give the tile a static size",
            )
        return tile

    def grid(self, tile: TileType) -> tuple[int | None, int | None]:
        """Rows and columns of physical tiles of a logical tile; None for a size that only the run
        tells.
        """
        rows, cols = (
            None if d.value is None else ceil_div(d.value, self.t) for d in (tile.rows, tile.cols)
        )
        return rows, cols

    def static_grid(self, tile: TileType) -> tuple[int, int]:
        """Rows and columns of physical tiles of a logical tile of static size."""
        rows, cols = tile.static_shape
        return ceil_div(rows, self.t), ceil_div(cols, self.t)

    def tiles_of(self, x: ElementType) -> sympy.Expr | int:
        """Physical tiles of a logical tile or of a buffer, over the program's symbols; an empty one
        takes the place of one.
        """
        if isinstance(x, BufferType):
            return prod(map(tiles_along, x.shape)) * self.tiles_of(x.element)
        if isinstance(x, TileType):
            return tiles_along(x.rows, self.t) * tiles_along(x.cols, self.t)
        raise LoweringError(f"{x} takes no physical tiles", rule="tiles and buffers of tiles do")

    def most_tiles(self, element: ElementType) -> int | None:
        """Most physical tiles of a logical tile or a buffer, or None where no bound is known."""
        return self.graph.most(dim(self.tiles_of(element)))

    def bounded(self, node: Operator, tiles: sympy.Expr | int, what: str, rule: str) -> int:
        """The most physical tiles that wait somewhere; refused, with ``what`` and ``rule``, where
        their number has no bound.
        """
        most = self.graph.most(dim(tiles))
        if most is None:
            raise self.error(
                node, what, rule=rule, remedy="bound the size: graph.dynamic(name, most=...)"
            )
        return most

    def payload(self, element: ElementType, node: Operator) -> Payload:
        if isinstance(element, TileType):
            return Tile(self.t, element.dtype)
        if isinstance(element, BufferType):
            pad = self.scratchpad_of(element)
            return BufferRef(self.m.pages) if pad is None else self.reference(pad)
        if isinstance(element, SelectorType):
            return Selector(element.n)
        if isinstance(element, ScalarType):
            return Scalar(element.bits)
        if isinstance(element, TupleType):
            return Tuple(tuple(self.payload(x, node) for x in element.members))
        raise self.error(node, f"a stream of {element} has no payload on this machine")

    def scratchpad_of(self, element: ElementType | None) -> int | None:
        """The unit that holds the buffers which an element refers to."""
        if isinstance(element, TupleType):
            return next(
                (pad for m in element.members if (pad := self.scratchpad_of(m)) is not None), None
            )
        return self.buffers.get(element.memory) if isinstance(element, BufferType) else None

    def reference(self, unit: int) -> BufferRef:
        """The payload of a scratchpad's references."""
        return BufferRef(self.units[unit].kind.pages)

    def tensor(self, ref: TensorRef, node: Operator) -> dict[str, Any]:
        """Allocate a tensor and return the address parameters of the unit that moves it."""
        line = self.m.widths.line // 8
        if element_bytes(ref.dtype) * self.t > line:
            raise self.error(
                node,
                f"tensor {ref.name} holds {ref.dtype}, {self.t} of which take more than a line of "
                f"{line} B",
                rule="a row of a physical tile lies within a line",
                remedy="choose a configuration with a smaller t, or bf16",
            )
        if ref.name not in self.tensors:
            pitch = ceil_div(ref.cols * element_bytes(ref.dtype), LINE_BYTES) * LINE_BYTES
            self.tensors[ref.name] = Tensor(
                ref.name, ref.rows, ref.cols, ref.dtype, self.used, pitch, ref.role
            )
            self.used += ref.rows * pitch
            if self.used not in ADDRESSES:
                raise self.error(
                    node,
                    f"tensors take {self.used} B with tensor {ref.name}",
                    rule=f"addresses have {ADDRESS_BITS} bits",
                    remedy="use smaller tensors",
                )
        x = self.tensors[ref.name]
        return {
            "tensor": x.name,
            "base": x.base,
            "pitch": x.pitch,
            "tensor_rows": x.rows,
            "tensor_cols": x.cols,
        }

    # -- tokens
    # --------------------------------------------------------------------------

    def signal(self, node: Operator, i: int, level: int, role: str = "") -> Port:
        """One token for each element of ``level`` inner dimensions of an input."""
        if isinstance(node.inputs[i].element, BufferType):
            raise self.error(
                node,
                f"stream {node.inputs[i].name} carries {node.inputs[i].element}",
                rule="tokens are made of tiles, selectors or scalars",
                remedy="put Streamify in front",
            )
        return self.chain(self.take(node, i), node, Signal(level=level), role, Scalar(1))

    def tokens(self, node: Operator, i: int) -> Port:
        """One token for each element of an input, with its last beat."""
        return self.signal(node, i, self.inner(node, i), f"{node.streams[i].rstrip('?')}_tokens")

    # -- units
    # --------------------------------------------------------------------------

    def broadcast(
        self, node: Operator, port: Port, n: int, role: str = "", element: ElementType | None = None
    ) -> list[Port]:
        """``n`` copies of a stream of ``element``; those of references are counted."""
        unit = self.unit(node, Broadcast(n=n, scratchpad=self.scratchpad_of(element)), role)
        self.connect(port, unit, 0)
        return [Port(unit, i, port.payload) for i in range(n)]

    def accum(
        self,
        node: Operator,
        src: Port,
        reduce: Iterable[int],
        tiles: int | None,
        out: TileType,
        role: str = "",
        *,
        fn: str = "add",
        scan: bool = False,
        init: float | None = None,
    ) -> Port:
        """Accumulate over the physical dimensions ``reduce``, with at most ``tiles`` partial
        results at a time (None: only the run can tell).
        """
        if tiles is not None and tiles > self.m.accum_tiles:
            raise self.error(
                node,
                f"its result takes {tiles} tiles of {self.t} x {self.t} of partial sums, an "
                f"accumulator holds {self.m.accum_tiles}",
                remedy="use smaller tiles, or raise machine.accum_tiles",
            )
        kind = Accum(
            fn=fn,
            reduce=sum(1 << d for d in reduce),
            depth=self.m.accum_tiles,
            lanes=self.m.lanes_for("accum"),
            init_rows=out.rows.number if out.static else 0,
            init_cols=out.cols.value or 0,
        )
        if init is not None:
            kind = kind.but(init=fp32_bits(init))
        if scan:
            kind = kind.but(scan=True)
        return self.chain(src, node, kind, role, Tile(self.t, "fp32"))

    def shared(
        self, node: Datapath, kind: Kind, inputs: list[Port], out: Payload, role: str = ""
    ) -> Port:
        """Units of a kind behind ``inputs``: as many as the node asks for, fed and collected round
        robin.
        """
        n = node.args.units or self.m.units_for(kind.name)
        if n == 1:
            unit = self.unit(node, kind, role)
            for i, p in enumerate(inputs):
                self.connect(p, unit, i)
            return Port(unit, 0, out)
        prefix = f"{role}_" if role else ""
        splits = []
        for i, p in enumerate(inputs):
            splits.append(self.unit(node, Split(n=n), f"{prefix}split{i}"))
            self.connect(p, splits[-1], 0)
        workers = [self.unit(node, kind, f"{role or kind.name}{i}") for i in range(n)]
        merge = self.unit(node, Merge(n=n), f"{prefix}merge")
        for i, w in enumerate(workers):
            for j, s in enumerate(splits):
                self.connect(Port(s, i, inputs[j].payload), w, j)
        for i, w in enumerate(workers):
            self.connect(Port(w, 0, out), merge, i)
        return Port(merge, 0, out)
