"""Reordering the lines of one port."""

from functools import cached_property, reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .line_banks import LineBanks, arrival


class Ring(wiring.Component):
    """A ring of groups of lines that are filled in any order and leave in the order in which they
    were reserved.

    Parameters
    ----------
    groups : int
        Groups, a power of two, at least 2.
    lanes : int
        W, lines in a group.
    responses : int
        N, lines that may come in one cycle: the ring memory has one bank for each
        (:class:`~penstock.hw.memory.line_banks.LineBanks`).
    line : int
        Bits of a line.

    Members
    -------
    reserve : In(1)
        Take the next free group; only while ``free``.
    mask : In(lanes)
        The lanes it will fill, at least one.
    tail : Out(range(groups))
        The group that ``reserve`` takes.
    free : Out(1)
        A group is free at the start of the cycle.
    arrivals : In(arrival(groups, lanes)).array(responses)
    arrived : In(data.ArrayLayout(line, responses))
        The line of each arrival.
    group : Out(stream.Signature(data.ArrayLayout(line, lanes)))
        The oldest reserved group, once complete. Taking it frees it from the next cycle.
    stray : Out(1)
        A line came that is not missing.

    Timing
    ------
    A line that comes in d is visible in ``group`` from d + 1: the memory is read synchronously at
    the head of the next cycle, with that cycle's writes passed through. One group a cycle leaves.
    ``group.valid`` is a register. Source: docs/timing.md section 5, ``load``, rules 2 and 3.
    """

    def __init__(self, *, groups: int, lanes: int, responses: int, line: int):
        if groups < 2 or groups & (groups - 1):
            raise ValueError(
                f"Number of groups must be a power of two of at least 2, not {groups!r}"
            )
        self.groups = groups
        self.lanes = lanes
        self.responses = responses
        self.line = line
        self._level = Signal(range(groups + 1), name="level")
        self._head = Signal(range(groups), name="head")
        self._missing = [
            Signal(groups, name=f"missing{lane}") for lane in range(lanes)
        ]  # lines reserved that have not come
        super().__init__(
            {
                "reserve": In(1),
                "mask": In(lanes),
                "tail": Out(range(groups)),
                "free": Out(1),
                "arrivals": In(arrival(groups, lanes)).array(responses),
                "arrived": In(data.ArrayLayout(line, responses)),
                "group": Out(stream.Signature(data.ArrayLayout(line, lanes))),
                "stray": Out(1),
            }
        )

    @cached_property
    def _store(self) -> LineBanks:
        """Made by the first use, for most rings of an export are instances of one module."""
        return LineBanks(
            groups=self.groups, lanes=self.lanes, responses=self.responses, line=self.line
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = self._store
        level = self._level
        head = self._head
        head_next = Signal(range(self.groups))
        take = Signal()
        whole = Signal()  # the head group is complete
        m.d.comb += [
            self.free.eq(level != self.groups),
            take.eq(self.group.valid & self.group.ready),
            head_next.eq(head + take),
            *(x.eq(y) for x, y in zip(store.arrivals, self.arrivals, strict=True)),
            store.arrived.eq(self.arrived),
            store.following.eq(head_next),
            store.current.eq(head),
            self.group.payload.eq(store.lines),
        ]
        m.d.sync += [level.eq(level + self.reserve - take), head.eq(head_next)]
        with m.If(self.reserve):
            m.d.sync += self.tail.eq(self.tail + 1)

        stays = []  # the head's lines that are missing from the next cycle on
        follows = []  # those of the group behind it
        strays = []
        reserved = Signal(self.groups)
        m.d.comb += reserved.eq(Mux(self.reserve, 1 << self.tail, 0))
        for lane in range(self.lanes):
            missing = self._missing[lane]
            come = Signal(self.groups, name=f"come{lane}")
            hits = [
                Mux(line.valid & (line.lane == lane), 1 << line.group, 0) for line in self.arrivals
            ]
            m.d.comb += come.eq(reduce(or_, hits))
            waits = Signal(self.groups, name=f"waits{lane}")
            m.d.comb += waits.eq(missing & ~come)
            m.d.sync += missing.eq(waits | Mux(self.mask[lane], reserved, 0))
            stays.append(waits.bit_select(head, 1))
            follows.append(waits.bit_select((head + 1)[: len(head)], 1))
            strays.append((come & ~missing).any())
        # What is reserved now cannot be complete in the next cycle.
        m.d.sync += whole.eq(
            Mux(take, (level > 1) & ~Cat(follows).any(), (level != 0) & ~Cat(stays).any())
        )
        m.d.comb += [self.group.valid.eq(whole), self.stray.eq(Cat(strays).any())]
        return m
