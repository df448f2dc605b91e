"""Beats of a source: payload bits, stops and release cycles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..machine.beat import STOP_BITS, STOP_DONE, Payload
from ..machine.trace import SourceBeats


def beat_int(payload: Payload, value: int, stop: int, data: int = 1) -> int:
    """A whole beat as one integer (docs/timing.md section 6)."""
    return value | stop << payload.bits | data << (payload.bits + STOP_BITS)


def beats(
    payload: Payload,
    items: Iterable[tuple[int | None, int] | None],
    release: Sequence[int] | np.ndarray = (),
) -> SourceBeats:
    """Beats for a source unit.

    Parameters
    ----------
    payload
        What the stream carries.
    items
        (payload bits, stop) per beat, no bits (None) for one without data; None for a Done; one
        Done is added at the end unless the last item is None.
    release
        Cycle from which each beat may be offered, Done included; missing ones are 0.
    """
    items = list(items)
    if not items or items[-1] is not None:
        items.append(None)
    words = (payload.bits + 31) // 32
    raw = b"".join((0 if x is None else x[0] or 0).to_bytes(4 * words, "little") for x in items)
    stop = np.array([STOP_DONE if x is None else x[1] for x in items], np.uint8)
    at = np.zeros(len(items), np.int64)
    at[: len(release)] = release
    return SourceBeats(
        at,
        stop,
        np.array([x is not None and x[0] is not None for x in items], np.uint8),
        np.frombuffer(raw, np.uint32).reshape(-1, words),
    )


def damaged(rng: np.random.Generator, given: SourceBeats) -> SourceBeats:
    """Beats of which one that is drawn has another stop level, none of its data, or other low bits:
    a tile's valid rows.
    """
    k = int(rng.integers(len(given.stop)))
    stop, data, payload = given.stop.copy(), given.data.copy(), given.payload.copy()
    match rng.integers(4):
        case 0:
            data[k] = payload[k] = 0
        case 1:
            payload[k, 0] ^= rng.integers(1, 4)
        case _:
            stop[k] = rng.integers(5)
    return replace(given, stop=stop, data=data, payload=payload)
