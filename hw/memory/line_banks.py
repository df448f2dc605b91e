"""Storage of lines of which several come in a cycle."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from ..ram import in_block_ram, read_port, write_port


def arrival(groups: int, lanes: int) -> data.StructLayout:
    """Layout of the place to which a line that has come belongs."""
    return data.StructLayout({"valid": 1, "group": range(groups), "lane": range(max(2, lanes))})


class LineBanks(wiring.Component):
    """Groups of lines, written line by line at any places and read group by group.

    Each response has a bank of its own, deep enough for all groups, with one write port. A table
    says for each line which bank has it. So lines that come in one cycle never meet, whatever their
    order, and no memory needs a second write port.

    Parameters
    ----------
    groups : int
        Groups.
    lanes : int
        W, lines in a group.
    responses : int
        N, lines that may come in one cycle, and banks.
    line : int
        Bits of a line.

    Members
    -------
    arrivals : In(arrival(groups, lanes)).array(responses)
        No two of a cycle at one place.
    arrived : In(data.ArrayLayout(line, responses))
        The line of each arrival.
    following : In(range(groups))
        The group that is read in the next cycle.
    current : In(range(groups))
        The group that is read: ``following`` of the cycle before.
    lines : Out(data.ArrayLayout(line, lanes))
        Its lines.

    Timing
    ------
    A line that comes in d is there from d + 1. Banks that are worth block RAM are read at
    ``following`` in the cycle before, and what is written there meanwhile is kept beside them in a
    register of a line a bank; others are read at ``current``. The table is ceil(log2(N)) flip-flops
    a line.
    """

    def __init__(self, *, groups: int, lanes: int, responses: int, line: int):
        self.groups = groups
        self.line = line
        self.lanes = lanes
        self.responses = responses
        self._layout = data.ArrayLayout(line, lanes)
        self._banks = [
            Memory(shape=self._layout, depth=groups, init=[], attrs={"no_rw_check": True})
            for _ in range(responses)
        ]
        bits = (responses - 1).bit_length()
        self._bank_of = [
            [Signal(groups, name=f"bank_of{lane}_{bit}") for bit in range(bits)]
            for lane in range(lanes)
        ]  # for each lane: bits of the number of the bank, each of all groups
        super().__init__(
            {
                "arrivals": In(arrival(groups, lanes)).array(responses),
                "arrived": In(data.ArrayLayout(line, responses)),
                "following": In(range(groups)),
                "current": In(range(groups)),
                "lines": Out(self._layout),
            }
        )

    def elaborate(self, platform):
        m = Module()
        stored = []
        for n, (bank, line) in enumerate(zip(self._banks, self.arrivals, strict=True)):
            m.submodules[f"bank{n}"] = bank
            write = write_port(bank, f"write{n}", granularity=1)
            m.d.comb += [
                write.addr.eq(line.group),
                write.en.eq(Mux(line.valid, 1 << line.lane, 0)),
                write.data.eq(Cat(self.arrived[n] for _ in range(self.lanes))),
            ]
            stored.append(self._read(m, n, write))
        for lane in range(self.lanes):
            self._choose(m, lane, [lines[lane] for lines in stored])
        return m

    def _read(self, m: Module, n: int, write: WritePort) -> list[Value]:
        """The lines of the current group as bank ``n`` has them."""
        bank = self._banks[n]
        if not in_block_ram(bank):
            read = read_port(bank, f"read{n}", domain="comb")
            m.d.comb += read.addr.eq(self.current)
            return list(read.data)
        read = read_port(bank, f"read{n}")
        late = Signal(self.line, name=f"late{n}", reset_less=True)
        hits = Signal(self.lanes, name=f"late_hits{n}")
        m.d.comb += read.addr.eq(self.following)
        m.d.sync += [
            late.eq(self.arrived[n]),
            hits.eq(Mux(write.addr == self.following, write.en, 0)),
        ]
        return [Mux(hits[lane], late, line) for lane, line in enumerate(read.data)]

    def _choose(self, m: Module, lane: int, stored: list[Value]) -> None:
        """The line of a lane, from the bank that has it."""
        hits = [Signal(self.groups, name=f"hits{lane}_{n}") for n in range(self.responses)]
        for hit, line in zip(hits, self.arrivals, strict=True):
            m.d.comb += hit.eq(Mux(line.valid & (line.lane == lane), 1 << line.group, 0))
        bits = self._bank_of[lane]
        for b, bit in enumerate(bits):
            ones = reduce(or_, (hit for n, hit in enumerate(hits) if n >> b & 1))
            m.d.sync += bit.eq((bit & ~reduce(or_, hits)) | ones)
        bank = Cat(bit.bit_select(self.current, 1) for bit in bits)
        choice = data.View(data.ArrayLayout(self.line, self.responses), Cat(stored))
        m.d.comb += self.lines[lane].eq(choice[bank])
