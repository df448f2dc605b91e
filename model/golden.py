"""The timing contract in plain Python: every unit evaluated every cycle, nothing shared with the compiled engine.

Slow and meant to be read beside docs/timing.md. Values are left out: a beat is (stop, data, numbers), where numbers are a tile's valid
rows and columns or a reference's page and tiles, flattened over a tuple's members. What a unit sees in a cycle is the state at
its start: channels and posts change in `commit`, after all units have been evaluated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.machine.beat import ELEMENT_BITS, LINE_BYTES
from penstock.machine.config import Config
from penstock.machine.kinds import kind_of, queue_entries
from penstock.machine.unitgraph import UnitGraph


class Beat(NamedTuple):
    stop: int
    data: int = 1
    numbers: tuple = ()


END = Beat(15, 0)


class Channel:
    def __init__(self, depth: int):
        self.depth, self.beats = depth, deque()
        self.pushed, self.taken = None, False
        self.accept, self.take_, self.seen = [], [], []  # the trace

    def peek(self) -> Beat | None:
        return self.beats[0] if self.beats else None

    def ready(self) -> bool:
        return len(self.beats) < self.depth

    def push(self, beat: Beat) -> None:
        assert self.ready() and self.pushed is None
        self.pushed = beat

    def take(self) -> Beat:
        assert self.beats and not self.taken
        self.taken = True
        return self.beats[0]

    def commit(self, c: int) -> None:
        if self.taken:
            self.beats.popleft()
            self.take_.append(c)
        if self.pushed is not None:
            self.beats.append(self.pushed)
            self.accept.append(c)
            self.seen.append(self.pushed)
        self.pushed, self.taken = None, False


class Unit:
    """Base: `step` is one cycle; it may set `offers` (a beat that was not accepted)."""

    done = True  # whether the run may end as far as this unit is concerned

    def __init__(self, g: "Golden", u, ins: list[Channel], outs: list[Channel]):
        self.g, self.u, self.p, self.ins, self.outs = g, u, u.params, ins, outs
        self.offers = self.granted = False
        self.busy = self.blocked = 0
        self.setup()

    def setup(self) -> None: ...

    def step(self, c: int) -> None:
        """Combinational units: fire when there is something to emit and every output written has a slot."""
        fired = self.plan()
        if fired is None:
            return
        out, taken, update = fired  # {output: beat}, inputs taken, state update
        if all(self.outs[o].ready() for o in out):
            for o, b in out.items():
                self.outs[o].push(b)
            for i in taken:
                self.ins[i].take()
            update()
        else:
            self.offers = True

    def plan(self):
        b = self.ins[0].peek()
        return None if b is None else ({0: b if not b.data else b._replace(stop=self.stop(b.stop))}, [0], lambda: None)

    def account(self) -> None:
        if self.granted or any(c.taken for c in self.ins) or any(c.pushed for c in self.outs):
            self.busy += 1
        elif self.offers:
            self.blocked += 1
        self.offers = self.granted = False


class Broadcast(Unit):
    def plan(self):
        b = self.ins[0].peek()

        def post():
            if b.data and self.p["scratchpad"] is not None:
                self.g.units[self.p["scratchpad"]].posts.append((b.numbers[0], self.p["n"] - 1))

        return None if b is None else ({o: b for o in range(self.p["n"])}, [0], post)


class Flatten(Unit):
    def stop(self, s):
        lo, hi = self.p["lo"], self.p["hi"]
        return s if s <= lo else lo if s <= hi else s - (hi - lo)


class Promote(Unit):
    def setup(self):
        self.held, self.ending = None, False

    def stop(self, s):
        return s + 1 if s >= self.p["level"] else s

    def plan(self):
        if not self.p["outermost"]:
            return super().plan()
        if self.ending:
            return {0: END}, [], lambda: setattr(self, "ending", False)
        b = self.ins[0].peek()
        if b is None:
            return None

        def update():
            self.held, self.ending = (b, False) if b.data else (None, True)

        if self.held is None:
            return {}, [0], update
        return {0: self.held if b.data else self.held._replace(stop=self.p["level"])}, [0], update


class Reshape(Unit):
    def setup(self):
        self.count, self.pads = 0, deque()

    def pad_stops(self, missing: int, last: int) -> list[int]:
        rows, cols = self.p["pad_rows"] or 1, self.p["pad_cols"] or 1
        unit = [0 if k % cols < cols - 1 else 1 for k in range(rows * cols - 1)]
        return (unit + [self.p["dim"]]) * (missing - 1) + unit + [last]

    def plan(self):
        dim, chunk = self.p["dim"], self.p["chunk"]
        b = self.ins[0].peek()
        zero = (0,) * self.g.numbers[self.u.id]
        if not self.pads and b is not None and not b.data and self.p["pad"] and self.count:
            stops = deque(self.pad_stops(chunk - self.count, dim + 1))

            def start():
                self.pads, self.count = stops, 0
                stops.popleft()

            return {0: Beat(stops[0], 1, zero)}, [], start
        if self.pads:
            return {0: Beat(self.pads[0], 1, zero)}, [], self.pads.popleft
        if b is None:
            return None
        s, count, pads = b.stop, self.count, deque()
        if not b.data:
            count = 0
        elif s == dim:
            count += 1
            if count == chunk:
                s, count = dim + 1, 0
        elif s > dim:
            if self.p["pad"] and count + 1 < chunk:
                s, pads = dim, deque(self.pad_stops(chunk - count - 1, s + 1))
            else:
                s += 1
            count = 0

        def update():
            self.count, self.pads = count, pads

        return {0: b if not b.data else b._replace(stop=s)}, [0], update


class Repeat(Unit):
    def setup(self):
        self.sent = 0

    def plan(self):
        b = self.ins[0].peek()
        if b is None:
            return None
        if not b.data:
            return {0: b}, [0], lambda: None
        last = self.sent == self.p["count"] - 1
        return {0: b._replace(stop=b.stop + 1 if last else 0)}, [0] if last else [], lambda: setattr(self, "sent", 0 if last else self.sent + 1)


class Zip(Unit):
    def plan(self):
        a, b = (c.peek() for c in self.ins)
        if a is None or b is None:
            return None
        assert a[:2] == b[:2], "stop mismatch"
        return {0: a._replace(numbers=a.numbers + b.numbers)}, [0, 1], lambda: None


class Split(Unit):
    def setup(self):
        self.index = 0

    def plan(self):
        b, n = self.ins[0].peek(), self.p["n"]
        if b is None:
            return None
        if not b.data:
            return {o: b for o in range(n)}, [0], lambda: setattr(self, "index", 0)
        return {self.index: b}, [0], lambda: setattr(self, "index", (self.index + 1) % n)


class Merge(Unit):
    def setup(self):
        self.index = 0

    def plan(self):
        b, n = self.ins[self.index].peek(), self.p["n"]
        if b is None:
            return None
        if not b.data:
            if any(c.peek() is None for c in self.ins):
                return None
            return {0: b}, range(n), lambda: setattr(self, "index", 0)
        return {0: b}, [self.index], lambda: setattr(self, "index", (self.index + 1) % n)


class Source(Unit):
    def setup(self):
        self.next, self.given = 0, self.g.sources[self.u.id]

    def step(self, c):
        if self.next < len(self.given) and self.given[self.next][0] <= c:
            if self.outs[0].ready():
                self.outs[0].push(self.given[self.next][1])
                self.next += 1
            else:
                self.offers = True


class Sink(Unit):
    def setup(self):
        self.taken, self.done = 0, False
        self.release = self.g.sinks.get(self.u.id, ())

    def step(self, c):
        b = self.ins[0].peek()
        if b is None:
            return
        self.done = self.done or not b.data
        if self.taken >= len(self.release) or self.release[self.taken] <= c:
            self.ins[0].take()
            self.taken += 1


class Pipeline(Unit):
    """`map` and `matmul` (section 2)."""

    def setup(self):
        kind = kind_of(self.u.kind)
        self.latency, self.interval = kind.latency(self.g.t, self.p), kind.interval(self.g.t, self.p)
        self.queue, self.last = deque(), -self.interval

    def step(self, c):
        credit = len(self.queue)
        if self.queue and self.queue[0][0] <= c:
            if self.outs[0].ready():
                self.outs[0].push(self.queue.popleft()[1])
            else:
                self.offers = True
        beats = [ch.peek() for ch in self.ins]
        if None in beats or credit == queue_entries(self.latency, self.interval) or c < self.last + self.interval:
            return
        assert len({b[:2] for b in beats}) == 1, "stop mismatch"
        for ch in self.ins:
            ch.take()
        numbers = [x for b in beats for x in b.numbers]
        if self.u.kind == "matmul" and numbers:
            numbers = [numbers[0], numbers[2] if self.p["transposed"] else numbers[3]]
        self.queue.append((c + self.latency, beats[0]._replace(numbers=tuple(numbers[:2]))))
        self.last = c


class Accum(Unit):
    """Section 3.1."""

    def setup(self):
        self.interval = kind_of("accum").interval(self.g.t, self.p)
        self.reduce = {d for d in range(16) if self.p["reduce"] >> d & 1}
        self.top = max(self.reduce)
        self.index, self.start, self.first = 0, dict.fromkeys(self.reduce, 0), dict.fromkeys(self.reduce, True)
        self.memory, self.last, self.ending = {}, -self.interval, False
        self.tiles, self.drained, self.since = 0, 0, 0  # of the group that drains

    def step(self, c):
        if self.ending:
            self.offers = True
            if self.outs[0].ready():
                self.outs[0].push(END)
                self.ending = False
            return
        tiles, drained = self.tiles, self.drained
        if tiles and c >= self.since:
            if self.outs[0].ready():
                self.outs[0].push(self.memory[drained])
                self.drained += 1
                if self.drained == tiles:
                    self.tiles = 0
            else:
                self.offers = True
        b = self.ins[0].peek()
        if b is None or c < self.last + self.interval:
            return
        if not b.data:
            if not tiles:
                self.ins[0].take()
                self.ending = True
            return
        s = b.stop
        if tiles and (self.index >= drained or s > self.top):
            return
        assert self.index < self.p["depth"], "accumulator overflow"
        self.ins[0].take()
        self.last = c
        numbers = b.numbers if all(self.first.values()) else self.memory[self.index].numbers
        self.memory[self.index] = Beat(sum(d not in self.reduce for d in range(s)), 1, numbers)
        if s > self.top:
            self.tiles, self.drained, self.since = self.index + 1, 0, c + self.interval
            self.index = 0
        elif s in self.reduce:
            self.index = self.start[s]
            self.first[s] = False
        else:
            self.index += 1
        for j in self.reduce:
            if j < s:
                self.first[j], self.start[j] = True, self.index


@dataclass
class Writer:
    rank: int
    pages: list = field(default_factory=list)  # of the open buffer
    fill: int = 0
    count: int = 0
    queue: deque = field(default_factory=deque)  # (from cycle, beat)


@dataclass
class Reader:
    rank: int
    repeat: int
    buffer: list | None = None  # tiles as beats
    first: int = 0
    q: int = 0
    at: int = 0
    turn: int = 0
    queue: deque = field(default_factory=deque)


class Scratchpad(Unit):
    """Section 4. A buffer is kept whole, by its first page; the pages only count and are named in references."""

    def setup(self):
        p = self.p
        self.free = list(range(p["pages"]))  # head first
        self.writers = [Writer(w["rank"]) for w in p["writers"]]
        self.readers = [Reader(r["rank"], n if r["repeat_dim"] else 0) for r, n in zip(p["readers"], p["repeat"])]
        self.tiles, self.chain, self.refs, self.posts = {}, {}, {}, []
        self.write_turn = self.read_turn = self.peak = 0

    def step(self, c):
        free = len(self.free)
        self.write(c, free)
        self.read(c)
        self.peak = max(self.peak, self.p["pages"] - len(self.free))

    def commit(self) -> None:
        """Posts of a cycle add up; a buffer whose count is zero is spliced in front of the free list."""
        for page, n in self.posts:
            self.refs[page] += n
        for page in {page for page, _ in self.posts}:
            if self.refs[page] == 0:
                self.free[:0] = self.chain[page]
        self.posts = []

    def deliver(self, queue, out, c):
        if queue and queue[0][0] <= c:
            if out.ready():
                out.push(queue.popleft()[1])
            else:
                self.offers = True

    def write(self, c, free):
        n, asking = len(self.writers), []
        for i, w in enumerate(self.writers):
            channel, queued = self.ins[i], len(w.queue)
            b = channel.peek()
            if b is not None and b.data:
                fits = free > 0 or (w.pages and w.fill < self.p["frames"])
                asking.append(fits and (b.stop < w.rank or queued < 2))
            else:
                asking.append(False)
                if b is not None and not queued:
                    channel.take()
                    w.queue.append((c + 1, b))
            self.deliver(w.queue, self.outs[i], c)
        for i in ((self.write_turn + k) % n for k in range(n)):
            if not asking[i]:
                continue
            w = self.writers[i]
            b = self.ins[i].take()
            if not w.pages or w.fill == self.p["frames"]:
                w.pages.append(self.free.pop(0))
                w.fill = 0
            w.fill += 1
            self.tiles.setdefault((i, "open"), []).append(b)
            if b.stop >= w.rank:
                first = w.pages[0]
                self.tiles[first] = self.tiles.pop((i, "open"))
                self.chain[first], self.refs[first] = w.pages, 1
                w.queue.append((c + 1, Beat(b.stop - w.rank, 1, (first, len(self.tiles[first])))))
                w.pages = []
            self.write_turn = (i + 1) % n
            return

    def start(self, r, beat):
        r.first, r.q = beat.numbers[0], beat.stop
        r.buffer, r.at, r.turn = self.tiles[r.first], 0, 0

    def read(self, c):
        n, w, asking = len(self.readers), len(self.writers), []
        for i, r in enumerate(self.readers):
            b = self.ins[w + i].peek()
            asking.append(r.buffer is not None and len(r.queue) < 4)
            empty = not r.queue
            self.deliver(r.queue, self.outs[w + i], c)
            if r.buffer is None and b is not None:
                if b.data:
                    self.start(r, self.ins[w + i].take())
                elif empty:
                    r.queue.append((c + 1, self.ins[w + i].take()))
        for i in ((self.read_turn + k) % n for k in range(n)):
            if not asking[i]:
                continue
            r = self.readers[i]
            self.read_turn = (i + 1) % n
            b = r.buffer[r.at]
            r.at += 1
            if r.at == len(r.buffer):
                last_turn = r.turn + 1 >= r.repeat
                b = b._replace(stop=r.rank if not last_turn else r.rank + r.q + (1 if r.repeat else 0))
                r.at, r.turn = 0, r.turn + 1
                if last_turn:
                    self.posts.append((r.first, -1))
                    r.buffer = None
                    following = self.ins[w + i].peek()
                    if following is not None and following.data:
                        self.start(r, self.ins[w + i].take())
            r.queue.append((c + 2, b))
            return


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


class OffChip(Unit):
    def setup(self):
        payload = self.g.payload[self.u.id]
        self.size = ELEMENT_BITS[payload.dtype] // 8
        self.e = LINE_BYTES // self.size
        self.begin()

    def lines(self, row: int, col: int, k: int, i: int, rows: int) -> list[list[int]]:
        """Chunks of line i of a band: lists of addresses."""
        at = [self.p["base"] + (row + r) * self.p["pitch"] + (col - k) * self.size + i * LINE_BYTES for r in range(rows)]
        return [at[j : j + self.g.lanes] for j in range(0, rows, self.g.lanes)]


class Load(OffChip):
    def begin(self):
        self.ring, self.blocks, self.ended, self.tile = deque(), deque(), False, 0
        self.requests, self.work = self.request(), self.assemble()
        self.chunk, self.following, self.needs = None, next(self.requests, "over"), next(self.work, None)

    def bands(self):
        p, t = self.p, self.g.t
        for at in np.ndindex(*p["shape"]):
            row, col = (sum(i * s for i, s in zip(at, steps)) for steps in (p["row_step"], p["col_step"]))
            rows, valid = min(max(p["tensor_rows"] - row, 0), p["rows"]), min(max(p["tensor_cols"] - col, 0), p["cols"])
            n_bands, ends = -(-p["rows"] // t), 0
            for i, n in zip(reversed(at), reversed(p["shape"])):
                if i != n - 1:
                    break
                ends += 1
            for b in range(n_bands):
                v, k = min(max(rows - b * t, 0), t), col % self.e
                n = -(-(k + valid) // self.e) if v and valid else 0
                yield Band(row + b * t, col, v, valid, k, n, -(-p["cols"] // self.e) + (k > 0), 1 if b < n_bands - 1 else 2 + ends)

    def request(self):
        """Chunks in walk order; None is a cycle without request."""
        for b in self.bands():
            if not b.n:
                yield None
            for i in range(b.n):
                yield from self.lines(b.row, b.col, b.k, i, b.v)

    def assemble(self):
        """(needs a group, block pushed or None), one a cycle."""
        t, g = self.g.t, self.e // self.g.t
        tiles = -(-self.p["cols"] // t)
        for b in self.bands():
            for i in range(b.steps):
                block = None
                if i or not b.k:
                    j = i - (b.k > 0)
                    block = [Beat(b.stop if x == tiles - 1 else 0, 1, (b.v, min(max(b.valid - x * t, 0), t))) for x in range(j * g, min(j * g + g, tiles))]
                chunks = -(-b.v // self.g.lanes) if i < b.n else 0
                for q in range(max(chunks, 1)):
                    yield chunks > 0, block if q == max(chunks, 1) - 1 else None

    def step(self, c):
        # Requests: `following` is the chunk to present next, None for a band without lines, "over" after the last.
        if self.chunk is None and self.following != "over":
            if self.following is None:
                self.following = next(self.requests, "over")
            elif len(self.ring) < self.g.groups:
                self.chunk, self.following = self.following, next(self.requests, "over")
        # Assembly and emission, on the levels at the start of the cycle.
        blocks, over = list(self.blocks), self.needs is None
        if not over:
            group, block = self.needs
            if not (group and not (self.ring and self.ring[0][0] == 0)) and not (block and len(blocks) == 2):
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

    def grant(self):
        chunk, self.chunk = self.chunk, None
        self.ring.append([len(chunk)])
        return chunk, self.ring[-1]


class Store(OffChip):
    """Section 5, `store`, as a list of chunks to do for the open step."""

    def begin(self):
        self.blocks, self.gathered = deque(), []
        self.chunk, self.acks, self.ended, self.done = None, [0], False, False
        self.row = self.col = self.band = self.i = self.carry = self.rows = 0
        self.carry_stop = 0  # of a carry step that is open
        self.todo = None  # chunks left of the open step

    def step(self, c):
        p = self.p
        self.done = self.done or (self.ended and self.acks[0] == 0)
        level, carry_open = len(self.blocks), self.carry_stop
        if (level or carry_open) and self.chunk is None:
            if self.todo is None:
                k = self.col % self.e
                if carry_open:
                    v = self.rows if self.carry else 0
                else:
                    v = self.blocks[0][0].numbers[0] if self.carry or sum(b.numbers[1] for b in self.blocks[0]) else 0
                self.todo = deque(self.lines(self.row + self.band * self.g.t, self.col, k, self.i, v))
            if self.todo:
                self.chunk = self.todo.popleft()
            else:
                self.finish()
        b = self.ins[0].peek()
        if b is not None and not b.data and not level and not carry_open:
            self.ins[0].take()
            self.ended = True
        elif b is not None and b.data and level < 2:
            self.gathered.append(self.ins[0].take())
            if b.stop or len(self.gathered) == self.e // self.g.t:
                self.blocks.append(self.gathered)
                self.gathered = []

    def finish(self):
        """The last cycle of a step."""
        k, self.todo = self.col % self.e, None
        if self.carry_stop:
            stop, self.carry_stop = self.carry_stop, 0
        else:
            beats = self.blocks.popleft()
            self.i += 1
            self.carry, self.rows = max(k + sum(b.numbers[1] for b in beats) - self.e, 0), beats[0].numbers[0]
            stop = beats[-1].stop
            if stop and k:
                self.carry_stop, stop = stop, 0
        if stop:
            self.i = self.carry = 0
            self.band += 1
            if stop >= 2:
                self.band, self.col = 0, self.col + self.p["cols"]
                if self.col >= self.p["tensor_cols"]:
                    self.col, self.row = 0, self.row + self.p["rows"]

    def grant(self):
        chunk, self.chunk = self.chunk, None
        self.acks[0] += len(chunk)
        if not self.todo:
            self.finish()
        return chunk, self.acks


CLASSES = {"broadcast": Broadcast, "flatten": Flatten, "promote": Promote, "reshape": Reshape, "repeat": Repeat, "zip": Zip, "split": Split, "merge": Merge,
           "source": Source, "sink": Sink, "map": Pipeline, "matmul": Pipeline, "accum": Accum, "scratchpad": Scratchpad, "load": Load, "store": Store}


class Memory:
    """Section 5.1."""

    def __init__(self, config):
        self.c, self.offset = config, 0
        self.last = [-(1 << 30)] * config.channels
        self.waiting: list[tuple[int, list, int, int]] = []  # delivery cycle, counter, port, line

    def accept(self, h: int, lines: list) -> None:
        d, n = self.c, len(lines)
        for i, line in enumerate(lines):
            ready = h + d.latency
            if d.kind == "pipe":
                self.offset += i
                channel = self.offset % d.channels
                self.last[channel] = max(self.last[channel] + d.interval, h + 1)
                ready = self.last[channel] + d.start_up + d.latency
            self.waiting.append((ready, *line))
        self.offset += n


class Golden:
    """A run: `sources` {unit: [(release, Beat)]}, `sinks` {unit: [release]}. `run` returns the number of cycles."""

    def __init__(self, graph: UnitGraph, config: Config, sources=None, sinks=None):
        m = config.machine
        self.t, self.lanes, self.groups = graph.t, m.port_lanes, m.load_lines // m.port_lanes
        self.sources, self.sinks = sources or {}, sinks or {}
        self.channels = [Channel(c.depth) for c in graph.channels]
        self.payload, self.numbers = {}, {}
        for u in graph.units:
            first = (graph.outputs(u.id) or graph.inputs(u.id))[0].payload
            self.payload[u.id] = first
            self.numbers[u.id] = 2 * (len(first.members) if first.kind == "tuple" else 1)
        self.units = []
        for u in graph.units:
            self.units.append(CLASSES.get(u.kind, Pipeline)(self, u, [self.channels[c.id] for c in graph.inputs(u.id)], [self.channels[c.id] for c in graph.outputs(u.id)]))
        self.ports = [self.units[u] for u in graph.ports]
        self.round_robin, self.turn = m.arbitration == "round_robin", 0
        self.memory = Memory(m.dram)
        self.port_trace = [([], [], []) for _ in self.ports]  # accept, deliver, address

    def run(self, max_cycles: int = 20000) -> int:
        for c in range(max_cycles):
            for u in self.units:
                u.step(c)
            over = all(u.done for u in self.units)
            self.interconnect(c)
            for u in self.units:
                u.account()
            for ch in self.channels:
                ch.commit(c)
            for u in self.units:
                if isinstance(u, Scratchpad):
                    u.commit()
            for entry in [x for x in self.memory.waiting if x[0] == c]:
                self.memory.waiting.remove(entry)
                _, counter, port, line = entry
                counter[0] -= 1
                self.port_trace[port][1][line] = c
            if over:
                return c + 1
        raise RuntimeError(f"not finished after {max_cycles} cycles")

    def interconnect(self, c: int) -> None:
        n = len(self.ports)
        for i in ((self.turn + k) % n for k in range(n)):
            port = self.ports[i]
            if port.chunk is not None:
                addresses, counter = port.grant()
                port.granted = True
                accept, deliver, address = self.port_trace[i]
                self.memory.accept(c + 1, [(counter, i, len(accept) + j) for j in range(len(addresses))])
                accept += [c] * len(addresses)
                deliver += [-1] * len(addresses)
                address += addresses
                if self.round_robin:
                    self.turn = (i + 1) % n
                break
        for port in self.ports:
            port.offers = port.offers or (port.chunk is not None and not port.granted)
