"""The off-chip memory of a configuration: its fields and their rules."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from .beat import LINE_BYTES
from .errors import ConfigError
from .hbm2 import FIELDS, Hbm2
from .limits import CYCLES, described, meaning, within

KINDS = ("pipe", "ideal", "hbm2", "trace")
"""Kinds of off-chip memory."""
NO_DELIVERIES = "write one with penstock.machine.deliveries.of_run(run, graph).write(path)"
"""To whoever has no file of recorded deliveries."""


@dataclass(frozen=True)
class Dram:
    """Off-chip memory (docs/timing.md section 5.1)."""

    kind: str = described(
        "pipe",
        "`pipe` (the published simulator's HBM node), `ideal` (fixed latency), `hbm2` "
        "(commands, banks, rows), or `trace` (recorded deliveries, replayed)",
    )
    channels: int = described(
        8,
        "channels of the pipe (published: 8 for figure 8); for `trace` lines delivered in a "
        "cycle at most",
        range(1, 1025),
    )
    interval: int = described(
        2, "cycles a channel is busy per line (published per_channel_init_interval)", CYCLES
    )
    latency: int = described(
        2,
        "cycles from service to response; for `ideal` the whole latency (published "
        "per_channel_latency)",
        CYCLES,
    )
    start_up: int = described(
        14, "further cycles of every access (published per_channel_start_up_time)", range(10**6 + 1)
    )
    line_bytes: int = described(
        LINE_BYTES,
        "bytes of a line, a power of two: what a request moves, at least a row of an fp32 "
        "tile; 64 for `hbm2` and for the timing `stepsim`",
        range(8, LINE_BYTES + 1),
    )
    clock_ratio: float = described(
        1.0,
        "for `hbm2`: ticks of the memory's clock in a cycle of the fabric, from 1/16 to 16; "
        "1 for the other kinds, whose times are in cycles",
    )
    deliveries: str = described(
        "", "for `trace`: the file of recorded deliveries (timing contract, 5.1)"
    )
    hbm2: Hbm2 = field(
        default_factory=Hbm2, metadata=meaning("for `hbm2`: organisation, timing, mapping")
    )

    @property
    def ratio(self) -> Fraction:
        """Ticks of the memory in a cycle, exactly."""
        return Fraction(self.clock_ratio).limit_denominator(1000)

    @property
    def bytes_per_cycle(self) -> float:
        """Peak bandwidth in B per fabric cycle."""
        if self.kind == "hbm2":
            return self.hbm2.bytes_per_tick * float(self.ratio)
        if self.kind == "trace":
            return self.line_bytes * self.channels
        return self.line_bytes * self.channels / self.interval


def power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def check_dram(d: Dram, where: str) -> None:
    if d.kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, not {d.kind!r}", where)
    if not power_of_two(d.channels):
        raise ConfigError(f"channels must be a power of two, not {d.channels!r}", where)
    check_ranges(d, where)
    if not power_of_two(d.line_bytes):
        raise ConfigError(f"line_bytes must be a power of two, not {d.line_bytes!r}", where)
    check_ranges(d.hbm2, f"{where}.hbm2")
    _check_hbm2(d, f"{where}.hbm2")
    if d.kind != "hbm2" and d.clock_ratio != 1:
        raise ConfigError(
            f"clock_ratio must be 1 for kind {d.kind!r}, not {d.clock_ratio!r}", where
        )
    if d.kind == "trace" and not d.deliveries:
        raise ConfigError(
            "deliveries must name a file for kind 'trace'", where, remedy=NO_DELIVERIES
        )
    if d.deliveries and d.kind != "trace":
        raise ConfigError(f"deliveries must be empty for kind {d.kind!r}", where)


def _check_hbm2(d: Dram, where: str) -> None:
    h = d.hbm2
    for name in ("stacks", "pseudo_channels", "bank_groups", "banks", "columns"):
        if not power_of_two(getattr(h, name)):
            raise ConfigError(f"{name} must be a power of two, not {getattr(h, name)!r}", where)
    if sorted(h.mapping.split()) != sorted(FIELDS):
        raise ConfigError(
            f"mapping must name each of {', '.join(FIELDS)} once, not {h.mapping!r}"[:160], where
        )
    if d.kind == "hbm2":
        if not 1 / 16 <= d.clock_ratio <= 16:
            raise ConfigError(f"clock_ratio must be from 1/16 to 16, not {d.clock_ratio!r}", where)
        if not h.transaction == d.line_bytes == LINE_BYTES:
            raise ConfigError(
                f"transaction must be {LINE_BYTES}, a line, not {h.transaction!r}", where
            )
    refreshing = h.nRFC + h.nRC + h.nRP + h.nRAS
    if h.refresh and h.nREFI <= refreshing:
        raise ConfigError(
            f"nREFI must be above nRFC + nRC + nRP + nRAS = {refreshing}, not {h.nREFI}", where
        )
    if not h.write_mode_below <= h.write_mode_above < h.queue:
        raise ConfigError(
            "write_mode_below <= write_mode_above < queue must hold, not "
            f"{h.write_mode_below}, {h.write_mode_above}, {h.queue}",
            where,
        )


def check_ranges(part: Any, where: str) -> None:
    for f in fields(part):
        if f.metadata["allowed"]:
            within(f.name, getattr(part, f.name), f.metadata["allowed"], where, ConfigError)
