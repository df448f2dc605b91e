"""Sources and sinks."""

from __future__ import annotations

from ...machine.limits import STREAM_FROM
from .core import Unit, golden


@golden("source")
class Source(Unit):
    def setup(self):
        self.next = 0
        self.given = self.g.sources[self.u.id]
        if self.kind.beats is not None:
            self.given = [(STREAM_FROM, beat) for _, beat in self.given]

    def step(self, c):
        if self.next < len(self.given) and self.given[self.next][0] <= c:
            if self.outs[0].ready():
                self.outs[0].push(self.given[self.next][1])
                self.next += 1
            else:
                self.offers = True


@golden("sink")
class Sink(Unit):
    def setup(self):
        self.taken = 0
        self.done = False
        own = self.kind.beats is not None
        self.release = () if own else self.g.sinks.get(self.u.id, ())

    def step(self, c):
        b = self.ins[0].peek()
        if b is None:
            return
        self.done = self.done or b.done
        if self.taken >= len(self.release) or self.release[self.taken] <= c:
            self.ins[0].take()
            self.taken += 1
            memory = self.kind.scratchpad
            if b.data and memory is not None:
                self.g.units[memory].posts.append((b.numbers[0], -1))
