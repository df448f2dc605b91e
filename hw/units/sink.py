"""A stream to outside the fabric."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.faults import Fault
from ..beat import beat_layout, is_done
from ..memory.beats import GatheredBeats, address_bits
from ..stream import connect
from .source import places_of
from .unit import Unit


class Sink(Unit):
    """Passes whole beats from a channel to a port of the fabric, or into a memory.

    Members
    -------
    port : Out(stream.Signature(beat_layout(payload)))
        The beats to outside.
    post : Out(post_layout(page_bits))
        A reference less, in the cycle in which it is taken; only with ``scratchpad``.
    word_addr : In(address_bits(beats, bits)), word : Out(32)
        Words of the memory; only with ``beats``.

    ``done`` is high from the first cycle in which Done is visible. ``error`` bit ``Fault.ADDRESS``:
    a beat more than ``beats``.

    Timing
    ------
    Combinational. ``word`` in c + 1 is of ``word_addr`` in c. Source: docs/timing.md section 3,
    ``sink``.
    """

    implements = "sink"

    def __init__(self, *, kind, payloads, **built):
        layout = beat_layout(payloads.inputs[0])
        members = {"port": Out(stream.Signature(layout))}
        self._places = places_of(kind)
        if self._places is not None:
            self._bits = layout.size
            members["word_addr"] = In(address_bits(self._places, self._bits))
            members["word"] = Out(32)
        super().__init__(kind=kind, payloads=payloads, members=members, **built)

    def elaborate(self, platform):
        m = Module()
        if self._places is None:
            connect(m, wiring.flipped(self.data), wiring.flipped(self.port))
        else:
            self._choose(m)
        if self.held is not None:
            beat = self.data.payload
            m.d.comb += [
                self.post.valid.eq(
                    self.data.valid & self.data.ready & beat.data & self.settings.scratchpad
                ),
                self.post.page.eq(self.page_of(beat)),
                self.post.delta.eq(-1),
            ]
        seen = Signal()
        self.report(m, offers=0)
        m.d.comb += self.done.eq(seen | (self.data.valid & is_done(self.data.payload)))
        m.d.sync += seen.eq(self.done)
        return m

    def _choose(self, m: Module) -> None:
        """Store beats, or pass them to the port."""
        m.submodules.beats = beats = GatheredBeats(places=self._places, bits=self._bits)
        at = Signal(range(self._places + 1))
        full = Signal()
        given = self.cfg.beats_given
        m.d.comb += [
            full.eq(at == self.cfg.beats),
            self.port.payload.eq(self.data.payload),
            self.port.valid.eq(self.data.valid & ~given),
            self.data.ready.eq(self.port.ready | given),
            beats.put.eq(self.data.valid & given & ~full),
            beats.at.eq(at),
            beats.beat.eq(Value.cast(self.data.payload)),
            beats.addr.eq(self.word_addr),
            self.word.eq(beats.word),
            self.error[Fault.ADDRESS].eq(self.data.valid & given & full),
        ]
        with m.If(beats.put):
            m.d.sync += at.eq(at + 1)
