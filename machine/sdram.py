"""Data sheet of a synchronous DRAM with one data rate.

Names are those of data sheets. The controller (`hw/host/sdram/`) and the chip that watches it in
simulation both take their rules from here, each in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

COLUMN_BITS = 16
"""Bits of data of a column."""
ALL_BANKS = 10
"""The bit of an address by which `PRECHARGE` closes all banks."""

RULES = (
    "none",
    "power-up",
    "initialisation",
    "mode",
    "tRCD",
    "tRP",
    "tRAS",
    "tRC",
    "tRRD",
    "tRFC",
    "tMRD",
    "write recovery",
    "refresh interval",
    "a row is open",
    "no row is open",
    "data pins",
    "address",
)
"""Rules that a chip in simulation finds broken, by number."""


class Command(IntEnum):
    """RAS, CAS and WE, each 1 where the pin is low."""

    NOTHING = 0b000
    ACTIVATE = 0b100
    READ = 0b010
    WRITE = 0b011
    PRECHARGE = 0b101
    REFRESH = 0b110
    MODE = 0b111


@dataclass(frozen=True)
class Sdram:
    """A chip."""

    # bank_bits, row_bits, col_bits: of addresses
    bank_bits: int = 2
    row_bits: int = 13
    col_bits: int = 9
    power_up_us: float = 200.0  # before the first command
    # t_rcd, t_rp, t_ras, t_rc, t_rrd, t_rfc: in ns: `ACTIVATE` to `READ` or `WRITE`; `PRECHARGE` to
    # `ACTIVATE`; `ACTIVATE` to `PRECHARGE`; `ACTIVATE` to `ACTIVATE` of the same bank, and of
    # another; `REFRESH` to anything
    t_rcd: float = 20.0
    t_rp: float = 20.0
    t_ras: float = 45.0
    t_rc: float = 67.5
    t_rrd: float = 15.0
    t_rfc: float = 67.5
    # write_recovery, mode_cycles: clock cycles from the last data of a write to `PRECHARGE`, and
    # from `MODE` to anything
    write_recovery: int = 2
    mode_cycles: int = 2
    cas_latency: int = 2  # clock cycles from `READ` to its data
    refreshes: int = 8  # after the power is up, before the first row
    refresh_us: float = 7.8125  # between two, on average

    @property
    def bytes(self) -> int:
        """All that it holds."""
        return COLUMN_BITS // 8 << self.bank_bits + self.row_bits + self.col_bits

    @property
    def mode(self) -> int:
        """Value of the mode register: a column a command, this latency."""
        return self.cas_latency << 4


SDRAM = Sdram()
"""256 Mbit by 16, of the slowest times among the chips of ULX3S boards."""
