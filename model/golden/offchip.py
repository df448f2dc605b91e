"""Off-chip units and their memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from ...machine.beat import ELEMENT_BITS, Tile
from .core import END, Beat, Unit, golden


@dataclass
class Band:
    """One band of a logical tile: section 5's v, k, n, S, C', and where it lies."""

    row: int
    col: int
    v: int
    valid: int  # C'
    k: int
    n: int
    steps: int
    stop: int


OVER: list[int] = []
"""Stands for what comes after the last chunk."""


class OffChip(Unit):
    """`chunk`: the addresses that the unit presents, if any; `waiting`: chunks before the port,
    that one among them, each with the counter of its lines that are out.
    """

    chunk: list[int] | None

    def setup(self):
        self.waiting: deque[tuple[list[int], list[int]]] = deque()
        payload = self.g.payload[self.u.id]
        assert isinstance(payload, Tile)
        self.size = ELEMENT_BITS[payload.dtype] // 8
        self.e = self.g.line_bytes // self.size
        self.begin()

    def begin(self) -> None:
        """The state before the first cycle."""

    def grant(self) -> tuple[list[int], list[int]]:
        """The chunk's addresses, and the counter of its lines that are out."""
        raise NotImplementedError

    def lines(self, row: int, col: int, k: int, i: int, rows: int) -> list[list[int]]:
        """Chunks of line i of a band: lists of addresses."""
        at = [
            self.kind.base + (row + r) * self.kind.pitch + (col - k + i * self.e) * self.size
            for r in range(rows)
        ]
        return [at[j : j + self.g.lanes] for j in range(0, rows, self.g.lanes)]


class Load(OffChip):
    def begin(self):
        self.ring = deque()
        self.blocks = deque()
        self.ended = False
        self.tile = 0
        self.requests = self.request()
        self.work = self.assemble()
        self.chunk = None
        self.following: list[int] | None = next(self.requests, OVER)
        self.needs = next(self.work, None)

    def bands(self, row0: int = 0, col0: int = 0):
        p = self.kind
        t = self.g.t
        for number, at in enumerate(np.ndindex(*p.shape)):
            row, col = (
                x + sum(i * s for i, s in zip(at, steps, strict=True))
                for x, steps in ((row0, p.row_step), (col0, p.col_step))
            )
            if p.order is not None:
                row, col = p.order[number]
            rows = min(max(p.tensor_rows - row, 0), p.rows)
            valid = min(max(p.tensor_cols - col, 0), p.cols)
            n_bands = -(-p.rows // t)
            ends = 0
            for i, n in zip(reversed(at), reversed(p.shape), strict=True):
                if i != n - 1:
                    break
                ends += 1
            for b in range(n_bands):
                v = min(max(rows - b * t, 0), t)
                k = col % self.e
                n = -(-(k + valid) // self.e) if v and valid else 0
                yield Band(
                    row + b * t,
                    col,
                    v,
                    valid,
                    k,
                    n,
                    -(-p.cols // self.e) + (k > 0),
                    1 if b < n_bands - 1 else 2 + ends,
                )

    def request(self, *origin):
        """Chunks in walk order; None is a cycle without request."""
        for b in self.bands(*origin):
            if not b.n:
                yield None
            for i in range(b.n):
                yield from self.lines(b.row, b.col, b.k, i, b.v)

    def assemble(self, *origin):
        """(needs a group, block pushed or None), one a cycle."""
        t = self.g.t
        g = self.e // self.g.t
        tiles = -(-self.kind.cols // t)
        for b in self.bands(*origin):
            for i in range(b.steps):
                block = None
                if i or not b.k:
                    j = i - (b.k > 0)
                    block = [
                        Beat(
                            b.stop if x == tiles - 1 else 0,
                            1,
                            (b.v, min(max(b.valid - x * t, 0), t)),
                        )
                        for x in range(j * g, min(j * g + g, tiles))
                    ]
                chunks = -(-b.v // self.g.lanes) if i < b.n else 0
                for q in range(max(chunks, 1)):
                    yield chunks > 0, block if q == max(chunks, 1) - 1 else None

    def step(self, c):
        # Requests: `following` is the chunk to present next, None for a band without lines, OVER
        # after the last.
        room = len(self.ring) < self.g.groups
        if self.g.ahead:
            self.ask(room)
        elif self.chunk is None and self.following is not OVER:
            if self.following is None:
                self.following = next(self.requests, OVER)
            elif room:
                self.chunk = self.following
                self.following = next(self.requests, OVER)
        # Assembly and emission, on the levels at the start of the cycle.
        blocks = list(self.blocks)
        over = self.needs is None
        if self.needs is not None:
            group, block = self.needs
            if not (group and not (self.ring and self.ring[0][0] == 0)) and not (
                block and len(blocks) == 2
            ):
                if group:
                    self.ring.popleft()
                if block:
                    self.blocks.append(block)
                self.needs = next(self.work, None)
        if blocks:
            if self.outs[0].ready():
                self.outs[0].push(blocks[0][self.tile])
                self.tile += 1
                if self.tile == len(blocks[0]):
                    self.blocks.popleft()
                    self.tile = 0
            else:
                self.offers = True
        elif over and not self.ended:
            self.offers = True
            if self.outs[0].ready():
                self.outs[0].push(END)
                self.ended = True

    def ask(self, room: bool) -> None:
        """The queue before the port, on its level at the start of the cycle."""
        level = len(self.waiting)
        if self.chunk is None and level and room:
            self.chunk = self.waiting[0][0]
        if self.following is None:
            self.following = next(self.requests, OVER)
        elif self.following is not OVER and level < self.g.ahead:
            self.waiting.append((self.following, []))
            self.following = next(self.requests, OVER)

    def grant(self):
        chunk = self.chunk
        assert chunk is not None
        self.chunk = None
        if self.g.ahead:
            self.waiting.popleft()
        self.ring.append([len(chunk)])
        return chunk, self.ring[-1]


class TriggeredLoad(Load):
    """The same walk for each trigger; `ahead` and `behind` are the triggers of generator and
    assembly.
    """

    def begin(self):
        self.requests = self.work = iter(())
        super().begin()
        self.requests = self.work = None
        self.ahead = deque()
        self.behind = deque()
        # What the walks are at: the heads of the queues, or registers behind them.
        self.staged = self.g.ahead > 0 and self.kind.trigger == "address"
        self.first = deque() if self.staged else self.ahead
        self.second = deque() if self.staged else self.behind
        self.ending = False
        self.ended = True

    def request(self, *origin):
        return super().request(*origin) if origin else iter(())

    def assemble(self, *origin):
        return super().assemble(*origin) if origin else iter(())

    def origin(self, b: Beat) -> tuple[int, int]:
        if self.kind.trigger == "ref":
            return 0, 0
        a = b.numbers[0]
        shift = self.kind.shift
        row = (a >> shift) * self.kind.rows
        col = (a & (1 << shift) - 1) * self.kind.cols
        assert row < self.kind.tensor_rows and col < self.kind.tensor_cols, "outside tensor"
        return row, col

    def hollow(self, b: Beat) -> bool:
        return not b.data or 0 in self.kind.shape

    def blocks_of(self, b: Beat):
        """The assembly's cycles for one trigger, whose stop its last tile has."""
        end = 2 + self.kind.rank + b.stop
        if self.hollow(b):
            yield False, [Beat(end, 0)]
            return
        for group, block in self.assemble(*self.origin(b)):
            if block and block[-1].stop == 2 + self.kind.rank:
                block[-1] = block[-1]._replace(stop=end)
            yield group, block

    def step(self, c):
        b = self.ins[0].peek()
        ahead = len(self.ahead)
        behind = len(self.behind)
        ending = self.ending
        empty = not (ahead or behind or self.first or self.second)
        # Heads: what their walks are at when this cycle begins.
        if self.requests is None and self.first and self.asked():
            b0 = self.first[0]
            self.requests = iter([None]) if self.hollow(b0) else self.request(*self.origin(b0))
            self.following = next(self.requests)
        if self.work is None and self.second:
            self.work = self.blocks_of(self.second[0])
            self.needs = next(self.work)
        begun = self.work is not None
        super().step(c)
        if begun and self.needs is None:
            self.work = None
            self.second.popleft()
        if self.requests is not None and self.following is OVER and self.asked():
            self.leave()
        if self.staged:
            for queue, register in ((self.ahead, self.first), (self.behind, self.second)):
                if queue and not register:
                    register.append(queue.popleft())
        if ending and self.ended:
            self.ending = False
        if b is not None and not ending:
            if b.done and empty:
                self.ins[0].take()
                self.ending = True
                self.ended = False
            elif not b.done and ahead < 2 and behind < 16:
                self.ins[0].take()
                self.ahead.append(b)
                self.behind.append(b)

    def asked(self) -> bool:
        """True if the walk has no chunk that waits at the port."""
        return self.chunk is None or self.g.ahead > 0

    def leave(self):
        self.requests = None
        self.first.popleft()

    def grant(self):
        granted = super().grant()
        if self.following is OVER and not self.g.ahead:
            self.leave()
        return granted


@golden("load")
def load(g, u, *channels) -> Load:
    return (TriggeredLoad if u.kind.trigger else Load)(g, u, *channels)


@golden("store")
class Store(OffChip):
    """Section 5, `store`, as a list of chunks to do for the open step."""

    def begin(self):
        self.blocks = deque()
        self.gathered = []
        self.chunk = None
        self.acks = [0]
        self.ended = False
        self.done = False
        self.band = self.i = self.carry = self.rows = 0
        self.rewind()
        self.carry_stop = 0  # of a carry step that is open
        self.todo = None  # chunks left of the open step

    def step(self, c):
        self.done = self.done or (self.ended and self.acks[0] == 0)
        level = len(self.blocks)
        carry_open = self.carry_stop
        waits = len(self.waiting)
        if self.chunk is None and waits:
            self.chunk = self.waiting[0][0]
        moves = self.g.ahead or self.chunk is None
        if (level or carry_open) and moves and self.goes_on():
            if self.todo is None:
                k = self.col % self.e
                if carry_open:
                    v = self.rows if self.carry else 0
                else:
                    v = (
                        self.blocks[0][0].numbers[0]
                        if self.carry or sum(b.numbers[1] for b in self.blocks[0])
                        else 0
                    )
                self.todo = deque(
                    self.lines(self.row + self.band * self.g.t, self.col, k, self.i, v)
                )
            if not self.todo:
                self.finish()
            elif not self.g.ahead:
                self.chunk = self.todo.popleft()
            elif waits < self.g.ahead:
                self.waiting.append(self.ask(self.todo.popleft()))
        tiles = self.ins[-1]
        b = tiles.peek()
        if b is not None and b.done:
            assert not self.gathered, "stop mismatch"
            if not level and not carry_open:
                self.end(c)
        elif b is not None and not b.data:
            tiles.take()
        elif b is not None and level < 2:
            rows, cols = b.numbers
            if self.gathered and cols:
                assert rows == self.gathered[0].numbers[0] and all(
                    x.numbers[1] == self.g.t for x in self.gathered
                ), "rows do not fit"
            self.gathered.append(tiles.take())
            if b.stop or len(self.gathered) == self.e // self.g.t:
                self.blocks.append(self.gathered)
                self.gathered = []

    def goes_on(self) -> bool:
        return True

    def rewind(self):
        """The first logical tile is next."""
        self.row = self.col = self.tile = 0
        if getattr(self.kind, "order", None) is not None:  # a random_store has none
            self.row, self.col = self.kind.order[0]

    def end(self, c):
        self.ins[0].take()
        self.ended = True
        self.rewind()

    def next_tile(self):
        """Place of the next logical tile."""
        self.col += self.kind.cols
        if self.kind.order is not None:
            self.tile = (self.tile + 1) % len(self.kind.order)
            self.row, self.col = self.kind.order[self.tile]
        elif self.col >= self.kind.tensor_cols:
            self.col = 0
            self.row = self.row + self.kind.rows

    def finish(self):
        """The last cycle of a step."""
        k = self.col % self.e
        self.todo = None
        if self.carry_stop:
            stop = self.carry_stop
            self.carry_stop = 0
        else:
            beats = self.blocks.popleft()
            self.i += 1
            self.carry = max(k + sum(b.numbers[1] for b in beats) - self.e, 0)
            self.rows = beats[0].numbers[0]
            stop = beats[-1].stop
            if stop and k:
                self.carry_stop = stop
                stop = 0
        if stop:
            self.i = self.carry = 0
            self.band += 1
            if stop >= 2:
                self.band = 0
                self.next_tile()

    def ask(self, chunk: list[int]) -> tuple[list[int], list[int]]:
        """A chunk that has left the walk."""
        acks = self.acks
        acks[0] += len(chunk)
        if not self.todo:
            self.finish()
        return chunk, acks

    def grant(self):
        chunk = self.chunk
        assert chunk is not None
        self.chunk = None
        return self.waiting.popleft() if self.g.ahead else self.ask(chunk)


@golden("random_store")
class RandomStore(Store):
    """`queue`: addresses; `due`: [stop, data, lines not acknowledged] of each acknowledgement that
    has not left.
    """

    def begin(self):
        super().begin()
        self.queue = deque()
        self.due = deque()
        self.level = 0
        self.owed = 0

    def goes_on(self):
        return self.level and self.queue[0].data and self.owed < 8

    def step(self, c):
        self.level = len(self.queue)
        self.owed = len(self.due)
        offered = self.due[0] if self.due and self.due[0][2][0] == 0 else None
        if self.level and self.queue[0].data:
            a = self.queue[0].numbers[0]
            shift = self.kind.shift
            self.row = (a >> shift) * self.kind.rows
            self.col = (a & (1 << shift) - 1) * self.kind.cols
            assert self.row < self.kind.tensor_rows and self.col < self.kind.tensor_cols, (
                "outside tensor"
            )
        hollow = self.level and not self.queue[0].data and self.owed < 8
        super().step(c)
        if hollow:
            self.due.append((self.queue.popleft().stop, 0, [0]))
        b = self.ins[0].peek()
        if b is not None and not b.done and self.level < 2:
            self.queue.append(self.ins[0].take())
        if offered:
            if self.outs[0].ready():
                self.due.popleft()
                self.outs[0].push(Beat(offered[0], offered[1], (1, 0) if offered[1] else ()))
            else:
                self.offers = True

    def end(self, c):
        b = self.ins[0].peek()
        if b is not None and b.done and not self.level and not self.owed:
            for channel in self.ins:
                channel.take()
            self.due.append((END.stop, 0, [0]))
            self.ended = True

    def next_tile(self):
        self.due.append((self.queue.popleft().stop, 1, self.acks))
        self.acks = [0]
