"""A switch between its FIFOs, proved by induction for every setting: nothing is lost, nothing is
doubled, and what leaves an output is what its input had, in order.
"""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from penstock.hw.noc.switch import Switch, select_layout
from penstock.hw.units.fifo import Fifo
from penstock.testing import prover

REACH = [[0, 1], [0, 1], [1]]
"""Two inputs; one output that only the second reaches."""
COUNT = 4  # bits of the counters, more than the beats that are under way


class Crossing(wiring.Component):
    """A switch, two places before each input and behind each output, and a count of the beats that
    pass.

    Invariant, for each output and the input that feeds it: the beats that came less those that left
    are the beats that the two FIFOs hold; and the switch moves a beat to all its outputs in one
    cycle, unchanged. ``broken`` plants a bug.
    """

    def __init__(self, broken: str = ""):
        self.broken = broken
        self.switch = Switch(shape=unsigned(2), inputs=2, reach=REACH)
        super().__init__({})
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.cfg = Signal(sum(select_layout(REACH).values()), name="cfg")
        self.given = [
            (Signal(name=f"valid{k}"), Signal(2, name=f"payload{k}"))
            for k in range(len(self.switch.inputs))
        ]
        self.ready = [Signal(name=f"ready{k}") for k in range(len(REACH))]
        self.chosen = [self.cfg, *self.ready, *(x for pair in self.given for x in pair)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.switch = switch = self.switch
        m.d.comb += Value.cast(switch.cfg).eq(self.cfg)
        before = Signal.like(self.cfg, name="cfg_before")
        ever = Signal()
        m.d.sync += [before.eq(self.cfg), ever.eq(1)]
        m.d.comb += self.fair.eq(~ever | (self.cfg == before))
        ins = [self._input(m, k) for k in range(len(self.given))]
        outs = [self._output(m, k) for k in range(len(REACH))]
        m.d.comb += self.ok.eq(
            Cat(*self._moves([f for f, _ in outs]), *self._counts(ins, outs)).all()
        )
        return m

    def _input(self, m, k):
        m.submodules[f"in{k}"] = fifo = Fifo(shape=unsigned(2), depth=2)
        i = self.switch.inputs[k]
        valid, payload = self.given[k]
        count = Signal(COUNT, name=f"came{k}")
        m.d.comb += [
            fifo.i.valid.eq(valid),
            fifo.i.payload.eq(payload),
            i.valid.eq(fifo.o.valid),
            i.payload.eq(fifo.o.payload),
            fifo.o.ready.eq(i.ready),
        ]
        with m.If(fifo.i.valid & fifo.i.ready):
            m.d.sync += count.eq(count + 1)
        return fifo, count

    def _output(self, m, k):
        m.submodules[f"out{k}"] = fifo = Fifo(shape=unsigned(2), depth=2)
        o = self.switch.outputs[k]
        count = Signal(COUNT, name=f"left{k}")
        m.d.comb += [
            fifo.i.valid.eq(o.valid),
            fifo.i.payload.eq(o.payload),
            o.ready.eq(fifo.i.ready),
            fifo.o.ready.eq(self.ready[k]),
        ]
        if self.broken == "lost" and k == 0:  # a full output is not waited for
            m.d.comb += o.ready.eq(1)
        if self.broken == "doubled" and k == 0:  # a beat is offered twice
            m.d.comb += fifo.i.valid.eq(o.valid | self.switch.inputs[0].valid)
        if self.broken == "changed" and k == 0:
            m.d.comb += fifo.i.payload.eq(o.payload ^ self.switch.outputs[1].valid)
        with m.If(fifo.o.valid & fifo.o.ready):
            m.d.sync += count.eq(count + 1)
        return fifo, count

    def _moves(self, outs):
        """Moves of a cycle: an input's beat leaves on all its outputs, and an output has only
        that.
        """
        switch = self.switch
        for k, reach in enumerate(REACH):
            fifo = outs[k]
            fed = Value.cast(0)
            for place, i in enumerate(reach):
                source = switch.inputs[i]
                mine = switch.cfg[f"select_{k}"] == place + 1
                taken = source.valid & source.ready
                put = fifo.i.valid & fifo.i.ready
                yield Mux(mine, taken == put, 1)
                yield Mux(mine & taken, fifo.i.payload == source.payload, 1)
                fed = fed | mine
            yield fed | ~fifo.i.valid

    def _counts(self, ins, outs):
        """Beats that came and have not left are in the FIFOs."""
        for fifo, _ in (*ins, *outs):
            yield fifo.level <= fifo.depth
        for k, reach in enumerate(REACH):
            fifo, left = outs[k]
            for place, i in enumerate(reach):
                source, came = ins[i]
                held = (source.level + fifo.level)[:COUNT]
                mine = self.switch.cfg[f"select_{k}"] == place + 1
                yield Mux(mine, (came - left)[:COUNT] == held, 1)


def test_nothing_is_lost_doubled_or_changed(tmp_path):
    assert prover.prove(Crossing(), tmp_path, steps=3) == "proved"


@pytest.mark.deep
@pytest.mark.parametrize("broken", ["lost", "doubled", "changed"])
def test_a_planted_bug_is_found(broken, tmp_path):
    assert prover.prove(Crossing(broken), tmp_path, steps=6) == "refuted"
