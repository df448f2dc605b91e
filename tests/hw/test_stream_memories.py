"""Sources and sinks with memories, on the RTL alone: the cycles of docs/timing.md section 3, and
every bit of a beat.
"""

from amaranth.hdl import Elaboratable, Module, ResetInserter, Signal
from amaranth.lib import wiring
from penstock.hw.beat import Payloads
from penstock.hw.units.sink import Sink
from penstock.hw.units.source import Source
from penstock.machine.array.capability import Capability
from penstock.machine.beat import STOP_DONE, Scalar, beat_words
from penstock.machine.config import Machine
from penstock.machine.faults import Fault
from penstock.machine.limits import STREAM_FROM
from penstock.testing.slots import simulate

PAYLOAD = Scalar(64)
WORDS = beat_words(PAYLOAD)
STRIDE = 4
PLACES = 6
BEATS = [1 << 68 | k << 64 | 0x123456789ABCDEF << k for k in range(4)] + [STOP_DONE << 64]


class Pair(Elaboratable):
    """A source whose beats a sink takes at once."""

    def __init__(self):
        self.source, self.sink = (
            unit(
                kind=Capability(name, {"beats": PLACES}),
                t=2,
                config=Machine(t=2),
                payloads=Payloads(*ends),
            )
            for unit, name, ends in (
                (Source, "source", ((), (PAYLOAD,))),
                (Sink, "sink", ((PAYLOAD,), ())),
            )
        )
        self.reset = Signal(init=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.source = ResetInserter(self.reset)(self.source)
        m.submodules.sink = ResetInserter(self.reset)(self.sink)
        wiring.connect(m, self.source.data, self.sink.data)
        return m


def moved(places, runs=1):
    """Cycles in which beats move and of which the fault is, and the words that the sink has, of
    each run.
    """
    pair = Pair()
    source, sink = pair.source, pair.sink
    found = []

    async def bench(ctx):
        for unit, beats in ((source, len(BEATS)), (sink, places)):
            ctx.set(unit.cfg.beats, beats)
            ctx.set(unit.cfg.beats_given, 1)
        for k, beat in enumerate(BEATS):
            for w in range(WORDS):
                word = {"we": 1, "addr": STRIDE * k + w, "data": beat >> 32 * w & 0xFFFFFFFF}
                ctx.set(source.fill, word)
                await ctx.tick()
        ctx.set(source.fill.we, 0)
        for _ in range(runs):
            ctx.set(pair.reset, 1)
            await ctx.tick().repeat(2)
            ctx.set(pair.reset, 0)
            moves = []
            faults = []
            for cycle in range(12):
                if ctx.get(source.data.valid & source.data.ready):
                    moves.append(cycle)
                if ctx.get(sink.error):
                    faults.append((cycle, ctx.get(sink.error)))
                await ctx.tick()
            words = []
            for k in range(len(BEATS)):
                beat = 0
                for w in range(WORDS):
                    ctx.set(sink.word_addr, STRIDE * k + w)
                    await ctx.tick()
                    beat |= ctx.get(sink.word) << 32 * w
                words.append(beat)
            found.append((moves, faults, words))

    simulate(pair, bench)
    return found


def test_beats_of_a_memory_move_one_a_cycle_and_again_after_a_reset():
    cycles = [STREAM_FROM + k for k in range(len(BEATS))]
    assert moved(PLACES, 2) == [(cycles, [], BEATS)] * 2


def test_a_beat_more_than_the_sink_keeps_is_a_fault():
    ((_, faults, words),) = moved(len(BEATS) - 1)
    assert faults == [(STREAM_FROM + len(BEATS) - 1, 1 << Fault.ADDRESS)]
    assert words[:-1] == BEATS[:-1]
