"""Reference counts of the buffers of a scratchpad."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...machine.limits import COUNT_BITS
from ..units.broadcast import post_layout

__all__ = ["ReferenceCounts"]


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
    drops : bool
        Whether posts may lower a count, so that several buffers may lose their last reference in
        one cycle.

    Members
    -------
    open : In(StructLayout)
        ``valid``: a buffer at ``page`` gets its first reference.
    release : In(StructLayout)
        ``valid``: a reference to the buffer at ``page`` has gone.
    post0, post1, ... : In(post_layout(page_bits))
        References added, or gone.
    freed : Out(StructLayout)
        ``valid``: no reference to the buffer at ``page`` is left after this cycle; the lowest if
        there are several.
    overflow : Out(1)
        A count does not fit.

    Timing
    ------
    Changes of one cycle add up and show from the next; ``freed`` is combinational. With ``drops``
    the buffers not freed wait, one a cycle: a bit a page. Source: docs/timing.md section 4, rules 5
    and 9.

    """

    def __init__(self, *, pages: int, page_bits: int, posts: int, drops: bool = False):
        self.pages = pages
        self.posts = posts
        self.drops = drops
        self._counts = [Signal(COUNT_BITS, name=f"count{page}") for page in range(pages)]
        self._waiting = Signal(pages, name="waiting")  # without a reference, not yet freed
        change = data.StructLayout({"valid": 1, "page": page_bits})
        super().__init__(
            {
                "open": In(change),
                "release": In(change),
                "freed": Out(change),
                "overflow": Out(1),
                **{f"post{k}": In(post_layout(page_bits)) for k in range(posts)},
            }
        )

    def elaborate(self, platform):
        m = Module()
        counts = Array(self._counts)
        posts = [getattr(self, f"post{k}") for k in range(self.posts)]

        def total(page):
            """The count of ``page`` after this cycle."""
            raised = counts[page] + sum(
                Mux(post.valid & (post.page == page), post.delta, 0) for post in posts
            )
            return raised - (self.release.valid & (self.release.page == page))

        # Ports that name one page compute the same total, so it does not matter which of them
        # writes.
        overflows = []
        zeros = []
        for k, change in enumerate([self.release, *posts]):
            after = Signal(signed(COUNT_BITS + 5), name=f"after{k}")
            m.d.comb += after.eq(total(change.page))
            with m.If(change.valid):
                m.d.sync += counts[change.page].eq(after)
            overflows.append(change.valid & after[COUNT_BITS:].any())
            zeros.append((change.valid & (after == 0), change.page))
        with m.If(self.open.valid):
            m.d.sync += counts[self.open.page].eq(1)
        m.d.comb += self.overflow.eq(Cat(overflows).any())
        if self.drops:
            waiting = self._waiting
            unused = Signal(self.pages)
            fresh = 0
            for zero, page in zeros:
                fresh = fresh | (zero << page)
            m.d.comb += [unused.eq(waiting | fresh), self.freed.valid.eq(unused.any())]
            for page in reversed(range(self.pages)):
                with m.If(unused[page]):
                    m.d.comb += self.freed.page.eq(page)
            m.d.sync += waiting.eq(unused & (unused - 1))
        else:
            m.d.comb += [self.freed.valid.eq(zeros[0][0]), self.freed.page.eq(self.release.page)]
        return m
