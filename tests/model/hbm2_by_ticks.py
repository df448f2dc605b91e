"""A channel of HBM2 as docs/timing.md section 5.2 tells it: a table of constraints between
commands, and in every tick a look at all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

PSEUDO, GROUP, BANK = (
    ("pseudo_channel",),
    ("pseudo_channel", "bank_group"),
    ("pseudo_channel", "bank_group", "bank"),
)
CHANNEL: tuple[str, ...] = ()


@dataclass
class Request:
    """A line in a queue."""

    line: object
    address: int
    at: dict[str, int]
    write: bool
    arrived: int


def place(config, address: int) -> dict[str, int]:
    """The fields of an address."""
    sizes = {
        "channel": 8 * config.stacks,
        "column": config.columns,
        "pseudo_channel": config.pseudo_channels,
        "bank_group": config.bank_groups,
        "bank": config.banks,
    }
    rest = address // config.transaction
    lines = 2**32 // config.transaction
    for n in sizes.values():
        lines //= n
    sizes["row"] = lines
    at = {}
    for name in config.mapping.split():
        rest, at[name] = divmod(rest, sizes[name])
    return at


def constraints(config) -> list[tuple[tuple[str, ...], str, str, int, int]]:
    """(what both share, a command, a later one, least ticks between them, the how many-th)."""
    c = config
    burst = max(c.nBL, c.nCCDS)
    turn = c.nCL + c.nBL + 2 - c.nCWL
    written = c.nCWL + c.nBL
    return [
        (CHANNEL, "ACT", "ACT", 2, 1),
        (CHANNEL, "ACT", "PRE", 2, 1),
        (CHANNEL, "ACT", "PREA", 2, 1),
        (CHANNEL, "ACT", "REF", 2, 1),
        (PSEUDO, "ACT", "ACT", c.nRRDS, 1),
        (PSEUDO, "ACT", "ACT", c.nFAW, 4),
        (PSEUDO, "RD", "RD", burst, 1),
        (PSEUDO, "RD", "WR", turn, 1),
        (PSEUDO, "WR", "WR", burst, 1),
        (PSEUDO, "WR", "RD", written + c.nWTRS, 1),
        (PSEUDO, "REF", "ACT", c.nRFC, 1),
        (GROUP, "ACT", "ACT", c.nRRDL, 1),
        (GROUP, "RD", "RD", c.nCCDL, 1),
        (GROUP, "WR", "WR", c.nCCDL, 1),
        (GROUP, "WR", "RD", written + c.nWTRL, 1),
        (BANK, "ACT", "ACT", c.nRC, 1),
        (BANK, "ACT", "RD", c.nRCDRD, 1),
        (BANK, "ACT", "WR", c.nRCDWR, 1),
        (BANK, "ACT", "PRE", c.nRAS, 1),
        (BANK, "PRE", "ACT", c.nRP, 1),
        (BANK, "RD", "PRE", c.nRTP, 1),
        (BANK, "WR", "PRE", written + c.nWR, 1),
        # Of every bank that is open, or of every bank: a precharge of all, and a refresh.
        (PSEUDO, "PREA", "ACT", c.nRP, 1),
        (PSEUDO, "PREA", "REF", c.nRP, 1),
        (PSEUDO, "ACT", "REF", c.nRC, 1),
        (PSEUDO, "PRE", "REF", c.nRP, 1),
    ]


class Controller:
    """The controller of a channel: lines come into `feed` as (ticks that were over, line, address,
    place, whether it is written).
    """

    def __init__(self, config):
        self.c = config
        self.rules = constraints(config)
        self.feed: list[tuple] = []
        self.queues: dict[bool, list[Request]] = {False: [], True: []}
        self.active: list[Request] = []
        self.data: list[tuple[int, object]] = []  # tick of the data, line: in order
        self.written: list[object] = []
        self.write_mode = False
        self.open: dict[tuple[int, int, int], int] = {}
        self.issued: list[tuple[int, str, dict[str, int]]] = []
        self.refreshes: list[int] = []  # pseudo-channels that wait for one

    def tick(self, k: int) -> list:
        """Tick ``k``; the lines that are delivered in it."""
        self.accept(k)
        done = []
        if self.data and self.data[0][0] <= k:
            done.append(self.data.pop(0)[1])
        done += self.written
        self.written = []
        if self.c.refresh and k % self.c.nREFI == 0:
            self.refreshes = list(range(self.c.pseudo_channels))
        self.schedule(k)
        return done

    def accept(self, k: int) -> None:
        while self.feed and self.feed[0][0] < k:
            _, line, address, at, write = self.feed[0]
            if not write and any(r.address == address for r in self.queues[True]):
                self.data.append((k, line))
            elif len(self.queues[write]) < self.c.queue:
                self.queues[write].append(Request(line, address, at, write, k - 1))
            else:
                return
            self.feed.pop(0)

    def bank(self, at: dict[str, int]) -> tuple[int, int, int]:
        return at["pseudo_channel"], at["bank_group"], at["bank"]

    def command(self, r: Request) -> str:
        """Next command that a request needs."""
        row = self.open.get(self.bank(r.at))
        if row is None:
            return "ACT"
        if row != r.at["row"]:
            return "PRE"
        return "WR" if r.write else "RD"

    def ready(self, command: str, at: dict[str, int], k: int) -> bool:
        for shared, before, after, ticks, which in self.rules:
            if after != command:
                continue
            past = [
                tick
                for tick, name, where in self.issued
                if name == before and all(where.get(s) == at[s] for s in shared)
            ]
            if len(past) >= which and k < past[-which] + ticks:
                return False
        return True

    def oldest(self, queue: list[Request], k: int) -> Request | None:
        ready = [r for r in queue if self.ready(self.command(r), r.at, k)]
        return min(ready, key=lambda r: r.arrived, default=None)

    def schedule(self, k: int) -> None:
        chosen = self.oldest(self.active, k)
        if chosen:
            self.active.remove(chosen)
            self.serve(chosen, k)
        elif self.refreshes:
            self.refresh(self.refreshes[0], k)
        else:
            self.choose(k)
        longest = max(ticks for _, _, _, ticks, _ in self.rules)
        # The four activations of a window may be long ago, but not those that matter.
        self.issued = [x for x in self.issued if x[0] > k - longest]

    def choose(self, k: int) -> None:
        """A request of the read or the write queue."""
        reads, writes = len(self.queues[False]), len(self.queues[True])
        if self.write_mode and writes < self.c.write_mode_below and reads:
            self.write_mode = False
        elif not self.write_mode and (writes > self.c.write_mode_above or not reads):
            self.write_mode = True
        queue = self.queues[self.write_mode]
        chosen = self.oldest(queue, k)
        if chosen is None:
            return
        command = self.command(chosen)
        where = self.bank(chosen.at)
        if command == "PRE":
            if all(self.bank(r.at) != where for r in self.active):
                del self.open[where]
                self.issued.append((k, "PRE", chosen.at))
        elif command == "ACT":
            self.open[where] = chosen.at["row"]
            self.issued.append((k, "ACT", chosen.at))
            if len(self.active) < self.c.queue:
                queue.remove(chosen)
                self.active.append(chosen)
        else:
            queue.remove(chosen)
            self.serve(chosen, k)

    def serve(self, r: Request, k: int) -> None:
        """The column command of a request."""
        self.issued.append((k, "WR" if r.write else "RD", r.at))
        if r.write:
            self.written.append(r.line)
        else:
            self.data.append((k + self.c.nCL + self.c.nBL, r.line))

    def refresh(self, pseudo: int, k: int) -> None:
        """Close the banks of a pseudo-channel, then refresh it."""
        opened = [b for b in self.open if b[0] == pseudo]
        if any(self.bank(r.at) in opened for r in self.active):
            return
        at = {"pseudo_channel": pseudo}
        if not opened:
            if self.ready("REF", at, k):
                self.issued.append((k, "REF", at))
                self.refreshes.remove(pseudo)
            return
        places = [{"pseudo_channel": p, "bank_group": g, "bank": b} for p, g, b in opened]
        if self.ready("PREA", at, k) and all(self.ready("PRE", p, k) for p in places):
            self.issued.append((k, "PREA", at))
            for b in opened:
                del self.open[b]


class Hbm2Memory:
    """The memory: every channel in every tick."""

    def __init__(self, config):
        self.c = config.hbm2
        self.ratio = config.ratio
        self.ticks = 0
        self.due: list = []
        self.controllers = [Controller(self.c) for _ in range(self.c.channels)]

    def _before(self, cycle: int) -> int:
        return cycle * self.ratio.numerator // self.ratio.denominator

    def accept(self, h: int, line: object, address: int, write: bool) -> None:
        """A line that reaches the memory in cycle ``h``."""
        at = place(self.c, address)
        reached = self._before(h)
        self.controllers[at["channel"]].feed.append((reached, line, address, at, write))

    def deliver(self, c: int) -> list:
        """Lines that are delivered in cycle ``c``."""
        while self.ticks < self._before(c):
            self.ticks += 1
            for controller in self.controllers:
                self.due += controller.tick(self.ticks)
        now = self.due[: self.c.responses]
        self.due = self.due[self.c.responses :]
        return now
