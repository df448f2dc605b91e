"""Streams of beats from and to a host: played from a memory, and recorded in one."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ...machine.host_map import STREAM_BITS, WORD_BYTES
from ..ram import read_port, write_port
from .wishbone import Wishbone


def stride(bits: int) -> int:
    """Words from one beat to the next: a power of two."""
    return 1 << ceil_log2(max(1, -(-bits // 32)))


def _count(shape: ShapeLike, beats: int, bits: int = STREAM_BITS) -> int:
    """The word with the number of beats: the last of so many bits of address."""
    count = (1 << bits) // WORD_BYTES - 1
    words = stride(Shape.cast(shape).width)
    if beats < 2 or beats & (beats - 1) or beats * words > count:
        raise ValueError(
            f"Beats must be a power of two from 2 on, of at most {count} words, not {beats!r} "
            f"of {words}"
        )
    return count


class Player(wiring.Component):
    """Offers a design the beats that its host has written, the first in cycle 0.

    Parameters
    ----------
    shape : ShapeLike
        Of a beat.
    beats : int
        Most that it holds, a power of two.

    Members
    -------
    bus : In(Wishbone())
        Word ``stride * k + i``: bits 32 i and on of beat k; the last word: how many there are.
        While the design is held; ``err`` for the rest.
    held : In(1)
        The design is in reset.
    beats : Out(stream.Signature(shape))

    Timing
    ------
    A beat a cycle. A transfer is answered in the cycle after it is
    asked for; what is written cannot be read, but for the number.
    """

    def __init__(self, *, shape: ShapeLike, beats: int):
        self._count = _count(shape, beats)
        self.shape = shape
        self.depth = beats
        super().__init__(
            {"bus": In(Wishbone()), "held": In(1), "beats": Out(stream.Signature(shape))}
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        bits = Shape.cast(self.shape).width
        words = stride(bits)
        m.submodules.memory = memory = Memory(shape=32 * words, depth=self.depth, init=[])
        write = write_port(memory, "write", granularity=32)
        read = read_port(memory, "read")
        count = Signal(range(self.depth + 1))
        following = Signal(range(self.depth + 1))
        index = Signal.like(following)
        asked = Signal()
        word = Signal(range(words))
        counts = Signal()
        m.d.comb += [
            asked.eq(bus.cyc & bus.stb & ~bus.ack & ~bus.err),
            counts.eq(bus.adr == self._count),
            word.eq(bus.adr if words > 1 else 0),
            write.addr.eq(bus.adr >> ceil_log2(words)),
            write.data.eq(bus.dat_w.replicate(words)),
            write.en.eq((asked & bus.we & self.held & ~counts) << word),
            following.eq(Mux(self.held, 0, index + (self.beats.valid & self.beats.ready))),
            read.addr.eq(following),
            read.en.eq(1),
            self.beats.valid.eq(~self.held & (index != count)),
            Value.cast(self.beats.payload).eq(Mux(self.beats.valid, read.data[:bits], 0)),
        ]
        taken = Signal()
        m.d.comb += taken.eq(self.held & (bus.we | counts))
        m.d.sync += [
            index.eq(following),
            bus.ack.eq(asked & taken),
            bus.err.eq(asked & ~taken),
            bus.dat_r.eq(count),
        ]
        with m.If(asked & bus.we & self.held & counts):
            m.d.sync += count.eq(bus.dat_w)
        return m


class Recorder(wiring.Component):
    """Takes beats as they come, and keeps them for a host.

    Parameters
    ----------
    shape : ShapeLike
        Of a beat.
    beats : int
        Most that it holds, a power of two; those behind them are counted.
    bits : int
        Of its addresses in bytes, as the host sees it.

    Members
    -------
    bus : In(Wishbone())
        As of :class:`Player`, to be read while the design is held; ``err`` for the rest.
    held : In(1)
        The design is in reset.
    beats : In(stream.Signature(shape))

    Timing
    ------
    A beat a cycle, always ready. A transfer is answered in the second cycle after it is asked for.
    """

    def __init__(self, *, shape: ShapeLike, beats: int, bits: int = STREAM_BITS):
        self._count = _count(shape, beats, bits)
        self.shape = shape
        self.depth = beats
        super().__init__(
            {"bus": In(Wishbone()), "held": In(1), "beats": In(stream.Signature(shape))}
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        words = stride(Shape.cast(self.shape).width)
        m.submodules.memory = memory = Memory(shape=32 * words, depth=self.depth, init=[])
        write = write_port(memory, "write")
        read = read_port(memory, "read")
        count = Signal(32)  # of the last run, until the next begins
        before = Signal(init=1)
        start = Signal(32)
        asked = Signal()
        answer = Signal()
        word = Signal(range(words))
        m.d.comb += [
            asked.eq(bus.cyc & bus.stb & ~answer & ~bus.ack & ~bus.err),
            word.eq(bus.adr if words > 1 else 0),
            start.eq(Mux(before & ~self.held, 0, count)),
            self.beats.ready.eq(~self.held),
            write.addr.eq(start),
            write.data.eq(Value.cast(self.beats.payload)),
            write.en.eq(self.beats.valid & ~self.held & (start < self.depth)),
            read.addr.eq(bus.adr >> ceil_log2(words)),
            read.en.eq(1),
        ]
        allowed = Signal()
        m.d.comb += allowed.eq(self.held & ~bus.we)
        m.d.sync += [
            before.eq(self.held),
            count.eq(start + (self.beats.valid & ~self.held)),
            answer.eq(asked),
            bus.ack.eq(answer & allowed),
            bus.err.eq(answer & ~allowed),
            bus.dat_r.eq(Mux(bus.adr == self._count, count, read.data.word_select(word, 32))),
        ]
        return m
