"""Bytes on chip of each operator, as the published figures count them: of the operator, whether
FIFOs count, and the mode (2: two of each buffer off chip).
"""

from __future__ import annotations

from typing import Any

import sympy

from .datatype import Stream, expr, total
from .operator import StepOps, get_stream


def size(x: Any) -> sympy.Expr:
    return (get_stream(x) if not isinstance(x, Stream) else x).stream_dtype.size_in_bytes()


def ins(o: StepOps) -> list[sympy.Expr]:
    return [size(x) for x in o.sources()]


def nothing(*_) -> int:
    return 0


def tiles(o, _, mode):
    return o.tile_row * o.tile_col * o.n_byte * getattr(o, "buffer_depth", 1) * mode


def stored(o, _, mode):
    return ins(o)[0] * mode


def repeated(o, fifos, _):
    return size(o.stream) * (2 if fifos else 1)


def shaped(o, fifos, _):
    return 2 * size(o.stream_idx(0)) if fifos else 0


def routed(o, fifos, _):
    n = max(len(o.stream_list), len(o._inputs) if "_inputs" in vars(o) else 0)
    return ins(o)[0] * (n + 1) if fifos else 0


def merged(o, fifos, _):
    n = len(o.sources()) + 1
    return (ins(o)[0] + size(o.stream_idx(1))) * n if fifos else 0


def reassembled(o, fifos, _):
    here = 0
    if o.write_back_mu:
        rank = get_stream(o.control).rank
        here = total(o.stream.shape[rank - 1 :]) * size(o.stream)
    return here + (ins(o)[0] * (len(o._inputs) + 1) if fifos else 0)


def mapped(o, fifos, mode):
    if not fifos:
        return 0
    if mode != 2:
        return sum(ins(o)) + size(o.stream)
    return array(o) if "Matmul" in str(o.fn) else 0


def array(o):
    return 16 * expr(get_stream(o.in1).stream_dtype.shape[1]) + ins(o)[1] + size(o.stream)


def map_accum(o, fifos, mode):
    if not fifos:
        return size(o.stream)
    return array(o) if mode == 2 else 3 * ins(o)[0]


def accumulated(o, fifos, mode):
    return size(o.stream) + (ins(o)[0] if fifos and mode != 2 else 0)


def buffered(o, *_):
    return ins(o)[0] + (0 if o.off_chip else 2 * size(o.stream))


def streamed(o, _, mode):
    held = 0 if o.off_chip else ins(o)[0]
    return size(o.stream) + held if o.off_chip or mode != 2 else 0
