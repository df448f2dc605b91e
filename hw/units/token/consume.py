"""Stage S of the paper's dynamic PE: it serves one consumer a cycle."""

from collections.abc import Mapping

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import Memory as Spec
from ....overlay.core.config import Overlay, Sizes, packet
from ...noc.token import struct
from .layouts import put_layout
from .match_block import MatchBlock


class Consume(wiring.Component):
    """Takes a token and serves its consumer.

    Parameters
    ----------
    overlay : Overlay
        With ``local = token``.
    sizes : Sizes
    specs : mapping of str to Memory
        The PE's memories.
    latencies : mapping of str to int
        Cycles of each class of operations that the ALU does.

    Members
    -------
    put_op : In(put_layout(...))
        Loads operations.
    running : In(1)
        High during a run.
    i, local : In(stream.Signature(token))
        From the network, which comes first, and from this PE.
    o : Out(trigger_layout(...))
        What triggers.
    issue : In(1)
        It is issued; till then nothing is consumed.
    busy : Out(1)
        Something triggers.

    Timing
    ------
    ``i.ready`` depends on registers, on memory outputs and on
    ``issue``, not on ``i.valid``. Source: docs/overlay.md section 3, S.
    """

    def __init__(
        self,
        *,
        overlay: Overlay,
        sizes: Sizes,
        specs: Mapping[str, Spec],
        latencies: Mapping[str, int],
    ):
        self.token = struct(packet(overlay, sizes))
        self._match = MatchBlock(
            node=self.token["node"].shape, width=overlay.width, specs=specs, latencies=latencies
        )
        super().__init__(
            {
                "put_op": In(put_layout(specs["op"])),
                "running": In(1),
                "i": In(stream.Signature(self.token)),
                "local": In(stream.Signature(self.token)),
                "o": Out(self._match.o.shape()),
                "issue": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.match = match = self._match
        stall = Signal()
        token = Signal(self.token)
        m.d.comb += [
            match.put.eq(self.put_op),
            match.advance.eq(~stall),
            match.i.valid.eq(self.i.ready & (self.i.valid | self.local.valid)),
            match.i.node.eq(token.node),
            match.i.slot.eq(token.slot),
            match.i.value.eq(token.value),
            self.o.eq(match.o),
            self.busy.eq(match.o.valid),
            stall.eq(match.o.valid & ~self.issue),
            self.i.ready.eq(self.running & ~stall),
            self.local.ready.eq(self.i.ready & ~self.i.valid),
            token.eq(Mux(self.i.valid, self.i.payload, self.local.payload)),
        ]
        return m
