"""Memories of whole beats, of which the other side sees 32-bit words."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..ram import read_port, write_port

WORD = 32


def _select_bits(bits: int) -> int:
    """Address bits that choose a word of a beat."""
    return (-(-bits // WORD) - 1).bit_length()


def address_bits(places: int, bits: int) -> int:
    """Bits of the address of a word, of ``places`` beats of ``bits`` bits: the beat's number above
    the word's.
    """
    return (places - 1).bit_length() + _select_bits(bits)


def word_bus(bits: int) -> data.StructLayout:
    """A word for a memory whose addresses have ``bits`` bits."""
    return data.StructLayout({"we": 1, "addr": bits, "data": WORD})


class _Beats(wiring.Component):
    """A memory for each word of a beat.

    Parameters
    ----------
    places : int
        Beats, at least two.
    bits : int
        Of a beat.
    """

    def __init__(self, members: dict, *, places: int, bits: int):
        self._select = _select_bits(bits)
        widths = [min(WORD, bits - low) for low in range(0, bits, WORD)]
        self._memories = [Memory(shape=width, depth=places, init=[]) for width in widths]
        super().__init__(members)

    def _word(self, address, k: int):
        """True if an address is of word k."""
        return address[: self._select] == k


class PlayedBeats(_Beats):
    """Beats that are written as words, and read one after the other.

    Parameters
    ----------
    places, bits : int
        Beats, and bits of one.

    Members
    -------
    fill : In(word_bus(address_bits(places, bits)))
    following : In(range(places))
        The beat to show in the next cycle.
    beat : Out(bits)

    Timing
    ------
    A word written in c is shown from c + 2, if ``following`` is its beat's in c + 1.
    """

    def __init__(self, *, places: int, bits: int):
        bus = word_bus(address_bits(places, bits))
        members = {"fill": In(bus), "following": In(range(places)), "beat": Out(bits)}
        super().__init__(members, places=places, bits=bits)

    def elaborate(self, platform):
        m = Module()
        shown = []
        for k, memory in enumerate(self._memories):
            m.submodules[f"memory{k}"] = memory
            put = write_port(memory, f"put{k}")
            get = read_port(memory, f"get{k}")
            m.d.comb += [
                put.en.eq(self.fill.we & self._word(self.fill.addr, k)),
                put.addr.eq(self.fill.addr[self._select :]),
                put.data.eq(self.fill.data),
                get.addr.eq(self.following),
                get.en.eq(1),
            ]
            shown.append(get.data)
        m.d.comb += self.beat.eq(Cat(shown))
        return m


class GatheredBeats(_Beats):
    """Beats that are written one after the other, and read as words.

    Parameters
    ----------
    places, bits : int
        Beats, and bits of one.

    Members
    -------
    put : In(1), at : In(range(places)), beat : In(bits)
    addr : In(address_bits(places, bits)), word : Out(32)
        Bits that a beat does not have are 0.

    Timing
    ------
    ``word`` in c + 1 is of ``addr`` in c.
    """

    def __init__(self, *, places: int, bits: int):
        members = {
            "put": In(1),
            "at": In(range(places)),
            "beat": In(bits),
            "addr": In(address_bits(places, bits)),
            "word": Out(WORD),
        }
        super().__init__(members, places=places, bits=bits)

    def elaborate(self, platform):
        m = Module()
        select = Signal(range(len(self._memories)))
        m.d.sync += select.eq(self.addr[: self._select])
        for k, memory in enumerate(self._memories):
            m.submodules[f"memory{k}"] = memory
            put = write_port(memory, f"put{k}")
            get = read_port(memory, f"get{k}")
            m.d.comb += [
                put.en.eq(self.put),
                put.addr.eq(self.at),
                put.data.eq(self.beat[WORD * k :][:WORD]),
                get.addr.eq(self.addr[self._select :]),
                get.en.eq(1),
            ]
            with m.If(select == k):
                m.d.comb += self.word.eq(get.data)
        return m
