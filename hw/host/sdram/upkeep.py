"""Time of a chip in clock cycles: what has to pass, and what is due."""

import math

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....machine.sdram import Command, Sdram


def cycles_of(ns: float, clock_mhz: float) -> int:
    """Clock cycles that last at least so long, 1 or more."""
    return max(1, math.ceil(ns * clock_mhz / 1000 - 1e-9))


class Countdown(wiring.Component):
    """Cycles that have to pass before something.

    Members
    -------
    cycles : In(range(longest + 1))
        What begins in this cycle lasts so long.
    done : Out(1)

    Timing
    ------
    With ``cycles`` = n in c, ``done`` is low from c + 1 to c + n - 1,
    and longer if it was to be already.
    """

    def __init__(self, longest: int):
        self.longest = longest
        super().__init__({"cycles": In(range(longest + 1)), "done": Out(1)})

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(self.longest + 1))
        m.d.comb += self.done.eq(left == 0)
        with m.If(self.cycles > left):
            m.d.sync += left.eq(self.cycles - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return m


class Upkeep(wiring.Component):
    """Upkeep of a chip beside lines: its power-up, and refreshes.

    Members
    -------
    wanted : Out(1)
        No line before this is done.
    command : Out(3)
        What is due: a :class:`~penstock.machine.sdram.Command`, or none yet.
    done : In(1)
        It has been given.

    Timing
    ------
    Nothing is due until the power is up. Then all banks are closed, refreshed, and the mode is set.
    A refresh is due every ``refresh_us``, whenever the one before it was given.
    """

    def __init__(self, *, chip: Sdram, clock_mhz: float):
        self.power_up = cycles_of(1000 * chip.power_up_us, clock_mhz)
        self.interval = int(chip.refresh_us * clock_mhz)
        self.refreshes = chip.refreshes
        super().__init__({"wanted": Out(1), "command": Out(3), "done": In(1)})

    def elaborate(self, platform):
        m = Module()
        dark = Signal(range(self.power_up + 1), init=self.power_up)
        until_due = Signal(range(self.interval), init=self.interval - 1)
        close = Signal(init=1)
        refreshes = Signal(range(self.refreshes + 1), init=self.refreshes)
        mode = Signal(init=1)
        m.d.comb += self.wanted.eq((dark != 0) | close | (refreshes != 0) | mode)
        with m.If(dark != 0):
            m.d.sync += dark.eq(dark - 1)
        with m.Elif(close):
            m.d.comb += self.command.eq(Command.PRECHARGE)
            m.d.sync += close.eq(~self.done)
        with m.Elif(refreshes != 0):
            m.d.comb += self.command.eq(Command.REFRESH)
            m.d.sync += refreshes.eq(refreshes - self.done)
        with m.Elif(mode):
            m.d.comb += self.command.eq(Command.MODE)
            m.d.sync += mode.eq(~self.done)
        m.d.sync += until_due.eq(Mux(until_due == 0, self.interval - 1, until_due - 1))
        with m.If((until_due == 0) & (refreshes == 0)):
            m.d.sync += [close.eq(1), refreshes.eq(1)]
        return m
