"""The free pages of a scratchpad."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class PageList(wiring.Component):
    """Linked list of free pages and the chains of pages in use: one page taken, one whole buffer
    given back, a cycle.

    Parameters
    ----------
    pages : int
        P, pages; free after reset in the order 0, 1, ..., P - 1.

    Members
    -------
    free : Out(range(P + 1))
        Free pages at the start of the cycle.
    head : Out(range(P + 1))
        The page that ``take`` takes; meaningful only while ``free`` is not 0.
    take : In(1)
        Take the head; only while ``free`` is not 0.
    chain : In(StructLayout)
        ``valid``: the page taken in this cycle follows ``page`` in its buffer.
    give : In(StructLayout)
        ``valid``: the buffer of ``count`` pages from ``first`` to ``last`` is given back, in front
        of the list as it is after ``take``.
    page : In(range(P)), follower : Out(range(P))
        Read of the chain: the page after ``page`` in its buffer.

    Timing
    ------
    Both happen at the end of the cycle. The list needs no clearing: pages never taken since reset
    are its tail, in order, and are told by a counter; a page's link is that of its chain, or, for
    the last page of its last buffer, the splice's. Source: docs/timing.md section 4, rule 1.
    """

    def __init__(self, *, pages: int):
        if not isinstance(pages, int) or pages < 1:
            raise ValueError(f"Number of pages must be at least 1, not {pages!r}")
        self.pages = pages
        page = range(max(2, pages))
        count = range(pages + 1)
        self._chains = Memory(
            shape=data.StructLayout({"page": page, "mark": 1}), depth=pages, init=[]
        )
        self._clears = Memory(shape=1, depth=pages, init=[])
        self._splices = Memory(shape=unsigned(pages.bit_length()), depth=pages, init=[])
        self._fresh = Signal(
            range(pages + 1), name="fresh"
        )  # the first page never taken since reset
        super().__init__(
            {
                "free": Out(count, init=pages),
                "head": Out(count),
                "take": In(1),
                "chain": In(data.StructLayout({"valid": 1, "page": page})),
                "give": In(
                    data.StructLayout({"valid": 1, "first": page, "last": page, "count": count})
                ),
                "page": In(page),
                "follower": Out(page),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.chains = self._chains
        m.submodules.clears = self._clears
        m.submodules.splices = self._splices
        set_chain = self._chains.write_port()
        set_clear = self._clears.write_port()
        set_splice = self._splices.write_port()
        follow = self._chains.read_port(domain="comb")
        free_chain = self._chains.read_port(domain="comb")
        free_clear = self._clears.read_port(domain="comb")
        free_splice = self._splices.read_port(domain="comb")
        old_clear = self._clears.read_port(domain="comb")
        fresh = self._fresh
        after = Signal(range(self.pages + 1))
        m.d.comb += [
            follow.addr.eq(self.page),
            self.follower.eq(follow.data.page),
            free_chain.addr.eq(self.head),
            free_clear.addr.eq(self.head),
            free_splice.addr.eq(self.head),
            old_clear.addr.eq(self.chain.page),
            after.eq(self.head),
            set_chain.addr.eq(self.chain.page),
            set_chain.en.eq(self.chain.valid),
            set_chain.data.page.eq(self.head),
            set_chain.data.mark.eq(~old_clear.data),
            set_clear.addr.eq(self.head),
            set_clear.en.eq(self.take),
            set_clear.data.eq(free_chain.data.mark),
            set_splice.addr.eq(self.give.last),
            set_splice.en.eq(self.give.valid),
            set_splice.data.eq(after),
        ]
        with m.If(self.take):
            with m.If(self.head == fresh):
                m.d.comb += after.eq(fresh + 1)
                m.d.sync += fresh.eq(fresh + 1)
            with m.Else():
                chained = free_chain.data.mark ^ free_clear.data
                m.d.comb += after.eq(Mux(chained, free_chain.data.page, free_splice.data))
        left = Signal.like(self.free)
        m.d.comb += left.eq(self.free - self.take)
        m.d.sync += [
            self.head.eq(Mux(self.give.valid, self.give.first, after)),
            self.free.eq(Mux(self.give.valid, left + self.give.count, left)),
        ]
        return m
