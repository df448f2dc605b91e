"""cocotb agents for valid/ready streams of beats, and for a fabric's configuration port.

A cycle is what lies between two rising edges of the clock; cycle 0 is the first after reset. All
signals are read at the edge that ends a cycle and written after it, through the GPI alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Event, RisingEdge
from cocotb.utils import get_sim_time

from ..machine.beat import STOP_BITS, STOP_DONE, Payload, beat_bits, beat_number
from ..machine.limits import RESET_CYCLES
from ..machine.stimulus import whole_beats
from ..machine.trace import SourceBeats


class Bench:
    """Clock, reset and cycle count of a design.

    Parameters
    ----------
    dut
        The design's handle, with ports ``clk`` and ``rst`` (synchronous, active high).
    period
        Of the clock, ns.
    """

    def __init__(self, dut: Any, period: int = 10):
        self.dut = dut
        self.edge = RisingEdge(dut.clk)
        self.period = period
        self._start = 0
        Clock(dut.clk, period, "ns").start()

    async def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Hold ``rst`` for some cycles; returns at the beginning of cycle 0."""
        self.dut.rst.value = 1
        for _ in range(cycles):
            await self.edge
        self.dut.rst.value = 0
        self.restart()

    def restart(self) -> None:
        """Begin cycle 0 anew, without a reset."""
        self._start = round(get_sim_time("ns"))

    @property
    def cycle(self) -> int:
        """Cycle that begins at the edge that came last."""
        return (round(get_sim_time("ns")) - self._start) // self.period


def bits(bench: Bench, handle: Any) -> int:
    """Bits of a signal in the cycle that ends.

    Raises AssertionError where one is X or Z, with the cycle.
    """
    value = handle.value
    try:  # to look for X first would take as long again
        return int(value)
    except ValueError:
        raise AssertionError(f"{handle._path} is {value} in cycle {bench.cycle - 1}") from None


@dataclass(frozen=True)
class StreamBus:
    """Signals of a stream: ``payload`` is a whole beat, as docs/timing.md section 6 lays it out."""

    payload: Any
    valid: Any
    ready: Any

    @classmethod
    def of(cls, entity: Any, prefix: str, payload: Payload | None = None) -> StreamBus:
        """Signals ``<prefix>_payload``, ``_valid`` and ``_ready`` of a module.

        Raises
        ------
        ValueError
            A signal is missing, or is not as wide as a beat of ``payload``.
        """
        found = []
        for name in ("payload", "valid", "ready"):
            handle = getattr(entity, f"{prefix}_{name}", None)
            if handle is None:
                raise ValueError(f"{entity._path} has no signal {prefix}_{name}")
            found.append(handle)
        wide = len(found[0])
        if payload is not None and wide != beat_bits(payload):
            raise ValueError(
                f"{found[0]._path} has {wide} bits, a beat of {payload} has {beat_bits(payload)}"
            )
        return cls(*found)

    def moves(self, bench: Bench) -> bool:
        """True if a beat moves in the cycle that ends; X and Z fail."""
        return bool(bits(bench, self.valid) and bits(bench, self.ready))

    def beat(self, bench: Bench) -> int:
        """Bits of the beat in the cycle that ends; X and Z fail."""
        return bits(bench, self.payload)


@dataclass(frozen=True)
class Moved:
    """A beat that moved."""

    cycle: int
    bits: int  # payload, stop and data

    def stop(self, payload: Payload) -> int:
        """Stop level; 15 is Done."""
        return self.bits >> payload.bits & STOP_DONE

    def data(self, payload: Payload) -> int | None:
        """Payload bits; None where the beat is bare."""
        has_data = self.bits >> payload.bits + STOP_BITS
        return self.bits & (1 << payload.bits) - 1 if has_data else None


class StreamDriver:
    """Driver of a design's input stream: beats leave in order, each from its release cycle on.

    ``pause`` holds back the next beat; one that is offered stays.
    """

    def __init__(self, bench: Bench, bus: StreamBus):
        self.bench = bench
        self.bus = bus
        self.queue: deque[tuple[int, int]] = deque()
        self.accepted: list[int] = []
        self.pause = False
        self._filled = Event()
        bus.valid.value = 0
        self._task = cocotb.start_soon(self._run())

    def stop(self) -> None:
        """Offer nothing from now on."""
        self._task.cancel()
        self.bus.valid.value = 0

    def send(self, beats: Iterable[int], release: Sequence[int] = ()) -> None:
        """Queue beats (whole ones, as integers); missing release cycles are 0."""
        for k, beat in enumerate(beats):
            self.queue.append((int(release[k]) if k < len(release) else 0, beat))
        self._filled.set()

    def send_beats(self, payload: Payload, beats: SourceBeats) -> None:
        """Queue the beats of a source unit."""
        self.send(whole(payload, beats), beats.release.tolist())

    async def _run(self) -> None:
        while True:
            while not self.queue:
                self._filled.clear()
                await self._filled.wait()
            release, beat = self.queue[0]
            while self.pause or self.bench.cycle < release:
                await self.bench.edge
            self.bus.payload.value = beat
            self.bus.valid.value = 1
            await self.bench.edge
            while not bits(self.bench, self.bus.ready):
                await self.bench.edge
            self.accepted.append(self.bench.cycle - 1)
            self.queue.popleft()
            self.bus.valid.value = 0


class StreamMonitor:
    """Monitor of a stream, and its sink where it drives ``ready``.

    Parameters
    ----------
    bench, bus
        Where the beats are.
    release
        First cycle in which each beat is taken (the rest at once); None: something else drives
        ``ready``.
    callback
        Called with each beat at the end of the cycle in which it moves.
    """

    def __init__(
        self,
        bench: Bench,
        bus: StreamBus,
        release: Sequence[int] | None = None,
        callback: Callable[[Moved], None] | None = None,
    ):
        self.bench = bench
        self.bus = bus
        self.release = release
        self.callback = callback
        self.beats: list[Moved] = []
        self.pause = False
        if release is not None:
            bus.ready.value = 0
        self._task = cocotb.start_soon(self._run())

    def stop(self) -> None:
        """Take and watch nothing from now on."""
        self._task.cancel()
        if self.release is not None:
            self.bus.ready.value = 0

    async def _run(self) -> None:
        while True:
            if self.release is not None:
                k = len(self.beats)
                free = k >= len(self.release) or self.release[k] <= self.bench.cycle
                self.bus.ready.value = int(free and not self.pause)
            await self.bench.edge
            if self.bus.moves(self.bench):
                self.beats.append(Moved(self.bench.cycle - 1, self.bus.beat(self.bench)))
                if self.callback:
                    self.callback(self.beats[-1])


class ConfigDriver:
    """Driver of a fabric's registers: ports ``cfg_we``, ``cfg_addr``, ``cfg_data``."""

    def __init__(self, bench: Bench):
        self.bench = bench
        bench.dut.cfg_we.value = 0

    async def write(self, words: Iterable[Sequence[int]]) -> None:
        """Write (address, value) pairs, one a cycle."""
        dut = self.bench.dut
        for address, value in words:
            dut.cfg_we.value = 1
            dut.cfg_addr.value = address
            dut.cfg_data.value = value
            await self.bench.edge
        dut.cfg_we.value = 0


def whole(payload: Payload, beats: SourceBeats) -> list[int]:
    """Whole beats of a source as integers."""
    return [beat_number(row) for row in whole_beats(payload, beats)]
