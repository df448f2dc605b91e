"""Copying a stream to several consumers."""

from ...machine.limits import DELTA_BITS
from .hop import Hop


class Broadcast(Hop):
    """Copies each beat to ``n`` outputs.

    Members
    -------
    post : Out(post_layout(page_bits))
        The n - 1 references added, in the cycle of the copy; only where ``scratchpad`` is not None.

    Timing
    ------
    L = 0, II = 1: fires when a beat is visible and all outputs have a free slot, so
    ``copies_k.valid`` depends on the other outputs' ``ready``: an output may not wait for ``valid``
    before it is ready (a :class:`Fifo` never does). Source: docs/timing.md section 3,
    ``broadcast``.
    """

    implements = "broadcast"

    def __init__(self, **built):
        super().__init__(**built)
        if self.kind.n > 2 ** (DELTA_BITS - 1):
            raise ValueError(
                f"Number of outputs must be at most {2 ** (DELTA_BITS - 1)}, not {self.kind.n!r}"
            )

    def elaborate(self, platform):
        m = super().elaborate(platform)
        if self.held is not None:
            beat = self.data.payload
            copied = self.data.valid & self.data.ready & beat.data
            m.d.comb += [
                self.post.valid.eq(copied & self.settings.scratchpad),
                self.post.page.eq(self.page_of(beat)),
                self.post.delta.eq(sum(self.settings.n) - 1),
            ]
        return m
