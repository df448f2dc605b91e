"""Kinds with a port to off-chip memory (docs/timing.md section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import limits
from ..beat import MAX_STOP, STOP_BITS, Payload, Scalar, Tile
from ..widths import Widths
from .compute import tiles_only
from .kind import In, Kind, Out, Payloads, need, param, register, tile
from .setting import Listed, OneOf, Runtime, UpTo
from .uses import BANDS, QUEUES

_ORDER = (
    "list of [row, col], in elements: where each logical tile lies, in stream order (instead of "
    "the affine walk)"
)
_PLACES = Listed({"row": limits.SIZE_BITS, "col": limits.SIZE_BITS})
_WITHIN = 2
"""Stop levels of a logical tile's own rows and columns."""
_SHIFT = "log2 of the logical tiles in a row of the tensor"


class _Start(OneOf):
    """None, which fits every slot, or one of the bound's values."""

    def misses(self, value: Any, bound: Any) -> str:
        return "" if value is None else super().misses(value, bound)


class _Tensor(Kind):
    """A tensor and its logical tiles."""

    tensor: str = param("tensor name", runtime=True)
    base: int = param("byte address", limits.ADDRESSES, runtime=True)
    pitch: int = param("bytes a tensor row", limits.ADDRESSES, runtime=True)
    tensor_rows: int = param("elements", limits.SIZES, runtime=True)
    tensor_cols: int = param("elements", limits.SIZES, runtime=True)
    rows: int = param("rows of a logical tile", limits.COUNTS, runtime=True)
    cols: int = param("columns of a logical tile", limits.COUNTS, runtime=True)


def _bands(each: Tile, line: int) -> int:
    """Bits of a band of rows of a line of ``line`` bits, in slots."""
    return limits.SLOTS * line * each.t


def _places(order: list[Any] | None) -> int:
    """Bits of a list of places."""
    return 2 * limits.SIZE_BITS * len(order or ())


def _address(payload: Payload) -> bool:
    return isinstance(payload, Scalar) and payload.width <= limits.ADDRESS_BITS


@register
class Load(_Tensor):
    """Off-chip load of a loop nest of tiles, once or once a trigger (docs/timing.md section 5).

    Requests a chunk of lines a cycle. It stalls while its ring is full, while the port is another
    unit's, and until the lines of the next block are there.
    """

    name = "load"
    offchip = "read"
    rank: int = param("loop dimensions", setting=UpTo(highest=MAX_STOP - _WITHIN))
    shape: list[Any] = param(
        "trip counts, outermost first",
        limits.SIZES,
        setting=Runtime(limits.SIZES, fill=1, front=True),
    )
    row_step: list[Any] = param(
        "rows advanced by each loop dimension",
        limits.SIZES,
        setting=Runtime(limits.SIZES, front=True),
    )
    col_step: list[Any] = param(
        "columns advanced by each loop dimension",
        limits.SIZES,
        setting=Runtime(limits.SIZES, front=True),
    )
    order: list[Any] | None = param(_ORDER, default=None, setting=_PLACES)
    trigger: str | None = param(
        "what starts a walk: 'ref' (each beat of its input) or 'address' (each scalar, the number "
        "of a logical tile)",
        default=None,
        setting=_Start(None),
    )
    shift: int | None = param(f"for 'address': {_SHIFT}", limits.SHIFTS, runtime=True, default=None)
    start = In(
        "with `trigger`: any beats, or numbers of tiles", when=lambda kind: bool(kind.trigger)
    )
    data = Out("tiles")

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        each = tile(outputs[0], "what it loads are tiles")
        columns = widths.line // each.element_bits
        block = t.bit_length() + columns.bit_length() + (max(2, columns // t) - 1).bit_length()
        triggers = 0
        if self.trigger:
            start = widths.place if self.trigger == "address" else 0
            triggers = limits.TRIGGERS_AHEAD * (start + 1)
            triggers += limits.TRIGGERS_BEHIND * (start + STOP_BITS + 1)
        return {
            BANDS: _bands(each, widths.line) + 2 * _places(self.order) + triggers,
            QUEUES: limits.BLOCKS * (block + STOP_BITS + 2),
        }

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        for steps in (self.row_step, self.col_step):
            last = sum(max(n - 1, 0) * step for n, step in zip(self.shape, steps, strict=True))
            need(
                last < 1 << limits.POSITION_BITS,
                f"positions in a tensor have {limits.POSITION_BITS} bits",
            )
        need(self.trigger in (None, "ref", "address"), "trigger is 'ref' or 'address'")
        if self.trigger == "address":
            need(_address(inputs[0]), "its triggers are scalars of at most 32 bits")
            need(
                self.rank == 0 and self.shift is not None and self.order is None,
                "a load by address has rank 0, a shift and no order",
            )
        return (None,)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (_WITHIN + self.rank + max(inputs, default=0),)


def _packing(each: Tile, line: int) -> dict[str, int]:
    """Packing that a store keeps of the tiles of a line, and its queue of blocks."""
    columns = line // each.element_bits
    return {
        BANDS: _bands(each, line),
        QUEUES: limits.BLOCKS * (2 + each.count_bits + columns.bit_length()),
    }


@register
class Store(_Tensor):
    """Linear off-chip store (docs/timing.md section 5).

    Requests a chunk of lines a cycle. It stalls while the port is another unit's.
    """

    name = "store"
    offchip = "write"
    ends_run = True
    order: list[Any] | None = param(_ORDER, default=None, setting=_PLACES)
    data = In("tiles")

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        packing = _packing(tile(inputs[0], "what it stores are tiles"), widths.line)
        return packing | {BANDS: packing[BANDS] + _places(self.order)}

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        tiles_only(inputs)
        return ()


@register
class RandomStore(_Tensor):
    """Off-chip store of tiles at the places that numbers name, with acknowledgements
    (docs/timing.md section 5).

    Stalls as `store` does, for the next address, and while as many acknowledgements are due as it
    keeps.
    """

    name = "random_store"
    offchip = "write"
    ends_run = True
    shift: int = param(_SHIFT, limits.SHIFTS, runtime=True)
    address = In("numbers of logical tiles")
    data = In("tiles")
    ack = Out("a token for each logical tile in memory")

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        packing = _packing(tile(inputs[1], "what it stores are tiles"), widths.line)
        beat = STOP_BITS + 1
        place = widths.position + 2 * widths.address  # column, and two terms of the offset
        due = limits.STORE_ADDRESSES * (place + beat) + limits.STORE_TILES * beat
        return packing | {BANDS: packing[BANDS] + due}

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        need(_address(inputs[0]), "its addresses are scalars of at most 32 bits")
        need(isinstance(inputs[1], Tile), "what it stores are tiles")
        return (Scalar(1),)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return inputs[:1]
