"""Order of arrival: the input whose unit arrived first."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ArrivalOrder(wiring.Component):
    """Remembers the order in which units arrived at ``n`` inputs and names the first among some of
    them.

    Parameters
    ----------
    n : int
        Inputs.

    Members
    -------
    visible : In(n)
        A beat, and not Done, is at the head of the input.
    moved : In(n)
        A beat of the input's unit leaves in this cycle, or an open unit of it waits for one: it has
        not arrived (again).
    among : In(n)
        The inputs to choose from.
    first : Out(n)
        One-hot: the earliest arrival of those, equal cycles by lowest index; 0 if there is none.

    Timing
    ------
    ``first`` is combinational and counts arrivals of this cycle. Of n inputs, n * n bits say which
    arrived before which. Source: docs/timing.md section 3.2.
    """

    def __init__(self, *, n: int):
        if n < 1:
            raise ValueError(f"Number of inputs must be at least 1, not {n!r}")
        self.n = n
        super().__init__({"visible": In(n), "moved": In(n), "among": In(n), "first": Out(n)})

    def elaborate(self, platform):
        m = Module()
        n = self.n
        waiting = Signal(n)  # arrived in an earlier cycle
        new = Signal(n)
        choice = Signal(n)
        m.d.comb += [new.eq(self.visible & ~waiting), choice.eq(self.visible & self.among)]
        m.d.sync += waiting.eq(self.visible & ~self.moved)
        beaten = []
        for i in range(n):
            before = Signal(
                n, name=f"before{i}"
            )  # bit j: the unit of input i arrived before that of input j
            now = Signal(n, name=f"now{i}")
            above = (1 << n) - (2 << i)
            m.d.comb += now.eq(Mux(waiting[i], before | new, new & above))
            m.d.sync += before.eq(now)
            beaten.append((choice & ~now & ~(1 << i)).any())
        m.d.comb += self.first.eq(choice & ~Cat(beaten))
        return m
