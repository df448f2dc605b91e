"""Ready nodes in the order of their importance."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import READY_WORD, bits_for
from .leading_one import LeadingOne


class ReadyBits(wiring.Component):
    """The set of nodes ready to send, one bit each; the lowest address comes first (addresses are
    given by importance).

    A node is ready where two memories differ: one is toggled by nodes that enter, the other by
    nodes that leave, so that each has one write port. A flag per word says whether the word holds
    anything.

    Parameters
    ----------
    senders : int
        Local addresses of nodes that send: 0 to ``senders`` - 1.
    seeds : int
        Depth of the seed memory, in words of :data:`READY_WORD` bits: what is ready at the start.

    Members
    -------
    restart : In(1)
        While it is high (``RESTART_CYCLES``), the seed words are copied, one a cycle.
    count : In
        Number of nodes that send; seed words beyond them count as zero.
    seed : In({valid, address, data})
        Loads a word of the seed memory.
    enter : In({valid, node})
        A node becomes ready.
    o : Out(stream.Signature(address))
        The node that is next; taken when ``ready``.

    Timing
    ------
    A node that enters at c is offered from c + 1 at the earliest. ``o`` comes from registers and
    memories through two leading-one detectors. Source: docs/overlay.md section 3, R.
    """

    def __init__(self, *, senders: int, seeds: int):
        self.senders = senders
        self.words = words = -(-senders // READY_WORD)
        self.RESTART_CYCLES = words + 2
        address = unsigned(bits_for(senders))
        self._seeds = Memory(
            shape=READY_WORD, depth=max(seeds, words), init=[], attrs={"no_rw_check": True}
        )
        self._entered = Memory(shape=READY_WORD, depth=words, init=[])
        self._left = Memory(shape=READY_WORD, depth=words, init=[])
        super().__init__(
            {
                "restart": In(1),
                "count": In(range(senders + 1)),
                "seed": In(
                    data.StructLayout({"valid": 1, "address": bits_for(seeds), "data": READY_WORD})
                ),
                "enter": In(data.StructLayout({"valid": 1, "node": address})),
                "o": Out(stream.Signature(address)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.seeds = self._seeds
        m.submodules.entered = self._entered
        m.submodules.left = self._left
        m.submodules.which_word = which_word = LeadingOne(width=self.words)
        m.submodules.which_bit = which_bit = LeadingOne(width=READY_WORD)
        low = READY_WORD.bit_length() - 1
        enter_read = self._entered.read_port(domain="comb")
        entered = self._entered.read_port(domain="comb")
        left = self._left.read_port(domain="comb")
        put_entered = self._entered.write_port()
        put_left = self._left.write_port()

        flags = Signal(self.words)
        word = Signal(range(self.words))
        ready = Signal(READY_WORD)
        rest = Signal(READY_WORD)
        m.d.comb += [
            which_word.i.eq(flags),
            word.eq(which_word.index),
            entered.addr.eq(word),
            left.addr.eq(word),
            ready.eq(entered.data ^ left.data),
            which_bit.i.eq(ready),
            rest.eq(ready & (ready - 1)),
            self.o.valid.eq(which_word.any),
            self.o.payload.eq((word << low) | which_bit.index),
        ]

        # Leaving: the lowest bit of `ready` is where the memories come to agree.
        take = self.o.valid & self.o.ready
        m.d.comb += [
            put_left.en.eq(take),
            put_left.addr.eq(word),
            put_left.data.eq(left.data ^ ready ^ rest),
        ]
        with m.If(take & ~rest.any()):
            m.d.sync += flags.bit_select(word, 1).eq(0)
        enter_word = self.enter.node >> low
        m.d.comb += [
            enter_read.addr.eq(enter_word),
            put_entered.en.eq(self.enter.valid),
            put_entered.addr.eq(enter_word),
            put_entered.data.eq(
                enter_read.data ^ (Const(1, READY_WORD) << self.enter.node[:low])[:READY_WORD]
            ),
        ]
        with m.If(self.enter.valid):
            m.d.sync += flags.bit_select(enter_word, 1).eq(1)

        self._restart(m, put_entered, put_left, flags)
        return m

    def _restart(self, m: Module, put_entered: WritePort, put_left: WritePort, flags: Signal):
        """Word k of the seeds is read at k and copied at k + 1."""
        low = READY_WORD.bit_length() - 1
        write = self._seeds.write_port()
        seed = self._seeds.read_port()
        step = Signal(range(self.RESTART_CYCLES + 1))
        m.d.comb += [
            write.en.eq(self.seed.valid),
            write.addr.eq(self.seed.address),
            write.data.eq(self.seed.data),
            seed.addr.eq(step),
        ]
        m.d.sync += step.eq(Mux(self.restart, step + 1, 0))
        target = Signal(range(self.words))
        bits = Signal(READY_WORD)
        m.d.comb += [target.eq(step - 1), bits.eq(Mux(self.count > target << low, seed.data, 0))]
        with m.If(self.restart & (step != 0) & (step <= self.words)):
            m.d.comb += [
                put_entered.en.eq(1),
                put_entered.addr.eq(target),
                put_entered.data.eq(bits),
                put_left.en.eq(1),
                put_left.addr.eq(target),
                put_left.data.eq(0),
            ]
            m.d.sync += flags.bit_select(target, 1).eq(bits.any())
