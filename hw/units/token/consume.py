"""Stage S of a dynamic PE that serves one consumer a cycle."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import RIGHT, Overlay, Sizes, packet
from ....overlay.core.config import Memory as Spec
from ...noc.token import ram_attributes, struct
from .layouts import put_layout
from .match import Match
from .match_block import MatchBlock


class Consume(wiring.Component):
    """Takes a token and serves its consumer; those chained to it follow, one a cycle.

    Parameters
    ----------
    overlay : Overlay
        With ``wake = 1``.
    sizes : Sizes
    specs : mapping of str to Memory
        The PE's memories.
    latencies : mapping of str to int
        Cycles of each class of operations that the ALU does.

    Members
    -------
    put_op, put_chain : In(put_layout(...))
        Load operations, and consumers that follow (with packets per PE).
    running : In(1)
        High during a run.
    i, local : In(stream.Signature(token))
        From the network, which comes first, and from this PE.
    o : Out(trigger_layout(...))
        What triggers.
    issue : In(1)
        It is issued; till then nothing is consumed.

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
        node = self.token["node"].shape
        width = overlay.width
        if overlay.ready == "fifo":
            self._match = MatchBlock(node=node, width=width, specs=specs, latencies=latencies)
        else:
            self._match = Match(node=node, width=width, specs=specs)
        self._chain = None
        chain = specs.get("chain")
        if chain is not None:
            self._chain = Memory(
                shape=struct(chain.layout), depth=chain.depth, init=[], attrs=ram_attributes(None)
            )
        super().__init__(
            {
                "put_op": In(put_layout(specs["op"])),
                **({"put_chain": In(put_layout(chain))} if chain is not None else {}),
                "running": In(1),
                "i": In(stream.Signature(self.token)),
                "local": In(stream.Signature(self.token)),
                "o": Out(self._match.o.shape()),
                "issue": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.match = match = self._match
        stall = Signal()
        chained = Signal()
        consume = Signal()
        token = Signal(self.token)
        m.d.comb += [
            match.put.eq(self.put_op),
            match.advance.eq(~stall),
            match.i.valid.eq(consume),
            match.i.node.eq(token.node),
            match.i.slot.eq(token.slot),
            match.i.value.eq(token.value),
            self.o.eq(match.o),
            stall.eq(match.o.valid & ~self.issue),
            self.i.ready.eq(self.running & ~stall & ~chained),
            self.local.ready.eq(self.i.ready & ~self.i.valid),
            consume.eq(~stall & (chained | (self.running & (self.i.valid | self.local.valid)))),
            token.eq(Mux(self.i.valid, self.i.payload, self.local.payload)),
        ]
        if self._chain is not None:
            self._follow(m, self._chain, ~stall, consume, chained, token)
        return m

    def _follow(
        self, m: Module, memory: Memory, advance, consume: Signal, chained: Signal, token
    ) -> None:
        """The consumer chained to the last one, which comes before tokens."""
        m.submodules.chain = memory
        chain = memory.read_port()
        put = memory.write_port()
        followed = Signal()  # a consumer was served, whose chain has been read
        m.d.comb += [
            put.en.eq(self.put_chain.valid),
            put.addr.eq(self.put_chain.address),
            put.data.eq(self.put_chain.data),
            chain.en.eq(consume),
            chain.addr.eq(Cat(token.slot == RIGHT, token.node)),
            chained.eq(followed & chain.data.valid),
        ]
        with m.If(advance):
            m.d.sync += followed.eq(consume)
        with m.If(chained):
            m.d.comb += [
                token.node.eq(chain.data.node),
                token.slot.eq(chain.data.slot),
                token.value.eq(self._match.arrived),
            ]
