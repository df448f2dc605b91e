"""The registers of a block of an image, proved by induction: each word that is written is held, at
its place and there alone, until it is written again.
"""

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from penstock.hw.array.registers import Registers
from penstock.machine.array.registers import Layout
from penstock.testing import prover

FIELDS = {"a": 3, "b": 1, "c": 30, "d": 32}
"""Three words, of 4, 30 and 32 bits: the first has two fields."""


class Loading(wiring.Component):
    """Registers beside what was last written to each of their words.

    Invariant: both are equal. ``broken`` plants a bug.
    """

    def __init__(self, broken: str = ""):
        self.broken = broken
        self.layout = Layout.of(FIELDS)
        self.registers = Registers(self.layout)
        super().__init__({})
        self.ok = Signal(name="ok")
        self.fair = Signal(init=1, name="fair")
        self.we = Signal(name="we")
        self.addr = Signal(len(self.registers.bus.addr), name="addr")
        self.data = Signal(32, name="data")
        self.chosen = [self.we, self.addr, self.data]

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = self.registers
        m.d.comb += [
            self.fair.eq(1),
            registers.bus.we.eq(self.we),
            registers.bus.addr.eq(self.addr),
            registers.bus.data.eq(self.data),
        ]
        if self.broken == "lost":  # a word right after another
            before = Signal()
            m.d.sync += before.eq(self.we)
            m.d.comb += registers.bus.we.eq(self.we & ~before)
        if self.broken == "twice":  # the last word is the first one, too
            m.d.comb += registers.bus.addr.eq(self.addr & 1)
        if self.broken == "changed":
            m.d.comb += registers.bus.data.eq(self.data ^ (self.addr == 1))
        kept = []
        for word in range(self.layout.registers):
            width = self.layout.width(word)
            last = Signal(width, reset_less=True, name=f"last{word}")
            with m.If(self.we & (self.addr == word)):
                m.d.sync += last.eq(self.data)
            kept.append(last)
        m.d.comb += self.ok.eq(registers.held == Cat(*kept))
        return m


def test_each_word_is_held_where_it_was_written(tmp_path):
    assert Loading().layout.registers == 3
    assert prover.prove(Loading(), tmp_path, steps=2) == "proved"


@pytest.mark.deep
@pytest.mark.parametrize("broken", ["lost", "twice", "changed"])
def test_a_planted_bug_is_found(broken, tmp_path):
    assert prover.prove(Loading(broken), tmp_path, steps=4) == "refuted"
