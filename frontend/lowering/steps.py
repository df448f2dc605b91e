"""Effects of units on the beats of a stream that passes through them, without time.

A stream is known here by the sizes of its physical dimensions, innermost first; one that only the
run tells is None, and so is all that lies beyond the last. A step says how many beats a unit has to
take before it gives its n-th, and how many it can take while n of what it gives have room. Where a
size is not known, the first is the least that it can be and the second has no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ...machine.kinds import queue_entries
from ...machine.unitgraph import Unit
from ..types import ceil_div
from .base import Lowering

Dims = tuple[int | None, ...]

UNBOUNDED = 1 << 40
"""Beats that a unit can take where nobody knows how many."""
TRIGGERS = 2
"""Triggers that wait in a load (docs/timing.md section 5)."""
TILE_QUEUE = 4
"""Tiles that wait in a reader of a scratchpad (docs/timing.md section 4)."""


@dataclass(frozen=True)
class Step:
    """One way through a unit."""

    out: int  # the output
    dims: Dims  # of the stream that leaves there
    # n -> beats taken before the n-th leaves, at least; None: n
    needs: Callable[[int], int] | None = None
    # n -> beats that can be taken while n of those that leave have room; None: n
    takes: Callable[[int], int] | None = None


def group(dims: Dims, levels: int) -> int | None:
    """Beats in ``levels`` inner dimensions, or None where the run decides."""
    inner = [n for n in dims[:levels] if n is not None]
    return prod(inner) if len(inner) == levels else None


def steps(low: Lowering, unit: Unit, port: int, dims: Dims) -> list[Step]:
    """Ways on for a stream that enters a unit at an input; none where it ends, or where the data
    decide.
    """
    table = _MACHINE if low.timing == "machine" else _STEPSIM
    if unit.kind.name in table:
        return table[unit.kind.name](low, unit, port, dims)
    return _pass(low, unit, port, dims) if unit.kind.beat_for_beat else []


def _pass(low, unit, port, dims):
    return [Step(0, dims)]


def _pipelined(low, unit, port, dims):
    kind = unit.kind
    room = queue_entries(kind.latency(low.t), kind.interval(low.t))
    return [Step(0, dims, takes=lambda n: n + room)]


def _register(low, unit, port, dims):
    return [Step(0, dims, takes=lambda n: n + 1)]


def _broadcast(low, unit, port, dims):
    held = None if low.timing == "machine" else lambda n: n + 1
    return [Step(i, dims, takes=held) for i in range(unit.kind.n)]


def _flatten(low, unit, port, dims):
    lo = unit.kind.lo
    hi = unit.kind.hi
    padded = (*dims, *[None] * (hi + 1))
    size = None if None in padded[lo : hi + 1] else prod(padded[lo : hi + 1])
    merged = (*padded[:lo], size, *dims[hi + 1 :])
    if getattr(unit.kind, "hold", False):
        return [Step(0, merged, lambda n: n + 1, lambda n: n + 1)]
    return [Step(0, merged)]


def _promote(low, unit, port, dims):
    level = unit.kind.level
    if getattr(unit.kind, "outermost", False):
        return [Step(0, dims, lambda n: n + 1, lambda n: n + 1)]
    padded = (*dims, *[None] * level)
    return [Step(0, (*padded[:level], 1, *dims[level:]))]


def _reshape(low, unit, port, dims):
    d = unit.kind.dim
    chunk = unit.kind.chunk
    size = (*dims, *[None] * (d + 1))[d]
    if size is None or size % chunk:
        return [Step(0, dims[:d], None, lambda n: UNBOUNDED)]
    return [Step(0, (*dims[:d], chunk, size // chunk, *dims[d + 1 :]))]


def _many(count: int, dims: Dims, waiting: int = 0, out: int = 0, queue: int = 0) -> Step:
    """``count`` beats for each one; ``waiting``: of those taken, ``queue``: of those given."""
    return Step(out, dims, lambda n: ceil_div(n, count), lambda n: (n + queue) // count + waiting)


def _repeat(low, unit, port, dims):
    count = unit.kind.count
    return [_many(count, (count, *dims))]


def _gather(beats: int | None, dims: Dims, out: int = 0) -> Step:
    """One beat for each ``beats``, with the last of them."""
    if beats is None:
        return Step(out, dims, None, lambda n: UNBOUNDED)
    return Step(out, dims, lambda n: n * beats, lambda n: n * beats + beats - 1)


def _signal(low, unit, port, dims):
    level = unit.kind.level
    return [_gather(group(dims, level), dims[level:])]


def _accum(low, unit, port, dims):
    if unit.kind.scan:
        return _pipelined(low, unit, port, dims)
    reduced = {d for d in range(unit.kind.reduce.bit_length()) if unit.kind.reduce >> d & 1}
    top = max(reduced) + 1
    kept = tuple(size for d, size in enumerate(dims) if d not in reduced)
    beats = group(dims, top)
    if not beats:
        return [Step(0, kept, None, lambda n: UNBOUNDED)]
    results = prod(size for d, size in enumerate(dims[:top]) if d not in reduced)
    kind = unit.kind
    interval = kind.interval(low.t)
    room = queue_entries(interval, interval)
    return [
        Step(
            0,
            kept,
            lambda n: ceil_div(n, results) * beats,
            lambda n: (n + room) // results * beats + beats - 1,
        )
    ]


def _scratchpad(low, unit, port, dims):
    writers = unit.kind.writers
    readers = unit.kind.readers
    if port < len(writers):
        return [_writer(unit, port, dims)]
    at = port - len(writers)
    if at >= len(readers):  # a stream that drives reads, in reader order
        at = [r for r, reader in enumerate(readers) if "ref" in reader][at - len(readers)]
    out = len(writers) + at
    tiles = _tiles(low, unit)
    if tiles is None:
        return _at_least(low, unit, port, dims, out)
    repeat = 1 if "ref" in readers[at] else unit.kind.repeat[at] or 1
    inner = (tiles, *[1] * (readers[at]["rank"] - 1), *[repeat] * readers[at]["repeat_dim"])
    return [_many(tiles * repeat, (*inner, *dims), 1, out, TILE_QUEUE)]


def _writer(unit, port, dims):
    """References of buffers: as many as the writer may hold, in as many pages as there are."""
    rank = unit.kind.writers[port]["rank"]
    beats = group(dims, rank)
    step = _gather(group(dims, rank), dims[rank:], port)
    if not beats:
        return step
    most = min(unit.kind.limit[port], unit.kind.pages // ceil_div(beats, unit.kind.frames))
    return Step(port, step.dims, step.needs, lambda n: max(1, min(most, n + 2)) * beats)


def _tiles(low: Lowering, unit: Unit) -> int | None:
    """Tiles of a scratchpad's buffers, where all have as many."""
    known = {n for held in low.held if held["unit"] == unit.id for n in held["tiles"]}
    tiles = known.pop() if len(known) == 1 else None
    return tiles if isinstance(tiles, int) else None


def _load(low, unit, port, dims):
    p = unit.kind
    rows = ceil_div(p.rows, low.t)
    cols = ceil_div(p.cols, low.t)
    loops = tuple(p.shape)[::-1] if p.trigger == "ref" else ()
    return [_many(rows * cols * prod(loops), (cols, rows, *loops, *dims), TRIGGERS)]


def _expand(low, unit, port, dims):
    if port:
        return [Step(0, dims)]
    level = unit.kind.level if low.timing == "machine" else unit.kind.rank
    return [Step(0, (*[None] * level, *dims), lambda n: 1, lambda n: UNBOUNDED)]


def _split(low, unit, port, dims):
    """The first of the units that share the work stands for all."""
    return [Step(0, dims, takes=lambda n: n * unit.kind.n)]


def _merge(low, unit, port, dims):
    return [Step(0, dims, takes=lambda n: ceil_div(n, unit.kind.n))]


def _row_pack(low, unit, port, dims):
    p = unit.kind
    beats = group(dims, p.level) if p.bands == 1 and p.depth == 1 else None
    return [_gather(beats, (1, 1, *dims[p.level :]))]


def _at_least(low, unit, port, dims, out=0):
    """Beats whose number the run decides."""
    return [Step(out, (), lambda n: 1, lambda n: UNBOUNDED)]


def _reduced(low, unit, port, dims):
    """Timing `stepsim`: a reduction over ``rank`` dimensions, or a buffer of them."""
    rank = unit.kind.rank
    return [_gather(group(dims, rank), dims[rank:])]


_SHAPES = {"broadcast": _broadcast, "repeat": _repeat, "reshape": _reshape, "expand": _expand}

_MACHINE = {
    **_SHAPES,
    "flatten": _flatten,
    "promote": _promote,
    "signal": _signal,
    "accum": _accum,
    "scratchpad": _scratchpad,
    "load": _load,
    "split": _split,
    "merge": _merge,
    "row_pack": _row_pack,
    "row_unpack": _at_least,
    "generate": _at_least,
    "map": _pipelined,
    "row_reduce": _pipelined,
    "matmul": _pipelined,
}
_STEPSIM = {
    **_SHAPES,
    "map": _pass,
    "zip": _register,
    "scan": _register,
    "flatten": _flatten,
    "promote": _promote,
    "accum": _reduced,
    "map_accum": _reduced,
    "bufferize": _reduced,
    "streamify": _at_least,
    "streamify_ref": _at_least,
    "load_ref": _at_least,
    "split": _at_least,
}
