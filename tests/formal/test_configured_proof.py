"""A slot configured for a unit of L = 0 is that unit, for every stimulus."""

import numpy as np
import pytest
from amaranth.hdl import Cat, Signal, Value
from penstock.machine.beat import STOP_BITS, Scalar
from penstock.machine.kinds import KINDS, Combinational
from penstock.testing import prover, slots

STEPS = 4
BOUNDED = {*("eager_merge", "generate", "reassemble"), *("repeat", "reshape", "row_offset")}
"""Kinds whose proof would need the equality of registers: as many cycles from reset are covered.
Any run is for the others.
"""
SLOTS = [slot for slot in slots.every() if issubclass(KINDS[slot.kind], Combinational)]
WRONG = [
    ("flatten", {"lo": 1, "hi": 3}, {"lo": 2}),
    ("hop", {"n": 2}, {"n": 0b111}),
    ("partition", {"n": 2, "rank": 1, "scratchpad": None}, {"rank": 2}),
]


class Proof(slots.Pair):
    """Both units under any stimulus whose narrower beats have zeros above them."""

    def __init__(self, slot, params, settings):
        super().__init__(slot, params, settings, Scalar(2))
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
    params = slots.drawn(slot, np.random.default_rng(seed))
    answer = prover.prove(Proof(slot, params, {}), tmp_path, steps=STEPS)
    assert answer == "proved" or (answer == "open" and slot.kind in BOUNDED), params


@pytest.mark.deep
@pytest.mark.parametrize("kind, params, settings", WRONG)
def test_a_wrong_setting_is_refuted(kind, params, settings, tmp_path):
    slot = slots.capability(kind, {})
    assert prover.prove(Proof(slot, params, settings), tmp_path, steps=STEPS) == "refuted"
