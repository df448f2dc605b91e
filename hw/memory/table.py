"""A list of numbers to step through."""

from collections.abc import Mapping, Sequence

from amaranth.hdl import Module, ResetSignal, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...machine.kinds import Table as Sizes


def filling(tables: Mapping[str, Sizes]) -> data.StructLayout:
    """Filling of a slot's tables: for each of them whether a word is written, which entry that is,
    and its value.
    """
    return data.StructLayout(
        {
            name: data.StructLayout({"we": 1, "at": range(size.depth), "value": size.bits})
            for name, size in tables.items()
        }
    )


def table_layout(fields: Mapping[str, int], depth: int) -> data.StructLayout:
    """Filling of a table of a slot: the number of its last entry, and words for each field."""
    sizes = {name: Sizes(depth, bits) for name, bits in fields.items()}
    return data.StructLayout({"last": range(depth), "write": filling(sizes)})


class Table(wiring.Component):
    """A memory with a position that goes on one entry at a time, and round to the first after the
    last.

    Parameters
    ----------
    entries : list of tuples of int, or None
        At least one; None: they are written.
    fields : dict
        Name -> bits of each member of an entry.
    depth : int
        The most entries that are written.

    Members
    -------
    advance : In(1)
        Go on.
    clear : In(1)
        Back to the first entry (wins over ``advance``).
    entry, following : Out(data.StructLayout(fields))
        The entry at the position, and at the position of the next cycle.
    last, write : In, as in :func:`table_layout`
        Number of the last entry; words for each field. Only where entries are written.

    Timing
    ------
    ``entry`` is there in every cycle, from the first after reset. ``following`` depends on
    ``advance`` and ``clear`` in the same cycle, and is the first entry in reset; a register without
    reset that takes it holds ``entry`` of the cycle it is read in. What is written in c, in reset
    too, is there from c + 1.
    """

    def __init__(
        self,
        *,
        entries: Sequence[Sequence[int]] | None = None,
        fields: dict[str, int],
        depth: int = 0,
    ):
        self._written = entries is None
        self._layout = data.StructLayout(fields)
        first = [] if entries is None else [dict(zip(fields, x, strict=True)) for x in entries]
        self._depth = depth if self._written else len(first)
        if not self._depth:
            raise ValueError("Entries of a table must be at least one, not none")
        # what is written has a memory a field, so that a word fills one entry of one
        parts = [{name: bits} for name, bits in fields.items()] if self._written else [fields]
        self._memories = [
            Memory(shape=data.StructLayout(part), depth=self._depth, init=first) for part in parts
        ]
        members = {
            "advance": In(1),
            "clear": In(1),
            "entry": Out(self._layout),
            "following": Out(self._layout),
        }
        if self._written:
            filled = table_layout(fields, depth)
            members |= {name: In(filled[name].shape) for name in ("last", "write")}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        position = Signal(range(self._depth))
        following = Signal.like(position)
        self._go_on(m, position, following)
        for k, memory in enumerate(self._memories):
            m.submodules[f"memory{k}" if self._written else "memory"] = memory
            self._read(m, memory, position, following)
            if self._written:
                self._fill(m, memory)
        m.d.sync += position.eq(following)
        return m

    def _read(self, m: Module, memory: Memory, position: Signal, following: Signal) -> None:
        """Show a memory's fields of this entry and of the next one."""
        now = memory.read_port(domain="comb")
        then = memory.read_port(domain="comb")
        m.d.comb += now.addr.eq(position)
        m.d.comb += then.addr.eq(following)
        for name in memory.shape.members:
            m.d.comb += self.entry[name].eq(now.data[name])
            m.d.comb += self.following[name].eq(then.data[name])

    def _go_on(self, m: Module, position: Signal, following: Signal) -> None:
        """The position of the next cycle."""
        last: int | Value = self.last if self._written else self._depth - 1
        with m.If(self.advance):
            m.d.comb += following.eq(position + 1)
            with m.If(position == last):
                m.d.comb += following.eq(0)
        with m.Else():
            m.d.comb += following.eq(position)
        # In reset the user may say advance already: the position stays at the first entry, and what
        # follows it is the first.
        with m.If(self.clear | ResetSignal(allow_reset_less=True)):
            m.d.comb += following.eq(0)

    def _fill(self, m: Module, memory: Memory) -> None:
        """Words for the one field of a memory."""
        (name,) = memory.shape.members
        port = memory.write_port()
        word = self.write[name]
        m.d.comb += [port.en.eq(word.we), port.addr.eq(word.at), port.data[name].eq(word.value)]


def table_of(entries: Sequence | int | None, fields: dict[str, int]) -> Table | None:
    """A table of these entries, or in a slot of so many at most; None where there are none."""
    if not entries:
        return None
    if isinstance(entries, int):
        return Table(depth=entries, fields=fields)
    return Table(entries=entries, fields=fields)
