"""Copying elements along the dimensions of another stream."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Out

from ...machine.faults import Fault
from ..beat import is_done
from .broadcast import page_of, post_layout, reference_of
from .unit import Unit


class Expand(Unit):
    """Copies each element of the data once for every element in the ``level`` inner dimensions of
    the reference.

    Members
    -------
    post : Out(post_layout(page_bits))
        The change of the reference count; only where ``scratchpad`` is not None.

    ``error`` bit ``Fault.STOP``: the stop of an element is not that of its last copy.

    Timing
    ------
    L = 0, II = 1: fires when both heads are visible and the output has a slot. A reference of stop
    ``level`` or more takes the element with it. Source: docs/timing.md section 3, ``expand``; paper
    section 3.
    """

    kind = "expand"

    def __init__(self, *, params, payloads, config, configured=False, **built):
        members = {}
        self._posts = params.get("scratchpad") is not None
        if self._posts:
            self._held = reference_of(payloads.inputs[0], config, configured, self.kind)
            members["post"] = Out(post_layout(self._held.page_bits))
        built |= {"config": config, "configured": configured}
        super().__init__(params=params, payloads=payloads, members=members, **built)
        if not 0 <= self.params["level"] <= 14:
            raise ValueError(f"Level must be from 0 to 14, not {self.params['level']!r}")

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        reference = self.reference.payload
        o = self.result
        both = Signal()
        ends = Signal()
        m.d.comb += [
            both.eq(self.data.valid & self.reference.valid),
            ends.eq(reference.stop >= self.settings.level),
            o.valid.eq(both),
            o.payload.eq(
                Cat(Mux(reference.data, beat.as_value()[:-5], 0), reference.stop, reference.data)
            ),
            self.data.ready.eq(self.reference.valid & ends & o.ready),
            self.reference.ready.eq(self.data.valid & o.ready),
            self.error[Fault.STOP].eq(
                both
                & (
                    (is_done(beat) != is_done(reference))
                    | (ends & (beat.stop != reference.stop))
                    | (reference.data & ~beat.data)
                )
            ),
        ]
        if self._posts:
            copied = both & o.ready & beat.data
            m.d.comb += [
                self.post.valid.eq(copied & self.settings.scratchpad),
                self.post.page.eq(page_of(beat, self._held)),
                self.post.delta.eq(reference.data - ends),
            ]
        self.report(m, offers=both)
        return m
