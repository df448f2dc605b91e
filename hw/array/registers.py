"""The registers of a block of an image."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.registers import WORD_BITS, Field, Layout


def bus_layout(words: int) -> data.StructLayout:
    """A word for a block of ``words``: its address in the block, and its data."""
    return data.StructLayout({"we": 1, "addr": max(words - 1, 1).bit_length(), "data": WORD_BITS})


class Registers(wiring.Component):
    """Words that are written one at a time and read all at once.

    Parameters
    ----------
    layout : Layout
        Its fields.

    Members
    -------
    bus : In(bus_layout(words))
    held : Out
        The words, first in the low bits, each as wide as it has fields.

    Timing
    ------
    A word written in c is held from c + 1. Reset changes none.
    """

    def __init__(self, layout: Layout):
        self.layout = layout
        widths = [layout.width(word) for word in range(layout.registers)]
        self._at = [sum(widths[:word]) for word in range(layout.registers)]
        super().__init__({"bus": In(bus_layout(layout.words)), "held": Out(sum(widths))})

    def field(self, f: Field) -> Value:
        """The bits of a field."""
        low = self._at[f.word] + f.low
        return self.held[low : low + f.bits]

    def elaborate(self, platform):
        m = Module()
        for word, low in enumerate(self._at):
            width = self.layout.width(word)
            register = Signal(width, reset_less=True, name=f"word{word}")
            m.d.comb += self.held[low : low + width].eq(register)
            with m.If(self.bus.we & (self.bus.addr == word)):
                m.d.sync += register.eq(self.bus.data)
        return m
