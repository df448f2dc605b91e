"""A stream to outside the fabric."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from ..beat import beat_layout, is_done
from ..stream import connect
from .broadcast import page_of, post_layout, reference_of
from .unit import Unit, chosen

__all__ = ["Sink"]


class Sink(Unit):
    """Passes whole beats from a channel to a port of the fabric.

    Parameters
    ----------
    params : dict
        ``scratchpad``, where given: id of the unit that references on
        this stream belong to.
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; one input.

    Members
    -------
    port : Out(stream.Signature(beat_layout(payload)))
        The beats to outside.
    post : Out(post_layout(page_bits))
        A reference less, in the cycle in which it is taken; only with
        ``scratchpad``.

    Others: see :class:`~penstock.hw.units.unit.Unit`; ``done`` is high
    from the first cycle in which Done is visible.

    Timing
    ------
    Combinational. Source: docs/timing.md section 3, ``sink``.

    """

    kind = "sink"

    def __init__(self, *, params, payloads, config, configured=False, **built):
        members = {"port": Out(stream.Signature(beat_layout(payloads.inputs[0])))}
        if params.get("scratchpad") is not None:
            self._held = reference_of(payloads.inputs[0], config, configured, self.kind)
            members["post"] = Out(post_layout(self._held.page_bits))
        built |= {"config": config, "configured": configured}
        super().__init__(params=params, payloads=payloads, members=members, **built)

    def elaborate(self, platform):
        m = Module()
        connect(m, wiring.flipped(self.data), wiring.flipped(self.port))
        if hasattr(self, "post"):
            beat = self.data.payload
            m.d.comb += [
                self.post.valid.eq(
                    chosen(
                        self.setting("scratchpad"), self.data.valid & self.data.ready & beat.data, 0
                    )
                ),
                self.post.page.eq(page_of(beat, self._held)),
                self.post.delta.eq(-1),
            ]
        seen = Signal()
        self.report(m, offers=0)
        m.d.comb += self.done.eq(seen | (self.data.valid & is_done(self.data.payload)))
        m.d.sync += seen.eq(self.done)
        return m
