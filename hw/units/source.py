"""A stream from outside the fabric."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from ..beat import beat_layout
from ..stream import connect
from .unit import Unit

__all__ = ["Source"]


class Source(Unit):
    """Passes whole beats from a port of the fabric to a channel.

    Parameters
    ----------
    params : dict
        None.
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; one output.

    Members
    -------
    port : In(stream.Signature(beat_layout(payload)))
        The beats from outside.

    Others: see :class:`~penstock.hw.units.unit.Unit`.

    Timing
    ------
    Combinational. Source: docs/timing.md section 3, ``source``.

    """

    kind = "source"

    def __init__(self, *, payloads, **built):
        members = {"port": In(stream.Signature(beat_layout(payloads.outputs[0])))}
        super().__init__(payloads=payloads, members=members, **built)

    def elaborate(self, platform):
        m = Module()
        connect(m, wiring.flipped(self.port), wiring.flipped(self.data))
        self.report(m, offers=self.data.valid)
        return m
