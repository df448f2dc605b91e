"""The scratchpad: pages, writers, readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, product

from ...machine.beat import STOP_DONE
from ...machine.limits import COUNT_BITS
from .core import END, Beat, Channel, Unit, golden


def points(shape: list[int], stride: list[int]) -> list[tuple[int, int]]:
    """(tile, dimensions that end) of each point of a loop nest."""
    out = []
    for at in product(*map(range, shape)):
        ends = [i == n - 1 for i, n in zip(at, shape, strict=True)]
        out.append(
            (
                sum(i * s for i, s in zip(at, stride, strict=True)),
                ([*ends[::-1], False]).index(False),
            )
        )
    return out


@dataclass
class Writer:
    rank: int
    limit: int  # buffers that it may hold
    held: int = 0  # its buffers, from begun to freed
    pages: list = field(default_factory=list)  # of the open buffer
    fill: int = 0
    count: int = 0
    last: int = STOP_DONE  # stop of the beat before
    queue: deque = field(default_factory=deque)  # (from cycle, beat)
    over: bool = False  # its Done was taken, and not that of all

    def has_no_buffer(self, b: Beat) -> bool:
        """A bare stop of groups that have no buffer at all."""
        return not b.data and not b.done and min(b.stop, self.last) > self.rank


@dataclass
class Reader:
    rank: int
    repeat: int  # 1 where a buffer is read once
    dimension: bool  # whether the repeats are one
    turns: Iterator[int] | None = None  # repeats of each buffer, where they differ
    buffer: list | None = None  # tiles as beats
    first: int = 0
    q: int = 0
    at: int = 0
    turn: int = 0
    order: list | None = None  # (tile, stop) of each beat of a pass, where it has its own order
    known: int = 1  # pages in its table
    ref: int | None = None  # level of the stream that drives the reads
    tokens: Channel | None = None
    queue: deque = field(default_factory=deque)
    # rule 11: (from cycle, beat, places of its block before it and after it that are dropped)
    away: deque = field(default_factory=deque)
    drop: int = 0
    drains: bool = False


@golden("scratchpad")
class Scratchpad(Unit):
    """Section 4.

    A buffer is kept whole, by its first page; the pages only count and are named in references.
    """

    def setup(self):
        p = self.kind
        self.free = list(range(p.pages))  # head first
        self.writers = [
            Writer(w["rank"], limit) for w, limit in zip(p.writers, p.limit, strict=True)
        ]
        self.readers = [
            Reader(
                r["rank"],
                n if r["repeat_dim"] else 1,
                r["repeat_dim"],
                cycle(r["turns"]) if r.get("turns") else None,
                ref=r.get("ref"),
            )
            for r, n in zip(p.readers, p.repeat, strict=True)
        ]
        for r, channel in zip(
            [r for r in self.readers if r.ref is not None],
            self.ins[p.clients : p.clients + p.driven],
            strict=True,
        ):
            r.tokens = channel
        shapes = iter(p.shape)
        strides = iter(p.stride)
        for r, given in zip(self.readers, p.readers, strict=True):
            if n := given.get("affine"):
                r.order = points(
                    [next(shapes) for _ in range(n)], [next(strides) for _ in range(n)]
                )
            if given.get("listed"):
                r.order = [tuple(entry) for entry in given["listed"]]
        self.room = p.on_chip
        self.in_flight = 0
        if p.spill:
            n = p.clients
            self.place, self.spilled, *self.fetches = self.outs[n:]
            self.stored, *self.fetched = self.ins[n + p.driven :]
        self.tiles = {}
        self.chain = {}
        self.refs = {}
        self.owner = {}
        self.posts = []
        self.unused = set()  # buffers without a reference that are not free yet
        self.write_turn = self.read_turn = self.peak = 0

    def step(self, c):
        free = len(self.free)
        settled = self.in_flight == 0
        self.write(c, free)
        self.read(c, settled)
        if self.kind.spill and self.stored.peek():
            self.in_flight -= self.stored.take().data
        self.peak = max(self.peak, self.kind.pages - len(self.free))

    def commit(self) -> None:
        """Posts of a cycle add up; of the buffers whose count is zero the lowest is spliced in
        front of the free list.
        """
        for page, n in self.posts:
            self.refs[page] += n
            assert self.refs[page] < 1 << COUNT_BITS, "too many references"
        self.unused |= {page for page, _ in self.posts if self.refs[page] == 0}
        self.posts = []
        if self.unused:
            first = min(self.unused)
            self.unused.remove(first)
            self.free[:0] = self.chain[first]
            self.owner[first].held -= 1

    def deliver(self, queue, out, c):
        if queue and queue[0][0] <= c:
            if out.ready():
                out.push(queue.popleft()[1])
            else:
                self.offers = True

    def write(self, c, free):
        n = len(self.writers)
        asking = []
        ended = False
        for i, w in enumerate(self.writers):
            channel = self.ins[i]
            queued = len(w.queue)
            b = channel.peek()
            if b is not None and not b.done and not w.has_no_buffer(b):
                fits = (
                    w.fill < self.kind.frames or free > 0
                    if w.pages
                    else free > 0 and w.held < w.limit
                )
                if self.kind.spill and len(self.written(i)) >= self.room:
                    fits = len(self.written(i)) < self.room + self.kind.spill and self.may_spill()
                asking.append(fits and (b.stop < w.rank or queued < 2))
            else:
                asking.append(False)
                if b is not None and not queued and (not b.done or self.may_spill()):
                    channel.take()
                    w.over = b.done
                    w.queue.append((c + 1, b if b.done else Beat(b.stop - w.rank, 0)))
                    w.last = b.stop
                    ended |= b.done
            self.deliver(w.queue, self.outs[i], c)
        for i in ((self.write_turn + k) % n for k in range(n)):
            if not asking[i]:
                continue
            w = self.writers[i]
            b = self.ins[i].take()
            w.last = b.stop
            if self.kind.spill and len(self.written(i)) >= self.room:
                self.spill(len(self.written(i)) - self.room, b, b.stop >= w.rank)
            else:
                if not w.pages or w.fill == self.kind.frames:
                    w.held += not w.pages
                    w.pages.append(self.free.pop(0))
                    w.fill = 0
                w.fill += 1
            self.tiles.setdefault((i, "open"), []).append(b)
            if b.stop >= w.rank:
                first = w.pages[0]
                self.tiles[first] = self.tiles.pop((i, "open"))
                self.chain[first] = w.pages
                self.refs[first] = 1
                self.owner[first] = w
                w.queue.append((c + 1, Beat(b.stop - w.rank, 1, (first, len(self.tiles[first])))))
                w.pages = []
            self.write_turn = (i + 1) % n
            break
        if ended:
            self.write_turn = 0
        if self.kind.spill and ended and all(w.over for w in self.writers):
            self.place.push(END)
            self.spilled.push(END)
            for w in self.writers:
                w.over = False

    def written(self, i: int) -> list[Beat]:
        """Tiles of the open buffer of a writer."""
        return self.tiles.get((i, "open"), [])

    def may_spill(self) -> bool:
        return not self.kind.spill or (self.place.ready() and self.spilled.ready())

    def spill(self, number: int, b: Beat, ends: bool) -> None:
        """Rule 11: a tile to off-chip memory."""
        block, at = divmod(number, self.kind.block)
        if at == 0:
            self.place.push(Beat(0, 1, (block, 0)))
            self.in_flight += 1
        t = self.g.t
        self.spilled.push(Beat(2 if ends or at == self.kind.block - 1 else 0, 1, (t, t)))

    def start(self, r, beat):
        r.q = beat.stop
        r.at = 0
        r.turn = 0
        r.known = 1
        if not beat.data:
            r.buffer = []
            r.first = None
            return
        r.repeat = next(r.turns) if r.turns else r.repeat
        r.first = beat.numbers[0]
        r.buffer = self.tiles[r.first]

    def read(self, c, settled):
        n = len(self.readers)
        w = len(self.writers)
        asking = []
        ended = False
        for i, r in enumerate(self.readers):
            b = self.ins[w + i].peek()
            token = r.tokens.peek() if r.tokens else None
            asking.append(
                r.buffer is not None
                and len(r.queue) < 4
                and (r.ref is None or (token is not None and not token.done))
            )
            if self.kind.spill and r.buffer is not None:
                asking[-1] = self.asks(r, i, asking[-1], token, settled)
            empty = not r.queue
            self.deliver(r.queue, self.outs[w + i], c)
            if self.kind.spill:
                self.arrive(r, i, empty, c)
            if r.buffer is None and b is not None:
                if not b.done:
                    self.start(r, self.ins[w + i].take())
                elif empty and (r.ref is None or (token is not None and token.done)):
                    r.queue.append((c + 1, self.ins[w + i].take()))
                    if r.tokens:
                        r.tokens.take()
                    ended = True
        for i in ((self.read_turn + k) % n for k in range(n)):
            if not asking[i]:
                continue
            r = self.readers[i]
            self.read_turn = (i + 1) % n
            if r.drains:
                self.release(r, self.ins[w + i])
            else:
                self.serve(r, i, self.ins[w + i], c)
            break
        if ended:
            self.read_turn = 0

    def tile(self, r: Reader) -> int:
        """Number of the next tile of a reader's buffer."""
        return r.order[r.at][0] if r.order else r.at

    def is_away(self, r: Reader, token: Beat | None) -> bool:
        """Rule 11: whether the next service is of a tile off-chip."""
        if not self.kind.spill or r.first is None or (token is not None and not token.data):
            return False
        learns = r.order and r.known < len(self.chain[r.first])
        return not learns and self.tile(r) >= self.room

    def asks(self, r: Reader, i: int, asking: bool, token: Beat | None, settled: bool) -> bool:
        if r.drains:
            return not r.away and not r.drop
        if asking and self.is_away(r, token):
            return settled and len(r.away) < 32 and self.fetches[i].ready()
        return asking and not r.away

    def arrive(self, r: Reader, i: int, empty: bool, c: int) -> None:
        """A tile from off-chip, which leaves or is dropped."""
        channel = self.fetched[i]
        came = channel.peek()
        if came is None:
            return
        if r.drop:
            channel.take()
            r.drop -= 1
        elif r.away and r.away[0][0] <= c:
            _, beat, before, after = r.away[0]
            if before:
                channel.take()
                r.away[0][2] -= 1
            elif empty:
                out = self.outs[len(self.writers) + i]
                if not out.ready():
                    self.offers = True
                    return
                channel.take()
                out.push(beat)
                r.away.popleft()
                r.drop = after

    def release(self, r: Reader, channel: Channel) -> None:
        """The buffer is given up, and the next reference taken."""
        r.drains = False
        if r.first is not None:
            self.posts.append((r.first, -1))
        r.buffer = None
        following = channel.peek()
        if following is not None and not following.done:
            self.start(r, channel.take())

    def serve(self, r, i, channel, c):
        """A tile of the buffer held, or a bare stop."""
        token = r.tokens.peek() if r.tokens else None
        hollow = r.first is None
        nothing = hollow or (token is not None and not token.data)
        if r.order and not hollow and r.known < len(self.chain[r.first]):
            r.known += 1
            return
        away = self.is_away(r, token)
        number = self.tile(r) - self.room if away else 0
        if nothing:
            b = Beat(0, 0)
        elif r.order:
            b = r.buffer[r.order[r.at][0]]._replace(stop=r.order[r.at][1])
        else:
            b = r.buffer[r.at]
        r.at += 1
        if nothing or r.at == len(r.order or r.buffer):
            if token is not None:
                r.tokens.take()
                last_turn = token.stop >= r.ref
                stop = r.rank + token.stop
                assert not last_turn or token.stop == r.ref + r.q, "stop mismatch"
            else:
                last_turn = hollow or r.turn + 1 >= r.repeat
                stop = r.rank if not last_turn else r.rank + r.q + r.dimension
            b = b._replace(stop=stop)
            r.at = 0
            r.turn = r.turn + 1
            if last_turn:
                r.drains = bool(self.kind.spill) and len(r.buffer) > self.room
                if not r.drains:
                    self.release(r, channel)
        if not away:
            r.queue.append((c + 2, b))
            return
        size = self.kind.block
        block, at = divmod(number, size)
        if r.order or at == 0:
            self.fetches[i].push(Beat(0, 1, (block, 0)))
        ends = r.order or r.at == 0
        r.away.append([c + 2, b, at if r.order else 0, size - 1 - at if ends else 0])
