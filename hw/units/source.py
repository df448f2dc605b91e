"""A stream from outside the fabric."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from ...machine.array.capability import Capability
from ...machine.kinds import Kind
from ...machine.limits import STREAM_FROM
from ..beat import beat_layout
from ..memory.beats import PlayedBeats, address_bits, word_bus
from ..stream import connect
from .unit import Unit


def places_of(kind: Kind | Capability) -> Any:
    """Beats that the memory of a source or sink has room for; None: it has none.

    Raises
    ------
    ValueError
        A unit of a dedicated fabric would have one.
    """
    if isinstance(kind, Capability):
        return kind.bounds["beats"]
    if kind.beats is not None:
        raise ValueError("beats must be None in a dedicated fabric: only slots have memories")
    return None


class Source(Unit):
    """Passes whole beats to a channel, from a port of the fabric or from a memory.

    Members
    -------
    port : In(stream.Signature(beat_layout(payload)))
        The beats from outside.
    fill : In(word_bus(address_bits(beats, bits)))
        Words of the memory; only with ``beats``.

    Timing
    ------
    From a port: combinational. From the memory: the first beat is offered in cycle 1, as the memory
    is read in a cycle; then a beat a cycle. Source: docs/timing.md section 3, ``source``.
    """

    implements = "source"

    def __init__(self, *, kind, payloads, **built):
        self._places = places_of(kind)
        layout = beat_layout(payloads.outputs[0])
        members = {"port": In(stream.Signature(layout))}
        if self._places is not None:
            self._bits = layout.size
            members["fill"] = In(word_bus(address_bits(self._places, self._bits)))
        super().__init__(kind=kind, payloads=payloads, members=members, **built)

    def elaborate(self, platform):
        m = Module()
        if self._places is None:
            connect(m, wiring.flipped(self.port), wiring.flipped(self.data))
        else:
            self._choose(m)
        self.report(m, offers=self.data.valid)
        return m

    def _choose(self, m: Module) -> None:
        """Give the memory's beats, or those of the port."""
        m.submodules.beats = beats = PlayedBeats(places=self._places, bits=self._bits)
        at = Signal(range(self._places + 1))
        following = Signal.like(at)
        begun = Signal()
        offers = Signal()
        m.d.comb += [
            beats.fill.eq(self.fill),
            offers.eq(begun & (at != self.cfg.beats)),
            following.eq(at + (offers & self.data.ready)),
            beats.following.eq(following),
            self.port.ready.eq(self.data.ready & ~self.cfg.beats_given),
            self.data.valid.eq(Mux(self.cfg.beats_given, offers, self.port.valid)),
            Value.cast(self.data.payload).eq(
                Mux(self.cfg.beats_given, beats.beat, Value.cast(self.port.payload))
            ),
        ]
        assert STREAM_FROM == 1  # the cycle that reading takes
        m.d.sync += [at.eq(following), begun.eq(1)]
