"""The published simulator's rules once more, in plain Python: every operator a coroutine with a
clock of its own. It shares nothing with `penstock.model.stepsim` but the rules (docs/stepsim.md).

An operator is a generator that yields when it has to wait: for a time, or for word of a channel.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

PMU_BW = 64
LINE = 64
HBM_CHANNELS = 32
HBM_INTERVAL = 2
HBM_LATENCY = 17  # from the start of service to the visible response
ELEMENT = 2


@dataclass(frozen=True)
class Token:
    """A tile of ``rows`` x ``cols`` (``valid`` rows; ``held``: in a memory unit), a number, or a
    set of targets; ``stop``: level of the stop token that rides on it.
    """

    stop: int = 0
    rows: int = 0
    cols: int = 0
    valid: int = 0
    held: bool = False
    value: object = None

    @property
    def transfer(self) -> int:
        """Cycles through a memory unit's port."""
        return -(-self.rows * self.cols * ELEMENT // PMU_BW)

    @property
    def load(self) -> int:
        return self.transfer if self.held else 0

    @property
    def lines(self) -> int:
        return self.rows * -(-self.cols * ELEMENT // LINE)


@dataclass
class Channel:
    depth: int
    queue: deque = field(default_factory=deque)
    left: list[int] = field(default_factory=list)
    sent: int = 0
    closed: bool = False
    waiting: list = field(default_factory=list)


class Operator:
    """A generator with its clock."""

    def __init__(self, sim: Sim):
        self.sim = sim
        self.t = 0
        self.turn = 0
        self.code = None
        self.ended = False

    def until(self, t: int):
        if t > self.t:
            self.sim.call(t, self)
            yield
            self.t = t

    def word_of(self, *channels: Channel):
        """Wait until something happens to one of the channels."""
        for c in channels:
            c.waiting.append((self, self.turn))
        yield
        self.t = self.sim.now

    def peek(self, c: Channel):
        """The head of a channel, at the earliest when it is visible; None at the end."""
        while not c.queue:
            if c.closed:
                return None
            yield from self.word_of(c)
        yield from self.until(c.queue[0][0])
        return c.queue[0][1]

    def take(self, c: Channel) -> Token:
        _, token = c.queue.popleft()
        c.left.append(self.t)
        self.sim.tell(c)
        return token

    def get(self, c: Channel):
        token = yield from self.peek(c)
        return token and self.take(c)

    def room(self, c: Channel):
        """Wait for the slot of the next token."""
        before = c.sent - c.depth
        while before >= len(c.left):
            yield from self.word_of(c)
        if before >= 0:
            yield from self.until(c.left[before] + 1)

    def put(self, c: Channel, token: Token, stamp: int | None = None):
        """Send when there is room; the stamp is that of before the wait."""
        yield from self.room(c)
        c.queue.append((max(self.t + 1, stamp or 0), token))
        c.sent += 1
        self.sim.tell(c)


class Sim:
    """Operators in the order of time, and the memory that they share."""

    def __init__(self, depth: int, bw: int, par: int = 1):
        self.depth = depth
        self.bw = bw
        self.par = par
        self.now = 0
        self.heap: list = []
        self.count = 0
        self.operators: list[Operator] = []
        self.ports: list[Port] = []
        self.offset = 0
        self.service = [-HBM_INTERVAL] * HBM_CHANNELS
        self.ticking = False

    # -- coroutines

    def call(self, t: int, who: Operator) -> None:
        self.count += 1
        heapq.heappush(self.heap, (t, self.count, who, who.turn))

    def tell(self, c: Channel) -> None:
        waiting = c.waiting
        c.waiting = []
        for who, turn in waiting:
            if who.turn == turn:
                self.call(self.now, who)

    def channel(self) -> Channel:
        return Channel(self.depth)

    def start(self, rule, *args, outs: int = 1, **named) -> Any:
        """Add an operator; its output channels."""
        op = Operator(self)
        channels = [self.channel() for _ in range(outs)]

        def body():
            yield from rule(op, *args, *channels, **named)
            op.ended = True
            for c in channels:
                c.closed = True
                self.tell(c)

        op.code = body()
        self.operators.append(op)
        self.call(0, op)
        return channels[0] if outs == 1 else channels

    def copies(self, data, n: int) -> list[Channel]:
        """A Broadcast, where a stream has several readers."""
        return self.start(broadcast, data, outs=n) if n > 1 else [data]

    def run(self) -> int:
        """Run to the end; the latest clock."""
        while self.heap:
            t, _, who, turn = heapq.heappop(self.heap)
            if who.turn != turn:
                continue
            self.now = t
            who.turn += 1
            next(who.code, None)
        assert all(op.ended for op in self.operators), "deadlock"
        return max(op.t for op in self.operators)

    # -- memory

    def port(self, order: int) -> Port:
        port = Port(order)
        self.ports.append(port)
        self.ports.sort(key=lambda p: p.order)
        return port

    def transfer(self, op: Operator, port: Port, lines: int):
        """Ask for lines, `par` a cycle, and wait for all of them."""
        if not lines:
            return
        port.left = lines
        port.since = op.t
        port.ready = 0
        if not self.ticking:
            self.ticking = True
            memory = Memory(self)
            memory.t = op.t
            memory.code = memory.serve()
            self.call(op.t, memory)
        while port.left:
            yield from op.word_of(port.done)
        yield from op.until(port.ready)


@dataclass
class Port:
    order: int
    left: int = 0
    since: int = 0
    ready: int = 0
    done: Channel = field(default_factory=lambda: Channel(1))


class Memory(Operator):
    """The HBM node: cycle by cycle while there are requests."""

    def serve(self):
        sim = self.sim
        while any(p.left for p in sim.ports):
            yield from self.until(self.t + 1)
            taken = 0
            for p in sim.ports:
                if not p.left or p.since >= self.t:
                    continue
                for _ in range(min(sim.par, p.left)):
                    sim.offset = (sim.offset + taken) % HBM_CHANNELS
                    start = max(sim.service[sim.offset] + HBM_INTERVAL, self.t + 1)
                    sim.service[sim.offset] = start
                    p.ready = max(p.ready, start + HBM_LATENCY)
                    p.left -= 1
                    taken += 1
                if not p.left:
                    sim.tell(p.done)
            sim.offset = (sim.offset + taken) % HBM_CHANNELS
        sim.ticking = False


# -- operators: rule(op, inputs and parameters, outputs) ------------------------------------------


def stop_at(place: int, shape: tuple[int, ...]) -> int:
    """Dimensions that end at a place of a nest."""
    level = 0
    block = 1
    for n in reversed(shape):
        block *= n
        if (place + 1) % block:
            break
        level += 1
    return level


def count_of(shape) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def load(op, port, rows, cols, shape, out):
    """One tile after the other; the next is asked for when the last was accepted."""
    for i in range(count_of(shape)):
        token = Token(stop_at(i, shape), rows, cols, rows, True)
        yield from op.sim.transfer(op, port, token.lines)
        yield from op.put(out, token)


def load_by_reference(op, port, rows, cols, shape, ref, out):
    while start := (yield from op.get(ref)):
        n = count_of(shape)
        for i in range(n):
            stop = stop_at(i, shape) + (start.stop if i == n - 1 else 0)
            token = Token(stop, rows, cols, rows, True)
            yield from op.sim.transfer(op, port, token.lines)
            yield from op.put(out, token)


def store(op, port, data):
    while token := (yield from op.peek(data)):
        yield from op.sim.transfer(op, port, token.lines)
        op.take(data)


def store_at(op, port, at, data, out):
    while (yield from op.peek(at)) is not None:
        token = yield from op.peek(data)
        yield from op.sim.transfer(op, port, token.lines)
        yield from op.put(out, Token())
        op.take(at)
        op.take(data)


def listed(op, first, tokens, out):
    """Numbers (first 0) or selectors (1), a cycle apart."""
    for i, token in enumerate(tokens):
        yield from op.put(out, token, first + i)


def consume(op, data):
    while (yield from op.get(data)) is not None:
        yield from op.until(op.t + 1)


def broadcast(op, data, *outs):
    while token := (yield from op.get(data)):
        for out in outs:
            yield from op.room(out)
        for out in outs:
            yield from op.put(out, token)


def restop(op, data, rule, out):
    """Flatten and the like: another stop in no time."""
    while token := (yield from op.get(data)):
        yield from op.put(out, replace(token, stop=rule(token.stop)))


def flatten(low, high):
    return lambda s: min(s, low) if s <= high else s - (high - low)


def chunks(op, data, size, pad, outer, out):
    """Reshape of dimension 0: the last of a chunk waits for what follows, if that is told by its
    stop (outer).
    """
    n = 0
    while token := (yield from op.get(data)):
        n += 1
        stop = token.stop
        if n == size:
            n = 0
            stop += 1
            if outer and token.stop == 0:
                stop = 1 if (yield from op.peek(data)) else 2
        yield from op.put(out, replace(token, stop=stop))
    if n:
        assert pad
        for i in range(n, size):
            last = i == size - 1
            yield from op.put(out, replace(token_of_pad(pad), stop=(1 + outer) * last))


def token_of_pad(pad) -> Token:
    rows, cols = pad
    return Token(0, rows, cols, 0)


def repeat(op, data, count, out):
    while token := (yield from op.peek(data)):
        for i in range(count):
            stop = token.stop + 1 if i == count - 1 else 0
            yield from op.put(out, replace(token, stop=stop), op.t + i)
        yield from op.until(op.t + count)
        op.take(data)


def expand(op, data, ref, out):
    while token := (yield from op.peek(data)):
        while place := (yield from op.get(ref)):
            yield from op.put(out, replace(token, stop=place.stop))
            if place.stop:
                break
        op.take(data)


def heads(op, inputs):
    """One token of each input, all still there."""
    tokens: list[Token] = []
    while len(tokens) < len(inputs):
        tokens += [(yield from op.peek(inputs[len(tokens)]))]
    return tokens


def function(op, inputs, fn, out, back=False):
    """Map: shows its inputs until the result is accepted. ``fn``: (rows, cols, valid, FLOP)."""
    while (yield from op.peek(inputs[0])) is not None:
        tokens = yield from heads(op, inputs)
        assert len({x.stop for x in tokens}) == 1
        made, cycles = applied(op, fn, tokens, back)
        yield from op.until(op.t + max(cycles, made.transfer if back else 0))
        yield from op.put(out, made)
        for c in inputs:
            op.take(c)


def applied(op, fn, tokens, back=False) -> tuple[Token, int]:
    """The result and the cycles of load and compute."""
    rows, cols, valid, flops = fn(*tokens)
    held = sum(x.load for x in tokens)
    compute = 1 if flops == "fixed" else -(-flops // op.sim.bw)
    return Token(tokens[0].stop, rows, cols, valid, back), max(held, compute)


def reduce(op, inputs, fn, out, join=False):
    """Accum of rank 1: takes its inputs, then sends with the last of a group. ``join``: puts rows
    one below the other, in no time.
    """
    group = None
    while (yield from op.peek(inputs[0])) is not None:
        tokens = yield from heads(op, inputs)
        if join:
            (x,) = tokens
            rows = x.rows + (group.rows if group else 0)
            valid = x.valid + (group.valid if group else 0)
            group = Token(x.stop, rows, x.cols, valid)
        else:
            group, cycles = applied(op, fn, tokens)
            yield from op.until(op.t + cycles)
        for c in inputs:
            op.take(c)
        if group.stop:
            yield from op.put(out, replace(group, stop=group.stop - 1))
            group = None


def rows_of(op, data, out):
    """Valid rows of tiles, all at once."""
    while token := (yield from op.get(data)):
        for i in range(token.valid):
            stop = token.stop if i == token.valid - 1 else 0
            yield from op.put(out, Token(stop, 1, token.cols, 1, token.held))


def partition(op, data, selector, *outs):
    """Units of one token."""
    while chosen := (yield from op.get(selector)):
        token = yield from op.peek(data)
        yield from op.until(op.t + token.load)
        op.take(data)
        assert token.stop == chosen.stop
        yield from op.until(op.t + 1)
        for i in sorted(chosen.value):
            yield from op.put(outs[i], replace(token, stop=0, held=False))


def in_turn(op, data, rank, *outs):
    """Parallelize."""
    i = 0
    while token := (yield from op.get(data)):
        yield from op.put(outs[i], replace(token, stop=min(token.stop, rank)), op.t + 1)
        if token.stop >= rank:
            i = (i + 1) % len(outs)


def reassemble(op, inputs, selector, out):
    while chosen := (yield from op.get(selector)):
        arrived = []
        for i in sorted(chosen.value):
            yield from op.peek(inputs[i])
            arrived.append((inputs[i].queue[0][0], i))
        for place, (arrival, i) in enumerate(sorted(arrived)):
            token = inputs[i].queue[0][1]
            yield from op.until(arrival + 1 + token.load)
            op.take(inputs[i])
            last = place == len(arrived) - 1
            stop = 1 + chosen.stop if last else 0
            yield from op.put(out, replace(token, stop=stop, held=False))


def eager_merge(op, inputs, data, selector):
    while not all(c.closed and not c.queue for c in inputs):
        heads = sorted((c.queue[0][0], i) for i, c in enumerate(inputs) if c.queue)
        if not heads or heads[0][0] > op.t:
            if heads:
                op.sim.call(heads[0][0], op)
            yield from op.word_of(*inputs)
            continue
        _, i = heads[0]
        yield from op.put(selector, Token(0, value={i}))
        token = op.take(inputs[i])
        yield from op.put(data, token)


def expert_addresses(op, selector, steps, out):
    while (yield from op.get(selector)) is not None:
        for i in range(steps):
            yield from op.put(out, Token(1 + (i == steps - 1)))


def cache_addresses(op, index, tiles, out):
    while (yield from op.peek(index)) is not None:
        n = yield from op.peek(tiles)
        op.take(index)
        op.take(tiles)
        stamp = op.t
        for i in range(n.value):
            yield from op.put(out, Token((n.stop + 1) * (i == n.value - 1)), stamp + i)


def last_filter(op, tiles, out):
    while n := (yield from op.get(tiles)):
        for i in range(n.value):
            last = i == n.value - 1
            yield from op.put(out, Token((n.stop + 1) * last, value={0 if last else 1}))


# -- functions: (rows, cols, valid, FLOP) from tokens ---------------------------------------------


def matmul(a, b):
    return a.rows, b.cols, a.valid, 2 * a.rows * a.cols * b.cols


def matmul_t(a, b):
    return a.rows, b.rows, a.valid, 2 * a.rows * a.cols * b.rows


def each(flops):
    def fn(*tokens):
        rows = max(x.rows for x in tokens)
        cols = max(x.cols for x in tokens)
        return rows, cols, tokens[0].valid, flops * rows * cols

    return fn


def row_sum(a):
    return a.rows, 1, a.valid, a.rows * a.cols


def set_offset(a, n):
    return a.rows, a.cols, n.value, "fixed"


def append(a, row):
    return a.rows, a.cols, a.valid + 1, "fixed"


def address(a, n):
    return 0, 0, 0, "fixed"
