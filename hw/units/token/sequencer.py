"""The sequencer of a hybrid overlay: which context of every PE holds in each cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import DECISIONS, Overlay, Sizes, memories
from ...noc.token import ram_attributes, struct
from .layouts import put_layout


def fetch_layout(address: int) -> data.StructLayout:
    """Layout from the sequencer to the PEs: ``ahead`` and ``fetch``, addresses of contexts that
    hold four and two cycles later; whether a context holds in two cycles (``coming``) and now
    (``active``).
    """
    return data.StructLayout({"ahead": address, "fetch": address, "coming": 1, "active": 1})


class Sequencer(wiring.Component):
    """Leads through the contexts of a segment, and from its end to the next one.

    Parameters
    ----------
    overlay, sizes
        For the memories ``segment`` and ``context``.

    Members
    -------
    write : In(put_layout(specs["segment"]))
        Loads a word of a segment, while idle.
    restart : In(1)
        High for 5 cycles before a run.
    running : In(1)
        High during a run.
    decided : In(DECISIONS)
        Conditions that were sent a cycle ago and are not zero.
    o : Out(fetch_layout(address))
        For the PEs.
    done : Out(1)
        The last context has passed.

    Timing
    ------
    The next segment's word is read as the last context of this one is
    fetched, four cycles before that holds; so a condition sent at c
    decides segments whose first context holds at c + ``DECISION`` or
    later. No cycle lies between segments. Source: docs/overlay.md section 7.1.
    """

    def __init__(self, *, overlay: Overlay, sizes: Sizes):
        spec = memories(overlay, sizes)["segment"]
        self._memory = Memory(
            shape=struct(spec.layout),
            depth=spec.depth,
            init=[],
            attrs=ram_attributes("distributed"),
        )
        self._address = dict(spec.layout.fields)["first"]
        super().__init__(
            {
                "write": In(put_layout(spec)),
                "restart": In(1),
                "running": In(1),
                "decided": In(DECISIONS),
                "o": Out(fetch_layout(self._address)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self._memory
        put = memory.write_port()
        word = memory.read_port(domain="comb")
        segment = Signal(word.data.shape())
        left = Signal.like(segment.length)  # contexts of the segment that are not fetched yet
        following = Signal.like(segment.next)
        known = Signal(DECISIONS)
        conditions = Signal(DECISIONS)
        fresh = Signal(init=1)  # nothing of the run was fetched yet
        going = Signal()
        ends = Signal()
        fetched = Signal(4)  # whether the fetch so many cycles ago was a context
        behind = [Signal(self._address, name=f"fetched{k}") for k in (1, 2)]
        m.d.comb += [
            put.en.eq(self.write.valid),
            put.addr.eq(self.write.address),
            put.data.eq(self.write.data),
            conditions.eq(known | self.decided),
            word.addr.eq(Mux(fresh, 0, following | conditions)),
            segment.eq(word.data),
            going.eq(left != 0),
            ends.eq(Mux(fresh, self.restart, left == 1)),
            self.o.fetch.eq(behind[1]),
            self.o.coming.eq(fetched[1]),
            self.o.active.eq(fetched[3]),
            self.done.eq(~going & ~fetched.any()),
        ]
        m.d.sync += [
            fetched.eq(Cat(going, fetched)),
            behind[0].eq(self.o.ahead),
            behind[1].eq(behind[0]),
            fresh.eq(~self.running & ~self.restart),
            known.eq(Mux(ends, 0, conditions)),
        ]
        with m.If(ends):
            m.d.sync += [
                self.o.ahead.eq(segment.first),
                left.eq(segment.length),
                following.eq(segment.next),
            ]
        with m.Elif(going):
            m.d.sync += [self.o.ahead.eq(self.o.ahead + 1), left.eq(left - 1)]
        return m
