"""Pipelined units and accumulators."""

from __future__ import annotations

from collections import deque

from penstock.machine.kinds import kind_of, queue_entries

from .core import END, Beat, Unit


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
