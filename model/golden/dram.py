"""The off-chip memory, line by line (docs/timing.md sections 5.1 and 5.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ...machine.deliveries import Deliveries
from .hbm2 import Controller, place


class Memory:
    """An off-chip memory; what a line is, is up to who asks."""

    def __init__(self, config):
        self.c = config
        self.taken = 0  # when the last chunk is
        self.offset = 0
        self.last = [-(1 << 30)] * config.channels
        self.waiting: list[tuple] = []  # delivery cycle, line

    def accept(self, h: int, lines: Sequence, addresses: Sequence[int] = (), write=False) -> None:
        """Lines of one chunk reach the memory in cycle ``h``."""
        d = self.c
        n = len(lines)
        for i, line in enumerate(lines):
            ready = h + d.latency
            if d.kind == "pipe":
                self.offset += i
                channel = self.offset % d.channels
                self.last[channel] = max(self.last[channel] + d.interval, h + 1)
                ready = self.last[channel] + d.start_up + d.latency
            self.waiting.append((ready, line))
        self.offset += n

    def deliver(self, c: int) -> list:
        """Lines that are delivered in cycle ``c``."""
        due = [line for ready, line in self.waiting if ready == c]
        self.waiting = [entry for entry in self.waiting if entry[0] != c]
        return due


class TraceMemory(Memory):
    """Recorded deliveries, replayed."""

    def __init__(self, config):
        super().__init__(config)
        self.rows = deque(Deliveries.read(config.deliveries).rows.tolist())

    def accept(self, h: int, lines: Sequence, addresses: Sequence[int], write=False) -> None:
        for line, address in zip(lines, addresses, strict=True):
            taken, delivered, *request = self.rows.popleft()
            assert request == [address, write] and taken >= h
            self.taken = taken
            self.waiting.append((delivered, line))


class Hbm2Memory:
    """Section 5.2: every channel in every tick."""

    def __init__(self, config):
        self.c = config.hbm2
        self.ratio = config.ratio
        self.taken = 0
        self.ticks = 0
        self.due: list = []
        self.controllers = [Controller(self.c) for _ in range(self.c.channels)]

    def _before(self, cycle: int) -> int:
        return cycle * self.ratio.numerator // self.ratio.denominator

    def accept(self, h: int, lines: Sequence, addresses: Sequence[int], write=False) -> None:
        for line, address in zip(lines, addresses, strict=True):
            at = place(self.c, address)
            reached = self._before(h)
            self.controllers[at["channel"]].feed.append((reached, line, address, at, write))

    def deliver(self, c: int) -> list:
        while self.ticks < self._before(c):
            self.ticks += 1
            for controller in self.controllers:
                self.due += controller.tick(self.ticks)
        now = self.due[: self.c.responses]
        self.due = self.due[self.c.responses :]
        return now


def memory_of(config):
    """The memory of a `[machine.dram]` table."""
    return {"hbm2": Hbm2Memory, "trace": TraceMemory}.get(config.kind, Memory)(config)
