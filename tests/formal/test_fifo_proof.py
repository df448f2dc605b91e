"""The channel proved by induction: what is accepted leaves, once, in order and unchanged, whatever
its two sides do.
"""

import pytest
from amaranth.hdl import Mux, Signal, unsigned
from penstock.hw.units.fifo import Fifo
from penstock.testing import prover

DEPTHS = [
    n if n in (1, 2, 9) else pytest.param(n, marks=pytest.mark.deep) for n in (*range(1, 17), 64)
]
"""From 9 entries on they are read synchronously, as block RAM is."""


class Watched(Fifo):
    """A FIFO with one beat watched: any that the solver marks when it is accepted.

    Invariant: the level is that of the pointers, and the watched beat lies unchanged behind as many
    others as were held when it came, less those that have left since. ``broken`` plants a bug.
    """

    def __init__(self, depth: int, broken: str, configured: bool = False):
        self.broken = broken
        super().__init__(shape=unsigned(2), depth=depth, configured=configured)
        self.mark = Signal()
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.chosen = [self.mark, self.i.payload, self.i.valid, self.o.ready]
        if configured:
            self.chosen.append(self.limit)

    def elaborate(self, platform):
        look = self._memory.read_port(domain="comb")
        m = super().elaborate(platform)
        depth = self.depth
        put = self.i.valid & self.i.ready
        get = self.o.valid & self.o.ready
        watched = Signal()
        ahead = Signal(range(depth + 1))
        bits = Signal(2)

        def wrap(x):
            return Mux(x >= depth, x - depth, x)

        with m.If(put & self.mark & ~watched):
            m.d.sync += [watched.eq(1), ahead.eq(self.level - get), bits.eq(self.i.payload)]
        with m.Elif(watched & get):
            m.d.sync += [ahead.eq(ahead - 1), watched.eq(ahead != 0)]
        level = self.level
        most = self._places(m)
        m.d.comb += [
            look.addr.eq(wrap(self._start + ahead)),
            self.ok.eq(
                (self.i.ready == (level < most))
                & (self.o.valid == (level > 0))
                & (level <= most)
                & (self._start < depth)
                & (self._to < depth)
                & (wrap(self._start + level) == self._to)
                & (
                    ~watched
                    | (
                        (ahead < level)
                        & (look.data == bits)
                        & ((ahead != 0) | (self.o.payload == bits))
                    )
                )
            ),
        ]
        if self.broken == "bits":  # a beat that comes while one leaves is spoilt
            with m.If(put & get):
                m.d.comb += m.submodules.memory._write_ports[0].data.eq(~self.i.payload)
        if self.broken == "order":
            with m.If(get & put):
                m.d.sync += self._start.eq(self._start)
        if self.broken == "late":  # block RAM shows the beat that has just left
            m.d.comb += m.submodules.memory._read_ports[1].addr.eq(self._start)
        return m

    def _places(self, m):
        """The entries used; a register that holds them does not change."""
        if not hasattr(self, "limit"):
            m.d.comb += self.fair.eq(1)
            return self.depth
        ever = Signal()
        before = Signal.like(self.limit, name="places_before")
        same = (self.limit == before) | ~ever
        m.d.sync += [ever.eq(1), before.eq(self.limit)]
        m.d.comb += self.fair.eq((self.limit > 0) & (self.limit <= self.depth) & same)
        return self.limit


@pytest.mark.parametrize("depth", DEPTHS)
def test_order_and_content(depth, tmp_path):
    assert prover.prove(Watched(depth, ""), tmp_path, steps=2) == "proved"


@pytest.mark.parametrize("depth", DEPTHS)
def test_order_and_content_with_places_in_a_register(depth, tmp_path):
    assert prover.prove(Watched(depth, "", configured=True), tmp_path, steps=2) == "proved"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("broken", "depth"), [("bits", 2), ("order", 2), ("bits", 9), ("order", 9), ("late", 9)]
)
def test_a_planted_bug_is_found(broken, depth, tmp_path):
    assert prover.prove(Watched(depth, broken), tmp_path, steps=6) == "refuted"
