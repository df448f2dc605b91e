"""Streams at the ports of a design: beats with release cycles, and cocotb agents that drive them.

In a fabric's bench the streams are driven and taken by bench.sv; the cocotb agents here are for
benches of a single component, where a per-cycle Python loop does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


class StreamSource:
    """cocotb: offers integers on ``<name>_payload/_valid/_ready`` of a design, each from its
    release cycle on.
    """

    def __init__(self, dut, name: str, beats: Iterable[int], release: Iterable[int]):
        self.clk = dut.clk
        self.beats = list(beats)
        self.release = list(release)
        self.payload, self.valid, self.ready = (
            getattr(dut, f"{name}_{x}") for x in ("payload", "valid", "ready")
        )
        self.valid.value = 0
        self.accepted: list[int] = []

    async def run(self) -> None:
        """Run from the first cycle (the falling edge before it) until all is accepted."""
        from cocotb.triggers import FallingEdge, ReadOnly

        cycle = 0
        i = 0
        while i < len(self.beats):
            offered = self.release[i] <= cycle
            self.valid.value = int(offered)
            if offered:
                self.payload.value = self.beats[i]
            await ReadOnly()
            if offered and int(self.ready.value):
                self.accepted.append(cycle)
                i += 1
            await FallingEdge(self.clk)
            cycle += 1
        self.valid.value = 0


class StreamSink:
    """cocotb: takes beats from ``<name>_payload/_valid/_ready``, the j-th not before
    ``release[j]``.
    """

    def __init__(self, dut, name: str, release: Iterable[int] = ()):
        self.clk = dut.clk
        self.release = list(release)
        self.payload, self.valid, self.ready = (
            getattr(dut, f"{name}_{x}") for x in ("payload", "valid", "ready")
        )
        self.ready.value = 0
        self.taken: list[tuple[int, int]] = []  # (cycle, beat)

    async def run(self, cycles: int) -> None:
        """Watch ``cycles`` cycles; the caller leaves enough after the last beat to see that nothing
        extra comes.
        """
        from cocotb.triggers import FallingEdge, ReadOnly

        for cycle in range(cycles):
            j = len(self.taken)
            ready = j >= len(self.release) or self.release[j] <= cycle
            self.ready.value = int(ready)
            await ReadOnly()
            if ready and int(self.valid.value):
                self.taken.append((cycle, int(self.payload.value)))
            await FallingEdge(self.clk)
