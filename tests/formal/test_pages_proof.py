"""The free list of a scratchpad proved by induction: it is the list that rule 1 of section 4 of
docs/timing.md says, page for page.
"""

import pytest
from amaranth.hdl import Array, Cat, Const, Mux, Signal
from penstock.hw.memory.pages import PageList
from penstock.testing import prover


class Watched(PageList):
    """A page list beside the plain list, under any legal use: pages taken while there are any,
    chained to the last page of a buffer or opening a new one, whole buffers given back.

    Invariant: the plain list has no page twice and none of a buffer (no double allocation), free
    pages and pages of buffers are all pages (no leak), and the linked list is the plain one.
    ``broken`` plants a bug.
    """

    def __init__(self, pages: int, broken: str = ""):
        self.broken = broken
        super().__init__(pages=pages)
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.want = Signal()
        self.chained_to = Signal()
        self.to = Signal(range(max(2, pages)))
        self.back = Signal()
        self.which = Signal(range(max(2, pages)))
        self.chosen = [self.want, self.chained_to, self.to, self.back, self.which]

    def elaborate(self, platform):
        n = self.pages
        links = [
            memory.read_port(domain="comb")
            for memory in (self._chains, self._splices, self._clears)
            for _ in range(n)
        ]
        m = super().elaborate(platform)
        number = range(n + 1)
        for k, port in enumerate(links):
            m.d.comb += port.addr.eq(k % n)
        chain_of = [p.data.page for p in links[:n]]
        splice_of = [p.data for p in links[n : 2 * n]]
        marks = [p.data.mark for p in links[:n]]
        chained = Cat(x ^ p.data for x, p in zip(marks, links[2 * n :], strict=True))

        # The plain meaning: the list, and of every page of a buffer the page after it and whether
        # one is before it.
        listed = [Signal(number, name=f"listed{i}", init=i) for i in range(n)]
        count = Signal(number, init=n)
        used = Signal(n)
        followed = Signal(n)
        preceded = Signal(n)
        follower = [Signal(range(max(2, n)), name=f"follower{p}") for p in range(n)]

        # Legal use.
        buffer = [self.which]
        length = Signal(number)
        last = Signal.like(self.which)
        within = []
        alive = Const(1, 1)
        for i in range(n):
            within.append(alive)
            here = buffer[-1]
            alive = alive & followed.bit_select(here, 1)
            step = Signal.like(self.which, name=f"step{i}")
            m.d.comb += step.eq(Array(follower)[here])
            buffer.append(step)
        m.d.comb += [length.eq(sum(within)), last.eq(Array(buffer)[length - 1])]
        takes = self.want & (count != 0)
        m.d.comb += [
            self.take.eq(takes),
            self.chain.valid.eq(takes & self.chained_to),
            self.chain.page.eq(self.to),
            self.give.valid.eq(self.back),
            self.give.first.eq(self.which),
            self.give.last.eq(last),
            self.give.count.eq(length),
            self.fair.eq(
                (self.to < n)
                & (self.which < n)
                & (
                    ~self.chain.valid
                    | (
                        used.bit_select(self.to, 1)
                        & ~followed.bit_select(self.to, 1)
                        & ~(self.back & (last == self.to))
                    )
                )
                & (
                    ~self.back
                    | (used.bit_select(self.which, 1) & ~preceded.bit_select(self.which, 1))
                )
            ),
        ]
        page = listed[0]
        taken = [Mux(self.take, listed[i + 1] if i + 1 < n else 0, listed[i]) for i in range(n)]
        for i in range(n):
            kept = 0
            for j in range(1, n + 1):
                if j <= i:
                    kept = Mux(length == j, taken[i - j], kept)
            m.d.sync += listed[i].eq(Mux(self.back, Mux(i < length, buffer[i], kept), taken[i]))
        m.d.sync += count.eq(count - self.take + Mux(self.back, length, 0))
        for p in range(n):
            given = self.back & Cat(within[i] & (buffer[i] == p) for i in range(n)).any()
            with m.If(given):
                m.d.sync += [used[p].eq(0), followed[p].eq(0), preceded[p].eq(0)]
            with m.If(self.take & (page == p)):
                m.d.sync += [used[p].eq(1), followed[p].eq(0), preceded[p].eq(self.chain.valid)]
            with m.If(self.chain.valid & (self.to == p)):
                m.d.sync += [followed[p].eq(1), follower[p].eq(page)]

        # What holds.
        fresh = self._fresh
        held = [
            count <= n,
            count + sum(used) == n,
            self.free == count,
            (count == 0) | (self.head == listed[0]),
            fresh <= n,
        ]
        for i in range(n):
            inside = i < count
            p = listed[i]
            held.append(~inside | ((p < n) & ~used.bit_select(p, 1)))
            held += [~(j < count) | (p != listed[j]) for j in range(i + 1, n)]
            if i + 1 < n:
                link = Mux(
                    p >= fresh,
                    p + 1,
                    Mux(chained.bit_select(p, 1), Array(chain_of)[p], Array(splice_of)[p]),
                )
                held.append(~(i + 1 < count) | (link == listed[i + 1]))
            # Pages never taken are the list's tail, in order.
            held.append(~inside | (i + n < count + fresh) | (p == i + n - count))
            held.append(~inside | (i + n >= count + fresh) | (p < fresh))
        for p in range(n):
            held.append(~used[p] | (p < fresh))
            held.append(~used[p] | (chained[p] == followed[p]))
            held.append(
                ~(used[p] & followed[p])
                | (
                    (chain_of[p] == follower[p])
                    & used.bit_select(follower[p], 1)
                    & preceded.bit_select(follower[p], 1)
                )
            )
            held.append(used[p] | (~followed[p] & ~preceded[p]))
            held += [
                ~(followed[p] & followed[q]) | (follower[p] != follower[q]) for q in range(p + 1, n)
            ]
        m.d.comb += self.ok.eq(Cat(held).all())

        if self.broken == "link":  # the page that is taken keeps the mark of the buffer it was in
            (clear,) = self._clears.write_ports
            m.d.comb += clear.en.eq(0)
        if self.broken == "leak":
            with m.If(self.give.valid & self.take):
                m.d.sync += self.free.eq(self.free + self.give.count)
        return m


@pytest.mark.parametrize("pages", [2, 3, pytest.param(4, marks=pytest.mark.deep)])
def test_no_page_is_given_twice_or_lost(pages, tmp_path):
    assert prover.prove(Watched(pages), tmp_path, steps=2) == "proved"


@pytest.mark.parametrize("broken", ["link", "leak"])
def test_a_planted_bug_is_found(broken, tmp_path):
    assert prover.prove(Watched(3, broken), tmp_path, steps=8) == "refuted"
