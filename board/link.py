"""Requests and answers on a serial line, to a board or to its simulation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from ..machine.errors import RunError
from ..machine.host_frames import FLAG, MOST_WORDS, Operation, Status, frame, unframed
from ..machine.host_map import WORD_BYTES

TRIES = 5
ANSWER_SECONDS = 2.0
"""For an answer, besides the time on the serial line; then the request is sent again."""
LOOK_SECONDS = 0.02


class Line(Protocol):
    """A serial line: what is used of ``serial.Serial``."""

    def write(self, data: bytes, /) -> int | None:
        """Send bytes."""
        ...

    def read(self, size: int, /) -> bytes:
        """Read at most ``size`` bytes; fewer, or none, where they do not come in time."""
        ...

    def close(self) -> None:
        """Give the port back."""
        ...


def open_line(path: str, baud: int) -> Line:
    """The serial port, or pseudo-terminal, of a path.

    Raises
    ------
    RunError
        There is none, or it cannot be opened.
    """
    import serial  # only a board needs it

    try:
        return serial.Serial(path, baud, timeout=LOOK_SECONDS, exclusive=True)
    except (OSError, ValueError) as e:  # SerialException is an OSError
        raise RunError(
            f"the serial line does not open: {e}", path, remedy="see which port the board has"
        ) from None


class Link:
    """Words of a board, by address.

    Parameters
    ----------
    line
        Open.
    name
        What it is called in messages.
    baud
        Bits a second, to know how long a frame takes.
    answer_seconds
        How long an answer may take besides.

    Attributes
    ----------
    repeated
        Requests that were sent again, as no answer came or the request came damaged.
    """

    def __init__(self, line: Line, name: str, baud: int, answer_seconds: float = ANSWER_SECONDS):
        self.line = line
        self.name = name
        self.baud = baud
        self.answer_seconds = answer_seconds
        self.repeated = 0
        self._number = 0
        self._held = b""

    def write(self, address: int, words: Sequence[int]) -> None:
        """Write words from an address on.

        Raises
        ------
        RunError
            The serial line is closed, nobody answers, or the board refuses.
        """
        for at in range(0, len(words), MOST_WORDS):
            part = list(words[at : at + MOST_WORDS])
            self._ask(Operation.WRITE, address + WORD_BYTES * at, len(part), part)

    def read(self, address: int, count: int = 1) -> list[int]:
        """Words from an address on; raises what :meth:`write` does."""
        words: list[int] = []
        while len(words) < count:
            part = min(MOST_WORDS, count - len(words))
            words += self._ask(Operation.READ, address + WORD_BYTES * len(words), part, [])
        return words

    def _ask(self, operation: Operation, address: int, count: int, data: list[int]) -> list[int]:
        self._number = (self._number + 1) % 256
        head = self._number | operation << 8 | count << 16
        request = frame([head, address, *data])
        problem = f"no answer in {self.answer_seconds:g} s"
        for attempt in range(TRIES):
            self.repeated += attempt > 0
            self._send(request)
            answer = self._answer(operation, len(request) + WORD_BYTES * (count + 4))
            if answer is None:
                continue
            status = answer[-1]
            if status == Status.DAMAGED:
                problem = "requests arrive damaged"
                continue
            if status == Status.REFUSED:
                raise RunError(
                    f"the board refuses to {operation.name.lower()} {count} words at {address:#x}",
                    self.name,
                    remedy="see whether it holds the design that is meant",
                )
            if len(answer) == 2 + (count if operation is Operation.READ else 0):
                return answer[1:-1]
            problem = "answers have another count of words"
        raise RunError(
            f"{problem}, {TRIES} times",
            self.name,
            remedy="see whether the board is on, holds the design, and has this baud rate",
        )

    def _send(self, request: bytes) -> None:
        try:
            self.line.write(request)
        except OSError as e:
            raise self._closed(e) from None

    def _closed(self, e: OSError) -> RunError:
        return RunError(
            f"the serial line was closed: {e.strerror or e}",
            self.name,
            remedy="see whether the board, or its simulation, is still there",
        )

    def _answer(self, operation: Operation, size: int) -> list[int] | None:
        """The answer to the last request; None where none has come in time."""
        until = time.monotonic() + self.answer_seconds + 20 * size / self.baud
        while time.monotonic() < until:
            try:
                self._held += self.line.read(4096)
            except OSError as e:
                raise self._closed(e) from None
            *bodies, self._held = self._held.split(bytes([FLAG]))
            for words in filter(None, map(unframed, bodies)):
                if len(words) >= 2 and words[0] & 0xFFFF == self._number | operation << 8:
                    return words
                if words[0] & 0xFF00 == 0 or words[-1] == Status.DAMAGED:
                    return words  # of a damaged request, whose head may be too
        return None
