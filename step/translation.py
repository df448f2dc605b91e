"""Translation of a script's graph to a program of the front end."""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import networkx as nx

from .. import frontend as p
from ..frontend.graph import Stream, TensorRef
from ..frontend.types import TileType, dim
from ..frontend.user_line import made_for
from ..machine.errors import ProgramError
from .datatype import DynDim, Select, Tile
from .functions import MapFn
from .operator import StepOps
from .ops import BY_NAME

OPTIONAL = (("RandomOffChipStore", 0), ("ReshapePadStream", 1))
"""Outputs, by operator and number, that may stay without a reader."""
LOOPED = ("FlatReassemble", "EagerMerge")
"""Operators that may wait for what they feed themselves."""
MASKED = "FlatmapFilterRowStreamify"
FOLLOWED = ("Accum", "Broadcast", "ConsumerContext", "Flatten", "Promote", "PromoteOuter")
"""The operator that a padding stream masks, and those that it goes through."""


def array(tensor: Any) -> np.ndarray:
    """A tensor of NumPy or torch as an array."""
    return np.asarray(tensor.detach() if hasattr(tensor, "detach") else tensor)


def reconstruct_numpy(output_path: str, delete_npy: bool = False) -> np.ndarray:
    """A stored tensor, in the shape that its .json has."""
    files = [Path(f"{output_path}{suffix}") for suffix in (".json", ".npy")]
    values = np.load(files[1]).reshape(json.loads(files[0].read_text(encoding="utf-8")))
    for file in files if delete_npy else ():
        file.unlink()
    return values


def _agree(o: StepOps, stated: tuple, shape: tuple) -> None:
    """Refuse a file's shape, in tiles, that differs from the script's where that is known."""
    known = [d if isinstance(d, int) else n for d, n in zip(stated, shape, strict=False)]
    if len(stated) != len(shape) or known != list(shape):
        raise o.error(f"{list(stated)} tiles, and {list(shape)} in the file")


def _started(o: StepOps) -> tuple[tuple[int, int] | None, tuple[int, ...]]:
    """Place in elements of a load's first tile, and its strides in the tiles from there on."""
    width, stride = o.tensor_shape_tiled[-1], tuple(o.stride)
    row, col = divmod(o.start_tile_idx, width)
    if not o.start_tile_idx:
        return None, stride
    if (
        col
        and sum((n - 1) * (s % width) for n, s in zip(o.out_shape_tiled, stride, strict=False))
        >= width - col
    ):
        raise o.error(
            f"begins at tile {o.start_tile_idx}, in a row of {width}, and goes on in the next",
            remedy="begin at a multiple of the tiles of a row, or stay in the row",
        )
    return (row * o.tile_row, col * o.tile_col), tuple(
        s // width * (width - col) + s % width for s in stride
    )


def name_of(source: Any) -> tuple[StepOps, int]:
    """An input as (operator, output)."""
    return (source, 0) if isinstance(source, StepOps) else source


def consumers(graph: nx.MultiDiGraph) -> dict[tuple[StepOps, int], list[tuple[StepOps, Any]]]:
    """Readers of each stream, with the input by which they name it."""
    found: dict = {}
    for node in graph.nodes:
        for source in node.sources():
            found.setdefault(name_of(source), []).append((node, source))
    return found


def infer_broadcast(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Put a Broadcast behind every stream with several readers; the graph itself is changed."""
    for (node, _), readers in consumers(graph).items():
        if len(readers) > 1 and not isinstance(node, BY_NAME["Broadcast"]):
            with made_for(node.line, f"{node.variable}_copies"):
                copies = BY_NAME["Broadcast"](graph, readers[0][1], len(readers))
            for i, (reader, source) in enumerate(readers):
                graph.remove_edge(node, reader)
                reader.replace_input(source, (copies, i))
                graph.add_edge(copies, reader)
    return graph


def check(graph: nx.MultiDiGraph) -> None:
    """Refuse streams that nobody reads, or several."""
    readers = consumers(graph)
    for node in graph.nodes:
        for port in range(len(node.stream_list)):
            found = readers.get((node, port), [])
            if not found and (type(node).__name__, port) not in OPTIONAL:
                raise node.error(
                    f"nothing reads its output {port}",
                    "every branch has one reader",
                    "give it to a ConsumerContext, or make fewer branches",
                )
            if len(found) > 1:
                raise found[1][0].error(
                    f"reads output {port} of {node} ({node.line}), which {found[0][0]} "
                    f"({found[0][0].line}) reads, too",
                    "every branch has one reader",
                    "give the Broadcast another branch"
                    if isinstance(node, BY_NAME["Broadcast"])
                    else "call infer_broadcast(graph), or put a Broadcast behind it",
                )


class Translation:
    """A script's graph as a program of the front end.

    Attributes
    ----------
    graph, inputs, sources
        The program's graph; its tensors, and the elements of its Sources.
    made
        The script's operator of each operator of the program, by name.
    stores
        The script's stores and their tensors.
    """

    def __init__(self, script: nx.MultiDiGraph, name: str, dtype: str = "fp32"):
        self.dtype = dtype
        self.graph = p.Graph(name)
        self.inputs: dict[str, np.ndarray] = {}
        self.sources: dict[str, list] = {}
        self.made: dict[str, StepOps] = {}
        self.stores: list[tuple[StepOps, TensorRef]] = []
        self._tensors: dict[int, TensorRef] = {}
        self._streams: dict[tuple[StepOps, int], Stream] = {}
        self._loops: dict[tuple[StepOps, int], Any] = {}
        self._ones: set[Stream] = set()
        self._masks: dict[tuple[StepOps, int], StepOps] = {}  # by their Reshape
        self.script = script
        self._taken: Counter = Counter()
        check(script)
        todo = sorted(script.nodes, key=lambda o: o.instance_id)
        if not todo:
            raise ProgramError("has no operators", "the script's graph")
        self._written = {id(o.underlying) for o in todo if type(o).__name__ == "RandomOffChipStore"}
        while todo:
            later = [o for o in todo if not self._translated(o)]
            if len(later) == len(todo):
                self._open(todo)
            todo = later
        for source, loop in self._loops.items():
            loop.close(self._streams[source])

    def program(self) -> p.Program:
        """The program; its inputs and sources are the script's, whatever the seed."""
        return p.Program(
            self.graph.name,
            {},
            self.graph.check(),
            lambda seed: self.inputs,
            None,
            lambda seed: self.sources,
        )

    def _translated(self, o: StepOps) -> bool:
        """Translate an operator whose inputs are there."""
        sources = [name_of(s) for s in o.sources()]
        if any(s not in self._streams for s in sources):
            return False
        before = len(self.graph.nodes)
        if o.row.make is None:
            raise o.error("has no form here", "it stands for a stream that is not there")
        if any(s in self._masks for s in sources):
            self._masked(o, sources)
            if type(o).__name__ != MASKED:
                return True
        with made_for(o.line, o.variable):
            inputs = [self._input(o, self._streams[s]) for s in sources]
            try:
                outputs = [getattr(x, "stream", x) for x in o.row.make(o, self, *inputs)]
                for port, stream in enumerate(outputs):
                    self._streams[o, port] = self._stated(o, port, stream)
            except ProgramError as e:
                where = e.where if e.where and " at " in e.where else None
                raise ProgramError(e.what, where or o.error("").where, e.rule, e.remedy) from None
        for node in self.graph.nodes[before:]:
            self.made[node.name] = o
        if type(o).__name__ == "ReshapePadStream" and o.have_pad_stream:
            self._masks[o, 1] = o
        return True

    def _masked(self, o: StepOps, sources: list) -> None:
        """Follow a padding stream: it says what rows of tiles say themselves, and so takes no
        operators; where it goes to is checked.
        """
        by = next(self._masks[s] for s in sources if s in self._masks)
        if type(o).__name__ in FOLLOWED:
            for port in range(len(o.stream_list)):
                self._masks[o, port] = by
                self._streams[o, port] = self._streams[sources[0]]
            return
        if type(o).__name__ != MASKED or sources[0] in self._masks:
            raise o.error(
                f"reads where {by.variable} ({by.line}) pads",
                f"a padding stream is the mask of {MASKED}, behind {', '.join(FOLLOWED)}",
                "give the data to it instead",
            )
        data = nx.descendants(self.script, by) & nx.ancestors(self.script, sources[0][0])
        data |= {sources[0][0]}
        other = {"SetOffset", "RowWiseAppend"} & {str(getattr(d, "fn", "")) for d in data}
        if by not in data | nx.ancestors(self.script, sources[0][0]) or other:
            raise o.error(
                f"is masked by the padding of {by.variable} ({by.line}), which its data "
                + (f"leaves with {', '.join(other)}" if other else "does not come from"),
                "a mask is the padding of the same Reshape",
                "reshape both with one ReshapePadStream",
            )

    def _stated(self, o: StepOps, port: int, stream: Stream) -> Stream:
        """A stream with the sizes that the script knows and the shape rules do not."""
        stated = o.stream_idx(port)
        if isinstance(stated.stream_dtype, Tile) and isinstance(stream.element, TileType):
            sizes = [stream.element.rows.value, stream.element.cols.value]
            if any(
                n not in (None, m) for n, m in zip(sizes, stated.stream_dtype.shape, strict=True)
            ):
                raise o.error(
                    f"makes tiles of {tuple(sizes)}, and states {stated.stream_dtype.shape}",
                    remedy="state the tiles that it makes",
                )
        known = [d if isinstance(d, int) else None for d in stated.shape]
        if stream not in self._ones and len(known) == len(stream.shape):
            want = [
                have if n is None or have.value is not None else n
                for n, have in zip(known, stream.shape, strict=True)
            ]
            if any(a is not b for a, b in zip(want, stream.shape, strict=True)):
                return stream.assert_shape(want)
        return stream

    def _input(self, o: StepOps, stream: Stream) -> Stream:
        """An input; a dimension of 1 that was left out is put in where it counts."""
        if stream not in self._ones or type(o).__name__ in ("RandomOffChipLoad", "Broadcast"):
            return stream
        if type(o).__name__ == "Flatten" and o.min_rank == 0:
            return stream
        return p.Promote(stream, level=0).stream

    def flatten(self, o: StepOps, x: Stream) -> Any:
        """A Flatten; of an innermost 1 that was left out nothing is merged."""
        return p.Flatten(x, lo=o.min_rank, hi=o.max_rank - (x in self._ones))

    def copies(self, o: StepOps, x: Stream) -> list[Stream]:
        """The branches of a Broadcast."""
        made = list(p.Broadcast(x, n=o.num_consumers))
        self._ones.update(made if x in self._ones else ())
        return made

    def with_one(self, made: Any) -> Stream:
        """A stream to whose shape the script adds an innermost 1, which its readers mostly take
        away again.
        """
        stream = made.stream
        self._ones.add(stream)
        return stream

    def _open(self, todo: list[StepOps]) -> None:
        """Begin a loop at an operator that takes its first elements from elsewhere."""
        for kind in LOOPED:
            for o in (o for o in todo if type(o).__name__ == kind):
                missing = [s for x in o.sources() if (s := name_of(x)) not in self._streams]
                if len(missing) < len(o.sources()):
                    for s in missing:
                        with made_for(o.line, f"{o.variable}_again"):
                            self._loops[s] = loop = p.Loop(self._type(o, s), graph=self.graph)
                        self._streams[s] = loop.stream
                    return
        raise todo[0].error(
            "waits for what it feeds itself",
            "a loop begins at a FlatReassemble or an EagerMerge with an input from elsewhere",
        )

    def _type(self, o: StepOps, source: tuple[StepOps, int]) -> p.StreamType:
        of = source[0].stream_idx(source[1])
        if not isinstance(of.stream_dtype, Select):
            raise o.error("is fed back what is no selector", remedy="feed selectors back")
        shape = [
            self.graph.dynamic(f"{o.variable}_{i}") if isinstance(d, DynDim) else dim(d)
            for i, d in enumerate(of.shape)
        ]
        return p.StreamType(p.SelectorType(of.stream_dtype.total_n), tuple(shape))  # type: ignore[attr-defined]

    # ---- what the table of operators asks for
    # --------------------------------------------------------------------------

    def _name(self, name: str) -> str:
        self._taken[name] += 1
        again = self._taken[name]
        return name if again == 1 else f"{name}_{again}"

    def tensor(self, o: StepOps) -> TensorRef:
        """The off-chip tensor of an operator: one for each tensor of the script."""
        key = id(o.underlying)
        if key not in self._tensors:
            kind = str(o.underlying.dtype).rpartition(".")[2]
            if kind != "float32":
                raise o.error(
                    f"a tensor of {kind}",
                    "tensors are float32; with mock_bf16 they are moved as bfloat16",
                    "convert it, for example with .float()",
                )
            values = array(o.underlying)
            name = self._name(o.variable)
            self._tensors[key] = self.graph.input(name, values.shape, self.dtype)
            self.inputs[name] = values.reshape(-1, values.shape[-1])
        return self._tensors[key]

    def load(self, o: StepOps, ref: Stream | None = None) -> Any:
        if rank := getattr(o, "trigger_rank", 0):
            ref = p.Accum(ref, fn=p.all_read(), rank=rank).stream
        start, stride = _started(o)
        loaded = p.LinearOffChipLoad(
            self.tensor(o),
            tile=(o.tile_row, o.tile_col),
            shape=tuple(o.out_shape_tiled),
            stride=stride,
            origin=start,
            ref=ref,
        )
        return p.Map(loaded, fn=p.transpose()) if o.transposed else loaded

    def load_at(self, o: StepOps, addresses: Stream) -> Any:
        loaded = p.RandomOffChipLoad(
            addresses, tensor=self.tensor(o), tile=(o.tile_row, o.tile_col)
        )
        made = p.Map(loaded, fn=p.transpose()) if o.transposed else loaded
        return self.with_one(made) if addresses in self._ones else made

    def load_file(self, o: StepOps) -> Any:
        """A load of all tiles of NAME.npy, whose shape NAME.json has."""
        try:
            vars(o)["underlying"] = reconstruct_numpy(o.input_tensor_name)
        except (OSError, ValueError) as e:
            raise o.error(
                f"loads {o.input_tensor_name}.npy: {e}", remedy="store it before, with its .json"
            ) from None
        *outer, rows, cols = o.underlying.shape
        shape = (*outer, rows // o.tile_row, cols // o.tile_col)
        _agree(o, o.tensor_shape_tiled, shape)
        stride = [prod(shape[i + 1 :]) for i in range(len(shape))]
        return p.LinearOffChipLoad(
            self.tensor(o), tile=(o.tile_row, o.tile_col), shape=shape, stride=stride
        )

    def store_at(self, o: StepOps, addresses: Stream, tiles: Stream) -> Any:
        shared = id(o.underlying) in self._tensors
        if not shared:
            shape = tuple(map(int, o.underlying.shape))
            tensor = self.graph.output(self._name(o.variable), shape, self.dtype)
            self._tensors[id(o.underlying)] = tensor
        tensor = self._tensors[id(o.underlying)]
        self.stores.append((o, tensor))
        made = p.RandomOffChipStore(addresses, p.cast(tiles, self.dtype), tensor=tensor)
        return made

    def shape_of(self, o: StepOps) -> tuple:
        """Shape of what a store stores: of a DynOffChipStore, its file says it."""
        if (name := getattr(o, "shape_file_name", None)) is None:
            return o.get_untiled_shape()
        try:
            *outer, rows, cols = json.loads(Path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise o.error(
                f"takes its shape from {name}: {e}", remedy="write [ROWS, COLUMNS] to it"
            ) from None
        _agree(o, o.tensor_shape_tiled, (*outer, rows // o.tile_row, cols // o.tile_col))
        return (*outer, rows, cols)

    def store(self, o: StepOps, x: Stream) -> list:
        shape = self.shape_of(o)
        if hasattr(o, "shape_file_name"):
            *outer, rows, cols = shape
            x = x.assert_shape([1, *outer, rows // o.tile_row, cols // o.tile_col])
        if any(isinstance(d, DynDim) for d in shape):
            raise o.error(
                f"stores a stream of {shape}",
                "a store takes as many tiles as the program knows before",
                "store it with DynOffChipStore, or its rows with RandomOffChipStore",
            )
        tensor = self.graph.output(self._name(o.variable), shape, self.dtype)
        self.stores.append((o, tensor))
        p.LinearOffChipStore(p.cast(x, self.dtype), tensor)
        return []

    def source(self, shape: tuple, elements: list, **kind: Any) -> Stream:
        """A stream whose elements the script gives."""
        made = p.Source(graph=self.graph, shape=shape, **kind)
        self.sources[made.name] = elements
        return made.stream

    def selectors(self, o: StepOps) -> Stream:
        def nested(x: np.ndarray) -> list:
            if x.ndim > 1:
                return [nested(y) for y in x]
            return np.flatnonzero(x).tolist() if o.is_multihot else x.tolist()

        given = array(o.underlying)
        n = o.stream.stream_dtype.total_n
        return self.source(o.stream.shape, [nested(given)], selector=n)

    def numbers(self, o: StepOps) -> Stream:
        return self.source(o.stream.shape, [array(o.underlying).tolist()], scalar=32)

    def operands(self, fn: MapFn, xs: tuple) -> list[Stream]:
        """Operands in the element type that a function takes."""
        tiles = [x for x in xs if isinstance(x.element, TileType)]
        product = "Matmul" in str(fn)
        if not product and str(fn) in ("RowWiseAppend", "SetOffset", "RetileRow", "RetileCol"):
            return list(xs)
        need = self.dtype if product else "fp32"
        return [p.cast(x, need) if x in tiles else x for x in xs]

    def map(self, o: StepOps, *xs: Stream) -> Any:
        if (form := o.fn.form) is not None:
            return form(self, *xs)
        fn = o.fn.function(*(x.element for x in xs))
        given = self.operands(o.fn, xs)
        if str(o.fn) in ("Add", "Mul") and _smaller(*given):
            given.reverse()
        return p.Map(*given, fn=fn, compute_bw=o.compute_bw or None, write_back=o.write_back_mu)


def _smaller(a: Stream, b: Stream) -> bool:
    """True if the first of two operands has one row, or column, where the second has more."""
    pairs = ((a.element.rows, b.element.rows), (a.element.cols, b.element.cols))  # type: ignore[union-attr]
    return any(x.value == 1 and y.value != 1 for x, y in pairs)
