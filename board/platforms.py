"""The boards: part, clock, baud rate."""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.errors import PenstockError
from ..machine.host_frames import LEAST_DIVISOR
from ..machine.limits import within

__all__ = ["BOARDS", "NAMES", "SIM", "Platform", "divisor_of"]

SIM = "sim"
RATES = range(300, 12_000_001)
"""Bits a second of a serial line."""
WORST_BAUD = 0.02
"""How far a baud rate may be from what the clock gives."""


@dataclass(frozen=True)
class Platform:
    """A board.

    Attributes
    ----------
    module, platform
        Of amaranth-boards: the module, and the class in it.
    part
        The FPGA, with its speed grade and package.
    oscillator_mhz, clock_mhz
        Of the board, and of the design.
    baud
        Of the serial line, unless told otherwise.

    """

    module: str
    platform: str
    part: str
    oscillator_mhz: float
    clock_mhz: float
    baud: int


BOARDS = {
    "ulx3s": Platform("ulx3s", "ULX3S_85F_Platform", "LFE5U-85F-6BG381", 25.0, 25.0, 1_000_000),
    "ecpix5": Platform("ecpix5", "ECPIX585Platform", "LFE5UM5G-85F-8BG554", 100.0, 25.0, 1_000_000),
}
NAMES = (SIM, *BOARDS)


def divisor_of(board: str, baud: int | None = None) -> int:
    """Clock cycles of a bit.

    Raises
    ------
    PenstockError
        The board's clock gives no such rate.

    """
    if board not in BOARDS:
        raise PenstockError(f"unknown board {board!r}", remedy=f"boards: {', '.join(NAMES)}")
    clock = BOARDS[board].clock_mhz * 1e6
    rate = within("baud rate", BOARDS[board].baud if baud is None else baud, RATES)
    divisor = round(clock / rate)
    if divisor < LEAST_DIVISOR or abs(clock / divisor / rate - 1) > WORST_BAUD:
        raise PenstockError(
            f"{rate} baud is more than {WORST_BAUD:.0%} from what a clock of "
            f"{clock / 1e6:g} MHz gives",
            f"board {board}",
            remedy=f"use {BOARDS[board].baud}, or {clock / max(LEAST_DIVISOR, divisor):.0f}",
        )
    return divisor
