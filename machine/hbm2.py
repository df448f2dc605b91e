"""HBM2: organisation, timing, queues and mapping of addresses (`[machine.dram.hbm2]`)."""

from __future__ import annotations

from dataclasses import dataclass

from .beat import LINE_BYTES
from .limits import CYCLES, RESPONSE_LANES, described

CHANNELS = 8
"""Channels of a stack."""
FIELDS = ("channel", "column", "pseudo_channel", "bank_group", "bank", "row")
"""Fields of an address above its line, as the reference's mapping has them from the lowest bit."""
COUNTS = range(1, 65)


def _ticks(default: int, text: str) -> int:
    return described(default, f"{text}, in ticks", CYCLES)


@dataclass(frozen=True)
class Hbm2:
    """One or several HBM2 stacks of 8 channels (docs/timing.md section 5.2).

    The defaults are those of Ramulator 2's configuration of the published HDL, with transactions of
    a line of 64 B and refresh on. A tick is a cycle of the memory's clock.
    """

    stacks: int = described(1, "stacks, a power of two", range(1, 17))
    pseudo_channels: int = described(2, "pseudo-channels of a channel, a power of two", COUNTS)
    bank_groups: int = described(4, "bank groups of a pseudo-channel, a power of two", COUNTS)
    banks: int = described(2, "banks of a bank group, a power of two", COUNTS)
    columns: int = described(32, "transactions of a row, a power of two", range(1, 1 << 16))
    transaction: int = described(
        LINE_BYTES, "bytes of a column access, a power of two", range(1, LINE_BYTES + 1)
    )
    mapping: str = described(
        " ".join(FIELDS),
        "fields of an address from the lowest bit above its line on; channels of all stacks "
        "are one field",
    )
    queue: int = described(
        33, "requests in each of a channel's queues: read, write, active", COUNTS
    )
    write_mode_above: int = described(
        25, "queued writes above which a channel turns to writes", COUNTS
    )
    write_mode_below: int = described(
        7, "queued writes below which it turns to waiting reads", COUNTS
    )
    responses: int = described(
        16,
        "lines that all stacks deliver to the fabric in a cycle at most; more wait in order",
        RESPONSE_LANES,
    )
    refresh: bool = described(True, "whether rows are refreshed")
    nBL: int = _ticks(4, "a burst's data")
    nCL: int = _ticks(7, "read to its first data")
    nCWL: int = _ticks(2, "write to its first data")
    nRCDRD: int = _ticks(7, "activation to read")
    nRCDWR: int = _ticks(7, "activation to write")
    nRP: int = _ticks(7, "precharge to activation")
    nRAS: int = _ticks(17, "activation to precharge")
    nRC: int = _ticks(19, "activation to activation of a bank")
    nWR: int = _ticks(8, "last data of a write to precharge")
    nRTP: int = _ticks(3, "read to precharge")
    nCCDS: int = _ticks(1, "column command to the next, of other bank groups")
    nCCDL: int = _ticks(2, "column command to the next, of a bank group")
    nRRDS: int = _ticks(2, "activation to the next, of other bank groups")
    nRRDL: int = _ticks(3, "activation to the next, of a bank group")
    nWTRS: int = _ticks(3, "last data of a write to read, of other bank groups")
    nWTRL: int = _ticks(4, "last data of a write to read, of a bank group")
    nFAW: int = _ticks(15, "window of four activations of a pseudo-channel")
    nRFC: int = _ticks(160, "refresh to activation")
    nREFI: int = _ticks(3900, "refresh to refresh")

    @property
    def channels(self) -> int:
        """Channels of all stacks."""
        return CHANNELS * self.stacks

    @property
    def bytes_per_tick(self) -> float:
        """Peak bandwidth in B per tick: a burst of a line keeps a pseudo-channel for nBL ticks."""
        between = max(self.nBL, self.nCCDS)
        return LINE_BYTES * self.channels * self.pseudo_channels / between

    @property
    def sizes(self) -> dict[str, int]:
        """Values of every field of an address but the row, which has the rest."""
        return {
            "channel": self.channels,
            "column": self.columns,
            "pseudo_channel": self.pseudo_channels,
            "bank_group": self.bank_groups,
            "bank": self.banks,
        }

    @property
    def ticks(self) -> dict[str, int]:
        """Least ticks from one command to another, by their common part of the memory (JESD235, as
        Ramulator 2 states it).
        """
        read_to_write = self.nCL + self.nBL + 2 - self.nCWL
        written = self.nCWL + self.nBL
        return {
            "activate_to_row": 2,
            "activate_to_activate": self.nRRDS,
            "window": self.nFAW,
            "read_to_read": max(self.nBL, self.nCCDS),
            "read_to_write": read_to_write,
            "write_to_write": max(self.nBL, self.nCCDS),
            "write_to_read": written + self.nWTRS,
            "group_activate_to_activate": self.nRRDL,
            "group_read_to_read": self.nCCDL,
            "group_write_to_write": self.nCCDL,
            "group_write_to_read": written + self.nWTRL,
            "bank_activate_to_activate": self.nRC,
            "activate_to_read": self.nRCDRD,
            "activate_to_write": self.nRCDWR,
            "activate_to_precharge": self.nRAS,
            "precharge_to_activate": self.nRP,
            "read_to_precharge": self.nRTP,
            "write_to_precharge": written + self.nWR,
            "refresh_to_activate": self.nRFC,
            "read_latency": self.nCL + self.nBL,
        }
