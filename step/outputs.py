"""Element type and shape of each output of an operator; streams that do not fit are refused."""

from __future__ import annotations

from typing import Any

import sympy

from ..machine.errors import ProgramError
from .datatype import Bool, Buffer, DynDim, Float32, Index, MultiHot, Stream, Tile, tile
from .functions import NUMBER
from .operator import StepOps, get_stream


def stream_in(o: StepOps) -> Stream:
    return get_stream(o.sources()[0])


def loaded(o):
    shape = tuple(o.out_shape_tiled)
    of = get_stream(o.ref) if "ref" in vars(o) else None
    outer = (1,) if of is None else reduced(of, getattr(o, "trigger_rank", 0))
    return [(_loaded_tile(o), outer + shape)]


def loaded_at(o):
    return [(_loaded_tile(o), get_stream(o.raddr).shape)]


def _loaded_tile(o):
    sizes = (o.tile_row, o.tile_col)
    return Tile(Float32(), sizes[::-1] if o.transposed else sizes)


def stored_at(o):
    of = o.waddr if o.ack_based_on_waddr else o.wdata
    return [(Bool(), get_stream(of).shape)]


def by_reference(o):
    of, by = stream_in(o), get_stream(o.ref)
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


def promoted(o):
    of = stream_in(o)
    at = len(of.shape) - getattr(o, "promote_rank", len(of.shape))
    new: Any = 1
    if not hasattr(o, "promote_rank") and isinstance(of.shape[0], DynDim):
        new = one_or_none(of.shape[0])
    return [(of.stream_dtype, (*of.shape[:at], new, *of.shape[at:]))]


def one_or_none(size: DynDim) -> DynDim:
    return DynDim(sympy.Piecewise((1, size.expr >= 1), (0, True)))


def flattened(o):
    of = stream_in(o)
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


def reshaped(o):
    of = stream_in(o)
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
        shape = (one_or_none(size) if isinstance(size, DynDim) else 1, *shape)
    data = (of.stream_dtype, shape)
    return [data, (Tile(Bool(), (1, 1)), shape)] if getattr(o, "have_pad_stream", 0) else [data]


def agree(a: Stream, b: Stream, every: bool) -> None:
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


def function_of(o: Any, *, every: bool = False, rank: int = 0):
    of = [get_stream(x) for x in o.sources()]
    if len(of) == 2:
        agree(of[0], of[1], every)
    kinds = tuple(s.stream_dtype for s in of)
    return [(o.fn.apply(kinds), reduced(of[0], rank))]


def reduced(of: Stream, rank: int) -> tuple:
    if rank and not 0 < rank <= len(of.shape):
        raise ProgramError(
            f"reduces {rank} dimensions of a stream {list(of.shape)}",
            rule=f"from 1 to {len(of.shape)} dimensions",
        )
    return tuple(of.shape[: len(of.shape) - rank])


def buffer(o):
    of = stream_in(o)
    return [(Buffer(of.stream_dtype, tuple(of.shape[-o.rank :])), reduced(of, o.rank))]


def from_buffer(o):
    of = stream_in(o)
    if not isinstance(of.stream_dtype, Buffer):
        raise ProgramError(f"streams {of.stream_dtype}", remedy="put Bufferize in front")
    outer = tuple(get_stream(o.ref).shape) if "ref" in vars(o) else tuple(of.shape)
    inner = of.stream_dtype.shape
    if getattr(o, "out_shape_tiled", None) is not None:
        inner = tuple(o.out_shape_tiled)
    repeats = getattr(o, "repeat_factor", None) or ()
    return [(of.stream_dtype.buff_dtype, (*outer, *repeats, *inner))]


def shared(o):
    of = stream_in(o)
    first = of.shape[0]
    if isinstance(first, int) and first % o.num_consumers:
        raise ProgramError(
            f"deals {first} in turn to {o.num_consumers}",
            rule="the outermost dimension is a multiple of the outputs",
        )
    n = o.num_consumers
    first = first // n if isinstance(first, int) else first / n
    return [(of.stream_dtype, (first, *of.shape[1:])) for _ in range(n)]


def partitioned(o):
    of, by = stream_in(o), get_stream(o.control)
    source = o.control if isinstance(o.control, StepOps) else o.control[0]
    inner = tuple(of.shape[len(of.shape) - o.partition_rank :])
    if not isinstance(by.stream_dtype, MultiHot | Index):
        raise ProgramError("control is no stream of selectors", remedy="take one of SelectGen")
    return [
        (of.stream_dtype, (DynDim(f"{source}_{i:03d}"), *inner)) for i in range(o.num_consumers)
    ]


def merging(o):
    of = [get_stream(x) for x in o.sources()]
    first = of[0].shape[0]
    for s in of[1:]:
        first = first + s.shape[0]
    return [(of[0].stream_dtype, (first, *of[0].shape[1:])), (MultiHot(len(of)), (first,))]


def reassembling(o):
    of = get_stream(o._inputs[0])
    inner = tuple(of.shape[len(of.shape) - o.reassemble_rank :])
    return [(of.stream_dtype, (*get_stream(o.control).shape, DynDim(f"{o}_dyn"), *inner))]


def gathered(o):
    of = get_stream(o._inputs[0])
    for other in o._inputs[1:]:
        agree(of, get_stream(other), False)
    return [(of.stream_dtype, (of.shape[0] * len(o._inputs), *of.shape[1:]))]


def retiled(o):
    of = stream_in(o)
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


def masked(o):
    of, by = stream_in(o), get_stream(o.mask)
    agree(of, by, True)
    rows, cols = of.stream_dtype.shape
    if tuple(by.stream_dtype.shape) != (rows, 1):
        raise ProgramError(
            f"masks tiles of {of.stream_dtype.shape} with tiles of {by.stream_dtype.shape}",
            rule="a mask has a row for each of the tile's, and one column",
            remedy="gather the padding stream with RetileRow, as the data",
        )
    return [(tile(of.stream_dtype, 1, cols), (*of.shape[:-1], DynDim(f"{o}_dyn")))]


def selects(o):
    o.n = int(o.underlying.shape[-1]) if o.is_multihot or o.n is None else o.n
    kind = MultiHot if o.is_multihot else Index
    return [(kind(o.n), (1, *map(int, o.underlying.shape[:-1])))]


def counted(o, element: Any = NUMBER, *more: int):
    return [(element, (*stream_in(o).shape, *(more or (DynDim(f"{o}"),))))]
