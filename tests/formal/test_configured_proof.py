"""A slot configured for a unit of L = 0 is that unit, for every stimulus."""

import numpy as np
import pytest
from amaranth.hdl import Cat, Signal, Value
from penstock.machine.beat import STOP_BITS, Scalar
from penstock.machine.kinds import KINDS, Combinational
from penstock.machine.kinds.copies import Hop
from penstock.machine.kinds.routing import Partition
from penstock.machine.kinds.shape import Flatten
from penstock.testing import prover, slots

STEPS = 4
BOUNDED = {*("eager_merge", "generate", "reassemble"), *("repeat", "reshape", "row_offset")}
"""Kinds whose proof would need the equality of registers: as many cycles from reset are covered.
Any run is for the others.
"""
SLOTS = [slot for slot in slots.every() if issubclass(KINDS[slot.kind], Combinational)]
WRONG = [
    (Flatten(lo=1, hi=3), {"lo": 2}),
    (Hop(n=2), {"n": 0b111}),
    (Partition(n=2, rank=1), {"rank": 2}),
]


class Proof(slots.Pair):
    """Both units under any stimulus whose narrower beats have zeros above them."""

    def __init__(self, slot, unit, settings):
        super().__init__(slot, unit, settings, Scalar(2))
        self.ok = Signal()
        self.fair = Signal()
        chosen = (self.valid, self.beat, self.ready)
        self.chosen = [signal for signals in chosen for signal in signals.values()]

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.ok.eq(~Cat(self.unequal.values()).any())
        above = []
        for name, beat in self.beat.items():
            if name in self.unit.input_names:
                own = len(Value.cast(getattr(self.unit, name).payload)) - STOP_BITS - 1
                above.append(beat[own : len(beat) - STOP_BITS - 1])
        m.d.comb += self.fair.eq(~Cat(above).any())
        return m


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.kind)
def test_a_slot_is_the_unit(slot, seed, tmp_path):
    unit = slots.drawn(slot, np.random.default_rng(seed))
    answer = prover.prove(Proof(slot, unit, {}), tmp_path, steps=STEPS)
    assert answer == "proved" or (answer == "open" and slot.kind in BOUNDED), unit


@pytest.mark.deep
@pytest.mark.parametrize("unit, settings", WRONG)
def test_a_wrong_setting_is_refuted(unit, settings, tmp_path):
    slot = slots.capability(unit.name, {})
    assert prover.prove(Proof(slot, unit, settings), tmp_path, steps=STEPS) == "refuted"
