"""The queue before an off-chip port proved equal to a FIFO of two, in every cycle, whatever its two
sides do.
"""

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from penstock.hw.memory.chunk_queue import ChunkQueue
from penstock.hw.units.fifo import Fifo
from penstock.testing import prover


class Beside(wiring.Component):
    """A chunk queue beside a FIFO that is proved by itself.

    Invariant: both hold the same beats. ``broken`` plants a bug.
    """

    def __init__(self, broken: str):
        self.broken = broken
        self.queue = ChunkQueue(shape=unsigned(2))
        self.fifo = Fifo(shape=unsigned(2), depth=2)
        super().__init__({})
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair", init=1)
        self.valid = Signal()
        self.ready = Signal()
        self.payload = Signal(2)
        self.chosen = [self.valid, self.ready, self.payload]

    def elaborate(self, platform):
        m = Module()
        look = self.fifo._memory.read_port(domain="comb")
        m.submodules.queue = queue = self.queue
        m.submodules.fifo = fifo = self.fifo
        for part in (queue, fifo):
            m.d.comb += [
                part.i.valid.eq(self.valid),
                part.i.payload.eq(self.payload),
                part.o.ready.eq(self.ready),
            ]
        m.d.comb += [
            self.fair.eq(1),
            look.addr.eq(fifo._start + 1),
            self.ok.eq(
                (fifo.level == queue._held + queue._full)
                & (queue._held | ~queue._full)
                & (fifo._to == (fifo._start + fifo.level)[0])
                & (~queue._held | (queue._first == fifo.o.payload))
                & (~queue._full | (queue._second == look.data))
                & (queue.i.ready == fifo.i.ready)
                & (queue.o.valid == fifo.o.valid)
                & (~queue.o.valid | (queue.o.payload == fifo.o.payload))
            ),
        ]
        if self.broken == "lost":  # a chunk that comes while one leaves is not kept
            with m.If(queue._held & self.valid & self.ready):
                m.d.comb += queue.i.valid.eq(0)
        if self.broken == "full":
            with m.If(queue._held):
                m.d.comb += queue.o.ready.eq(0)
        return m


def test_the_chunk_queue_is_a_fifo_of_two(tmp_path):
    assert prover.prove(Beside(""), tmp_path, steps=2) == "proved"


@pytest.mark.deep
@pytest.mark.parametrize("broken", ["lost", "full"])
def test_a_planted_bug_is_found(broken, tmp_path):
    assert prover.prove(Beside(broken), tmp_path, steps=6) == "refuted"
