"""The scratchpad: pages, writers, readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, product

from ...machine.beat import STOP_DONE
from ...machine.limits import COUNT_BITS
from .core import Beat, Channel, Unit, golden


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
            self.ins[len(self.writers) + len(self.readers) :],
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
        self.tiles = {}
        self.chain = {}
        self.refs = {}
        self.owner = {}
        self.posts = []
        self.unused = set()  # buffers without a reference that are not free yet
        self.write_turn = self.read_turn = self.peak = 0

    def step(self, c):
        free = len(self.free)
        self.write(c, free)
        self.read(c)
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
                asking.append(fits and (b.stop < w.rank or queued < 2))
            else:
                asking.append(False)
                if b is not None and not queued:
                    channel.take()
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

    def read(self, c):
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
            empty = not r.queue
            self.deliver(r.queue, self.outs[w + i], c)
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
            self.serve(r, self.ins[w + i], c)
            break
        if ended:
            self.read_turn = 0

    def serve(self, r, channel, c):
        """A tile of the buffer held, or a bare stop."""
        token = r.tokens.peek() if r.tokens else None
        hollow = r.first is None
        nothing = hollow or (token is not None and not token.data)
        if r.order and not hollow and r.known < len(self.chain[r.first]):
            r.known += 1
            return
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
                if not hollow:
                    self.posts.append((r.first, -1))
                r.buffer = None
                following = channel.peek()
                if following is not None and not following.done:
                    self.start(r, channel.take())
        r.queue.append((c + 2, b))
