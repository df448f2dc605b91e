"""Stage S of a dynamic PE that serves two consumers a cycle."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import CHAINED, OP_BITS, WAITING, Overlay, Sizes, packet
from ....overlay.core.config import Memory as Spec
from ...noc.token import ram_attributes, struct
from ...ram import read_port, write_port
from .layouts import put_layout, trigger_layout
from .links import Links
from .match import Match
from .waiting import Waiting


class ConsumeTwo(wiring.Component):
    """Two banks, of even and of odd nodes, each of which serves one consumer a cycle: the token's,
    else one of the result that is written now, else one chained to an earlier consumer of this
    bank.

    Parameters
    ----------
    overlay : Overlay
        With ``local = forward``.
    sizes : Sizes
    specs : mapping of str to Memory
        The PE's memories.

    Members
    -------
    put_op, put_chain : In(put_layout(...))
        Load operations, and consumers that follow.
    running : In(1)
        High during a run.
    i, local : In(stream.Signature(token))
        From the network, which comes first, and from this PE; of up to two consumers.
    first, result, late : In(near word), In(width), Out(1)
        The consumers here of the result that is written, that
        result, and whether they have to wait.
    o : Out(trigger_layout(node, width))
        The oldest of what triggered.
    issue : In(1)
        It is issued.
    busy : Out(1)
        Something triggers, or a chained consumer waits.

    Timing
    ------
    ``i.ready`` and ``late`` depend on registers and memory outputs, not
    on ``i.valid``. Source: docs/overlay.md sections 3.1 and 3.2.
    """

    def __init__(self, *, overlay: Overlay, sizes: Sizes, specs: Mapping[str, Spec]):
        self.token = struct(packet(overlay, sizes))
        self.width = overlay.width
        node = self.token["node"].shape
        chain = specs["chain"]
        self.link = data.StructLayout(
            {**{name: self.token[name].shape for name in ("node", "slot")}, "value": self.width}
        )
        self._banks = [Match(node=node, width=self.width, specs=specs) for _ in range(2)]
        self._links = [Links(link=self.link, depth=CHAINED) for _ in range(2)]
        self._chains = [
            Memory(
                shape=struct(chain.layout),
                depth=2 * -(-chain.depth // 4),
                init=[],
                attrs=ram_attributes(None),
            )
            for _ in range(2)
        ]
        super().__init__(
            {
                "put_op": In(put_layout(specs["op"])),
                "put_chain": In(put_layout(chain)),
                "running": In(1),
                "i": In(stream.Signature(self.token)),
                "local": In(stream.Signature(self.token)),
                "first": In(struct(specs["near"].layout)),
                "result": In(self.width),
                "late": Out(1),
                "o": Out(trigger_layout(node, self.width)),
                "issue": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        stall = Signal()
        consume = Signal()
        delivered = Signal()
        token = Signal(self.token)
        forwarded = Signal(2)  # banks that serve consumers of the result
        room = Cat(links.room for links in self._links)
        m.d.comb += [
            self.i.ready.eq(
                self.running & ~stall & room.all() & ~(_needs(self.i.payload) & forwarded).any()
            ),
            delivered.eq(self.i.valid & self.i.ready),
            self.local.ready.eq(
                self.running
                & ~stall
                & ~delivered
                & ~(_needs(self.local.payload) & (forwarded | ~room)).any()
            ),
            consume.eq(delivered | (self.local.valid & self.local.ready)),
            token.eq(Mux(delivered, self.i.payload, self.local.payload)),
        ]
        self._forward(m, room, stall, forwarded)
        for bank in range(2):
            self._serve(m, bank, consume, token, forwarded[bank], stall)
        second = (consume & token.pair & token.node[0]) | (forwarded.all() & self.first.node[0])
        self._in_turn(m, second, stall)
        return m

    def _forward(self, m: Module, room: Value, stall: Signal, forwarded: Signal) -> None:
        """Consumers of the result come all in one cycle, or later."""
        served = Signal()
        m.d.comb += [
            served.eq(self.first.valid & ~stall & ~(_needs(self.first) & ~room).any()),
            forwarded.eq(Mux(served, _needs(self.first), 0)),
            self.late.eq(~served),
        ]

    def _serve(
        self, m: Module, bank: int, consume: Signal, token, forwarded: Value, stall: Signal
    ) -> None:
        """The consumer that a bank serves, and what is chained to it."""
        match = m.submodules[f"match{bank}"] = self._banks[bank]
        links = m.submodules[f"links{bank}"] = self._links[bank]
        consumer = Signal(match.i.shape(), name=f"consumer{bank}")
        leads = Signal(name=f"leads{bank}")  # the token's first consumer is this bank's
        mine = Signal(name=f"mine{bank}")
        m.d.comb += [
            match.put.valid.eq(self.put_op.valid & (self.put_op.address[0] == bank)),
            match.put.address.eq(self.put_op.address[1:]),
            match.put.data.eq(self.put_op.data),
            match.i.eq(consumer),
            leads.eq(token.node[0] == bank),
            mine.eq(consume & (leads | token.pair)),
            links.take.eq(links.o.valid & ~stall & ~mine & ~forwarded),
            consumer.valid.eq(mine | forwarded | links.take),
            consumer.node.eq(links.o.link.node),
            consumer.slot.eq(links.o.link.slot),
            consumer.value.eq(links.o.link.value),
        ]
        with m.If(mine):
            m.d.comb += [
                consumer.node.eq(Mux(leads, token.node, token.node2)),
                consumer.slot.eq(Mux(leads, token.slot, token.slot2)),
                consumer.value.eq(token.value),
            ]
        own = self.first
        with m.If(forwarded):
            m.d.comb += [
                consumer.node.eq(Mux(own.node[0] == bank, own.node, own.node2)),
                consumer.slot.eq(Mux(own.node[0] == bank, own.slot, own.slot2)),
                consumer.value.eq(self.result),
            ]
        self._follow(m, bank, consumer)

    def _follow(self, m: Module, bank: int, consumer) -> None:
        """Chain a consumer's followers that wait among the bank's links."""
        memory = m.submodules[f"chain{bank}"] = self._chains[bank]
        links = self._links[bank]
        chain = read_port(memory, f"read_chain{bank}")
        put = write_port(memory, f"put_chain{bank}")
        followed = Signal(name=f"followed{bank}")
        m.d.comb += [
            put.en.eq(self.put_chain.valid & (self.put_chain.address[1] == bank)),
            put.addr.eq(Cat(self.put_chain.address[0], self.put_chain.address[2:])),
            put.data.eq(self.put_chain.data),
            chain.en.eq(consumer.valid),
            chain.addr.eq(Cat(consumer.slot[0], consumer.node[1:])),
            links.i.valid.eq(followed & chain.data.valid),
            links.i.link.node.eq(chain.data.node),
            links.i.link.slot.eq(chain.data.slot),
            links.i.link.value.eq(self._banks[bank].arrived),
        ]
        m.d.sync += followed.eq(consumer.valid)

    def _in_turn(self, m: Module, second: Value, stall: Signal) -> None:
        """The triggers of both banks, one after the other; ``second``: bank 1's before bank 0's."""
        node = self.token["node"].shape
        shape = data.StructLayout(
            {"node": node, "op": OP_BITS, "left": self.width, "right": self.width}
        )
        m.submodules.waiting = waiting = Waiting(trigger=shape, depth=WAITING)
        swapped = Signal()  # `second` of the last cycle
        m.d.sync += swapped.eq(second)
        even, odd = (bank.o for bank in self._banks)
        for place in range(2):
            now = waiting.i[place]
            soon = waiting.soon[place]
            m.d.comb += [
                now.valid.eq(Mux(swapped ^ place, odd.valid, even.valid)),
                *(
                    now.trigger[name].eq(Mux(swapped ^ place, odd[name], even[name]))
                    for name in ("node", "op", "left", "right")
                ),
                soon.valid.eq(Mux(second ^ place, odd.fires, even.fires)),
                soon.node.eq(Mux(second ^ place, odd.next_node, even.next_node)),
            ]
        m.d.comb += [
            stall.eq(~waiting.room),
            waiting.issue.eq(self.issue),
            self.o.valid.eq(waiting.o.valid),
            self.busy.eq(waiting.o.valid | Cat(links.o.valid for links in self._links).any()),
            *(self.o[name].eq(waiting.o.trigger[name]) for name in ("node", "op", "left", "right")),
            self.o.fires.eq(waiting.following.valid),
            self.o.next_node.eq(waiting.following.node),
        ]


def _needs(token: data.View) -> Value:
    """The banks, a bit each, in which a token's consumers are."""
    odd = token.node[0]
    return Cat(~odd | token.pair, odd | token.pair)
