"""Pipelined units and accumulators."""

from __future__ import annotations

from collections import deque

from ...machine.beat import STOP_DONE
from ...machine.kinds import accum_levels, queue_entries
from .core import Beat, Unit, golden


@golden("map", "matmul", "row_reduce")
class Pipeline(Unit):
    """`map` and `matmul` (section 2)."""

    def setup(self):
        self.latency, self.interval = self.kind.pipeline(self.g.t)
        self.queue: deque[tuple[int, Beat]] = deque()  # with the cycle in which each may leave
        self.last = -self.interval

    def step(self, c):
        credit = len(self.queue)
        if self.queue and self.queue[0][0] <= c:
            if self.outs[0].ready():
                self.outs[0].push(self.queue.popleft()[1])
            else:
                self.offers = True
        beats = self.heads()
        if (
            beats is None
            or credit == queue_entries(self.latency, self.interval)
            or c < self.last + self.interval
        ):
            return
        assert len({b[:2] for b in beats}) == 1, "stop mismatch"
        for ch in self.ins:
            ch.take()
        numbers = [x for b in beats for x in b.numbers]
        if self.u.kind.name == "matmul" and numbers:
            numbers = [numbers[0], numbers[2] if self.kind.transposed else numbers[3]]
        if self.u.kind.name == "map" and self.kind.first and numbers:
            first = self.kind.first
            numbers = [numbers[2 * (first != "cols")], numbers[1 + 2 * (first != "rows")]]
        if self.u.kind.name == "row_reduce" and numbers:
            numbers[1] = min(numbers[1], 1)
        self.queue.append((c + self.latency, beats[0]._replace(numbers=tuple(numbers[:2]))))
        self.last = c


@golden("accum")
class Accum(Unit):
    """Sections 3.1 and 3.4."""

    def setup(self):
        kind = self.kind
        self.latency, self.interval = kind.pipeline(self.g.t)
        self.loop = kind.loop
        self.taken_into = {}  # cycle of the last beat of each accumulator
        self.reduce = {d for d in range(16) if self.kind.reduce >> d & 1}
        self.top = max(self.reduce)
        self.lowest, self.outer = accum_levels(self.kind.reduce)
        self.opened = {}  # stop of the beat that opened each accumulator, up to `lowest`
        self.memory = {}
        self.taken_at = -self.interval
        self.last = STOP_DONE
        self.leaving = None  # a beat without data that leaves next
        # tiles of the group that drains
        self.group = []
        self.drained = 0
        self.since = 0
        self.reset()

    def reset(self):
        self.index = 0
        self.high = 0
        self.start = dict.fromkeys(self.reduce, 0)
        self.first = dict.fromkeys(self.reduce, True)

    def kept(self, stop):
        return sum(d not in self.reduce for d in range(stop))

    def initial(self, stop):
        """The tiles of an empty group."""
        t = self.g.t
        rows = self.kind.init_rows
        cols = self.kind.init_cols
        valid = [
            (min(rows - r, t), min(cols - c, t))
            for r in range(0, rows, t)
            for c in range(0, cols, t)
        ]
        width = -(-cols // t)
        return [
            Beat(stop if i == len(valid) - 1 else int(i % width == width - 1), 1, v)
            for i, v in enumerate(valid)
        ]

    def drain(self, group, c):
        self.group = group
        self.drained = 0
        self.since = c + self.latency
        self.taken_at = c
        self.reset()

    def under_way(self, c):
        """True if a beat of this one's accumulator is in the pipeline."""
        return c < self.taken_into.get(self.index, -self.loop) + self.loop

    def scan(self, c):
        if self.leaving and c >= self.since:
            if self.outs[0].ready():
                self.outs[0].push(self.leaving)
                self.leaving = None
            else:
                self.offers = True
        b = self.ins[0].peek()
        if b is None or c < self.taken_at + self.interval or self.leaving or self.under_way(c):
            return
        self.ins[0].take()
        index = self.index
        if b.data:
            self.accept(b, c)
            self.group = []
            self.leaving = self.memory[index]._replace(stop=b.stop)
            self.since = c + self.latency
        else:
            self.leaving = b
            self.since = c + 1
            if b.stop > self.top:
                self.reset()

    def step(self, c):
        if self.kind.scan:
            self.scan(c)
            return
        if self.leaving:
            self.offers = True
            if self.outs[0].ready():
                self.outs[0].push(self.leaving)
                self.leaving = None
            return
        drained = self.drained
        draining = bool(self.group)
        if draining and c >= self.since:
            if self.outs[0].ready():
                self.outs[0].push(self.group[drained])
                self.drained += 1
                if self.drained == len(self.group):
                    self.group = []
            else:
                self.offers = True
        b = self.ins[0].peek()
        if b is None or c < self.taken_at + self.interval or self.under_way(c):
            return
        s = b.stop
        ends = b.stop > self.top
        if draining and (ends or (b.data and self.index >= drained)):
            return
        self.ins[0].take()
        if b.data:
            self.accept(b, c)
        elif b.done:
            self.leaving = b
            self.reset()
        elif ends and self.high:
            self.memory[self.high - 1] = self.memory[self.high - 1]._replace(stop=self.kept(s))
            self.drain([self.memory[i] for i in range(self.high)], c)
        elif ends and (min(self.last, s) > self.top + 1 or not self.kind.init_rows):
            self.leaving = Beat(self.kept(s), 0)
        elif ends:
            self.drain(self.initial(self.kept(s)), c)
        self.last = s

    def accept(self, b, c):
        s = b.stop
        index = self.index
        assert index < self.kind.depth, "accumulator overflow"
        before = self.high
        self.taken_at = c
        self.taken_into[index] = c
        self.high = max(self.high, index + 1)
        if all(self.first.values()):
            self.opened[index] = min(s, self.lowest)
            numbers = b.numbers
        else:
            assert index < before and self.opened[index] == min(s, self.lowest), "stop mismatch"
            numbers = tuple(map(max, b.numbers, self.memory[index].numbers))
        assert s < self.outer or index + 1 == self.high, "stop mismatch"
        self.memory[index] = Beat(self.kept(s), 1, numbers)
        if s > self.top:
            self.drain([self.memory[i] for i in range(index + 1)], c)
            return
        if s in self.reduce:
            self.index = self.start[s]
            self.first[s] = False
        else:
            self.index += 1
        for j in self.reduce:
            if j < s:
                self.first[j] = True
                self.start[j] = self.index
