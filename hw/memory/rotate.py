"""Rotation of a line by a number of elements known at run time."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value


def rotate(m: Module, elements: Sequence[Value], amount: Value, *, name: str) -> list[Signal]:
    """Move element ``amount`` to position 0, and so on around; log2(E) stages of 2:1 multiplexers.

    Parameters
    ----------
    m : Module
        Where the stages are added (combinational).
    elements : sequence of Value
        E elements of one width, E a power of two.
    amount : Value
        0 .. E - 1.
    name : str
        Prefix of the stages' signals.

    Returns
    -------
    list of Signal
        Element (p + amount) mod E at position p.
    """
    n = len(elements)
    row = [Value.cast(x) for x in elements]
    for bit in range((n - 1).bit_length()):
        stage = [Signal(len(x), name=f"{name}_{1 << bit}_{p}") for p, x in enumerate(row)]
        for p in range(n):
            m.d.comb += stage[p].eq(Mux(amount[bit], row[(p + (1 << bit)) % n], row[p]))
        row = stage
    return row
