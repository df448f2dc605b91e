"""Triggers that wait to be issued: two may come in a cycle, one leaves."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...noc.token import ram_attributes
from ...ram import read_port, write_port


class Waiting(wiring.Component):
    """Stage A's triggers, in order, the oldest at ``o``.

    Parameters
    ----------
    trigger : StructLayout
        Of a trigger; it has a field ``node``.
    depth : int
        Triggers that it holds, a power of two, at least 4; the two that come in a cycle count from
        that cycle on.

    Members
    -------
    i : In(ArrayLayout({valid, trigger}, 2))
        Triggers that stand in A from this cycle on, the older one first.
    soon : In(ArrayLayout({valid, node}, 2))
        The nodes of the next cycle's ``i``.
    o : Out({valid, trigger})
        The oldest trigger: of those that waited, else of ``i``.
    issue : In(1)
        It is issued; only with ``o.valid``.
    following : Out({valid, node})
        The node of the next cycle's ``o``.
    room : Out(1)
        There is room for two more than the triggers of this cycle.

    Timing
    ------
    Any two in and one out a cycle; a trigger may be issued in the cycle in which it comes. ``room``
    comes from registers and ``i``'s valid bits. Source: docs/overlay.md section 3.1.
    """

    def __init__(self, *, trigger: data.StructLayout, depth: int):
        if depth < 4 or depth & depth - 1:
            raise ValueError(f"Depth must be a power of two of at least 4, not {depth!r}")
        self.trigger = trigger
        self.depth = depth
        entry = data.StructLayout({"valid": 1, "trigger": trigger})
        node = data.StructLayout({"valid": 1, "node": trigger["node"].shape})
        # Two banks, filled in turn: two are written, and the two oldest seen, in one cycle.
        self._banks = [
            Memory(shape=trigger, depth=depth // 2, init=[], attrs=ram_attributes("distributed"))
            for _ in range(2)
        ]
        super().__init__(
            {
                "i": In(data.ArrayLayout(entry, 2)),
                "soon": In(data.ArrayLayout(node, 2)),
                "o": Out(entry),
                "issue": In(1),
                "following": Out(node),
                "room": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        head = Signal(range(self.depth))
        tail = Signal(range(self.depth))
        level = Signal(range(self.depth + 1))
        total = Signal(range(self.depth + 3))
        reads = []
        writes = []
        for b, memory in enumerate(self._banks):
            m.submodules[f"bank{b}"] = memory
            reads.append(read_port(memory, f"read{b}", domain="comb"))
            writes.append(write_port(memory, f"write{b}"))

        i = self.i
        odd = head[0]
        # triggers wait from earlier cycles; the oldest of `i` is issued at once
        held = Signal()
        passed = Signal()
        count = Signal(2)  # of `i`'s triggers that have to wait
        older = Signal(self.trigger)
        younger = Signal(self.trigger)
        m.d.comb += [
            held.eq(level != 0),
            total.eq(level + i[0].valid + i[1].valid),
            self.room.eq(total <= self.depth - 2),
            reads[0].addr.eq((head + odd)[1:]),
            reads[1].addr.eq(head[1:]),
            self.o.valid.eq(held | i[0].valid | i[1].valid),
            self.o.trigger.eq(
                Mux(
                    held,
                    Mux(odd, reads[1].data, reads[0].data),
                    Mux(i[0].valid, i[0].trigger, i[1].trigger),
                )
            ),
            passed.eq(self.issue & ~held),
            count.eq(i[0].valid + i[1].valid - passed),
            younger.eq(i[1].trigger),
            older.eq(Mux(i[0].valid & ~passed, i[0].trigger, i[1].trigger)),
        ]
        for b, port in enumerate(writes):
            first = tail[0] == b
            m.d.comb += [
                port.en.eq(Mux(first, count >= 1, count == 2)),
                port.addr.eq((tail + ~first)[1:] if b == 0 else tail[1:]),
                port.data.eq(Mux(first, older, younger)),
            ]
        left = Signal.like(level)  # of those held, once the oldest is issued
        m.d.comb += left.eq(level - (self.issue & held))
        m.d.sync += [
            head.eq(head + (self.issue & held)),
            tail.eq(tail + count),
            level.eq(left + count),
        ]

        second = Mux(odd, reads[0].data.node, reads[1].data.node)
        self._foresee(m, left, count, second, older.node)
        return m

    def _foresee(self, m: Module, left: Value, count: Value, second: Value, older: Value) -> None:
        """The node of the next cycle's ``o``: of ``left`` triggers that wait, then ``count`` more.

        ``second`` is the node behind the oldest that waits, ``older`` that of the first to come.
        """
        m.d.comb += [
            self.following.valid.eq(
                (left != 0) | (count != 0) | self.soon[0].valid | self.soon[1].valid
            ),
            self.following.node.eq(
                Mux(
                    left != 0,
                    Mux(self.issue, second, self.o.trigger.node),
                    Mux(
                        count != 0,
                        older,
                        Mux(self.soon[0].valid, self.soon[0].node, self.soon[1].node),
                    ),
                )
            ),
        ]
