"""Number of the lowest set bit."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class LeadingOne(wiring.Component):
    """Finds the lowest set bit of a vector, as a tree of two-way choices.

    Parameters
    ----------
    width : int
        Bits of the vector, at least 1.

    Members
    -------
    i : In(width)
    any : Out(1)
        Some bit is set.
    index : Out(range(width))
        The lowest set bit, if there is one.

    Timing
    ------
    Combinational, log2(width) levels. Source: the leading-one detectors of "Out-of-Order Dataflow
    Scheduling for FPGA Overlays" (Siddhartha & Kapre).
    """

    def __init__(self, *, width: int):
        if not isinstance(width, int) or width < 1:
            raise ValueError(f"Width must be at least 1, not {width!r}")
        self.width = width
        super().__init__({"i": In(width), "any": Out(1), "index": Out(range(width))})

    def elaborate(self, platform):
        m = Module()
        nodes: list[tuple[Value, Value]] = [(self.i[k], Const(0, 0)) for k in range(self.width)]
        level = 0
        while len(nodes) > 1:
            merged = []
            for k in range(0, len(nodes) - 1, 2):
                (low, low_index), (high, high_index) = nodes[k : k + 2]
                some = Signal(name=f"any{level}_{k // 2}")
                index = Signal(level + 1, name=f"index{level}_{k // 2}")
                m.d.comb += [
                    some.eq(low | high),
                    index.eq(Cat(Mux(low, low_index, high_index)[:level], ~low)),
                ]
                merged.append((some, index))
            if len(nodes) % 2:
                some, index = nodes[-1]
                merged.append((some, Cat(index, Const(0, 1))))
            nodes = merged
            level = level + 1
        m.d.comb += [self.any.eq(nodes[0][0]), self.index.eq(nodes[0][1])]
        return m
