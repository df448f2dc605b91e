"""The boards: part, clock, baud rate."""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.errors import PenstockError
from ..machine.limits import DIVISORS, within

SIM = "sim"
RATES = range(300, 12_000_001)
"""Bits a second of a serial line."""
WORST_BAUD = 0.02
"""Largest error of a baud rate that the clock gives."""


@dataclass(frozen=True)
class Platform:
    """A board."""

    # module, platform: of amaranth-boards: the module, and the class in it
    module: str
    platform: str
    part: str  # the FPGA, with its speed grade and package
    # oscillator_mhz, clock_mhz: of the board, and of the design
    oscillator_mhz: float
    clock_mhz: float
    baud: int  # of the serial line, unless told otherwise
    sdram: bool = False  # it has a synchronous DRAM of one data rate


BOARDS = {
    "ulx3s": Platform(
        "ulx3s", "ULX3S_85F_Platform", "LFE5U-85F-6BG381", 25.0, 30.0, 1_000_000, True
    ),
    "ecpix5": Platform("ecpix5", "ECPIX585Platform", "LFE5UM5G-85F-8BG554", 100.0, 30.0, 1_000_000),
}
"""Baud rates of clocks that give 115,200 baud to 3 Mbaud."""
NAMES = (SIM, *BOARDS)
RAMS = ("block", "sdram")
"""Kinds of a board's memory."""
SIM_CLOCK_MHZ = 30.0
"""Clock by which a simulation turns the times of an SDRAM into cycles."""


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
    if divisor not in DIVISORS or abs(clock / divisor / rate - 1) > WORST_BAUD:
        nearest = min(max(divisor, DIVISORS[0]), DIVISORS[-1])
        raise PenstockError(
            f"{rate} baud is more than {WORST_BAUD:.0%} from what a clock of "
            f"{clock / 1e6:g} MHz gives",
            f"board {board}",
            remedy=f"use {BOARDS[board].baud}, or {clock / nearest:.0f}",
        )
    return divisor


def sdram_clock(board: str, ram: str) -> float | None:
    """The clock in MHz of a board's SDRAM; none where its memory is block RAM.

    Raises
    ------
    PenstockError
        There is no such memory, or the board has none.
    """
    if ram not in RAMS:
        raise PenstockError(f"unknown memory {ram!r}", remedy=f"one of: {', '.join(RAMS)}")
    if ram == "block":
        return None
    if board == SIM:
        return SIM_CLOCK_MHZ
    if not BOARDS[board].sdram:
        having = ", ".join(name for name, b in BOARDS.items() if b.sdram)
        raise PenstockError(
            "has no SDRAM of one data rate",
            f"board {board}",
            remedy=f"use --ram block, or {having}",
        )
    return BOARDS[board].clock_mhz
