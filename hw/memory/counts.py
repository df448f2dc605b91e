"""Reference counts of the buffers of a scratchpad."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...machine.limits import COUNT_BITS
from ..ram import read_port, write_port
from ..units.unit import post_layout


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
    releases : int
        Ports of what lets references go, of which at most one does in a cycle. With several their
        pages may be known before the one that does: each looks up its own count.

    Members
    -------
    open : In(StructLayout)
        ``valid``: a buffer at ``page`` gets its first reference.
    release0, ... : In(StructLayout)
        ``valid``: a reference to the buffer at ``page`` has gone.
    post0, post1, ... : In(post_layout(page_bits))
        References added, or gone.
    freed : Out(StructLayout)
        ``valid``: no reference to the buffer at ``page`` is left after this cycle; the lowest if
        there are several.
    overflow : Out(1)
        A count does not fit.

    A count is the sum, modulo 2^COUNT_BITS, of one word of each of its banks: one for ``open``, one
    for ``release`` and one for each post port, which alone writes it. What opens a buffer writes
    the word that makes the sum 1, so the banks need no clearing. They are LUT RAM.

    Timing
    ------
    Changes of one cycle add up and show from the next; ``freed`` is combinational. With ``drops``
    the buffers not freed wait, one a cycle: a bit a page. Source: docs/timing.md section 4, rules 5
    and 9.
    """

    def __init__(
        self, *, pages: int, page_bits: int, posts: int, drops: bool = False, releases: int = 1
    ):
        self.pages = pages
        self.posts = posts
        self.drops = drops
        self.releases = releases
        self._banks = [
            Memory(shape=unsigned(COUNT_BITS), depth=pages, init=[]) for _ in range(posts + 2)
        ]  # of open, release and each post
        self._waiting = Signal(pages, name="waiting")  # without a reference, not yet freed
        change = data.StructLayout({"valid": 1, "page": page_bits})
        super().__init__(
            {
                "open": In(change),
                **{f"release{r}": In(change) for r in range(releases)},
                "freed": Out(change),
                "overflow": Out(1),
                **{f"post{k}": In(post_layout(page_bits)) for k in range(posts)},
            }
        )

    def elaborate(self, platform):
        m = Module()
        posts = [getattr(self, f"post{k}") for k in range(self.posts)]
        for bank, memory in enumerate(self._banks):
            m.submodules[f"bank{bank}"] = memory

        overflows = []
        zeros = []
        released = self._release(m, posts, overflows)
        zeros.append((released.last, released.page))
        for k, change in enumerate(posts, 1):
            words = self._words(m, f"change{k}", change.page)
            raised = self._raised(m, str(k), words, posts, change.page)
            # whether the release of this cycle, which is known late, is of this page
            gone = [getattr(self, f"release{r}") for r in range(self.releases)]
            lowered = Cat(x.valid & (x.page == change.page) for x in gone).any()
            self._write(m, k + 1, change, words[k + 1] + change.delta)
            below = Mux(lowered, raised <= 0, raised < 0)
            above = Mux(lowered, raised > 1 << COUNT_BITS, raised >= 1 << COUNT_BITS)
            overflows.append(change.valid & (below | above))
            zeros.append((change.valid & Mux(lowered, raised == 1, raised == 0), change.page))
        words = self._words(m, "open", self.open.page)
        self._write(m, 0, self.open, 1 - sum(words[1:]))
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
            m.d.comb += [self.freed.valid.eq(released.last), self.freed.page.eq(released.page)]
        return m

    def _release(self, m: Module, posts: list, overflows: list) -> data.View:
        """The release of this cycle: its ``page``, and whether it is the ``last`` reference that
        goes.
        """
        page = self.release0.page.shape()
        word = unsigned(COUNT_BITS)
        layout = data.StructLayout({"valid": 1, "last": 1, "page": page, "word": word})
        found = Signal(layout, name="released")
        for r in range(self.releases):
            change = getattr(self, f"release{r}")
            words = self._words(m, f"change0_{r}", change.page)
            raised = self._raised(m, f"0_{r}", words, posts, change.page)
            overflows.append(change.valid & ((raised <= 0) | (raised > 1 << COUNT_BITS)))
            with m.If(change.valid):
                m.d.comb += [
                    found.valid.eq(1),
                    found.last.eq(raised == 1),
                    found.word.eq(words[1] - 1),
                ]
            # without a choice the page is known before whether it is released
            with m.If(change.valid if self.releases > 1 else Const(1)):
                m.d.comb += found.page.eq(change.page)
        self._write(m, 1, found, found.word)
        return found

    def _raised(self, m: Module, name: str, words: list[Value], posts: list, page: Value) -> Signal:
        """The count of a page, and what posts of this cycle add to it."""
        count = Signal(COUNT_BITS, name=f"count{name}")
        raised = Signal(signed(COUNT_BITS + 5), name=f"raised{name}")
        m.d.comb += [count.eq(sum(words)), raised.eq(count + self._sum(posts, page))]
        return raised

    def _words(self, m: Module, name: str, page: Value) -> list[Value]:
        """The words of a page, of every bank."""
        words = []
        for bank, memory in enumerate(self._banks):
            port = read_port(memory, f"{name}_{bank}", domain="comb")
            m.d.comb += port.addr.eq(page)
            words.append(port.data)
        return words

    def _sum(self, posts: list, page: Value) -> ValueLike:
        """Sum of the changes that the posts of this cycle make to the count of a page."""
        return sum(Mux(post.valid & (post.page == page), post.delta, 0) for post in posts)

    def _write(self, m: Module, bank: int, change, word: Value) -> None:
        """The word of a bank becomes ``word``, where there is a change."""
        port = write_port(self._banks[bank], f"write{bank}")
        m.d.comb += [port.addr.eq(change.page), port.data.eq(word), port.en.eq(change.valid)]
