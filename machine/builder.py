"""Unit graphs by hand: one call for each unit, channel and tensor."""

from __future__ import annotations

from typing import Any

from .beat import ELEMENT_BITS, LINE_BYTES, Payload
from .kinds import Kind, kind_of
from .kinds.ends import Sink, Source
from .unitgraph import Channel, Tensor, Unit, UnitGraph

End = int | tuple[int, int]


class Builder:
    """A unit graph in the making.

    Parameters
    ----------
    name
        Of the graph.
    t
        Tile edge.
    depth
        Slots of a channel that is not given its own.
    """

    def __init__(self, name: str, t: int, depth: int = 2):
        self.name = name
        self.t = t
        self.depth = depth
        self.units: list[Unit] = []
        self.channels: list[Channel] = []
        self.tensors: list[Tensor] = []
        self.ports: list[int] = []
        self.bytes = 0

    def unit(self, kind: Kind, label: str = "") -> int:
        """A unit; returns its id."""
        u = len(self.units)
        self.units.append(Unit(u, f"{label or kind.name}{u}", kind))
        if kind.offchip:
            self.ports.append(u)
        return u

    def join(
        self, src: End, dst: End, payload: Payload, depth: int | None = None, name: str = ""
    ) -> int:
        """A channel between two ports; an end is (unit, port), or a unit for its port 0."""
        a, b = ((x, 0) if isinstance(x, int) else x for x in (src, dst))
        c = len(self.channels)
        ends = f"{self.units[a[0]].name}_{a[1]}_{self.units[b[0]].name}_{b[1]}"
        self.channels.append(Channel(c, name or ends, a, b, depth or self.depth, payload))
        return c

    def source(self, dst: End, payload: Payload) -> int:
        """A stream from outside into ``dst``; returns its unit."""
        u = self.unit(Source())
        self.join(u, dst, payload)
        return u

    def sink(self, src: End, payload: Payload) -> int:
        """A stream from ``src`` to the outside; returns its unit."""
        u = self.unit(Sink())
        self.join(src, u, payload)
        return u

    def tensor(
        self, name: str, rows: int, cols: int, dtype: str = "fp32", role: str = "input"
    ) -> Tensor:
        """An off-chip tensor behind those there are, its rows at the least pitch of whole lines."""
        width = ELEMENT_BITS[dtype] // 8
        pitch = -(-cols * width // LINE_BYTES) * LINE_BYTES
        x = Tensor(name, rows, cols, dtype, self.bytes, pitch, role)
        self.tensors.append(x)
        self.bytes += x.bytes
        return x

    def offchip(
        self, kind: str, x: Tensor, rows: int, cols: int, label: str = "", **params: Any
    ) -> int:
        """A load or store of ``x`` in logical tiles of ``rows`` x ``cols``; returns its unit."""
        place = {"tensor": x.name, "base": x.base, "pitch": x.pitch}
        size = {"tensor_rows": x.rows, "tensor_cols": x.cols, "rows": rows, "cols": cols}
        return self.unit(kind_of(kind)(**place, **size, **params), label)

    def graph(self) -> UnitGraph:
        """The graph; off-chip units need memory in the order in which they were added."""
        return UnitGraph(
            self.name,
            self.t,
            tuple(self.units),
            tuple(self.channels),
            tuple(self.tensors),
            tuple(self.ports),
            self.bytes,
        )
