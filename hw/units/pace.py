"""A stream at a given rate."""

from amaranth.hdl import Module, Mux, Signal

from .unit import Unit

__all__ = ["Pace"]

INTERVAL_BITS = 24
CYCLE = 16  # parts of a cycle


class Pace(Unit):
    """Lets a beat pass at most every ``interval`` sixteenths of a
    cycle; what is lost to a fraction of a cycle is caught up.

    Parameters
    ----------
    params : dict
        ``interval``: sixteenths of a cycle, at least 16 (run time).
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; one input and one
        output of the same payload.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`; ``cfg.interval``: 24
    bits.

    Timing
    ------
    L = 0. ``wait`` counts sixteenths of a cycle, down by 16 a cycle to
    0: a beat with data passes when it is below 16 and the output has a
    slot, and adds ``interval``. Done and bare beats pass at once.
    Source: docs/timing.md section 3, ``pace``.

    """

    kind = "pace"

    def __init__(self, *, params, **built):
        super().__init__(params=params, **built)
        interval = self.params["interval"]
        if interval < CYCLE:
            raise ValueError(
                f"Interval must be at least {CYCLE} sixteenths of a cycle, not {interval!r}"
            )

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        wait = Signal(INTERVAL_BITS)
        allowed = Signal()
        m.d.comb += [
            allowed.eq(~beat.data | (wait < CYCLE)),
            self.result.valid.eq(self.data.valid & allowed),
            self.data.ready.eq(self.result.ready & allowed),
            self.result.payload.eq(beat),
        ]
        with m.If(self.result.valid & self.result.ready & beat.data):
            m.d.sync += wait.eq(wait + self.cfg.interval - CYCLE)
        with m.Else():
            m.d.sync += wait.eq(Mux(wait < CYCLE, 0, wait - CYCLE))
        self.report(m, offers=self.result.valid)
        return m
