"""Loader: frames of bytes to transfers on the bus, and back."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.crc import Algorithm
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...machine.host_frames import (
    ESCAPE,
    ESCAPED,
    FLAG,
    HEADER_WORDS,
    MOST_WORDS,
    Operation,
    Status,
)
from ..ram import read_port, write_port
from .wishbone import Wishbone

CRC: Algorithm = CRC32_ISO_HDLC
FRAME_WORDS = HEADER_WORDS + MOST_WORDS + 1


class FrameReceiver(wiring.Component):
    """Keeps the words of a frame, and says whether it is whole
    (:mod:`penstock.machine.host_frames`).

    Members
    -------
    bytes : In(stream.Signature(8))
        From the line.
    ended : Out(1)
        A frame of at least a byte has ended; nothing is taken until ``clear``, and from then on
        nothing is kept until a flag.
    whole : Out(1)
        Its CRC is right, and it has whole words, and room.
    words : Out(range(...))
        How many it has, without the CRC.
    address, data : In(...), Out(32)
        A word of it, in the cycle after its number.
    clear : In(1)

    Timing
    ------
    A byte a cycle.
    """

    def __init__(self):
        super().__init__(
            {
                "bytes": In(stream.Signature(8)),
                "ended": Out(1),
                "whole": Out(1),
                "words": Out(range(FRAME_WORDS + 2)),
                "address": In(range(FRAME_WORDS)),
                "data": Out(32),
                "clear": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC(data_width=8).create()
        m.submodules.memory = memory = Memory(shape=32, depth=FRAME_WORDS, init=[])
        write = write_port(memory, "write")
        read = read_port(memory, "read")
        taken = Signal()
        byte = Signal(8)
        escaped = Signal()
        hunting = Signal(init=1)  # for a flag: what comes before belongs to no frame
        stored = Signal()
        count = Signal(range(4 * FRAME_WORDS + 2))
        last = Signal(24)  # the three bytes before
        room = Signal()
        m.d.comb += [
            self.bytes.ready.eq(~self.ended),
            taken.eq(self.bytes.valid & self.bytes.ready),
            byte.eq(Mux(escaped, self.bytes.payload ^ ESCAPED, self.bytes.payload)),
            room.eq(count <= 4 * FRAME_WORDS),
            stored.eq(
                taken & ~hunting & (self.bytes.payload != FLAG) & (self.bytes.payload != ESCAPE)
            ),
            crc.valid.eq(stored),
            crc.data.eq(byte),
            crc.start.eq(self.clear),
            write.addr.eq(count >> 2),
            write.data.eq(Cat(last, byte)),
            write.en.eq(stored & (count < 4 * FRAME_WORDS) & (count[:2] == 3)),
            read.addr.eq(self.address),
            read.en.eq(1),
            self.data.eq(read.data),
            self.words.eq((count >> 2) - 1),
            self.whole.eq(crc.match_detected & (count[:2] == 0) & room & ~escaped),
        ]
        with m.If(stored):
            m.d.sync += [last.eq(Cat(last[8:], byte)), escaped.eq(0)]
            with m.If(room):
                m.d.sync += count.eq(count + 1)
        with m.Elif(taken & (self.bytes.payload == ESCAPE)):
            m.d.sync += escaped.eq(~hunting)
        with m.Elif(taken & (self.bytes.payload == FLAG)):
            m.d.sync += [hunting.eq(0), self.ended.eq((count != 0) | escaped)]
        with m.If(self.clear):
            m.d.sync += [count.eq(0), escaped.eq(0), self.ended.eq(0), hunting.eq(1)]
        return m


class FrameSender(wiring.Component):
    """Words to the bytes of a frame, with its CRC and flags.

    Members
    -------
    words : In(stream.Signature({"word", "last"}))
        ``last``: the CRC follows it.
    bytes : Out(stream.Signature(8))

    Timing
    ------
    A byte each two cycles.
    """

    def __init__(self):
        super().__init__(
            {
                "words": In(stream.Signature(33)),  # the word, then whether it is the last
                "bytes": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC(data_width=8).create()
        word = Signal(32)
        last = Signal()
        left = Signal(range(5))
        escape = Signal()  # the next byte's escape has been sent
        plain = Signal(8)
        special = Signal()
        out = self.bytes
        m.d.comb += [
            plain.eq(word[:8]),
            special.eq((plain == FLAG) | (plain == ESCAPE)),
            crc.data.eq(plain),
        ]

        def send() -> None:
            """The bytes of ``word``; once they have left, ``left`` is 0."""
            m.d.comb += out.valid.eq(left != 0)
            m.d.comb += out.payload.eq(Mux(special, Mux(escape, plain ^ ESCAPED, ESCAPE), plain))
            with m.If((left != 0) & out.ready):
                with m.If(special & ~escape):
                    m.d.sync += escape.eq(1)
                with m.Else():
                    m.d.sync += [escape.eq(0), left.eq(left - 1), word.eq(word >> 8)]
                    m.d.comb += crc.valid.eq(1)

        def flag(follows: str) -> None:
            m.d.comb += [out.valid.eq(1), out.payload.eq(FLAG)]
            with m.If(out.ready):
                m.next = follows

        with m.FSM(name="sender"):
            with m.State("IDLE"):
                m.d.comb += crc.start.eq(1)
                with m.If(self.words.valid):
                    flag("WORD")
            with m.State("WORD"):
                send()
                with m.If(left == 0):
                    m.d.comb += self.words.ready.eq(1)
                    with m.If(self.words.valid):
                        m.d.sync += [Cat(word, last).eq(self.words.payload), left.eq(4)]
                        with m.If(self.words.payload[32]):
                            m.next = "LAST"
            with m.State("LAST"):
                send()
                with m.If(left == 0):
                    m.d.sync += [word.eq(crc.crc), left.eq(4)]
                    m.next = "CRC"
            with m.State("CRC"):
                send()
                with m.If(left == 0):
                    flag("IDLE")
        return m


class Loader(wiring.Component):
    """Executes requests that come in frames from a line, one after the other.

    Members
    -------
    rx : In(stream.Signature(8))
        Bytes from the line; not ready while a request is being done.
    tx : Out(stream.Signature(8))
        Bytes to it.
    bus : Out(Wishbone())
    busy : Out(1)
        A request is being done.

    Timing
    ------
    A request is done once its last flag has come. Each has one answer,
    and a host waits for it: what it sends before is lost.
    """

    def __init__(self):
        super().__init__(
            {
                "rx": In(stream.Signature(8)),
                "tx": Out(stream.Signature(8)),
                "bus": Out(Wishbone()),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = FrameReceiver()
        m.submodules.sender = sender = FrameSender()
        wiring.connect(m, wiring.flipped(self.rx), receiver.bytes)
        wiring.connect(m, sender.bytes, wiring.flipped(self.tx))
        head = Signal(32)
        address = Signal(30)
        index = Signal(range(FRAME_WORDS + 1))
        status = Signal(range(len(Status)))
        writes = Signal()
        reads = Signal()
        last = Signal()
        m.d.comb += [
            writes.eq(head[8:16] == Operation.WRITE),
            reads.eq(head[8:16] == Operation.READ),
            last.eq(index + 1 == head[16:24]),
            self.bus.adr.eq(address + index),
            self.bus.sel.eq(0b1111),
            self.bus.dat_w.eq(receiver.data),
            self.bus.we.eq(writes),
        ]
        with m.FSM(name="loader") as fsm:
            with m.State("IDLE"):
                m.d.sync += [index.eq(0), status.eq(Status.DONE)]
                with m.If(receiver.ended):
                    m.next = "HEAD"
            with m.State("HEAD"):
                m.d.sync += head.eq(receiver.data)
                m.d.comb += receiver.address.eq(1)
                m.next = "ADDRESS"
            with m.State("ADDRESS"):
                m.d.sync += address.eq(receiver.data[2:])
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.comb += receiver.address.eq(HEADER_WORDS)
                m.next = "ANSWER"
                with m.If(~self._sound(m, receiver, head, writes, reads)):
                    m.d.sync += [status.eq(Status.DAMAGED), head[16:24].eq(0)]
                with m.Elif(writes & (head[16:24] != 0)):
                    m.next = "WRITE"
            with m.State("WRITE"):
                self._transfer(m, status)
                ends = self.bus.ack | self.bus.err
                m.d.comb += receiver.address.eq(HEADER_WORDS + index + ends)
                with m.If(ends):
                    m.d.sync += index.eq(index + 1)
                    with m.If(last):
                        m.next = "ANSWER"
            self._answer(m, sender.words, head, index, last, status, reads)
            with m.State("CLEAR"):
                m.d.comb += receiver.clear.eq(1)
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") | sender.bytes.valid)
        return m

    def _sound(self, m: Module, receiver: FrameReceiver, head, writes, reads) -> Signal:
        """True if a frame is a request."""
        sound = Signal()
        data = Signal(range(FRAME_WORDS + 2))
        m.d.comb += [
            data.eq(Mux(writes, head[16:24], 0)),
            sound.eq(
                receiver.whole
                & (head[16:24] <= MOST_WORDS)
                & (writes | reads)
                & (receiver.words == HEADER_WORDS + data)
            ),
        ]
        return sound

    def _transfer(self, m: Module, status: Signal) -> None:
        """Ask for a transfer; one that is refused is remembered."""
        m.d.comb += [self.bus.cyc.eq(1), self.bus.stb.eq(1)]
        with m.If(self.bus.err):
            m.d.sync += status.eq(Status.REFUSED)

    def _answer(self, m: Module, words, head, index, last, status, reads) -> None:
        """The states of an answer: head, what is read, status."""
        read = Signal(32)
        with m.State("ANSWER"):
            m.d.comb += [words.valid.eq(1), words.payload.eq(head)]
            with m.If(words.ready):
                m.next = "STATUS"
                with m.If(reads & (head[16:24] != 0)):
                    m.next = "READ"
        with m.State("READ"):
            self._transfer(m, status)
            with m.If(self.bus.ack | self.bus.err):
                m.d.sync += read.eq(Mux(self.bus.err, 0, self.bus.dat_r))
                m.next = "WORD"
        with m.State("WORD"):
            m.d.comb += [words.valid.eq(1), words.payload.eq(read)]
            with m.If(words.ready):
                m.d.sync += index.eq(index + 1)
                m.next = "READ"
                with m.If(last):
                    m.next = "STATUS"
        with m.State("STATUS"):
            m.d.comb += [
                words.valid.eq(1),
                words.payload.eq(Cat(status, Const(0, 32 - len(status)), Const(1, 1))),
            ]
            with m.If(words.ready):
                m.next = "CLEAR"
