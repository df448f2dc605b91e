"""Operators of on-chip memory: Bufferize and Streamify (paper table 4)."""

from __future__ import annotations

import keyword
from math import prod
from typing import Any, ClassVar

import numpy as np
import sympy

from ..arguments import Arguments, argument
from ..functions.streams import all_read
from ..graph import Operator, Stream, as_stream, operator
from ..types import BufferType, DimKind, StreamType, TileType, dim, same_shape, show_shape, strides
from .flat_map import counted
from .reduction import Accum
from .tensors import Place, int_tuple, places, static_tiles, symbolic_bytes


@operator
class Bufferize(Operator):
    """Stores the inner ``rank`` dimensions of a stream on chip and streams references to these
    buffers.

    Of the buffered dimensions the outermost may be ragged; the others are regular, and any may be
    dynamic.
    """

    shapes = (
        "[D_a, ..., D_0] of tiles of static size -> [D_a, ..., D_rank] of references to buffers "
        "[D_{rank-1}, ..., D_0]"
    )
    stops = "a buffer ends with the first stop s of at least rank and leaves with s - rank"
    costs = "on chip: a tile and two buffers"
    limits = (
        "no tiles of run-time size (type class S of appendix B.1), no ragged dimensions inside a "
        "buffer's outermost one (section 3.2.2)"
    )
    forms: ClassVar[dict[str, tuple]] = {
        "rank": (0, 1, 2),
        "fixed": (True, False),
        "shared": (False, True),
    }

    class Args(Arguments):
        rank: int = argument("inner dimensions that make one buffer")
        memory: str | None = argument(
            "name of the on-chip memory: Bufferizes that give one name share it (default: one of "
            "its own)",
            None,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.ragged(), rank=1)

    def check(self):
        tile = static_tiles(self, 0)
        s = self.inputs[0].type
        b = self.args.rank
        if isinstance(b, bool) or not isinstance(b, int) or not 0 <= b <= s.rank:
            raise self.stream_error(
                0, f"rank must be an integer from 0 to the stream's rank {s.rank}, not {b!r}"
            )
        for i, d in enumerate(s.shape[len(s.shape) - b :][1:]):
            if not DimKind.DYNAMIC_REGULAR.accepts(d.kind):
                raise self.stream_error(
                    0,
                    f"dimension {b - 2 - i} is {d.kind.value}",
                    rule="of the buffered dimensions only the outermost may be ragged",
                    remedy="bufferize fewer dimensions",
                )
        memory = self.args.memory
        if memory is not None and (
            not isinstance(memory, str) or not memory.isidentifier() or keyword.iskeyword(memory)
        ):
            raise self.error(f"memory must be an identifier, not {memory!r}")
        for other in self.graph.nodes:
            if not isinstance(other, Bufferize) or other is self or other.memory != self.memory:
                continue
            theirs = other.inputs[0].type.tile.dtype
            if theirs != tile.dtype:
                raise self.stream_error(
                    0,
                    f"carries {tile.dtype}, memory {self.memory} holds {theirs} from {other.name}",
                    rule="one memory holds tiles of one dtype",
                    remedy="choose another memory",
                )

    @property
    def memory(self) -> str:
        """Name of the on-chip memory."""
        return self.args.memory or self.name

    @property
    def fixed(self) -> bool:
        """True if its buffers are of static size."""
        return self.outputs[0].buffer.static

    @property
    def shared(self) -> bool:
        """True if another Bufferize writes the same memory."""
        return any(
            isinstance(n, Bufferize) and n is not self and n.memory == self.memory
            for n in self.graph.nodes
        )

    def shape_rule(self):
        s = self.inputs[0].type
        b = self.args.rank
        cut = len(s.shape) - b
        return [StreamType(BufferType(s.element, s.shape[cut:], self.memory), s.shape[:cut])]

    def onchip(self, rule):
        size = symbolic_bytes(self.inputs[0].element, rule)
        return size + 2 * self.outputs[0].element.elements / self.inputs[0].element.elements * size

    def lower_machine(self, low):
        return [low.bufferize(self)]

    def lower_stepsim(self, low):
        return low.one(self, "bufferize", rank=self.args.rank)

    def evaluate(self, ev, stream):
        b = self.args.rank
        held = []
        last = ev.START
        for v, s in stream:
            if v is None and s > b and last > b and not held:
                yield None, s - b  # the buffers themselves are missing
            else:
                held.append((v, s))
                if s >= b:
                    yield held, s - b
                    held = []
            last = s


def read_through(buffers: Stream) -> Stream:
    """A token for each buffer, when it has been read and given up."""
    name = buffers.node.name
    read = Streamify(buffers, name=f"{name}_read")
    return Accum(
        read, fn=all_read(), rank=len(buffers.type.buffer.shape), name=f"{name}_token"
    ).stream


@operator
class Streamify(Operator):
    """Streams the elements of each buffer: once; ``repeat`` times, a new dimension; or once for
    each element of a reference stream.

    A list of repeats, one for each buffer of the innermost dimension, makes no new dimension: the
    repeats follow each other in that dimension. A reference has the dimensions of the buffers'
    stream and further inner ones, for each of whose elements the buffer is streamed again. A buffer
    of static size may be read in an affine order (``shape``, ``stride``), or as a matrix in tiles
    of another size (``stored``, ``tile``, ``places``); others are read as they were stored.
    """

    shapes = (
        "references [D_b, ..., D_0], and a reference stream [D_b, ..., D_0, E_c, ..., E_1] or "
        "none -> [D_b, ..., D_0, E_c, ..., E_1 (or the repeats), then the buffer's dimensions]. "
        "In the place of the buffer's: S_k, ..., S_1 of shape, or as many as places lists"
    )
    stops = (
        "inside a buffer as stored; its last element ends the buffer's rank b, the last repeat b "
        "+ 1 + s, s the reference's stop (listed repeats: b + s). Driven: b + s with s the "
        "driving stop; one of at least the level ends the buffer"
    )
    costs = "on chip: nothing (rule `paper`), a buffer and a tile (`published`)"
    limits = (
        "a reference stream of references to buffers: each is read, which gives it up",
        "in the timing `stepsim` no list of repeats and no tiles of another size",
        "tiles of another size begin and end between physical tiles, or at the matrix's end",
        "what is read as a matrix has whole tiles, but at its end",
    )
    streams = ("buffers", "ref?")
    forms: ClassVar[dict[str, tuple]] = {
        "turns order": (
            ("once", "repeated", "listed", "by reference"),
            ("static", "dynamic", "affine", "matrix"),
        )
    }

    class Args(Arguments):
        repeat: int | tuple[int, ...] | None = argument(
            "times each buffer is streamed (default: once, without a new dimension), a list of "
            "them, or a stream of numbers",
            None,
        )
        shape: tuple[int, ...] = argument(
            "elements read in each dimension, outermost first (default: as stored)", None
        )
        stride: tuple[int, ...] = argument(
            "distance in elements of each dimension (default: row-major over shape)", None
        )
        stored: tuple[Place, ...] = argument(
            "[row, col] of each tile of the buffer in a matrix, in elements: the buffer is read as "
            "that matrix; of tiles at one place the first counts",
            None,
        )
        tile: tuple[int, ...] = argument("[rows, cols] of the tiles read from the matrix", None)
        places: tuple[Place, ...] = argument(
            "[row, col] in the matrix of each tile read, in elements", None
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(Bufferize(given.ragged(), rank=1, name="b"), repeat=2)

    def _streams(self, inputs, args):
        if isinstance(args.get("repeat"), (Stream, Operator)) and args.get("ref") is None:
            args["ref"] = counted(as_stream(args.pop("repeat")))
        found = super()._streams(inputs, args)
        return found[:1] + [
            read_through(s) if isinstance(s.element, BufferType) else s for s in found[1:]
        ]

    @property
    def turns(self) -> str:
        """The argument that states how often a buffer is streamed."""
        return (
            "by reference"
            if self.by_reference
            else "listed"
            if self.listed is not None
            else "once"
            if self.repeats is None
            else "repeated"
        )

    @property
    def order(self) -> str:
        """Order in which elements are read: as stored, in a buffer of static or run-time size, an
        affine one, or a matrix in tiles of another size.
        """
        if self.affine or self.matrix:
            return "affine" if self.affine else "matrix"
        return "static" if self.held.static else "dynamic"

    @property
    def held(self) -> BufferType:
        """The buffers that it reads."""
        return self.inputs[0].type.buffer

    @property
    def passed(self) -> int:
        """Dimensions of one pass over a buffer."""
        return 1 if self.matrix else len(self.args.shape or self.held.shape)

    @property
    def by_reference(self) -> bool:
        return len(self.inputs) == 2

    @property
    def affine(self) -> bool:
        """True if elements are read in an order of their own."""
        return self.args.shape is not None

    @property
    def matrix(self) -> bool:
        """True if the buffer is read as a matrix."""
        return self.args.stored is not None

    @property
    def matrix_of(self) -> TileType:
        """The tiles of such a buffer."""
        element = self.held.element
        if not self.held.static or not isinstance(element, TileType):
            raise self.stream_error(
                0,
                f"carries {self.held}",
                rule="only buffers of tiles of static size are read as a matrix",
                remedy="leave out stored, tile and places: the buffer is read as it was stored",
            )
        return element

    @property
    def level(self) -> int:
        """Inner dimensions of the reference over which a buffer is read again."""
        return self.inputs[1].rank - self.inputs[0].rank

    def check(self):
        if not isinstance(self.inputs[0].element, BufferType):
            raise self.stream_error(
                0,
                f"carries {self.inputs[0].element}",
                rule="the input must be a stream of buffers",
                remedy="put Bufferize in front",
            )
        if self.by_reference:
            self.check_reference()
        if self.listed is not None:
            turns = int_tuple(self, "repeat", 1)
            buffers = self.inputs[0].shape[-1]
            self.args.repeat = turns
            if buffers.value != len(turns):
                raise self.stream_error(
                    0,
                    f"has {buffers} buffers in its innermost dimension, repeat lists {len(turns)}",
                    remedy="list one number per buffer",
                )
        elif self.args.repeat is not None:
            self.positive("repeat")
        if self.affine:
            self.check_affine()
        elif self.args.stride is not None:
            raise self.error("has a stride without a shape", remedy="give both, or neither")
        if any(x is not None for x in (self.args.stored, self.args.tile, self.args.places)):
            self.check_matrix()

    def check_matrix(self) -> None:
        """Places of what is stored and of what is read."""
        if self.affine or None in (self.args.stored, self.args.tile, self.args.places):
            raise self.error(
                "is read as a matrix without all of stored, tile and places, or with a shape",
                remedy="give stored, tile and places, and no shape",
            )
        self.args.stored = places(self, "stored")
        self.args.places = places(self, "places")
        tile = self.args.tile = int_tuple(self, "tile", 1)
        if len(tile) != 2:
            raise self.error(f"tile must be [rows, cols], not {list(tile)!r}")
        size = prod(d.number for d in self.held.shape)
        if len(self.args.stored) != size:
            raise self.error(
                f"a {self.held} has {size} tiles, stored lists {len(self.args.stored)}",
                remedy="list one place per tile",
            )
        wide = self.extent
        for row, col in self.args.places:
            if row >= wide[0] or col >= wide[1]:
                raise self.error(
                    f"reads at [{row}, {col}], what is stored ends at [{wide[0]}, {wide[1]}]",
                    rule="a tile read begins in what is stored",
                )

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of the matrix, the last tiles' padding among them."""
        rows, cols = self.matrix_of.static_shape
        stored = self.args.stored
        return max(r for r, _ in stored) + rows, max(c for _, c in stored) + cols

    def check_reference(self) -> None:
        a, ref = self.inputs
        if self.args.repeat is not None:
            raise self.error("has both repeat and ref", remedy="give one of them")
        if self.level < 0 or not same_shape(ref.shape[: len(a.shape)], a.shape):
            raise self.stream_error(
                1,
                f"has shape {show_shape(ref.shape)}, stream {a.name} has {show_shape(a.shape)}",
                rule="the reference has the dimensions of the buffers, and further inner ones",
            )

    def check_affine(self) -> None:
        if not self.held.static:
            raise self.stream_error(
                0,
                f"carries {self.held}",
                rule="only buffers of static size are read in an affine order",
                remedy="leave out shape and stride: the buffer is read as it was stored",
            )
        shape = self.args.shape = int_tuple(self, "shape", 1)
        stride = self.args.stride = (
            tuple(strides(shape)) if self.args.stride is None else int_tuple(self, "stride", 0)
        )
        if len(shape) != len(stride) or not shape:
            raise self.error(
                f"shape has {len(shape)} dimensions, stride {len(stride)}",
                remedy="give one stride per dimension, and at least one",
            )
        size = prod(d.number for d in self.held.shape)
        last = sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        if last >= size:
            raise self.error(
                f"reads element {last}, a {self.held} has elements 0 to {size - 1}",
                rule="an affine read lies in the buffer",
                remedy="check shape and stride",
            )

    @property
    def listed(self) -> tuple[int, ...] | None:
        """Times that each buffer of the innermost dimension is streamed, where they are listed."""
        repeat = self.args.repeat
        return tuple(repeat) if isinstance(repeat, (tuple, list)) else None

    @property
    def repeats(self) -> int | None:
        """Times that every buffer is streamed, a new dimension; None without one."""
        return self.args.repeat if isinstance(self.args.repeat, int) else None

    def shape_rule(self):
        outer = self.inputs[0].shape
        element = self.held.element
        inner = tuple(map(dim, self.args.shape)) if self.affine else self.held.shape
        if self.matrix:
            rows, cols = map(dim, self.args.tile)
            element = TileType(rows, cols, self.matrix_of.dtype)
            inner = (dim(len(self.args.places)),)
        if self.by_reference:
            return [StreamType(element, self.inputs[1].shape + inner)]
        if self.listed is not None:
            return [StreamType(element, (*outer[:-1], dim(sum(self.listed)), *inner))]
        repeated = () if self.repeats is None else (dim(self.repeats),)
        return [StreamType(element, outer + repeated + inner)]

    def onchip(self, rule):
        if rule == "paper":
            return sympy.Integer(0)
        return symbolic_bytes(self.inputs[0].element, rule) + symbolic_bytes(
            self.outputs[0].element, rule
        )

    def lower_machine(self, low):
        return [low.streamify(self)]

    def lower_stepsim(self, low):
        if self.listed is not None:
            raise low.error(
                self,
                "a list of repeats has no form in the published simulator",
                remedy="give one number",
            )
        if self.matrix:
            raise low.error(
                self,
                "tiles of another size have no form in the published simulator",
                remedy="read the tiles that were stored",
            )
        params: dict[str, Any] = {"rank": self.passed}
        if self.affine:
            params |= {"shape": list(self.args.shape), "stride": list(self.args.stride)}
        if self.by_reference:
            return low.one(self, "streamify_ref", **params, level=self.level)
        repeat = [] if self.repeats is None else [self.repeats]
        return low.one(self, "streamify", **params, repeat=repeat)

    def read(self, buffer: list) -> tuple[list, int]:
        """The elements of one pass with their inner stops, and the buffer's rank."""
        if self.matrix:
            return self.read_matrix(buffer), 1
        if not self.affine:
            return buffer, self.passed
        shape = self.args.shape
        stride = self.args.stride
        out = []
        for index in np.ndindex(*shape):
            ended = 0
            for i, n in zip(reversed(index), reversed(shape), strict=True):
                if i != n - 1:
                    break
                ended += 1
            out.append((buffer[sum(i * s for i, s in zip(index, stride, strict=True))][0], ended))
        return out, len(shape)

    def check_filled(self, stored: list, rows: int, cols: int) -> None:
        """Refuse a tile that is filled in part, but at the matrix's end."""
        height, width = self.matrix_of.static_shape
        for (r, c), (v, _) in stored:
            if v.shape != (min(height, rows - r), min(width, cols - c)):
                raise self.error(
                    f"the tile at [{r}, {c}] has {v.shape[0]} rows and {v.shape[1]} columns, in "
                    f"a matrix of {rows} and {cols}",
                    rule="what is read as a matrix has whole tiles, but at its end",
                    remedy="leave out stored, tile and places: the buffer is read as it was stored",
                )

    def read_matrix(self, buffer: list) -> list:
        """The tiles of one pass over a buffer that is a matrix."""
        stored = list(zip(self.args.stored, buffer, strict=True))
        rows = max(r + v.shape[0] for (r, _), (v, _) in stored)
        cols = max(c + v.shape[1] for (_, c), (v, _) in stored)
        self.check_filled(stored, rows, cols)
        whole = np.zeros((rows, cols), stored[0][1][0].dtype)
        for (r, c), (v, _) in reversed(stored):
            whole[r : r + v.shape[0], c : c + v.shape[1]] = v
        rows, cols = self.args.tile
        return [(whole[r : r + rows, c : c + cols], 0) for r, c in self.args.places]

    def evaluate(self, ev, stream, ref=None):
        if ref is not None:
            yield from self.evaluate_reference(stream, ref)
            ev.at_end(self, stream, "has buffers left when its reference has ended")
            return
        rank = self.passed
        new = int(self.repeats is not None)
        k = 0
        begins = True
        for buffer, s in stream:
            single, begins = begins and s > 0, s > 0
            if buffer is None:
                yield None, rank + new + s
                continue
            beats, rank = self.read(buffer)
            turns = (
                self.listed[k % len(self.listed)] if self.listed is not None else self.repeats or 1
            )
            k += 1
            if (new or single) and turns == 1 and len(beats) == 1 and beats[0][0] is None:
                raise self.alone()
            for i in range(turns):
                yield from beats[:-1]
                yield beats[-1][0], rank if i < turns - 1 else rank + s + new

    def evaluate_reference(self, stream, ref):
        held = None
        level = self.level
        begins = True
        for r, s in ref:
            if held is None:
                held = next(stream, None)
                if held is None:
                    raise self.error(
                        "its reference goes on when the buffers have ended",
                        rule="one group of references per buffer",
                    )
            rank = self.passed
            if r is None or held[0] is None:
                yield None, rank + s
            else:
                beats, rank = self.read(held[0])
                if begins and s and len(beats) == 1 and beats[0][0] is None:
                    raise self.alone()
                yield from beats[:-1]
                yield beats[-1][0], rank + s
            begins = s > 0
            if s >= level:
                if held[1] != s - level:
                    raise self.error(
                        f"a buffer of stop {held[1]} meets references that end with {s}",
                        rule="the reference has the buffers' dimensions outside",
                    )
                held = None
