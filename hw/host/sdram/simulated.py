"""A board in simulation whose memory is a chip: the two on one clock."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....machine.sdram import COLUMN_BITS, RULES
from ..board import Board
from .chip import Chip


class SimulatedBoard(wiring.Component):
    """A board and its chip.

    Parameters
    ----------
    board : Board
        With an SDRAM.
    memory_bytes : int
        That the chip holds: a power of two.
    clock_mhz : float

    Members
    -------
    rx, tx, busy
        The board's.
    broken : Out(range(len(RULES)))
        The rule of the chip that was broken, if any.
    """

    def __init__(self, board: Board, *, memory_bytes: int, clock_mhz: float):
        self._board = board
        self._chip = Chip(clock_mhz=clock_mhz, words=8 * memory_bytes // COLUMN_BITS)
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "busy": Out(1),
                "broken": Out(range(len(RULES))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.board = board = self._board
        m.submodules.chip = chip = self._chip
        wiring.connect(m, board.sdram, chip.pins)
        m.d.comb += [
            board.rx.eq(self.rx),
            self.tx.eq(board.tx),
            self.busy.eq(board.busy),
            self.broken.eq(chip.broken),
        ]
        return m
