"""Consumers at a value's own PE, which get it without a token."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...noc.token import ram_attributes
from .ready_bits import ReadyBits


class Near(wiring.Component):
    """The near words of a PE, and the set of nodes whose words wait.

    Parameters
    ----------
    word : StructLayout
        A near word: ``valid``, and its consumers.
    depth : int
        Addresses that may have a word.
    seeds : int
        Depth of the seed memory of the near set.

    Members
    -------
    restart, nears, seed
        As ``restart``, ``count`` and ``seed`` of
        :class:`~penstock.hw.units.token.ready_bits.ReadyBits`;
        addresses from ``nears`` on have no word.
    running : In(1)
        Words are chosen from the set.
    put : In({valid, address, data})
        Loads a word.
    coming : In({valid, node})
        The node whose result is written in the next cycle.
    first : Out(word)
        The word of the result that is written in this cycle.
    shut : In(1)
        That result is not sent.
    late : In(1)
        It cannot be served now, so its node enters the set.
    chosen : Out({valid, node})
        The node whose word stands at ``o`` in the next cycle.
    o : Out(stream.Signature(word))
        A word of the set.
    busy : Out(1)
        A word stands at ``o``, or waits.

    Timing
    ------
    ``first`` and ``o`` come from registers and memory outputs. A node
    that enters the set at c is chosen at c + 1 and stands at ``o`` at
    c + 2, at the earliest. Source: docs/overlay.md section 3.2.
    """

    def __init__(self, *, word: data.StructLayout, node, depth: int, seeds: int):
        self.word = word
        self._words = Memory(shape=word, depth=depth, init=[], attrs=ram_attributes(None))
        self._set = ReadyBits(senders=depth, seeds=seeds)
        self.RESTART_CYCLES = self._set.RESTART_CYCLES
        a_node = data.StructLayout({"valid": 1, "node": node})
        put = {"valid": 1, "address": self._set.o.payload.shape(), "data": word.size}
        super().__init__(
            {
                "restart": In(1),
                "nears": In(range(depth + 1)),
                "seed": In(self._set.seed.shape()),
                "running": In(1),
                "put": In(data.StructLayout(put)),
                "coming": In(a_node),
                "first": Out(word),
                "shut": In(1),
                "late": In(1),
                "busy": Out(1),
                "chosen": Out(a_node),
                "o": Out(stream.Signature(word)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = self._words
        m.submodules.waiting = waiting = self._set
        write = self._words.write_port()
        of_result = self._words.read_port()
        of_set = self._words.read_port()

        written = Signal(self.coming.shape())
        m.d.sync += [
            written.node.eq(self.coming.node),
            written.valid.eq(self.coming.valid & (self.coming.node < self.nears)),
        ]
        m.d.comb += [
            write.en.eq(self.put.valid),
            write.addr.eq(self.put.address),
            write.data.eq(self.put.data),
            of_result.addr.eq(self.coming.node),
            self.first.eq(of_result.data),
            self.first.valid.eq(written.valid & of_result.data.valid & ~self.shut),
        ]

        standing = Signal()
        m.d.comb += [
            waiting.restart.eq(self.restart),
            waiting.count.eq(self.nears),
            waiting.seed.eq(self.seed),
            waiting.enter.valid.eq(self.first.valid & self.late),
            waiting.enter.node.eq(written.node),
            waiting.o.ready.eq(self.running & (~standing | self.o.ready)),
            self.chosen.valid.eq(waiting.o.valid & waiting.o.ready),
            self.chosen.node.eq(waiting.o.payload),
            of_set.addr.eq(waiting.o.payload),
            of_set.en.eq(self.chosen.valid),
            self.o.valid.eq(standing),
            self.busy.eq(standing | waiting.o.valid),
            self.o.payload.eq(of_set.data),
        ]
        with m.If(self.chosen.valid):
            m.d.sync += standing.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += standing.eq(0)
        return m
