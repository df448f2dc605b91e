"""Units without pipeline that change stops or copy beats."""

from __future__ import annotations

from collections import deque

from ...machine.beat import STOP_DONE, Tile
from .core import END, Beat, Plan, Unit, golden


@golden("broadcast")
class Broadcast(Unit):
    def plan(self) -> Plan | None:
        b = self.ins[0].peek()
        if b is None:
            return None

        def post():
            if b.data and self.kind.scratchpad is not None:
                self.g.units[self.kind.scratchpad].posts.append((b.numbers[0], self.kind.n - 1))

        return Plan(dict.fromkeys(range(self.kind.n), b), [0], post)


@golden("hop")
class Hop(Unit):
    def plan(self) -> Plan | None:
        b = self.ins[0].peek()
        return None if b is None else Plan(dict.fromkeys(range(self.kind.n), b), [0])


@golden("flatten")
class Flatten(Unit):
    def setup(self):
        self.last = STOP_DONE  # stop of the beat before
        self.ended = True  # whether the last beat that was not dropped ends more than its group
        self.held: Beat | None = None
        self.open = False  # whether the held beat waits for the next

    def stop(self, s):
        lo = self.kind.lo
        hi = self.kind.hi
        return min(s, lo) if s <= hi else s - (hi - lo)

    def plan(self) -> Plan | None:
        lo = self.kind.lo
        hi = self.kind.hi
        hold = self.kind.hold
        b = self.ins[0].peek()
        settled = {} if self.held is None or self.open else {0: self.held}
        if b is None:
            return Plan(settled, [], self.leave) if settled else None
        bare = not b.data and not b.done
        if bare and lo < b.stop <= hi and (lo == 0 or self.last > lo):
            leaves = settled if self.outs[0].ready() else {}

            def drop():
                self.last = b.stop
                if leaves:
                    self.leave()

            return Plan(leaves, [0], drop)
        unwritable = b.stop > hi + 1 and self.ended if hold else b.stop > hi
        assert not (bare and unwritable and lo < self.last <= hi and not self.open), (
            "an empty group at the end of a merged dimension"
        )
        out = b if b.done else b._replace(stop=self.stop(b.stop))
        opens = hold and lo < b.stop <= hi

        def take():
            self.last = b.stop
            self.ended = b.stop > hi + 1

        def keep():
            take()
            self.held = out
            self.open = opens

        if self.held is None:
            return Plan({}, [0], keep) if opens else Plan({0: out}, [0], take)
        if self.open and bare and b.stop > hi:
            return Plan({0: self.held._replace(stop=out.stop)}, [0], lambda: (take(), self.leave()))
        return Plan({0: self.held}, [0], keep)

    def leave(self):
        self.held = None
        self.open = False


@golden("promote")
class Promote(Unit):
    def setup(self):
        self.held = None
        self.ending = False

    def stop(self, s):
        return s + 1 if s >= self.kind.level else s

    def plan(self) -> Plan | None:
        if not self.kind.outermost:
            return super().plan()
        if self.ending:
            return Plan({0: END}, [], lambda: setattr(self, "ending", False))
        b = self.ins[0].peek()
        if b is None:
            return None

        def update():
            self.held, self.ending = (None, True) if b.done else (b, False)

        if self.held is None:
            return Plan({}, [0], update)
        return Plan(
            {0: self.held._replace(stop=self.kind.level) if b.done else self.held}, [0], update
        )


@golden("reshape")
class Reshape(Unit):
    def setup(self):
        self.count = 0
        self.pads = deque()
        self.last = STOP_DONE
        self.before = STOP_DONE  # of the beats taken
        self.padded = 0

    def plan(self) -> Plan | None:
        fired = self.next()
        if fired is None:
            return None
        b, taken, update, pad = fired
        level = self.kind.flags
        before = self.last
        out = {0: b}
        if level is not None and (b.done or b.stop >= level):
            bare = not b.data and b.stop > level and (not level or before > level)
            if b.done:
                out[1] = b
            elif bare:
                out[1] = Beat(b.stop - level, 0)
            else:
                out[1] = Beat(b.stop - level, 1, (int(pad), 0))

        def both():
            update()
            self.last = b.stop

        if level is not None and not all(o.ready() for o in self.outs):
            self.offers = True
            return None
        return Plan(out, taken, both)

    def pad_stops(self, missing: int, last: int) -> list[int]:
        rows = 1 if self.kind.bare else self.kind.pad_rows or 1
        cols = 1 if self.kind.bare else self.kind.pad_cols or 1
        unit = [0 if k % cols < cols - 1 else 1 for k in range(rows * cols - 1)]
        return ([*unit, self.kind.dim]) * (missing - 1) + unit + [last]

    def pad_beat(self) -> Beat:
        """The next pad beat."""
        zero = (0,) * self.g.numbers[self.u.id]
        kind = self.kind
        if kind.bare:
            return Beat(self.pads[0], 0)
        if kind.value is None:
            return Beat(self.pads[0], 1, zero)
        if not isinstance(self.g.payload[self.u.id], Tile):
            return Beat(self.pads[0], 1, (kind.value & (1 << 64) - 1, kind.value >> 64))
        t = self.g.t
        row, col = divmod(self.padded % (kind.pad_rows * kind.pad_cols), kind.pad_cols)
        valid = (min(n - at * t, t) for n, at in zip(kind.extent, (row, col), strict=True))
        return Beat(self.pads[0], 1, tuple(valid))

    def next(self):
        def next_pad():
            self.pads.popleft()
            self.padded += 1

        dim = self.kind.dim
        chunk = self.kind.chunk
        b = self.ins[0].peek()
        full = b is not None and (
            b.data
            or (self.kind.bare and not b.done and (b.stop == dim or self.before == dim < b.stop))
        )
        if (
            not self.pads
            and b is not None
            and not full
            and b.stop > dim
            and self.kind.pad
            and self.count
        ):
            stops = deque(self.pad_stops(chunk - self.count, dim + 1 if b.done else b.stop + 1))
            stop = b.stop
            waits = b.done

            def start():
                self.pads = stops
                self.count = 0
                if not waits:
                    self.before = stop
                next_pad()

            self.pads = stops
            beat = self.pad_beat()
            self.pads = deque()
            return beat, [] if waits else [0], start, True
        if self.pads:
            return self.pad_beat(), [], next_pad, True
        if b is None:
            return None
        s = b.stop
        count = self.count
        pads = deque()
        if b.done:
            count = 0
        elif s == dim and (b.data or dim):
            count += 1
            if count == chunk:
                s = dim + 1
                count = 0
        elif s > dim:
            if self.kind.pad and full and count + 1 < chunk:
                pads = deque(self.pad_stops(chunk - count - 1, s + 1))
                s = dim
            else:
                s += 1
            count = 0

        def update():
            self.count = count
            self.pads = pads
            self.before = b.stop

        return b if b.done else b._replace(stop=s), [0], update, False


@golden("repeat")
class Repeat(Unit):
    def setup(self):
        self.sent = 0

    def plan(self) -> Plan | None:
        b = self.ins[0].peek()
        if b is None:
            return None
        if not b.data:
            return Plan({0: b if b.done else b._replace(stop=b.stop + 1)}, [0])
        last = self.sent == self.kind.count - 1
        return Plan(
            {0: b._replace(stop=b.stop + 1 if last else 0)},
            [0] if last else [],
            lambda: setattr(self, "sent", 0 if last else self.sent + 1),
        )


@golden("zip")
class Zip(Unit):
    def plan(self) -> Plan | None:
        a, b = (c.peek() for c in self.ins)
        if a is None or b is None:
            return None
        assert a[:2] == b[:2], "stop mismatch"
        return Plan({0: a._replace(numbers=a.numbers + b.numbers)}, [0, 1])


@golden("split")
class Split(Unit):
    def setup(self):
        self.index = 0

    def plan(self) -> Plan | None:
        b = self.ins[0].peek()
        n = self.kind.n
        if b is None:
            return None
        if b.done:
            return Plan(dict.fromkeys(range(n), b), [0], lambda: setattr(self, "index", 0))
        return Plan({self.index: b}, [0], lambda: setattr(self, "index", (self.index + 1) % n))


@golden("merge")
class Merge(Unit):
    def setup(self):
        self.index = 0

    def plan(self) -> Plan | None:
        b = self.ins[self.index].peek()
        n = self.kind.n
        if b is None:
            return None
        if b.done:
            if any(c.peek() is None for c in self.ins):
                return None
            return Plan({0: b}, range(n), lambda: setattr(self, "index", 0))
        return Plan({0: b}, [self.index], lambda: setattr(self, "index", (self.index + 1) % n))
