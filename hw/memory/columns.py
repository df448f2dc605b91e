"""Four blocks of t rows by one line, whose columns are written and read at blocks of their own."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..ram import read_port, write_port

SLOTS = 4
"""Blocks: two queued, one being completed and (a misaligned one) the next begun, or the last one
still needed.
"""


class Columns(wiring.Component):
    """Storage of blocks by column: what a misaligned line needs, since its two ends lie in
    different blocks.

    Parameters
    ----------
    t : int
        Rows.
    columns : int
        E, columns of a block.
    element_bits : int
        Bits of an element.

    Members
    -------
    write_slot : In(data.ArrayLayout(2, columns))
        The block that each column is written in.
    write_rows : In(data.ArrayLayout(t, columns))
        The rows that are written in each column.
    write_data : In(data.ArrayLayout(data.ArrayLayout(element_bits, t), columns))
        Elements, ``[column][row]``.
    read_slot : In(data.ArrayLayout(2, columns))
    read_data : Out(data.ArrayLayout(data.ArrayLayout(element_bits, t), columns))

    Timing
    ------
    Written at the end of the cycle, read combinationally (distributed
    RAM of depth 4: one write and one read port a column).
    """

    def __init__(self, *, t: int, columns: int, element_bits: int):
        self.columns = columns
        column = data.ArrayLayout(element_bits, t)
        slots = data.ArrayLayout(range(SLOTS), columns)
        self._memories = [Memory(shape=column, depth=SLOTS, init=[]) for _ in range(columns)]
        super().__init__(
            {
                "write_slot": In(slots),
                "write_rows": In(data.ArrayLayout(t, columns)),
                "write_data": In(data.ArrayLayout(column, columns)),
                "read_slot": In(slots),
                "read_data": Out(data.ArrayLayout(column, columns)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for c, memory in enumerate(self._memories):
            m.submodules[f"column{c}"] = memory
            write = write_port(memory, f"write{c}", granularity=1)
            read = read_port(memory, f"read{c}", domain="comb")
            m.d.comb += [
                write.addr.eq(self.write_slot[c]),
                write.en.eq(self.write_rows[c]),
                write.data.eq(self.write_data[c]),
                read.addr.eq(self.read_slot[c]),
                self.read_data[c].eq(read.data),
            ]
        return m
