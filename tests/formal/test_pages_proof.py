"""The free list of a scratchpad proved by induction: it is the list that rule 1 of section 4 of
docs/timing.md says, page for page.
"""

import pytest
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
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
        for k, port in enumerate(links):
            m.d.comb += port.addr.eq(k % n)
        plain = _Plain(n)
        buffer = _Buffer(m, self.which, plain)
        self._use(m, plain, buffer)
        self._follow(m, plain, buffer)
        held = self._list_holds(plain, links) + self._chains_hold(plain, links)
        m.d.comb += self.ok.eq(Cat(held).all())
        self._break(m)
        return m

    def _use(self, m: Module, plain: "_Plain", buffer: "_Buffer") -> None:
        """Any legal use: what is asked for in this cycle."""
        n = self.pages
        takes = self.want & (plain.count != 0)
        chained = plain.used.bit_select(self.to, 1) & ~plain.followed.bit_select(self.to, 1)
        whole = plain.used.bit_select(self.which, 1) & ~plain.preceded.bit_select(self.which, 1)
        m.d.comb += [
            self.take.eq(takes),
            self.chain.valid.eq(takes & self.chained_to),
            self.chain.page.eq(self.to),
            self.give.valid.eq(self.back),
            self.give.first.eq(self.which),
            self.give.last.eq(buffer.last),
            self.give.count.eq(buffer.length),
            self.fair.eq(
                (self.to < n)
                & (self.which < n)
                & (~self.chain.valid | (chained & ~(self.back & (buffer.last == self.to))))
                & (~self.back | whole)
            ),
        ]

    def _follow(self, m: Module, plain: "_Plain", buffer: "_Buffer") -> None:
        """The plain meaning of what is asked for."""
        n = self.pages
        listed = plain.listed
        page = listed[0]
        taken = [Mux(self.take, listed[i + 1] if i + 1 < n else 0, listed[i]) for i in range(n)]
        for i in range(n):
            kept = 0
            for j in range(1, i + 1):
                kept = Mux(buffer.length == j, taken[i - j], kept)
            given = Mux(i < buffer.length, buffer.pages[i], kept)
            m.d.sync += listed[i].eq(Mux(self.back, given, taken[i]))
        back = Mux(self.back, buffer.length, 0)
        m.d.sync += plain.count.eq(plain.count - self.take + back)
        for p in range(n):
            with m.If(self.back & buffer.has(p)):
                m.d.sync += [plain.used[p].eq(0), plain.followed[p].eq(0), plain.preceded[p].eq(0)]
            with m.If(self.take & (page == p)):
                m.d.sync += [
                    plain.used[p].eq(1),
                    plain.followed[p].eq(0),
                    plain.preceded[p].eq(self.chain.valid),
                ]
            with m.If(self.chain.valid & (self.to == p)):
                m.d.sync += [plain.followed[p].eq(1), plain.follower[p].eq(page)]

    def _list_holds(self, plain: "_Plain", links: list) -> list:
        """The linked list is the plain one, and has no page twice and none of a buffer."""
        n = self.pages
        chains = links[:n]
        splices = links[n : 2 * n]
        clears = links[2 * n :]
        chained = Cat(a.data.mark ^ b.data for a, b in zip(chains, clears, strict=True))
        fresh = self._fresh
        count = plain.count
        held = [
            count <= n,
            count + sum(plain.used) == n,
            self.free == count,
            (count == 0) | (self.head == plain.listed[0]),
            fresh <= n,
        ]
        for i, p in enumerate(plain.listed):
            inside = i < count
            held.append(~inside | ((p < n) & ~plain.used.bit_select(p, 1)))
            held += [~(j < count) | (p != plain.listed[j]) for j in range(i + 1, n)]
            if i + 1 < n:
                kept = Array(a.data.page for a in chains)[p]
                spliced = Array(a.data for a in splices)[p]
                link = Mux(p >= fresh, p + 1, Mux(chained.bit_select(p, 1), kept, spliced))
                held.append(~(i + 1 < count) | (link == plain.listed[i + 1]))
            # Pages never taken are the list's tail, in order.
            held.append(~inside | (i + n < count + fresh) | (p == i + n - count))
            held.append(~inside | (i + n >= count + fresh) | (p < fresh))
        for p in range(n):
            held.append(~plain.used[p] | (p < fresh))
            held.append(~plain.used[p] | (chained[p] == plain.followed[p]))
        return held

    def _chains_hold(self, plain: "_Plain", links: list) -> list:
        """The pages of buffers are chained as the plain meaning says, each after one page."""
        n = self.pages
        held = []
        for p in range(n):
            after = plain.follower[p]
            right = (
                (links[p].data.page == after)
                & plain.used.bit_select(after, 1)
                & plain.preceded.bit_select(after, 1)
            )
            held.append(~(plain.used[p] & plain.followed[p]) | right)
            held.append(plain.used[p] | (~plain.followed[p] & ~plain.preceded[p]))
            held += [
                ~(plain.followed[p] & plain.followed[q]) | (after != plain.follower[q])
                for q in range(p + 1, n)
            ]
        return held

    def _break(self, m: Module) -> None:
        if self.broken == "link":  # the page that is taken keeps the mark of the buffer it was in
            (clear,) = self._clears.write_ports
            m.d.comb += clear.en.eq(0)
        if self.broken == "leak":
            with m.If(self.give.valid & self.take):
                m.d.sync += self.free.eq(self.free + self.give.count)


class _Plain:
    """The plain meaning: the list, and of every page of a buffer the page after it, and whether one
    is before it.
    """

    def __init__(self, pages: int):
        number = range(pages + 1)
        page = range(max(2, pages))
        self.listed = [Signal(number, name=f"listed{i}", init=i) for i in range(pages)]
        self.count = Signal(number, init=pages)
        self.used = Signal(pages)
        self.followed = Signal(pages)
        self.preceded = Signal(pages)
        self.follower = [Signal(page, name=f"follower{p}") for p in range(pages)]


class _Buffer:
    """The pages of the buffer that begins with ``first``, by the plain meaning."""

    def __init__(self, m: Module, first: Signal, plain: _Plain):
        n = len(plain.used)
        self.pages = [first]
        self.length = Signal(range(n + 1))
        self.last = Signal.like(first)
        self.within = []
        alive = Const(1, 1)
        for i in range(n):
            self.within.append(alive)
            here = self.pages[-1]
            alive = alive & plain.followed.bit_select(here, 1)
            step = Signal.like(first, name=f"step{i}")
            m.d.comb += step.eq(Array(plain.follower)[here])
            self.pages.append(step)
        m.d.comb += self.length.eq(sum(self.within))
        m.d.comb += self.last.eq(Array(self.pages)[self.length - 1])

    def has(self, page: int) -> Value:
        """True if a page is one of it."""
        return Cat(
            alive & (here == page) for alive, here in zip(self.within, self.pages[:-1], strict=True)
        ).any()


@pytest.mark.parametrize("pages", [2, *(pytest.param(n, marks=pytest.mark.deep) for n in (3, 4))])
def test_no_page_is_given_twice_or_lost(pages, tmp_path):
    assert prover.prove(Watched(pages), tmp_path, steps=2) == "proved"


@pytest.mark.deep
@pytest.mark.parametrize("broken", ["link", "leak"])
def test_a_planted_bug_is_found(broken, tmp_path):
    assert prover.prove(Watched(3, broken), tmp_path, steps=8) == "refuted"
