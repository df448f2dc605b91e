"""Passing units of several streams on as they arrive."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from ...machine.beat import Selector
from ...machine.faults import Fault
from ..beat import is_done
from .arrival import ArrivalOrder
from .reassemble import index_of
from .unit import Unit


class EagerMerge(Unit):
    """Merges n streams unit by unit in the order of arrival; a second stream says where each unit
    came from.

    Members
    -------
    ``error`` bit ``Fault.STOP``: Done inside a unit.

    Timing
    ------
    L = 0, II = 1: the first beat of a unit needs a slot of both outputs, the others one of
    ``result``. Done leaves when all inputs show it and both outputs have a slot. Source:
    docs/timing.md sections 3, ``eager_merge``, and 3.2; paper section 3.
    """

    implements = "eager_merge"

    def __init__(self, **built):
        super().__init__(**built)
        self.n = self.kind.n
        self.expect("selectors", self.payloads.outputs[1], Selector(self.n))

    def elaborate(self, platform):
        m = Module()
        n = self.n
        used = self.settings.n
        o = self.result
        selectors = self.selector
        m.submodules.order = order = ArrivalOrder(n=n)
        ended = Signal(n)
        visible = Signal(n)
        current = Signal(n)
        active = Signal(n)
        first = Signal()
        over = Signal()
        wants = Signal()
        fire = Signal()
        m.d.comb += [
            ended.eq(Cat(i.valid & is_done(i.payload) for i in self.inputs)),
            visible.eq(Cat(i.valid for i in self.inputs) & ~ended),
            first.eq(current == 0),
            order.visible.eq(visible),
            order.among.eq(used),
            active.eq(Mux(first, order.first, current)),
            over.eq((ended | ~used).all()),
            wants.eq((active & visible).any() | over),
            fire.eq(wants & o.ready & (selectors.ready | ~first)),
            order.moved.eq(Mux(fire, active, current)),
        ]
        index = index_of(m, active, "index")
        with m.Switch(index):
            for k, i in enumerate(self.inputs):
                with m.Case(k):
                    m.d.comb += o.payload.eq(i.payload)
        m.d.comb += [
            o.valid.eq(fire),
            selectors.valid.eq(fire & first),
            selectors.payload.eq(
                Mux(
                    over,
                    Cat(Const(0, n), Const(15, 4), Const(0, 1)),
                    Cat(active, Const(0, 4), Const(1, 1)),
                )
            ),
        ]
        for k, i in enumerate(self.inputs):
            m.d.comb += i.ready.eq(fire & (active[k] | (used[k] & over)))
        with m.If(fire & ~over):
            m.d.sync += current.eq(Mux(o.payload.stop >= self.settings.rank, 0, active))
        m.d.comb += self.error[Fault.STOP].eq((current & ended).any())
        self.report(m, offers=wants)
        return m
