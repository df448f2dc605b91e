"""Units that route by selectors, and units that make selectors, addresses and tokens."""

from __future__ import annotations

from .core import END, Beat, Plan, Unit, golden


def word(b: Beat) -> int:
    """A selector's bits."""
    return sum(x << 64 * k for k, x in enumerate(b.numbers))


def number(x: int, bits: int = 128) -> tuple[int, ...]:
    return tuple(x >> 64 * k & (1 << 64) - 1 for k in range(4 if bits > 128 else 2))


class Poster(Unit):
    def post(self, b: Beat, delta: int) -> None:
        if b.data and self.kind.scratchpad is not None:
            self.g.units[self.kind.scratchpad].posts.append((b.numbers[0], delta))


@golden("partition")
class Partition(Poster):
    def plan(self) -> Plan | None:
        b, s = (c.peek() for c in self.ins)
        if b is None or s is None:
            return None
        n = self.kind.n
        rank = self.kind.rank
        assert b.done == s.done, "stop mismatch"
        if b.done:
            return Plan(dict.fromkeys(range(n), END), [0, 1])
        ends = b.stop >= rank
        assert not ends or b.stop == rank + s.stop, "stop mismatch"
        assert s.data or (ends and not b.data), "stop mismatch"
        assert b.data or rank or not s.data, "stop mismatch"
        hot = [o for o in range(n) if s.data and word(s) >> o & 1]
        return Plan(
            {o: b._replace(stop=min(b.stop, rank)) for o in hot},
            [0, 1] if ends else [0],
            lambda: self.post(b, len(hot) - 1),
        )


class Arrivals(Unit):
    """Section 3.2: `since[i]` is the cycle in which the unit at the head of input i arrived."""

    def setup(self):
        self.since = [None] * self.kind.n
        self.moving = None

    def step(self, c):
        for i in range(self.kind.n):
            b = self.ins[i].peek()
            if b is None or b.done or self.moving == i:
                self.since[i] = None
            elif self.since[i] is None:
                self.since[i] = c
        super().step(c)

    def first(self, among):
        waiting = [(self.since[i], i) for i in among if self.since[i] is not None]
        return min(waiting)[1] if waiting else None

    def moved(self, i, ends):
        self.moving = None if ends else i
        self.since[i] = None


@golden("reassemble")
class Reassemble(Arrivals):
    def setup(self):
        super().setup()
        self.given = set()
        self.draining = set()
        self.done = True

    def plan(self) -> Plan | None:
        n = self.kind.n
        rank = self.kind.rank
        selector = self.ins[-1].peek()
        if self.draining:
            over = [i for i in self.draining if self.ins[i].peek() is not None]
            assert all(self.ins[i].peek().done for i in over), "beats left"

            def drained():
                self.draining -= set(over)
                self.done = not self.draining

            return Plan({}, over, drained) if over else None
        if selector is None:
            return None
        if selector.done:

            def drain():
                self.draining = set(range(n))
                self.done = False

            return Plan({0: END}, [n], drain)
        q = selector.stop
        wanted = (
            {i for i in range(n) if word(selector) >> i & 1} - self.given
            if selector.data
            else set()
        )
        if not wanted:
            return Plan({0: Beat(rank + 1 + q, 0)}, [n])
        i = self.first(wanted) if self.moving is None else self.moving
        if i is None:
            return None
        b = self.ins[i].peek()
        if b is None:
            return None
        assert not b.done and (b.data or rank), "stop mismatch"
        ends = b.stop >= rank
        last = wanted == {i}

        def update():
            if ends:
                self.given = set() if last else self.given | {i}
            self.moved(i, ends)

        if ends:
            b = b._replace(stop=rank + 1 + q if last else rank)
        return Plan({0: b}, [i, n] if ends and last else [i], update)


@golden("eager_merge")
class EagerMerge(Arrivals):
    def plan(self) -> Plan | None:
        n = self.kind.n
        first = self.moving is None
        i = self.first(range(n)) if first else self.moving
        if i is None:
            return (
                Plan({0: END, 1: END}, range(n))
                if all(c.peek() is not None for c in self.ins)
                else None
            )
        b = self.ins[i].peek()
        if b is None:
            return None
        assert not b.done, "unit not ended"
        out = {0: b} | ({1: Beat(0, 1, number(1 << i, n))} if first else {})
        return Plan(out, [i], lambda: self.moved(i, b.stop >= self.kind.rank))


@golden("expand")
class Expand(Poster):
    def plan(self) -> Plan | None:
        b, r = (c.peek() for c in self.ins)
        if b is None or r is None:
            return None
        ends = r.stop >= self.kind.level
        assert b.done == r.done and (not ends or b.stop == r.stop) and b.data >= r.data, (
            "stop mismatch"
        )
        copy = b._replace(stop=r.stop) if r.data else r
        return Plan({0: copy}, [0, 1] if ends else [1], lambda: self.post(b, r.data - ends))


@golden("signal")
class Signal(Unit):
    def setup(self):
        self.last = END.stop
        self.state = self.kind.init

    def reduced(self, b: Beat) -> int:
        """The state after a beat."""
        if self.kind.fn is None:
            return 1
        if not b.data:
            return self.state
        both = self.state, word(b)
        value = {
            "add": sum(both),
            "mul": both[0] * both[1],
            "max": max(both),
            "min": min(both),
            "or": both[0] | both[1],
        }[self.kind.fn]
        return value % (1 << 128 if self.kind.fn == "or" else 1 << self.g.payload[self.u.id].bits)

    def plan(self) -> Plan | None:
        b = self.ins[0].peek()
        level = self.kind.level
        last = self.last
        if b is None:
            return None
        state = self.reduced(b)

        def update():
            self.last = b.stop
            self.state = self.kind.init if b.stop >= level else state

        if self.kind.scan:
            return Plan({0: b._replace(numbers=number(state)) if b.data else b}, [0], update)
        if b.stop < level:
            return Plan({}, [0], update)
        empty = not b.data and b.stop > level and (level == 0 or last > level)
        if b.done:
            out = END
        elif empty:
            out = Beat(b.stop - level, 0)
        else:
            out = Beat(b.stop - level, 1, number(state))
        return Plan({0: out}, [0], update)


@golden("generate")
class Generate(Unit):
    def setup(self):
        self.sent = 0

    def plan(self) -> Plan | None:
        heads = self.heads()
        if heads is None:
            return None
        a = heads[0]
        taken = range(len(heads))
        assert len({b[:2] for b in heads}) == 1, "stop mismatch"
        if a.done:
            return Plan({0: END}, taken)
        values = self.values(*map(word, heads)) if a.data else []
        if not values:
            return Plan({0: Beat(a.stop + 1, 0)}, taken)
        at = self.sent
        last = at == len(values) - 1

        def update():
            self.sent = 0 if last else at + 1

        return Plan(
            {0: Beat(a.stop + 1 if last else 0, 1, number(values[at]))},
            taken if last else [],
            update,
        )

    def values(self, a, n=0):
        match self.kind.fn:
            case "address":
                return [(a * self.kind.stride + i) % 2**32 for i in range(n)]
            case "elements":  # without values
                beat = self.ins[0].peek()
                return [0] * (beat.numbers[1] if beat and beat.numbers[0] else 0)
            case "expert":
                index = (a & -a).bit_length() - 1
                return (
                    [(index * self.kind.count + i) % 2**32 for i in range(self.kind.count)]
                    if a
                    else []
                )
            case "last":
                return [2] * (a - 1) + [1] if a else []


@golden("address")
class Address(Unit):
    def plan(self) -> Plan | None:
        kind = self.kind
        heads = self.heads()
        if heads is None:
            return None
        a = heads[0]
        assert len({h[:2] for h in heads}) == 1, "stop mismatch"
        if not a.data:
            return Plan({0: a}, range(len(heads)))
        x = word(a) * kind.stride % 2**32
        y = kind.constant if kind.alone else word(heads[1])
        value = {
            "add": (x + y) % 2**32,
            "min": min(x, y),
            "max": max(x, y),
            "less": int(x < y),
            "equal": int(x == y),
            "hot": 1 << target if (target := (x + y) % 2**32) < kind.targets else 0,
            "place": (x + x // kind.divisor * y) % 2**32,
        }[kind.fn]
        return Plan({0: a._replace(numbers=number(value, kind.targets))}, range(len(heads)))


@golden("top_k")
class TopK(Unit):
    """Without values: all elements are equal, and the first k of a row are chosen."""

    def setup(self):
        self.next = 0
        self.columns = 0  # of the row so far
        self.leaving = [[], [], []]

    def step(self, c):
        free = not any(self.leaving)
        for out, beats in zip(self.outs, self.leaving, strict=True):
            if beats and out.ready():
                out.push(beats.pop(0))
            elif beats:
                self.offers = True
        b = self.ins[0].peek()
        if b is None:
            return
        s = b.stop - self.kind.rank
        if not b.data:
            if free:
                self.ins[0].take()
                bare = Beat(s, 0), Beat(s + 1, 0), Beat(b.stop + 1, 0)
                self.leaving = [[x] for x in ((END,) * 3 if b.done else bare)]
            return
        self.next += 1
        if self.next < b.numbers[1]:
            return
        if s >= 0 and not free:
            self.next -= 1
            return
        self.ins[0].take()
        self.next = 0
        self.columns += b.numbers[1]
        if s >= 0:
            self.leaving = self.chosen(s)
            self.columns = 0

    def chosen(self, s):
        k = self.kind.k
        n = self.kind.n
        bits = [1 << i if i < min(self.columns, n) else 0 for i in range(k)]
        stops = [0] * (k - 1) + [s + 1]
        order = [Beat(p, 1, number(x, n)) for p, x in zip(stops, bits, strict=True)]
        values = [Beat(p + self.kind.rank, 1, (1, 1)) for p in stops]
        return [[Beat(s, 1, number(sum(bits), n))], order, values]
