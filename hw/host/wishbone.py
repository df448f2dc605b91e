"""The bus within a board: Wishbone B4, classic cycles, 32 bits.

Amaranth-SoC, which has such a bus, is a placeholder in the package registry; this is the part of
the standard that is used here.
"""

from collections.abc import Sequence

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

ADDRESS_BITS = 30
"""Width of a word's address."""


class Wishbone(wiring.Signature):
    """Wishbone seen from the initiator.

    Members
    -------
    cyc, stb : Out(1)
        A transfer is asked for while both are high, until ``ack`` or ``err``.
    we, adr, dat_w, sel : Out(1), Out(30), Out(32), Out(4)
        Whether it writes, the word's address, what is written, and of which bytes.
    dat_r : In(32)
        What is read, with ``ack``.
    ack, err : In(1)
        The transfer ends in this cycle; it was one that no target has.
    """

    def __init__(self):
        super().__init__(
            {
                "cyc": Out(1),
                "stb": Out(1),
                "we": Out(1),
                "adr": Out(ADDRESS_BITS),
                "dat_w": Out(32),
                "sel": Out(4),
                "dat_r": In(32),
                "ack": In(1),
                "err": In(1),
            }
        )


class Decoder(wiring.Component):
    """Leads transfers to the target that has their address.

    Parameters
    ----------
    ranges : sequence of (int, int)
        For each target the first byte and its logarithm of size, in bytes; aligned to their size.

    Members
    -------
    bus : In(Wishbone())
    target0, target1, ... : Out(Wishbone())
        Addresses count from the target's first word.

    Timing
    ------
    Combinational. An address that no target has is answered by ``err`` in the same cycle.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]]):
        for base, bits in ranges:
            if base % (1 << bits):
                raise ValueError(f"Base of a range must be a multiple of its size, not {base:#x}")
        self.ranges = tuple(ranges)
        targets = {f"target{k}": Out(Wishbone()) for k in range(len(self.ranges))}
        super().__init__({"bus": In(Wishbone()), **targets})

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        for k, (_, bits) in enumerate(self.ranges):
            target = getattr(self, f"target{k}")
            low = bits - 2
            m.d.comb += [
                target.we.eq(bus.we),
                target.adr.eq(bus.adr[:low]),
                target.dat_w.eq(bus.dat_w),
                target.sel.eq(bus.sel),
            ]
        with m.If(bus.cyc & bus.stb):
            m.d.comb += bus.err.eq(1)
        for k, (base, bits) in enumerate(self.ranges):
            target = getattr(self, f"target{k}")
            with m.If(bus.adr[bits - 2 :] == base >> bits):
                m.d.comb += [
                    target.cyc.eq(bus.cyc),
                    target.stb.eq(bus.stb),
                    bus.dat_r.eq(target.dat_r),
                    bus.ack.eq(target.ack),
                    bus.err.eq(target.err),
                ]
        return m
