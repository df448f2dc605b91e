"""Operators by their public names in the authors' Python: parameters, types of streams,
costs, and the operators of the front end that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from .. import frontend as p
from . import costs, outputs
from .calls import Parameters
from .datatype import Float32, MultiHot, Tile
from .functions import NUMBER
from .operator import HIDDEN, Row, StepOps, get_stream
from .outputs import stream_in


def _repeat(o, low, x, ref):
    if "expand_rank" not in vars(o):
        x = p.Promote(x, level=0)
    return [p.Expand(x, ref=ref, rank=getattr(o, "expand_rank", 1))]


def _promote(o, low, x):
    rank = getattr(o, "promote_rank", None)
    whole = rank is None or rank == len(stream_in(o).shape)
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
        same = tuple(shape) == tuple(stream_in(o).stream_dtype.shape)
        return [p.Streamify(x) if same else p.Streamify(x, shape=shape, stride=tuple(o.stride))]
    first, *more = o.repeat_factor or (None,)
    made: Any = p.Streamify(x, repeat=first and first * prod(more))
    for i, n in enumerate(reversed(more)):
        made = p.Reshape(made, dim=o.rank + i, chunk=n)[0]
    return [made]


def _deal(o, low, x):
    n = o.num_consumers
    count = stream_in(o).shape[0]
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


def _addresses(o, x):
    made = p.FlatMap(x, fn=p.expert_addresses(o.num_tile_per_expert), rank=1)
    base = o.expert_addr_base
    return p.Map(made, fn=p.number("add", base)) if base else made


def _table() -> dict[str, Row]:
    def row(parameters: str, types: Callable, make: Callable | None, onchip=costs.nothing) -> Row:
        return Row(Parameters(parameters), types, make, onchip)

    load = row(
        "underlying, stride, out_shape_tiled, tile_row, tile_col, par_dispatch, mock_bf16=False, "
        "save_npy=False, transposed=False, start_tile_idx=0",
        outputs.loaded,
        lambda o, low: [low.load(o)],
        costs.tiles,
    )
    load_ref = row(
        "graph, ref, underlying, stride, out_shape_tiled, tile_row, tile_col, par_dispatch, "
        "mock_bf16=False, transposed=False, trigger_rank=0, start_tile_idx=0",
        outputs.loaded,
        lambda o, low, ref: [low.load(o, ref)],
        costs.tiles,
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
            outputs.loaded_at,
            lambda o, low, a: [low.load_at(o, a)],
            costs.tiles,
        ),
        "RandomOffChipStore": row(
            "graph, underlying, wdata, waddr, tile_row, tile_col, base_addr_byte, par_dispatch, "
            "ack_based_on_waddr=True, buffer_depth=1, mock_bf16=False, has_done_stream=False",
            outputs.stored_at,
            lambda o, low, a, x: [low.store_at(o, a, x)],
            costs.tiles,
        ),
        "OffChipStore": row(
            "graph, input, par_dispatch, store_file_name='output'",
            lambda o: [],
            lambda o, low, x: low.store(o, x),
            costs.stored,
        ),
        "DynLinearOffChipLoad": row(
            "input_tensor_name, tensor_shape_tiled, dtype, tile_row, tile_col, par_dispatch, "
            "mock_bf16=False",
            lambda o: [(Tile(Float32(), (o.tile_row, o.tile_col)), (1, *o.tensor_shape_tiled))],
            lambda o, low: [low.load_file(o)],
            costs.tiles,
        ),
        "DynOffChipStore": row(
            "graph, input, shape_file_name, par_dispatch, store_file_name='output'",
            lambda o: [],
            lambda o, low, x: low.store(o, x),
            costs.stored,
        ),
        "ExpandRef": row(
            "graph, input, ref, expand_rank", outputs.by_reference, _repeat, costs.repeated
        ),
        "RepeatRef": row("graph, input, ref", outputs.by_reference, _repeat, costs.repeated),
        "RepeatStatic": row(
            "graph, input, repeat_factor",
            lambda o: [(stream_in(o).stream_dtype, (*stream_in(o).shape, o.repeat_factor))],
            lambda o, low, x: [p.Expand(x, count=o.repeat_factor)],
            costs.repeated,
        ),
        "Promote": row("graph, input, promote_rank", outputs.promoted, _promote, costs.shaped),
        "PromoteOuter": row("graph, input", outputs.promoted, _promote, costs.shaped),
        "Flatten": row(
            "graph, input, min_rank, max_rank",
            outputs.flattened,
            lambda o, low, x: [low.flatten(o, x)],
            costs.shaped,
        ),
        "Reshape": row(
            reshape + "add_outer_dim=False, pad_fn=None", outputs.reshaped, _reshape, costs.shaped
        ),
        "ReshapePadStream": row(
            reshape + "pad_fn=None, have_pad_stream=True", outputs.reshaped, _reshape, costs.shaped
        ),
        "UnaryMap": row(
            "graph, input, fn, write_back_mu, compute_bw",
            outputs.function_of,
            lambda o, low, x: [low.map(o, x)],
            costs.mapped,
        ),
        "BinaryMap": row(
            "graph, in1, in2, fn, write_back_mu, compute_bw",
            outputs.function_of,
            lambda o, low, a, b: [low.map(o, a, b)],
            costs.mapped,
        ),
        "BinaryMapAccum": row(
            "graph, in1, in2, fn, init_fn, rank, write_back_mu, compute_bw",
            lambda o: outputs.function_of(o, every=True, rank=o.rank),
            _accum,
            costs.map_accum,
        ),
        "Accum": row(
            "graph, input, output_stream_dtype, fn, init_fn, accum_rank, write_back_mu, compute_bw",
            lambda o: [(o.output_stream_dtype, outputs.reduced(stream_in(o), o.accum_rank))],
            _accum,
            costs.accumulated,
        ),
        "Broadcast": row(
            "graph, input, num_consumers",
            lambda o: [
                (stream_in(o).stream_dtype, stream_in(o).shape) for _ in range(o.num_consumers)
            ],
            lambda o, low, x: low.copies(o, x),
        ),
        "Bufferize": row(
            "graph, input, rank, off_chip=False",
            outputs.buffer,
            lambda o, low, x: [p.Bufferize(x, rank=o.rank)],
            costs.buffered,
        ),
        "Streamify": row(
            "graph, input, repeat_factor=None, rank=None, off_chip=False, stride=None, "
            "out_shape_tiled=None",
            outputs.from_buffer,
            _stream_buffer,
            costs.streamed,
        ),
        "DynStreamify": row(
            "graph, input, ref, repeat_rank, bufferized_rank, off_chip=False",
            outputs.from_buffer,
            _stream_buffer,
            costs.streamed,
        ),
        "Parallelize": row(
            "graph, input, parallelize_rank, num_consumers, switch_cycles=None, "
            "write_back_mu=False",
            outputs.shared,
            _deal,
            costs.routed,
        ),
        "StaticReassemble": row(
            "graph, inputs, merge_rank, switch_cycles=None, write_back_mu=False",
            outputs.gathered,
            _gather,
            costs.routed,
        ),
        "FlatPartition": row(
            "graph, input, control, partition_rank, switch_cycles, write_back_mu, num_consumers",
            outputs.partitioned,
            lambda o, low, x, by: list(
                p.Partition(x, by, rank=o.partition_rank, outputs=o.num_consumers)
            ),
            costs.routed,
        ),
        "FlatReassemble": row(
            "graph, inputs, control, reassemble_rank, switch_cycles, write_back_mu",
            outputs.reassembling,
            lambda o, low, *xs: [p.Reassemble(*xs, rank=o.reassemble_rank)],
            costs.reassembled,
        ),
        "EagerMerge": row(
            "graph, inputs, input_rank",
            outputs.merging,
            lambda o, low, *xs: list(p.EagerMerge(*xs)),
            costs.merged,
        ),
        "RetileStreamify": row(
            "graph, input, split_row, filter_mask=False, chunk=1", outputs.retiled, _retile
        ),
        "FlatmapCounter": row(
            "graph, input",
            outputs.counted,
            lambda o, low, x: [p.FlatMap(x, x, fn=p.address_range(0), rank=1)],
        ),
        "MockStreamOp": row(
            "stream, aten_op_name='', output_idx=0",
            lambda o: [(o.given.stream_dtype, o.given.shape)],
            None,
        ),
        "SelectGen": row(
            "is_multihot, tensor, n=None", outputs.selects, lambda o, low: [low.selectors(o)]
        ),
        "MetadataGen": row(
            "tensor",
            lambda o: [(NUMBER, (1, *map(int, o.underlying.shape)))],
            lambda o, low: [low.numbers(o)],
        ),
        "ExpertAddrGen": row(
            "graph, input, num_tile_per_expert, expert_addr_base",
            lambda o: outputs.counted(o, NUMBER, o.num_tile_per_expert, 1),
            lambda o, low, x: [low.with_one(_addresses(o, x))],
        ),
        "CacheReadAddrGen": row(
            "graph, idx, seq_len, row_offset",
            outputs.counted,
            lambda o, low, i, n: [p.FlatMap(i, n, fn=p.address_range(o.row_offset), rank=1)],
        ),
        "FilterLastTile": row(
            "graph, input",
            lambda o: outputs.counted(o, MultiHot(2)),
            lambda o, low, x: [p.FlatMap(x, fn=p.last_tile_filter(), rank=1)],
        ),
        "ConsumerContext": row("graph, input", lambda o: [], lambda o, low, x: p.Sink(x) and []),
        "PrinterContext": row("graph, input", lambda o: [], lambda o, low, x: p.Sink(x) and []),
        "FlatmapFilterRowStreamify": row(
            "graph, input, mask",
            outputs.masked,
            lambda o, low, x, _: [p.FlatMap(x, fn=p.retile_streamify(along="rows", mask=True))],
        ),
    }


HIDDEN["stream"] = "given"  # of what stands for a stream that is not made yet
ROWS = _table()
BY_NAME: dict[str, type[StepOps]] = {n: type(n, (StepOps,), {"row": r}) for n, r in ROWS.items()}
UTILITIES = ("SelectGen", "MetadataGen", "ExpertAddrGen", "CacheReadAddrGen", "FilterLastTile")
UTILITIES += ("ConsumerContext", "PrinterContext")
"""Operators of the module ``step_py.utility_ops``; all others are of ``step_py.ops``."""
