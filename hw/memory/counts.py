"""Reference counts of the buffers of a scratchpad."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..units.broadcast import post_layout


__all__ = ["ReferenceCounts", "COUNT_BITS"]

COUNT_BITS = 8


class ReferenceCounts(wiring.Component):
    """Counts, for each buffer, the references that exist; several may change in one cycle.

    Parameters
    ----------
    pages : int
        Pages; a buffer is known by its first.
    page_bits : int
        Bits of a page number.
    posts : int
        Number of post ports.

    Members
    -------
    open : In(StructLayout)
        ``valid``: a buffer at ``page`` gets its first reference.
    release : In(StructLayout)
        ``valid``: a reference to the buffer at ``page`` has gone.
    post0, post1, ... : In(post_layout(page_bits))
        References added.
    freed : Out(1)
        The release of this cycle leaves none.
    overflow : Out(1)
        A count does not fit into 8 bits.

    Timing
    ------
    Changes of one cycle add up and show from the next; ``freed`` is combinational. Source: docs/timing.md section 4, rule 5.
    """

    def __init__(self, *, pages: int, page_bits: int, posts: int):
        self.pages, self.posts = pages, posts
        change = data.StructLayout({"valid": 1, "page": page_bits})
        super().__init__({
            "open": In(change),
            "release": In(change),
            "freed": Out(1),
            "overflow": Out(1),
            **{f"post{k}": In(post_layout(page_bits)) for k in range(posts)},
        })

    def elaborate(self, platform):
        m = Module()
        counts = Array(Signal(COUNT_BITS, name=f"count{page}") for page in range(self.pages))
        posts = [getattr(self, f"post{k}") for k in range(self.posts)]

        def total(page):
            """The count of ``page`` after this cycle; a release counts last, so that it cannot pass below zero."""
            raised = counts[page] + sum(Mux(post.valid & (post.page == page), post.delta, 0) for post in posts)
            return raised - (self.release.valid & (self.release.page == page))

        # Ports that name one page compute the same total, so it does not matter which of them writes.
        overflows = []
        for k, change in enumerate([self.release, *posts]):
            after = Signal(COUNT_BITS + 4, name=f"after{k}")
            m.d.comb += after.eq(total(change.page))
            with m.If(change.valid):
                m.d.sync += counts[change.page].eq(after)
            overflows.append(change.valid & after[COUNT_BITS:].any())
            if k == 0:
                m.d.comb += self.freed.eq(change.valid & (after == 0))
        with m.If(self.open.valid):
            m.d.sync += counts[self.open.page].eq(1)
        m.d.comb += self.overflow.eq(Cat(overflows).any())
        return m
