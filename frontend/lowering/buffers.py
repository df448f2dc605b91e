"""Memory on chip: scratchpads inside operators, the program's own buffers, and their capacity."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import sympy

from ...machine.beat import Payload, Tile
from ...machine.kinds.copies import Expand as ExpandUnit
from ...machine.kinds.copies import Repeat
from ...machine.kinds.ends import Sink
from ...machine.kinds.scratchpad import Scratchpad
from ...machine.kinds.shape import Flatten, Promote
from ...machine.limits import QUEUES
from ...machine.spilling import spilled_tiles
from ..analysis.onchip import most_pages
from ..graph import Operator
from ..operators.buffers import Bufferize, Streamify
from ..operators.shapes import Expand
from ..operators.tensors import Place
from ..types import ElementType, TileType, dim
from .base import Port
from .tiled import TiledLowering


class Buffers(TiledLowering):
    """A part of MachineLowering: everything that goes through a scratchpad."""

    def scratchpad(
        self,
        node: Operator,
        src: Port,
        rank: int,
        repeat: int | None,
        tiles: sympy.Expr | int,
        role: str,
        what: str,
        *,
        ref: Port | None = None,
        level: int = 0,
    ) -> Port:
        """A scratchpad of one writer and one reader: each buffer of ``rank`` dimensions and
        ``tiles`` physical tiles is read ``repeat`` times, or once for each token of ``ref``.
        """
        self.check_fits(node, tiles, what, src.payload)
        reader = {"rank": rank, "repeat_dim": ref is None} | ({} if ref is None else {"ref": level})
        unit = self.paged(node, [rank], [tiles], role, readers=[reader], repeat=[repeat or 0])
        self.connect(src, unit, 0)
        self.connect(Port(unit, 0, self.reference(unit)), unit, 1)
        if ref is not None:
            self.connect(ref, unit, 2)
        return Port(unit, 1, src.payload)

    def reordered(
        self,
        node: Operator,
        src: Port,
        rank: int,
        trips: list[int],
        strides: list[int],
        role: str,
        what: str,
    ) -> Port:
        """Each buffer of ``rank`` dimensions of physical tiles once, in an affine order: a
        dimension for each of ``trips``, outermost first.
        """
        tiles = prod(trips)
        loops = len(trips)
        self.check_fits(node, tiles, what, src.payload)
        unit = self.paged(
            node,
            [rank],
            [tiles],
            role,
            repeat=[0],
            readers=[{"rank": loops, "repeat_dim": False, "affine": loops}],
            shape=trips,
            stride=strides,
        )
        self.connect(src, unit, 0)
        self.connect(Port(unit, 0, self.reference(unit)), unit, 1)
        return Port(unit, 1, src.payload)

    def paged(
        self,
        node: Operator,
        ranks: list[int],
        tiles: list[sympy.Expr | int],
        role: str = "",
        **readers: Any,
    ) -> int:
        """A scratchpad of writers of buffers of these ranks and numbers of physical tiles, with
        the parameters of its readers.
        """
        pages = (self.m.sized and self.graph.most(dim(most_pages(self.m, tiles)))) or self.m.pages
        unit = self.unit(
            node,
            Scratchpad(
                pages=pages,
                frames=self.m.frames,
                writers=[{"rank": rank} for rank in ranks],
                limit=[min(self.m.buffers or pages, pages)] * len(ranks),
                **readers,
            ),
            role,
        )
        most = [self.graph.most(dim(n)) for n in tiles]
        if all(n is not None and n <= pages * self.m.frames for n in most):
            self.fit.add(unit)
        self.held.append(
            {"unit": unit, "tiles": [int(n) if dim(n).value else str(n) for n in tiles]}
        )
        return unit

    def check_fits(self, node: Operator, tiles: sympy.Expr | int, what: str, tile: Payload) -> None:
        """Refuse a buffer that never fits, as far as its size is known before the run."""
        assert isinstance(tile, Tile)
        tiles = self.graph.most(dim(tiles))
        room = self.m.pages * self.m.frames
        off_chip = spilled_tiles(self.m, tile, room)
        if tiles is not None and tiles > room + off_chip:
            more = f", and {off_chip} off-chip" if off_chip else ""
            raise self.error(
                node,
                f"{what} takes {tiles} tiles of {self.t} x {self.t}, a scratchpad holds "
                f"{self.m.pages} pages x {self.m.frames} frames = {room}{more}",
                rule="a buffer fits in one scratchpad",
                remedy="use smaller tiles, or raise machine.pages or machine.spill",
            )

    def bufferize(self, node: Bufferize) -> Port:
        """The scratchpad of an on-chip memory: all Bufferizes that name it write, all Streamifys of
        its buffers read.
        """
        held = node.outputs[0].buffer
        tile = self.payload(held.element, node)
        self.check_fits(node, self.tiles_of(held), f"a {held}", tile)
        writers = [
            n for n in self.graph.nodes if isinstance(n, Bufferize) and n.memory == node.memory
        ]
        readers = [
            n
            for n in self.graph.nodes
            if isinstance(n, Streamify) and n.inputs[0].type.buffer.memory == node.memory
        ]
        if node.memory not in self.buffers:
            params = {
                "readers": [self.reader(r) for r in readers],
                "repeat": [1 if r.listed is not None else r.repeats or 0 for r in readers],
            }
            if not readers:  # a scratchpad has one; what drops the references drives it
                rank = len(held.shape) + 2
                params = {"readers": [{"rank": rank, "repeat_dim": False}], "repeat": [0]}
            if walks := [self.affine_walk(r) for r in readers if r.affine]:
                params |= {
                    "shape": [n for trips, _ in walks for n in trips],
                    "stride": [n for _, strides in walks for n in strides],
                }
            self.buffers[node.memory] = self.paged(
                node,
                [w.args.rank + 2 for w in writers],
                [self.tiles_of(w.outputs[0].element) for w in writers],
                **params,
            )
            if not readers:
                payload = self.payload(held.element, node)
                self.undriven[self.buffers[node.memory]] = Port(
                    self.buffers[node.memory], len(writers), payload
                )
            n = len(writers) + len(readers)
            driven = [r.name for r in readers if r.by_reference]
            for i, r in enumerate(readers):
                self.readers[r.name] = (
                    len(writers) + i,
                    n + driven.index(r.name) if r.by_reference else None,
                )
        unit = self.buffers[node.memory]
        w = writers.index(node)
        self.connect(self.take(node, 0), unit, w)
        return Port(unit, w, self.reference(unit))

    def drop(self, node: Operator, port: Port, element: ElementType, role: str = "") -> None:
        """Take a stream; references give up their count, by a read where nothing else reads."""
        pad = self.scratchpad_of(element)
        if pad is not None and pad in self.undriven:
            read = self.undriven.pop(pad)
            self.connect(port, pad, read.port)
            port = read
            pad = None
        sink = Sink() if pad is None else Sink(scratchpad=pad)
        self.connect(port, self.unit(node, sink, role), 0)

    def reader(self, node: Streamify) -> dict:
        """A scratchpad's parameters for one Streamify."""
        rank = len(node.inputs[0].type.buffer.shape) + 2
        out = {"rank": rank, "repeat_dim": node.repeats is not None}
        if node.listed is not None:
            out["turns"] = list(node.listed)
        if node.by_reference:
            out["ref"] = node.level
        if node.affine:
            out["affine"] = out["rank"] = len(node.args.shape) + 2
        if node.matrix:
            out["listed"] = self.listed_walk(node)
            out["rank"] = node.passed + 2
        return out

    def listed_walk(self, node: Streamify) -> list[list[int]]:
        """Tile and stop of each beat of a pass over a buffer that is a matrix."""
        held = self.check_static(node.held.element, node, node.name)
        self.check_grid(node, node.args.stored, held.static_shape)
        self.check_grid(node, node.args.places, node.args.tile)
        rows, cols = self.static_grid(held)
        where: dict[tuple[int, int], int] = {}
        for k, (row, col) in enumerate(node.args.stored):
            for r, c in np.ndindex(rows, cols):
                at = row // self.t + r, col // self.t + c
                where.setdefault(at, k * rows * cols + r * cols + c)
        read = self.static_grid(node.outputs[0].tile)
        entries: list[list[int]] = []
        for row, col in node.args.places:
            for r, c in np.ndindex(*read):
                tile = where.get((row // self.t + r, col // self.t + c))
                if tile is None:
                    raise self.error(
                        node,
                        f"reads {node.outputs[0].tile} at [{row}, {col}], where not all is stored",
                        remedy="read within the tiles that are stored",
                    )
                ended = (c == read[1] - 1) + (c == read[1] - 1 and r == read[0] - 1)
                entries.append([tile, ended])
        entries[-1][1] = node.passed + 2
        if len(entries) not in QUEUES:
            raise self.error(
                node,
                f"a pass reads {len(entries):,} tiles of {self.t} x {self.t}",
                rule=f"a reader's list has at most {QUEUES[-1]:,}",
                remedy="read larger tiles, or fewer of them",
            )
        return entries

    def check_grid(self, node: Streamify, places: tuple[Place, ...], tile: tuple[int, ...]) -> None:
        """Refuse tiles that do not begin and end between physical tiles: at the matrix's end they
        may.
        """
        for axis, name in enumerate(("row", "column")):
            starts = {place[axis] for place in places}
            off = next((n for n in sorted(starts) if n % self.t), None)
            if off is None and tile[axis] % self.t:
                ends = {start + tile[axis] for start in starts}
                off = next((n for n in sorted(ends) if n < node.extent[axis]), None)
            if off is not None:
                raise self.error(
                    node,
                    f"has a tile with an edge at {name} {off}",
                    rule=f"tiles begin and end between physical tiles of {self.t} x {self.t}",
                    remedy=f"use tiles whose sides are multiples of {self.t}",
                )

    def affine_walk(self, node: Streamify) -> tuple[list[int], list[int]]:
        """Trips and strides of an affine read, in physical tiles, outermost first."""
        rows, cols = self.static_grid(self.check_static(node.outputs[0].element, node, node.name))
        return [*node.args.shape, rows, cols], [s * rows * cols for s in node.args.stride] + [
            cols,
            1,
        ]

    def streamify(self, node: Streamify) -> Port:
        unit = self.buffers[node.inputs[0].type.buffer.memory]
        i, ref = self.readers[node.name]
        self.connect(self.take(node, 0), unit, i)
        if ref is not None:
            self.connect(self.tokens(node, 1), unit, ref)
        return Port(unit, i, self.payload(node.outputs[0].element, node))

    def expand(self, node: Expand) -> Port:
        """Copies of each element: a bare repeat for elements of one beat, a scratchpad for larger
        ones.
        """
        src = self.take(node, 0)
        count = node.args.count
        element = node.inputs[0].element
        if not isinstance(element, TileType):
            return self.chain(src, node, Repeat(count=count), "repeat")
        if not self.one_beat(element):
            return self.scratchpad(
                node, src, 2, count, self.tiles_of(element), "", f"tile {element}"
            )
        return self.wrap(
            node, self.chain(self.unwrap(node, src), node, Repeat(count=count), "repeat")
        )

    def expand_by_reference(self, node: Expand) -> Port:
        """Copies of each element for each token of the reference."""
        src = self.take(node, 0)
        ref = self.tokens(node, 1)
        level = 1 if node.added else node.args.rank
        element = node.inputs[0].element
        if isinstance(element, TileType) and not self.one_beat(element):
            # the dimensions of size 1
            if not node.added:
                hold = self.graph.holds(node.inputs[0].shape, 0, level)
                src = self.flatten(src, node, 2, 2 + level, hold, "places")
            return self.scratchpad(
                node,
                src,
                2,
                None,
                self.tiles_of(element),
                "",
                f"tile {element}",
                ref=ref,
                level=level,
            )
        tile = isinstance(element, TileType)
        if tile:
            src = self.unwrap(node, src)
        if node.added:
            src = self.chain(src, node, Promote(level=0, outermost=False), "place")
        unit = self.unit(
            node, ExpandUnit(level=level, scratchpad=self.scratchpad_of(element)), "expand"
        )
        self.connect(src, unit, 0)
        self.connect(ref, unit, 1)
        port = Port(unit, 0, src.payload)
        return self.wrap(node, port) if tile else port

    def one_beat(self, tile: TileType) -> bool:
        """True if a logical tile is one physical tile."""
        return tile.static and self.grid(tile) == (1, 1)

    def unwrap(self, node: Operator, src: Port, role: str = "unwrap") -> Port:
        """A tile's own two dimensions, 1 x 1, taken away."""
        return self.chain(src, node, Flatten(lo=0, hi=2), role)

    def wrap(self, node: Operator, src: Port, role: str = "wrap") -> Port:
        """A tile's own two dimensions, 1 x 1, put back."""
        for i in range(2):
            src = self.chain(src, node, Promote(level=0, outermost=False), f"{role}{i}")
        return src
