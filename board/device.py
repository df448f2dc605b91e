"""A design on a board, by the names of its host map."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..machine.errors import RunError
from ..machine.faults import Fault
from ..machine.host_frames import MOST_WORDS
from ..machine.host_map import (
    DELIVERY_BITS,
    MAP_ID,
    STREAM_BITS,
    WORD_BYTES,
    field,
    register,
    window,
)
from .link import Link

LOOK_SECONDS = 0.01
RELOADS = 3
"""Attempts of a load after the board was reset in the middle of it."""
CHUNK = MOST_WORDS * WORD_BYTES


class _ResetError(Exception):
    """The board has forgotten its session."""


@dataclass(frozen=True)
class Loaded:
    """Outcome of loading: ``frames`` sent again, and whole ``reloads``."""

    frames: int
    reloads: int


@dataclass(frozen=True)
class Ended:
    """A run: its ``cycles``, and ``counters``: int64 [units, 4]."""

    cycles: int
    counters: np.ndarray


class Device:
    """A board that holds one design.

    Parameters
    ----------
    link
        To it.
    design
        What its register ``DESIGN`` has to hold.

    Raises
    ------
    RunError
        It has no such map, or holds another design; or what :class:`.Link` raises.
    """

    def __init__(self, link: Link, design: int):
        self.link = link
        found = self.get("ID")
        if found != MAP_ID:
            raise RunError(
                f"its register ID holds {found:#010x}, not {MAP_ID:#010x}",
                link.name,
                remedy="load a bitstream of this version of Penstock",
            )
        found = self.get("DESIGN")
        if found != design:
            raise RunError(
                f"the board holds design {found:08x}, the program needs {design:08x}",
                link.name,
                "a design is one program structure on one configuration",
                "build and load its bitstream, or run the program that the board holds",
            )
        self.session = 0

    def get(self, name: str) -> int:
        """A register's word."""
        return self.link.read(register(name).address)[0]

    def set(self, name: str, word: int) -> None:
        """Write a register."""
        self.link.write(register(name).address, [word])

    def load(
        self,
        image: np.ndarray,
        configuration: Mapping[int, int],
        streams: Mapping[int, np.ndarray],
        progress: Callable[[int, int], None] | None = None,
    ) -> Loaded:
        """Hold the design, and give it what it needs.

        Parameters
        ----------
        image
            uint8: the memory, from its first byte on.
        configuration
            Run-time registers by number.
        streams
            uint32 [beats, words] of each source, by the number of its memory.
        progress
            Called with bytes written, and all bytes, as they go.

        Raises
        ------
        RunError
            They do not fit, or the board is reset again and again; or what :class:`.Link` raises.
        """
        size = self.get("MEMORY_BYTES")
        if len(image) > size:
            raise RunError(
                f"its tensors take {len(image)} bytes, the board's memory has {size}",
                self.link.name,
                remedy="use smaller tensors, or build with more memory (--memory)",
            )
        most = self.get("STREAM_BEATS")
        for beats in streams.values():
            if len(beats) > most:
                raise RunError(
                    f"a stream has {len(beats)} beats, the board's memory of it {most}",
                    self.link.name,
                    remedy="use a shorter stream",
                )
        return self.filled(lambda: self._load(image, configuration, streams, progress))

    def filled(self, fill: Callable[[], None]) -> Loaded:
        """Hold the design, and ``fill`` it; again, where the board is reset meanwhile.

        Raises
        ------
        RunError
            It is reset again and again; or what :class:`.Link` raises.
        """
        before = self.link.repeated
        for reloads in range(RELOADS):
            self.set("CONTROL", 0)
            self.session = secrets.randbits(31) + 1
            self.set("SESSION", self.session)
            try:
                fill()
                self.same_session()
            except _ResetError:
                continue
            return Loaded(self.link.repeated - before, reloads)
        raise RunError(
            f"the board was reset while it was loaded, {RELOADS} times",
            self.link.name,
            remedy="see to its power and its reset",
        )

    def _load(self, image, configuration, streams, progress) -> None:
        padded = np.zeros(-(-len(image) // WORD_BYTES) * WORD_BYTES, np.uint8)
        padded[: len(image)] = image
        words = padded.view("<u4")
        base = window("MEMORY").base
        for at in range(0, len(words), MOST_WORDS):
            self.link.write(base + WORD_BYTES * at, words[at : at + MOST_WORDS].tolist())
            if progress:
                progress(min(WORD_BYTES * at + CHUNK, len(image)), len(image))
            if at % (16 * MOST_WORDS) == 0:
                self.same_session()
        base = window("CONFIGURATION").base
        for number, value in configuration.items():
            self.link.write(base + WORD_BYTES * number, [value & 0xFFFFFFFF])
        for number, beats in streams.items():
            self._put_stream(number, beats)

    def same_session(self) -> None:
        """Check of the session, called now and then while a design is filled."""
        if self.get("SESSION") != self.session:
            raise _ResetError

    def _stream(self, number: int) -> tuple[int, int]:
        """First byte of a stream's memory, and that of its number of beats."""
        base = window("STREAMS").base + (number << STREAM_BITS)
        return base, base + (1 << STREAM_BITS) - WORD_BYTES

    def _put_stream(self, number: int, beats: np.ndarray) -> None:
        base, count = self._stream(number)
        stride = 1 << max(0, beats.shape[1] - 1).bit_length()
        padded = np.zeros((len(beats), stride), np.uint32)
        padded[:, : beats.shape[1]] = beats
        self.link.write(base, padded.reshape(-1).tolist())
        self.link.write(count, [len(beats)])

    def run(self, units: int, seconds: float) -> Ended:
        """Let the design run, until it ends.

        Parameters
        ----------
        units
            How many have counters.
        seconds
            How long it may take.

        Raises
        ------
        RunError
            It tells a fault, does not end in time, or the board is reset; or what :class:`.Link`
            raises.
        """
        run = 1 << field("CONTROL", "run").low
        self.set("CONTROL", run)
        until = time.monotonic() + seconds
        while True:
            status = self.get("STATUS")
            self._refuse_reset()
            if error := field("STATUS", "error").of(status):
                self.set("CONTROL", 0)
                flags = "; ".join(fault.what for fault in Fault if error >> fault & 1)
                raise RunError(f"the design tells a fault: {flags}", self.link.name)
            if field("STATUS", "done").of(status):
                break
            if time.monotonic() > until:
                self.set("CONTROL", 0)
                raise RunError(
                    f"the run has not ended after {seconds:g} s",
                    self.link.name,
                    remedy="see whether it ends on the model, or allow more (--limit)",
                )
            time.sleep(LOOK_SECONDS)
        cycles = self.get("CYCLES")
        counters = self.link.read(window("COUNTERS").base, 4 * units) if units else []
        self._refuse_reset()
        self.set("CONTROL", 0)
        return Ended(cycles, np.array(counters, np.int64).reshape(units, 4))

    def _refuse_reset(self) -> None:
        """Raise RunError if the board is no longer what was loaded."""
        if self.get("SESSION") != self.session:
            raise RunError(
                "the board was reset during the run",
                self.link.name,
                remedy="see to its power and its reset, and run again",
            )

    def memory(self, size: int) -> np.ndarray:
        """The first bytes of the memory, uint8; while the design is held."""
        words = self.link.read(window("MEMORY").base, -(-size // WORD_BYTES))
        return np.array(words, "<u4").view(np.uint8)[:size]

    def stream(self, number: int, words: int) -> np.ndarray:
        """Beats that a sink took in the last run, uint32 [beats, words].

        Raises
        ------
        RunError
            It took more than its memory holds.
        """
        base, count = self._stream(number)
        beats = self.link.read(count)[0]
        most = self.get("STREAM_BEATS")
        if beats > most:
            raise RunError(
                f"a sink took {beats} beats, the board's memory of it has room for {most}",
                self.link.name,
                remedy="use a shorter stream",
            )
        stride = 1 << max(0, words - 1).bit_length()
        read = self.link.read(base, beats * stride)
        return np.array(read, np.uint32).reshape(beats, stride)[:, :words]

    def deliveries(self) -> np.ndarray:
        """The SDRAM's deliveries in the last run, int64 [lines, 4]: the columns of
        :data:`~penstock.machine.deliveries.COLUMNS`; its answers have the order of requests.

        Raises
        ------
        RunError
            There were more lines than its record holds.
        """
        most = self.get("RECORDED_LINES")
        base = window("DELIVERIES").base
        size = 1 << DELIVERY_BITS
        lines = self.link.read(base + size - WORD_BYTES)[0]
        if lines > most:
            raise RunError(
                f"moved {lines} lines, the board's record of deliveries has room for {most}",
                self.link.name,
                remedy="use smaller tensors, or run it without the model",
            )
        rows = np.zeros((lines, 4), np.int64)
        if lines:
            requests = self.link.read(base, 2 * lines)
            taken, address = np.array(requests, np.int64).reshape(lines, 2).T
            rows[:, 0] = taken
            rows[:, 1] = self.link.read(base + size, lines)
            rows[:, 2] = address & ~1
            rows[:, 3] = address & 1
        return rows
