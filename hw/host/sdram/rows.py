"""Open row of each bank of a chip."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....machine.sdram import ALL_BANKS, Command, Sdram


class Rows(wiring.Component):
    """Follows the commands that are given.

    Members
    -------
    bank, row : In(chip.bank_bits), In(chip.row_bits)
        What is asked for.
    open, hit : Out(1), Out(1)
        The bank has a row open, and this one.
    command, a : In(3), In(chip.row_bits)
        What is given to the bank in this cycle.

    Timing
    ------
    ``open`` and ``hit`` follow ``bank`` and ``row`` in the cycle, and a
    command from the next one on.
    """

    def __init__(self, chip: Sdram):
        self.chip = chip
        super().__init__(
            {
                "bank": In(chip.bank_bits),
                "row": In(chip.row_bits),
                "open": Out(1),
                "hit": Out(1),
                "command": In(3),
                "a": In(chip.row_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        chip = self.chip
        banks = 1 << chip.bank_bits
        opened = Signal(banks)
        rows = Array(Signal(chip.row_bits, name=f"row{k}") for k in range(banks))
        m.d.comb += [
            self.open.eq(opened.bit_select(self.bank, 1)),
            self.hit.eq(self.open & (rows[self.bank] == self.row)),
        ]
        with m.Switch(self.command):
            with m.Case(Command.ACTIVATE):
                m.d.sync += [opened.bit_select(self.bank, 1).eq(1), rows[self.bank].eq(self.a)]
            with m.Case(Command.PRECHARGE):
                m.d.sync += opened.bit_select(self.bank, 1).eq(0)
                with m.If(self.a[ALL_BANKS]):
                    m.d.sync += opened.eq(0)
        return m
