"""The stream protocol proved for the units without pipeline: a beat once offered stays, unchanged,
until it is accepted.
"""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from penstock.hw.beat import Payloads
from penstock.hw.registry import component
from penstock.machine.beat import BufferRef, Scalar, Selector, Tuple
from penstock.machine.config import load
from penstock.machine.kinds import Kind, numbers
from penstock.machine.kinds.copies import Broadcast, Expand, Hop, Merge, Repeat, Split, Zip
from penstock.machine.kinds.numbers import Address, Generate
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.machine.kinds.shape import Flatten, Promote, Reshape
from penstock.testing import prover

WORD = Scalar(2)
REF = BufferRef(2)
UNITS = {
    "broadcast": (Broadcast(n=2), [WORD], [WORD] * 2),
    "broadcast of references": (Broadcast(n=2, scratchpad=0), [REF], [REF] * 2),
    "hop": (Hop(n=3), [WORD], [WORD] * 3),
    "flatten": (Flatten(lo=1, hi=2), [WORD], [WORD]),
    "flatten with hold": (Flatten(lo=1, hi=2, hold=True), [WORD], [WORD]),
    "promote": (Promote(level=1), [WORD], [WORD]),
    "promote outermost": (Promote(level=1, outermost=True), [WORD], [WORD]),
    "reshape": (Reshape(dim=1, chunk=2, pad_rows=1, pad_cols=1), [WORD], [WORD]),
    "reshape with padding": (
        Reshape(dim=1, chunk=2, pad=True, pad_rows=1, pad_cols=1),
        [WORD],
        [WORD],
    ),
    "reshape with flags": (
        Reshape(dim=1, chunk=2, pad=True, pad_rows=1, pad_cols=1, flags=1),
        [WORD],
        [WORD, Scalar(1)],
    ),
    "repeat": (Repeat(count=2), [WORD], [WORD]),
    "zip": (Zip(), [WORD, REF], [Tuple((WORD, REF))]),
    "split": (Split(n=3), [WORD], [WORD] * 3),
    "merge": (Merge(n=3), [WORD] * 3, [WORD]),
    "partition": (Partition(n=2, rank=1), [WORD, Selector(2)], [WORD] * 2),
    "reassemble": (Reassemble(n=2, rank=1), [WORD, WORD, Selector(2)], [WORD]),
    "eager_merge": (EagerMerge(n=2, rank=1), [WORD, WORD], [WORD, Selector(2)]),
    "expand": (Expand(level=1), [WORD, REF], [WORD]),
    "signal": (numbers.Signal(level=1), [WORD], [Scalar(1)]),
    "generate": (Generate(fn="last"), [WORD], [Selector(2)]),
    "address": (Address(stride=4), [WORD, WORD], [Scalar(32)]),
}

BOUNDED = {"reassemble": 8}
"""Units whose orders of arrival an induction would have to know; the cycles from reset that are
covered instead.
"""


class Held(wiring.Component):
    """A unit between streams that keep the protocol themselves: inputs hold what they offer,
    outputs keep a free slot until it is filled, and run-time parameters do not change. ``broken``
    lets the unit's first output blink, to see the proof fail.
    """

    def __init__(self, kind: Kind, ins: list, outs: list, broken: bool = False):
        self.unit = component(kind.name)(
            kind=kind,
            t=2,
            config=load("small_fpga").machine,
            payloads=Payloads(tuple(ins), tuple(outs)),
        )
        self.broken = broken
        super().__init__({})
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.parameters = Signal(
            len(Value.cast(self.unit.cfg)) if hasattr(self.unit, "cfg") else 1, name="parameters"
        )
        self.given = [
            (Signal(name=f"valid{k}"), Signal(len(Value.cast(i.payload)), name=f"payload{k}"))
            for k, i in enumerate(self.unit.inputs)
        ]
        self.ready = [Signal(name=f"ready{k}") for k in range(len(outs))]
        self.chosen = [self.parameters, *self.ready, *(x for pair in self.given for x in pair)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        if hasattr(unit, "cfg"):
            m.d.comb += Value.cast(unit.cfg).eq(self.parameters)
        ever = Signal()
        fair = []
        ok = []
        blink = Signal()
        m.d.sync += [ever.eq(1), blink.eq(~blink)]

        def last(value, name):
            register = Signal(len(Value.cast(value)), name=name)
            m.d.sync += register.eq(value)
            return register

        fair.append(self.parameters == last(self.parameters, "parameters_before"))
        for k, (i, (valid, payload)) in enumerate(zip(unit.inputs, self.given, strict=True)):
            m.d.comb += [i.valid.eq(valid), Value.cast(i.payload).eq(payload)]
            fair.append(
                Mux(
                    last(valid & ~i.ready, f"waits{k}"),
                    valid & (payload == last(payload, f"payload{k}_before")),
                    1,
                )
            )
        for k, (o, ready) in enumerate(zip(unit.outputs, self.ready, strict=True)):
            shown = o.valid & ~(blink & self.broken) if k == 0 else o.valid
            m.d.comb += o.ready.eq(ready)
            fair.append(Mux(last(ready & ~o.valid, f"room{k}"), ready, 1))
            payload = Value.cast(o.payload)
            ok.append(
                Mux(
                    last(shown & ~ready, f"offered{k}"),
                    shown & (payload == last(payload, f"output{k}_before")),
                    1,
                )
            )
        m.d.comb += [self.fair.eq(~ever | Cat(fair).all()), self.ok.eq(~ever | Cat(ok).all())]
        return m


@pytest.mark.parametrize("name", [name for name in UNITS if name not in BOUNDED])
def test_a_beat_offered_stays(name, tmp_path):
    assert prover.prove(Held(*UNITS[name]), tmp_path, steps=3) == "proved"


@pytest.mark.parametrize("name", BOUNDED)
def test_a_beat_offered_stays_in_short_runs(name, tmp_path):
    assert prover.prove(Held(*UNITS[name]), tmp_path, steps=BOUNDED[name]) != "refuted"


@pytest.mark.deep
def test_a_beat_that_blinks_is_found(tmp_path):
    assert prover.prove(Held(*UNITS["repeat"], broken=True), tmp_path, steps=4) == "refuted"
