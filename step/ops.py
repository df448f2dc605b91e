"""Operators by their public names in the authors' Python: parameters, types of streams, costs, and
the operators of the front end that they stand for. One table has them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import sympy

from .. import frontend as p
from ..frontend.user_line import user_line, user_variable
from ..machine.errors import ProgramError
from .calls import Parameters
from .datatype import (
    Bool,
    Buffer,
    DynDim,
    Float32,
    Index,
    MultiHot,
    Stream,
    Tile,
    expr,
    tile,
    total,
)
from .functions import NUMBER

STREAMS = ("waddr", "wdata", "raddr", "input", "inputs", "in1", "in2", "idx", "seq_len", "mask")
STREAMS += ("ref", "control")
"""Parameters that are streams, in the order of an operator's inputs."""
HIDDEN = {"input": "_input", "inputs": "_inputs", "tensor": "underlying"}
"""Attributes that are not called as their parameter."""


def get_stream(input: Any) -> Stream:
    """The stream of an operator, or of a pair (operator, output)."""
    if isinstance(input, StepOps):
        return input.stream
    if isinstance(input, tuple) and len(input) == 2 and isinstance(input[0], StepOps):
        return input[0].stream_idx(input[1])
    raise TypeError(f"{input!r} is no operator and no (operator, output)")


class StepOps:
    """An operator of a script's graph.

    Attributes
    ----------
    instance_id
        Number in order of creation.
    stream, stream_list, input, input_list
        Types of the outputs; inputs as operators or (operator, output).
    line, variable
        Line of the script that made it, and the name that it has there.
    """

    _counter = 0
    row: Row
    num_consumers = 2  # of an EagerMerge, which takes no such argument

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, *args, **named):
        self.instance_id = StepOps._counter
        StepOps._counter += 1
        self.line = user_line()
        self.variable = user_variable() or f"{type(self).__name__}_{self.instance_id}"
        for name, value in self.row.parameters.bound(type(self).__name__, args, named).items():
            setattr(self, HIDDEN.get(name, name), value)
        try:
            self.prepare()
            self._streams = [Stream(*s) for s in self.row.types(self)]
        except ProgramError as e:
            raise self.error(e.what, e.rule, e.remedy) from None
        self._stream = self._streams[0] if len(self._streams) == 1 else self._streams
        for source in self.input_list if self.row.inputs else ():
            self.graph.add_edge(source if isinstance(source, StepOps) else source[0], self)

    def prepare(self) -> None:
        """Set the attributes that follow from arguments."""
        if (tensor := getattr(self, "underlying", None)) is not None and hasattr(self, "tile_row"):
            shape = tuple(map(int, tensor.shape))
            if len(shape) < 2:
                raise ProgramError(
                    f"loads tiles of a tensor {shape}",
                    remedy="give it two dimensions, for example with unsqueeze(0)",
                )
            rows, cols = shape[-2] // self.tile_row, shape[-1] // self.tile_col
            self.tensor_shape_tiled = (*shape[:-2], rows, cols)
            self.n_byte = 2 if self.mock_bf16 else 4
        if isinstance(self, BY_NAME["OffChipStore"]):
            of = get_stream(self._input)
            if len(of.shape) < 2 or of.shape[0] != 1:
                raise ProgramError(
                    f"stores a stream {list(of.shape)} without its leading dimension of 1",
                    rule="the tensor's tiles are what follows the leading dimension",
                    remedy="flatten up to the dimension below the outermost, or put PromoteOuter "
                    "in front",
                )
            self.tensor_shape_tiled = tuple(of.shape[1:])
            self.tile_row, self.tile_col = of.stream_dtype.shape
        if "switch_cycles" in vars(self) and self.switch_cycles is None:
            n = vars(self).get("num_consumers", len(self.sources()))
            self.switch_cycles = [1] * n

    def error(self, what: str, rule: str | None = None, remedy: str | None = None) -> ProgramError:
        """An error of this operator, at its line."""
        named = f"{self.variable} ({self})" if self.variable != str(self) else str(self)
        return ProgramError(what, f"operator {named} at {self.line}", rule, remedy)

    def sources(self) -> list:
        """All inputs, as operators or (operator, output)."""
        found = []
        for name in self.row.inputs:
            value = getattr(self, HIDDEN.get(name, name))
            found += value if name == "inputs" else [value]
        return found

    @property
    def stream(self) -> Stream:
        if len(self._streams) != 1 and getattr(self, "have_pad_stream", True):
            raise NotImplementedError(f"{self} has {len(self._streams)} outputs: use stream_idx")
        return self._streams[0]

    @property
    def stream_list(self) -> list[Stream]:
        return self._streams

    def stream_idx(self, idx: int) -> Stream:
        return self._streams[idx]

    @property
    def input(self) -> Any:
        if len(self.sources()) != 1:
            raise NotImplementedError(f"{self} has {len(self.sources())} inputs: use input_list")
        return self.sources()[0]

    @property
    def input_list(self) -> list:
        if not self.row.inputs:
            raise NotImplementedError(f"{self} has no inputs")
        return self.sources()

    def replace_input(self, org_input: Any, new_input: Any) -> None:
        """Read another stream in the place of an input."""
        for name in self.row.inputs:
            key = HIDDEN.get(name, name)
            value = getattr(self, key)
            if name == "inputs" and org_input in value:
                value[value.index(org_input)] = new_input
                return
            if value == org_input:
                setattr(self, key, new_input)
                return
        raise ValueError(f"{org_input} is no input of {self}")

    def replace_full_input(self, graph: Any, new_input_list: list) -> None:
        """Read other streams, of what stood for them until now."""
        for old in self._inputs:
            graph.remove_node(old if isinstance(old, StepOps) else old[0])
        self._inputs = new_input_list
        for new in new_input_list:
            graph.add_edge(new if isinstance(new, StepOps) else new[0], self)

    def data_tuple(self) -> tuple[StepOps, int]:
        return self, 0

    def select_tuple(self) -> tuple[StepOps, int]:
        return self, 1

    pad_tuple = select_tuple

    def data_stream(self) -> Stream:
        return self._streams[0]

    def select_stream(self) -> Stream:
        return self._streams[1]

    pad_stream = select_stream

    def get_untiled_shape(self) -> tuple:
        """Shape of what a store stores."""
        *outer, cols = self.tensor_shape_tiled
        if not outer:
            return cols * self.tile_row, self.tile_col
        return (*outer[:-1], outer[-1] * self.tile_row, cols * self.tile_col)

    def off_chip_traffic(self) -> sympy.Expr:
        """Bytes that it moves off chip, as the published figures count them."""
        if type(self).__name__ == "OffChipStore":
            of = get_stream(self._input)
            return of.total_elements() * of.stream_dtype.size_in_bytes()
        if hasattr(self, "n_byte"):
            of = self._streams[0]
            return of.total_elements() * self.tile_row * self.tile_col * self.n_byte
        return sympy.Integer(0)

    def on_chip_requirement(self, count_fifos: bool = False, mode: int = 1) -> sympy.Expr:
        """Bytes that it needs on chip, as the published figures count them; ``mode`` 2: two of each
        buffer off chip.
        """
        return sympy.Integer(0) + self.row.onchip(self, count_fifos, mode)

    def __str__(self) -> str:
        return f"{type(self).__name__}_{self.instance_id}"


def _size(x: Any) -> sympy.Expr:
    return (get_stream(x) if not isinstance(x, Stream) else x).stream_dtype.size_in_bytes()


def _ins(o: StepOps) -> list[sympy.Expr]:
    return [_size(x) for x in o.sources()]


def _nothing(*_) -> int:
    return 0


def _tiles(o, _, mode):
    return o.tile_row * o.tile_col * o.n_byte * getattr(o, "buffer_depth", 1) * mode


def _stored(o, _, mode):
    return _ins(o)[0] * mode


def _repeated(o, fifos, _):
    return _size(o.stream) * (2 if fifos else 1)


def _shaped(o, fifos, _):
    return 2 * _size(o.stream_idx(0)) if fifos else 0


def _routed(o, fifos, _):
    n = max(len(o.stream_list), len(o._inputs) if "_inputs" in vars(o) else 0)
    return _ins(o)[0] * (n + 1) if fifos else 0


def _merged(o, fifos, _):
    n = len(o.sources()) + 1
    return (_ins(o)[0] + _size(o.stream_idx(1))) * n if fifos else 0


def _reassembled(o, fifos, _):
    here = 0
    if o.write_back_mu:
        rank = get_stream(o.control).rank
        here = total(o.stream.shape[rank - 1 :]) * _size(o.stream)
    return here + (_ins(o)[0] * (len(o._inputs) + 1) if fifos else 0)


def _mapped(o, fifos, mode):
    if not fifos:
        return 0
    if mode != 2:
        return sum(_ins(o)) + _size(o.stream)
    return _array(o) if "Matmul" in str(o.fn) else 0


def _array(o):
    return 16 * expr(get_stream(o.in1).stream_dtype.shape[1]) + _ins(o)[1] + _size(o.stream)


def _map_accum(o, fifos, mode):
    if not fifos:
        return _size(o.stream)
    return _array(o) if mode == 2 else 3 * _ins(o)[0]


def _accumulated(o, fifos, mode):
    return _size(o.stream) + (_ins(o)[0] if fifos and mode != 2 else 0)


def _buffered(o, *_):
    return _ins(o)[0] + (0 if o.off_chip else 2 * _size(o.stream))


def _streamed(o, _, mode):
    held = 0 if o.off_chip else _ins(o)[0]
    return _size(o.stream) + held if o.off_chip or mode != 2 else 0


@dataclass(frozen=True)
class Row:
    """An operator of the table.

    Attributes
    ----------
    parameters
        As in a call.
    types
        Element type and shape of each output.
    make
        The front end's streams of each output: of the operator, the translation and the inputs;
        None where this machine has no such operator.
    onchip
        Bytes on chip: of the operator, ``count_fifos`` and ``mode``.
    """

    parameters: Parameters
    types: Callable
    make: Callable | None
    onchip: Callable

    @property
    def inputs(self) -> list[str]:
        names = self.parameters.signature.parameters
        return [n for n in STREAMS if n in names]


# ---- types of outputs
# --------------------------------------------------------------------------


def _in(o: StepOps) -> Stream:
    return get_stream(o.sources()[0])


def _loaded(o):
    shape = tuple(o.out_shape_tiled)
    of = tuple(get_stream(o.ref).shape) if "ref" in vars(o) else (1,)
    rank = getattr(o, "trigger_rank", 0)
    return [(Tile(Float32(), (o.tile_row, o.tile_col)), of[: len(of) - rank] + shape)]


def _loaded_at(o):
    return [(Tile(Float32(), (o.tile_row, o.tile_col)), get_stream(o.raddr).shape)]


def _stored_at(o):
    of = o.waddr if o.ack_based_on_waddr else o.wdata
    return [(Bool(), get_stream(of).shape)]


def _by_reference(o):
    of, by = _in(o), get_stream(o.ref)
    rank = getattr(o, "expand_rank", 0)
    outer = tuple(of.shape[: len(of.shape) - rank])
    want = tuple(by.shape[: len(by.shape) - (rank or 1)])
    if outer != want or any(d != 1 for d in of.shape[len(of.shape) - rank :]):
        raise ProgramError(
            f"shapes {list(of.shape)} and {list(by.shape)} differ",
            rule="the dimensions outside those repeated agree",
            remedy="promote the input, or repeat fewer dimensions",
        )
    return [(of.stream_dtype, by.shape)]


def _promoted(o):
    of = _in(o)
    at = len(of.shape) - getattr(o, "promote_rank", len(of.shape))
    new: Any = 1
    if not hasattr(o, "promote_rank") and isinstance(of.shape[0], DynDim):
        new = _one_or_none(of.shape[0])
    return [(of.stream_dtype, (*of.shape[:at], new, *of.shape[at:]))]


def _one_or_none(size: DynDim) -> DynDim:
    return DynDim(sympy.Piecewise((1, size.expr >= 1), (0, True)))


def _flattened(o):
    of = _in(o)
    lo, hi = len(of.shape) - 1 - o.min_rank, len(of.shape) - 1 - o.max_rank
    if not 0 <= hi <= lo < len(of.shape):
        raise ProgramError(
            f"merges ranks {o.min_rank} to {o.max_rank} of a stream {list(of.shape)}",
            rule=f"ranks from 0 to {of.rank}, the smaller first",
        )
    merged = of.shape[hi]
    for d in of.shape[hi + 1 : lo + 1]:
        merged = d * merged
    return [(of.stream_dtype, (*of.shape[:hi], merged, *of.shape[lo + 1 :]))]


def _reshaped(o):
    of = _in(o)
    at = of.rank - o.reshape_rank
    if not 0 <= at < len(of.shape):
        raise ProgramError(
            f"splits rank {o.reshape_rank} of a stream {list(of.shape)}",
            rule=f"a rank from 0 to {of.rank}",
        )
    size, n = of.shape[at], o.chunk_size
    padded = o.reshape_rank == 0 and (o.pad_fn is not None or n == 1)
    if not padded and (isinstance(size, DynDim) or size % n):
        raise ProgramError(
            f"chunks of {n} in a dimension of {size}",
            rule="the chunk divides the dimension, or rank 0 is padded",
            remedy="choose a chunk that divides it, or give pad_fn with reshape_rank=0",
        )
    shape = (*of.shape[:at], (size + n - 1) // n, n, *of.shape[at + 1 :])
    if getattr(o, "add_outer_dim", False):
        shape = (_one_or_none(size) if isinstance(size, DynDim) else 1, *shape)
    data = (of.stream_dtype, shape)
    return [data, (Tile(Bool(), (1, 1)), shape)] if getattr(o, "have_pad_stream", 0) else [data]


def _agree(a: Stream, b: Stream, every: bool) -> None:
    """Refuse streams of two shapes; sizes of the run alone count with ``every``."""
    known = [
        x == y if every or (isinstance(x, int) and isinstance(y, int)) else True
        for x, y in zip(a.shape, b.shape, strict=False)
    ]
    if len(a.shape) != len(b.shape) or not all(known):
        raise ProgramError(
            f"shapes {list(a.shape)} and {list(b.shape)} differ",
            rule="both inputs have one shape",
            remedy="load, repeat or reshape one of them to the other's shape",
        )


def _function_of(o: Any, *, every: bool = False, rank: int = 0):
    of = [get_stream(x) for x in o.sources()]
    if len(of) == 2:
        _agree(of[0], of[1], every)
    kinds = tuple(s.stream_dtype for s in of)
    return [(o.fn.apply(kinds), _reduced(of[0], rank))]


def _reduced(of: Stream, rank: int) -> tuple:
    if rank and not 0 < rank <= len(of.shape):
        raise ProgramError(
            f"reduces {rank} dimensions of a stream {list(of.shape)}",
            rule=f"from 1 to {len(of.shape)} dimensions",
        )
    return tuple(of.shape[: len(of.shape) - rank])


def _buffer(o):
    of = _in(o)
    return [(Buffer(of.stream_dtype, tuple(of.shape[-o.rank :])), _reduced(of, o.rank))]


def _from_buffer(o):
    of = _in(o)
    if not isinstance(of.stream_dtype, Buffer):
        raise ProgramError(f"streams {of.stream_dtype}", remedy="put Bufferize in front")
    outer = tuple(get_stream(o.ref).shape) if "ref" in vars(o) else tuple(of.shape)
    inner = of.stream_dtype.shape
    if getattr(o, "out_shape_tiled", None) is not None:
        inner = tuple(o.out_shape_tiled)
    repeats = getattr(o, "repeat_factor", None) or ()
    return [(of.stream_dtype.buff_dtype, (*outer, *repeats, *inner))]


def _shared(o):
    of = _in(o)
    first = of.shape[0]
    if isinstance(first, int) and first % o.num_consumers:
        raise ProgramError(
            f"deals {first} in turn to {o.num_consumers}",
            rule="the outermost dimension is a multiple of the outputs",
        )
    n = o.num_consumers
    first = first // n if isinstance(first, int) else first / n
    return [(of.stream_dtype, (first, *of.shape[1:])) for _ in range(n)]


def _partitioned(o):
    of, by = _in(o), get_stream(o.control)
    source = o.control if isinstance(o.control, StepOps) else o.control[0]
    inner = tuple(of.shape[len(of.shape) - o.partition_rank :])
    if not isinstance(by.stream_dtype, MultiHot | Index):
        raise ProgramError("control is no stream of selectors", remedy="take one of SelectGen")
    return [
        (of.stream_dtype, (DynDim(f"{source}_{i:03d}"), *inner)) for i in range(o.num_consumers)
    ]


def _merging(o):
    of = [get_stream(x) for x in o.sources()]
    first = of[0].shape[0]
    for s in of[1:]:
        first = first + s.shape[0]
    return [(of[0].stream_dtype, (first, *of[0].shape[1:])), (MultiHot(len(of)), (first,))]


def _reassembling(o):
    of = get_stream(o._inputs[0])
    inner = tuple(of.shape[len(of.shape) - o.reassemble_rank :])
    return [(of.stream_dtype, (*get_stream(o.control).shape, DynDim(f"{o}_dyn"), *inner))]


def _gathered(o):
    of = get_stream(o._inputs[0])
    return [(of.stream_dtype, (of.shape[0] * len(o._inputs), *of.shape[1:]))]


def _retiled(o):
    of = _in(o)
    rows, cols = of.stream_dtype.shape
    size = rows if o.split_row else cols
    last: Any = DynDim(f"{o}_dyn")
    if not o.filter_mask:
        if isinstance(size, int) and size % o.chunk:
            raise ProgramError(f"cuts {size} into parts of {o.chunk}", remedy="choose a divisor")
        last = of.shape[-1] * (size // o.chunk)
    o.num_chunks = size // o.chunk
    cut = (o.chunk, cols) if o.split_row else (rows, o.chunk)
    return [(tile(of.stream_dtype, *cut), (*of.shape[:-1], last))]


def _selects(o):
    o.n = int(o.underlying.shape[-1]) if o.is_multihot else o.n
    kind = MultiHot if o.is_multihot else Index
    return [(kind(o.n), (1, *map(int, o.underlying.shape[:-1])))]


def _counted(o, element: Any = NUMBER, *more: int):
    return [(element, (*_in(o).shape, *(more or (DynDim(f"{o}"),))))]


# ---- the front end's operators
# --------------------------------------------------------------------------


def _repeat(o, low, x, ref):
    if "expand_rank" not in vars(o):
        x = p.Promote(x, level=0)
    return [p.Expand(x, ref=ref, rank=getattr(o, "expand_rank", 1))]


def _promote(o, low, x):
    rank = getattr(o, "promote_rank", None)
    whole = rank is None or rank == len(_in(o).shape)
    return [p.Promote(x) if whole else p.Promote(x, level=rank)]


def _reshape(o, low, x):
    padded = o.pad_fn is not None
    made = p.Reshape(x, dim=o.reshape_rank, chunk=o.chunk_size, pad=0 if padded else None)
    out = [p.Promote(made[0]) if getattr(o, "add_outer_dim", False) else made[0]]
    if getattr(o, "have_pad_stream", False):
        if not padded:
            raise o.error("has a padding stream without pad_fn", remedy="have_pad_stream=False")
        out.append(made[1])
    return out


def _accum(o, low, *xs):
    return [
        p.Accum(
            *low.operands(o.fn, xs),
            fn=o.fn.function(*(x.element for x in xs)),
            rank=getattr(o, "rank", None) or o.accum_rank,
            compute_bw=o.compute_bw or None,
            write_back=o.write_back_mu,
        )
    ]


def _stream_buffer(o, low, x, ref=None):
    for _ in range(getattr(o, "repeat_rank", -1) + 1):
        x = p.Flatten(x, lo=0, hi=1)
    if ref is not None:
        return [p.Streamify(x, ref=ref)]
    shape = getattr(o, "out_shape_tiled", None)
    if shape is not None:
        same = tuple(shape) == tuple(_in(o).stream_dtype.shape)
        return [p.Streamify(x) if same else p.Streamify(x, shape=shape, stride=tuple(o.stride))]
    first, *more = o.repeat_factor or (None,)
    made: Any = p.Streamify(x, repeat=first and first * prod(more))
    for i, n in enumerate(reversed(more)):
        made = p.Reshape(made, dim=o.rank + i, chunk=n)[0]
    return [made]


def _deal(o, low, x):
    n = o.num_consumers
    count = _in(o).shape[0]
    if not isinstance(count, int):
        raise o.error("deals a number that only the run knows", remedy="deal before Partition")
    turns = low.source((count,), [i % n for i in range(count)], selector=n)
    return list(p.Partition(x, turns, rank=o.parallelize_rank, outputs=n, in_turn=True))


def _gather(o, low, *xs):
    n, count = len(xs), o.stream.shape[0]
    if not isinstance(count, int):
        raise o.error("gathers a number that only the run knows", remedy="use FlatReassemble")
    turns = low.source((count,), [i % n for i in range(count)], selector=n)
    rank = get_stream(o._inputs[0]).rank
    made = p.Reassemble(*xs, turns, rank=rank)
    return [p.Flatten(made, lo=rank, hi=rank + 1)]


def _retile(o, low, x):
    along = "rows" if o.split_row else "cols"
    fn = p.retile_streamify(along=along, size=o.chunk, mask=o.filter_mask)
    return [p.FlatMap(x, fn=fn)]


def _table() -> dict[str, Row]:
    def row(parameters: str, types: Callable, make: Callable | None, onchip=_nothing) -> Row:
        return Row(Parameters(parameters), types, make, onchip)

    load = row(
        "underlying, stride, out_shape_tiled, tile_row, tile_col, par_dispatch, mock_bf16=False, "
        "save_npy=False, transposed=False",
        _loaded,
        lambda o, low: [low.load(o)],
        _tiles,
    )
    load_ref = row(
        "graph, ref, underlying, stride, out_shape_tiled, tile_row, tile_col, par_dispatch, "
        "mock_bf16=False, transposed=False, trigger_rank=0",
        _loaded,
        lambda o, low, ref: [low.load(o, ref)],
        _tiles,
    )
    reshape = "graph, input, chunk_size, reshape_rank, write_back_mu, "
    return {
        "OffChipLoad": load,
        "LinearOffChipLoad": load,
        "DynOffChipLoad": load_ref,
        "LinearOffChipLoadRef": load_ref,
        "RandomOffChipLoad": row(
            "graph, underlying, raddr, tile_row, tile_col, base_addr_byte, par_dispatch, "
            "mock_bf16=False, transposed=False",
            _loaded_at,
            lambda o, low, a: [low.load_at(o, a)],
            _tiles,
        ),
        "RandomOffChipStore": row(
            "graph, underlying, wdata, waddr, tile_row, tile_col, base_addr_byte, par_dispatch, "
            "ack_based_on_waddr=True, buffer_depth=1, mock_bf16=False, has_done_stream=False",
            _stored_at,
            lambda o, low, a, x: [low.store_at(o, a, x)],
            _tiles,
        ),
        "OffChipStore": row(
            "graph, input, par_dispatch, store_file_name='output'",
            lambda o: [],
            lambda o, low, x: low.store(o, x),
            _stored,
        ),
        "DynLinearOffChipLoad": row(
            "input_tensor_name, tensor_shape_tiled, dtype, tile_row, tile_col, par_dispatch, "
            "mock_bf16=False",
            lambda o: [(Tile(o.dtype, (o.tile_row, o.tile_col)), (1, *o.tensor_shape_tiled))],
            None,
        ),
        "DynOffChipStore": row(
            "graph, input, shape_file_name, par_dispatch, store_file_name='output'",
            lambda o: [],
            None,
        ),
        "ExpandRef": row("graph, input, ref, expand_rank", _by_reference, _repeat, _repeated),
        "RepeatRef": row("graph, input, ref", _by_reference, _repeat, _repeated),
        "RepeatStatic": row(
            "graph, input, repeat_factor",
            lambda o: [(_in(o).stream_dtype, (*_in(o).shape, o.repeat_factor))],
            lambda o, low, x: [p.Expand(x, count=o.repeat_factor)],
            _repeated,
        ),
        "Promote": row("graph, input, promote_rank", _promoted, _promote, _shaped),
        "PromoteOuter": row("graph, input", _promoted, _promote, _shaped),
        "Flatten": row(
            "graph, input, min_rank, max_rank",
            _flattened,
            lambda o, low, x: [low.flatten(o, x)],
            _shaped,
        ),
        "Reshape": row(reshape + "add_outer_dim=False, pad_fn=None", _reshaped, _reshape, _shaped),
        "ReshapePadStream": row(
            reshape + "pad_fn=None, have_pad_stream=True", _reshaped, _reshape, _shaped
        ),
        "UnaryMap": row(
            "graph, input, fn, write_back_mu, compute_bw",
            _function_of,
            lambda o, low, x: [low.map(o, x)],
            _mapped,
        ),
        "BinaryMap": row(
            "graph, in1, in2, fn, write_back_mu, compute_bw",
            _function_of,
            lambda o, low, a, b: [low.map(o, a, b)],
            _mapped,
        ),
        "BinaryMapAccum": row(
            "graph, in1, in2, fn, init_fn, rank, write_back_mu, compute_bw",
            lambda o: _function_of(o, every=True, rank=o.rank),
            _accum,
            _map_accum,
        ),
        "Accum": row(
            "graph, input, output_stream_dtype, fn, init_fn, accum_rank, write_back_mu, compute_bw",
            lambda o: [(o.output_stream_dtype, _reduced(_in(o), o.accum_rank))],
            _accum,
            _accumulated,
        ),
        "Broadcast": row(
            "graph, input, num_consumers",
            lambda o: [(_in(o).stream_dtype, _in(o).shape) for _ in range(o.num_consumers)],
            lambda o, low, x: low.copies(o, x),
        ),
        "Bufferize": row(
            "graph, input, rank, off_chip=False",
            _buffer,
            lambda o, low, x: [p.Bufferize(x, rank=o.rank)],
            _buffered,
        ),
        "Streamify": row(
            "graph, input, repeat_factor=None, rank=None, off_chip=False, stride=None, "
            "out_shape_tiled=None",
            _from_buffer,
            _stream_buffer,
            _streamed,
        ),
        "DynStreamify": row(
            "graph, input, ref, repeat_rank, bufferized_rank, off_chip=False",
            _from_buffer,
            _stream_buffer,
            _streamed,
        ),
        "Parallelize": row(
            "graph, input, parallelize_rank, num_consumers, switch_cycles=None, "
            "write_back_mu=False",
            _shared,
            _deal,
            _routed,
        ),
        "StaticReassemble": row(
            "graph, inputs, merge_rank, switch_cycles=None, write_back_mu=False",
            _gathered,
            _gather,
            _routed,
        ),
        "FlatPartition": row(
            "graph, input, control, partition_rank, switch_cycles, write_back_mu, num_consumers",
            _partitioned,
            lambda o, low, x, by: list(
                p.Partition(x, by, rank=o.partition_rank, outputs=o.num_consumers)
            ),
            _routed,
        ),
        "FlatReassemble": row(
            "graph, inputs, control, reassemble_rank, switch_cycles, write_back_mu",
            _reassembling,
            lambda o, low, *xs: [p.Reassemble(*xs, rank=o.reassemble_rank)],
            _reassembled,
        ),
        "EagerMerge": row(
            "graph, inputs, input_rank",
            _merging,
            lambda o, low, *xs: list(p.EagerMerge(*xs)),
            _merged,
        ),
        "RetileStreamify": row(
            "graph, input, split_row, filter_mask=False, chunk=1", _retiled, _retile
        ),
        "FlatmapCounter": row(
            "graph, input",
            _counted,
            lambda o, low, x: [p.FlatMap(x, x, fn=p.address_range(0), rank=1)],
        ),
        "MockStreamOp": row(
            "stream, aten_op_name='', output_idx=0",
            lambda o: [(o.given.stream_dtype, o.given.shape)],
            None,
        ),
        "SelectGen": row("is_multihot, tensor, n", _selects, lambda o, low: [low.selectors(o)]),
        "MetadataGen": row(
            "tensor",
            lambda o: [(NUMBER, (1, *map(int, o.underlying.shape)))],
            lambda o, low: [low.numbers(o)],
        ),
        "ExpertAddrGen": row(
            "graph, input, num_tile_per_expert, expert_addr_base",
            lambda o: _counted(o, NUMBER, o.num_tile_per_expert, 1),
            lambda o, low, x: [
                low.with_one(p.FlatMap(x, fn=p.expert_addresses(o.num_tile_per_expert), rank=1))
            ],
        ),
        "CacheReadAddrGen": row(
            "graph, idx, seq_len, row_offset",
            _counted,
            lambda o, low, i, n: [p.FlatMap(i, n, fn=p.address_range(o.row_offset), rank=1)],
        ),
        "FilterLastTile": row(
            "graph, input",
            lambda o: _counted(o, MultiHot(2)),
            lambda o, low, x: [p.FlatMap(x, fn=p.last_tile_filter(), rank=1)],
        ),
        "ConsumerContext": row("graph, input", lambda o: [], lambda o, low, x: p.Sink(x) and []),
        "PrinterContext": row("graph, input", lambda o: [], lambda o, low, x: p.Sink(x) and []),
        "FlatmapFilterRowStreamify": row(
            "graph, input, mask",
            lambda o: [
                (
                    tile(_in(o).stream_dtype, 1, _in(o).stream_dtype.shape[1]),
                    (*_in(o).shape[:-1], DynDim(f"{o}_dyn")),
                )
            ],
            None,
        ),
    }


HIDDEN["stream"] = "given"  # of what stands for a stream that is not made yet
ROWS = _table()
BY_NAME: dict[str, type[StepOps]] = {n: type(n, (StepOps,), {"row": r}) for n, r in ROWS.items()}
UTILITIES = ("SelectGen", "MetadataGen", "ExpertAddrGen", "CacheReadAddrGen", "FilterLastTile")
UTILITIES += ("ConsumerContext", "PrinterContext")
"""Operators of the module ``step_py.utility_ops``; all others are of ``step_py.ops``."""
