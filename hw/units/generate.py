"""Addresses and selectors counted from numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from ...machine.faults import Fault
from ...machine.kinds import ADDRESS_BITS, GENERATORS
from ..beat import is_done
from .reassemble import index_of
from .unit import Unit

HALF = ADDRESS_BITS // 2


class Generate(Unit):
    """A new inner dimension for each element, of addresses or selectors.

    Members
    -------
    ``cfg.stride``, ``cfg.count``: 32 bits. ``error`` bit ``Fault.STOP``: the inputs differ in stop
    or data.

    Timing
    ------
    L = 0, II = 1: one beat a cycle while the output has a slot; the inputs are taken with the last.
    The multipliers are combinational. Source: docs/timing.md section 3, ``generate``.
    """

    implements = "generate"

    def __init__(self, **built):
        super().__init__(**built)
        self.fn = self.kind.fn  # fixed in a slot, too
        if self.fn not in GENERATORS:
            raise ValueError(f"Function fn must be one of {', '.join(GENERATORS)}, not {self.fn!r}")

    def elaborate(self, platform):
        m = Module()
        a = self.inputs[0].payload
        o = self.result
        sent = Signal(ADDRESS_BITS)
        n = Signal(ADDRESS_BITS)
        first = Signal(ADDRESS_BITS)
        if self.fn == "address":
            m.d.comb += n.eq(self.n.payload.value)
            m.d.comb += first.eq(_scaled(m, a.value, self.cfg.stride))
        elif self.fn == "expert":
            lowest = Signal.like(a.hot)
            m.d.comb += [lowest.eq(a.hot & -a.hot), n.eq(Mux(a.hot.any(), self.cfg.count, 0))]
            m.d.comb += first.eq(_scaled(m, index_of(m, lowest, "index"), self.cfg.count))
        elif self.fn == "elements":
            m.d.comb += n.eq(Mux(a.rows == 0, 0, a.cols))
        else:
            m.d.comb += n.eq(a.value)
        some = Signal()
        last = Signal()
        fire = Signal()
        m.d.comb += [
            some.eq(a.data & (n != 0)),
            last.eq(~some | (sent + 1 == n)),
            o.valid.eq(Cat(i.valid for i in self.inputs).all()),
            fire.eq(o.valid & o.ready),
        ]
        # the inputs stay until the last beat: its product is needed at once for the first alone
        kept = Signal(ADDRESS_BITS, reset_less=True)
        m.d.sync += kept.eq(first)
        value = Mux(sent == 0, first, kept + sent)
        if self.fn == "last":
            value = Mux(last, 1, 2)
        elif self.fn == "elements":
            row = a.elements.as_value()[: ADDRESS_BITS * self.t]
            value = row.word_select(sent[: (self.t - 1).bit_length()], ADDRESS_BITS)
        width = self.payloads.outputs[0].bits
        m.d.comb += o.payload.eq(
            Cat(
                Mux(some, value, 0)[:width],
                Mux(is_done(a), a.stop, Mux(last, a.stop + 1, 0))[:4],
                some,
            )
        )
        for i in self.inputs:
            m.d.comb += i.ready.eq(fire & last)
        with m.If(fire):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))
        if self.fn == "address":
            b = self.n.payload
            m.d.comb += self.error[Fault.STOP].eq(
                o.valid & ((a.stop != b.stop) | (a.data != b.data))
            )
        self.report(m, offers=o.valid)
        return m


def _scaled(m: Module, number: Value, stride: Value) -> Value:
    """``number * stride`` modulo 2^ADDRESS_BITS: products of halves side by side, then two sums of
    as many bits.
    """
    low = Signal(ADDRESS_BITS)
    high = Signal(HALF)
    m.d.comb += [
        low.eq(number[:HALF] * stride[:HALF]),
        high.eq(number[:HALF] * stride[HALF:] + number[HALF:ADDRESS_BITS] * stride[:HALF]),
    ]
    return Cat(low[:HALF], (low[HALF:] + high)[:HALF])
