"""Choosing the largest elements of a row."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...machine.beat import STOP_DONE, Selector, Tile
from ..arith.cast import canonical
from ..beat import is_done, words
from .unit import Unit


class TopK(Unit):
    """Selectors of the k largest elements of each row, and the elements; of equal ones the first
    come first, a NaN is above all.

    Timing
    ------
    A column a cycle; results leave from the cycle after the last one on, one a cycle at each
    output, and the next row's last column waits for them. Source: docs/timing.md section 3,
    ``top_k``.
    """

    implements = "top_k"

    def __init__(self, **built):
        super().__init__(**built)
        x = self.payloads.inputs[0]
        n = Selector(self.kind.n)
        if x != Tile(self.t, "fp32") or self.payloads.outputs != (n, n, x):
            raise ValueError(f"Payloads of top_k must be {n!r}, {n!r} and a tile of fp32")

    def elaborate(self, platform):
        m = Module()
        k = self.kind.k
        beat = self.data.payload
        at = Signal(range(self.t))
        base = Signal(range(257))
        held = Signal()
        last = Signal()
        ends = Signal()
        waits = Signal()
        steps = Signal()
        closes = Signal()
        m.d.comb += [
            last.eq(~beat.data | (at + 1 >= beat.cols)),
            ends.eq(~beat.data | (beat.stop >= self.kind.rank)),
            waits.eq(last & ends & held),
            steps.eq(self.data.valid & ~waits),
            closes.eq(steps & last & ends),
            self.data.ready.eq(last & ~waits),
        ]
        with m.If(steps):
            m.d.sync += at.eq(Mux(last, 0, at + 1))
            with m.If(last):
                after = base + beat.cols
                m.d.sync += base.eq(Mux(ends, 0, Mux(after > 256, 256, after)))
        best = self._best(m, base + at, at, steps & beat.data & (at < beat.cols), closes)
        sent = [Signal(range(k + 1), name=f"sent{port}") for port in range(3)]
        self._leave(m, best, held, closes, sent)
        return m

    def _best(self, m: Module, column: Value, at: Signal, enter: Value, closes: Value) -> list:
        """Valid, element and column of the best, the current column among them."""
        k = self.kind.k
        row = Cat(words(self.data.payload)[: self.t])
        x = canonical(m, row.word_select(at, 32), name="x")
        key = Signal(32)  # the unsigned order of keys is that of numbers
        m.d.comb += key.eq(Mux(x[:31] == 0, 0x80000000, Mux(x[31], ~x, x | 0x80000000)))
        found = []
        above = []
        best = []
        for i in range(k):
            some = Signal(name=f"some{i}")
            own_key = Signal(32, name=f"key{i}", reset_less=True)
            bits = Signal(32, name=f"bits{i}", reset_less=True)
            place = Signal(range(512), name=f"column{i}", reset_less=True)
            found.append((some, own_key, bits, place))
            first = Signal(name=f"above{i}")
            m.d.comb += first.eq(enter & (~some | (key > own_key)))
            above.append(first)
        new = (Const(1), key, x, column)
        for i in range(k):
            best.append([])
            for j, name in enumerate(("some", "key", "bits", "column")):
                value = Signal.like(found[i][j], name=f"next_{name}{i}")
                moved = Mux(above[i - 1], found[i - 1][j], new[j]) if i else new[j]
                m.d.comb += value.eq(Mux(above[i], moved, found[i][j]))
                m.d.sync += found[i][j].eq(value & ~closes if name == "some" else value)
                best[i].append(value)
        return [(some, bits, place) for some, _, bits, place in best]

    def _leave(self, m: Module, best: list, held: Signal, closes: Value, sent: list) -> None:
        """Results of a row, or a beat without data, leave at each output."""
        k = self.kind.k
        n = self.kind.n
        beat = self.data.payload
        full = Signal()
        stop = Signal(len(beat.stop))
        elements = []
        hots = []
        for i, (some, bits, place) in enumerate(best):
            element = Signal(32, name=f"element{i}")
            hot = Signal(n, name=f"hot{i}")
            with m.If(closes):
                m.d.sync += [
                    element.eq(Mux(some & beat.data, bits, 0)),
                    hot.eq(Mux(some & beat.data, 1 << place, 0)),
                ]
            elements.append(element)
            hots.append(hot)
        with m.If(closes):
            m.d.sync += [
                full.eq(beat.data),
                stop.eq(Mux(is_done(beat), STOP_DONE, beat.stop - self.kind.rank)),
            ]
        some = Signal(n)
        m.d.comb += some.eq(Cat(Cat(hot[b] for hot in hots).any() for b in range(n)))
        left = []
        for port, (o, number) in enumerate(zip(self.outputs, sent, strict=True)):
            count = Mux(full, k, 1) if port else Const(1)
            own = self.kind.rank if port == 2 else 0  # dimensions of a tile
            raised = Mux(full & (number != k - 1), own, stop + 1 + own)
            final = Mux(~full & (stop == STOP_DONE), STOP_DONE, raised)
            chosen = Signal(32 if port == 2 else n, name=f"chosen{port}")
            with m.Switch(number):
                for i, x in enumerate(elements if port == 2 else hots):
                    with m.Case(i):
                        m.d.comb += chosen.eq(x if port else some)
            if port == 2:
                width = len(o.payload.rows)
                rest = Const(0, 32 * (self.t**2 - 1))
                whole = Cat(chosen, rest, full, Const(0, width - 1), full, Const(0, width - 1))
            else:
                whole = chosen
            going = Signal(name=f"going{port}")
            m.d.comb += [
                o.valid.eq(held & (number < count)),
                o.payload.eq(Cat(whole, (final if port else stop)[: len(stop)], full)),
                going.eq(o.valid & o.ready),
            ]
            left.append(number + going < count)
            m.d.sync += number.eq(Mux(closes, 0, number + going))
        m.d.sync += held.eq(closes | (held & Cat(left).any()))
        self.report(m, offers=Cat(o.valid for o in self.outputs).any())
