"""The pins of a chip, and the parts of its addresses."""

from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....machine.sdram import COLUMN_BITS, SDRAM, Sdram

COLUMN_BYTES = COLUMN_BITS // 8


class Pins(wiring.Signature):
    """Seen from the controller.

    ``command`` is a :class:`~penstock.machine.sdram.Command`; ``dqm`` has a bit for each byte that
    a write leaves as it is. The chip's clock is the controller's, inverted: it sees in the middle
    of a cycle what was set at its beginning.
    """

    def __init__(self, chip: Sdram = SDRAM):
        super().__init__(
            {
                "command": Out(3),
                "a": Out(chip.row_bits),
                "ba": Out(chip.bank_bits),
                "dqm": Out(COLUMN_BYTES),
                "dq_o": Out(COLUMN_BITS),
                "dq_oe": Out(1),
                "dq_i": In(COLUMN_BITS),
            }
        )


def col_of(chip: Sdram, address: Value) -> Value:
    """The column of an address in bytes."""
    return address[1:][: chip.col_bits]


def bank_of(chip: Sdram, address: Value) -> Value:
    """The bank of an address in bytes."""
    return address[1 + chip.col_bits :][: chip.bank_bits]


def row_of(chip: Sdram, address: Value) -> Value:
    """The row of an address in bytes."""
    return address[1 + chip.col_bits + chip.bank_bits :][: chip.row_bits]
