"""A list of constants to step through."""

from collections.abc import Sequence

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Table"]


class Table(wiring.Component):
    """A read-only memory with a position that goes on one entry at a
    time, and round to the first after the last.

    Parameters
    ----------
    entries : list of tuples of int
        At least one.
    fields : dict
        Name -> bits of each member of an entry.

    Members
    -------
    advance : In(1)
        Go on.
    clear : In(1)
        Back to the first entry (wins over ``advance``).
    entry, following : Out(data.StructLayout(fields))
        The entry at the position, and at the position of the next cycle.

    Timing
    ------
    ``entry`` is there in every cycle, from the first after reset.
    ``following`` depends on ``advance`` and ``clear`` in the same
    cycle, and is the first entry in reset; a register without reset
    that takes it holds ``entry`` of the cycle it is read in.

    """

    def __init__(self, *, entries: Sequence[Sequence[int]], fields: dict[str, int]):
        if not entries:
            raise ValueError("Entries of a table must be at least one, not none")
        self._layout = data.StructLayout(fields)
        self._memory = Memory(
            shape=self._layout,
            depth=len(entries),
            init=[dict(zip(fields, entry, strict=False)) for entry in entries],
        )
        super().__init__(
            {
                "advance": In(1),
                "clear": In(1),
                "entry": Out(self._layout),
                "following": Out(self._layout),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self._memory
        now = memory.read_port(domain="comb")
        then = memory.read_port(domain="comb")
        with m.If(self.advance):
            m.d.comb += then.addr.eq(now.addr + 1)
            with m.If(now.addr == memory.depth - 1):
                m.d.comb += then.addr.eq(0)
        with m.Else():
            m.d.comb += then.addr.eq(now.addr)
        # In reset the user may say advance already: the position stays at the first entry, and what
        # follows it is the first.
        with m.If(self.clear | ResetSignal(allow_reset_less=True)):
            m.d.comb += then.addr.eq(0)
        position = Signal.like(now.addr)
        m.d.sync += position.eq(then.addr)
        m.d.comb += [now.addr.eq(position), self.entry.eq(now.data), self.following.eq(then.data)]
        return m
