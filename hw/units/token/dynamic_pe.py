"""The dynamically scheduled PE: an operation fires when its operands have come."""

from collections.abc import Iterable
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....machine.overlay import (
    CHAINED,
    MEMORIES,
    ONLY,
    OP_BITS,
    RIGHT,
    WAITING,
    Overlay,
    Sizes,
    memories,
    packet,
    registers,
)
from ....machine.token_ops import OP_CLASS, Op
from ...arith.format import FP32, FP64
from ...noc.token import ram_attributes, struct
from ...ram import read_port, write_port
from .alu import Alu
from .host import host_layout, probe_layout
from .links import Links
from .near import Near
from .ready_bits import ReadyBits
from .ready_queue import ReadyQueue
from .waiting import Waiting

__all__ = ["DynamicPE"]

BANKED = {name: (f"{name}0", f"{name}1") for name in ("op", "token", "present", "chain")}
"""With wake = 2: memories of which even and odd nodes are apart."""


class _Trigger(NamedTuple):
    """What triggers, from the match of operands (S) to the operation (A)."""

    valid: Value  # an operation has its operands
    node: Value
    op: Value
    left: Value
    right: Value
    fires: Value  # one will have in the next cycle
    next_node: Value  # and which


class DynamicPE(wiring.Component):
    """A PE whose nodes fire as their tokens arrive.

    Parameters
    ----------
    overlay : Overlay
        Network format, order of ready nodes, packets, format and latencies.
    sizes : Sizes
        With ``overlay``, the depths of the memories.
    classes : iterable of str
        Classes of operations that the ALU does.
    with_alu : bool
        Without it, operands and results are ports: the PE's own logic, to be counted apart.
    probed : bool
        With it, the port ``probe`` shows every write to the value memory.

    Members
    -------
    x, y : In
        This PE's place.
    host : In(host_layout(overlay, sizes))
        Loads memories and registers, while idle.
    look : In
        Address of ``value`` to be read, while idle.
    value : Out(width)
        What was read, a cycle later.
    restart : In(1)
        High for ``RESTART_CYCLES`` before a run.
    running : In(1)
        High during a run.
    done : Out(1)
        All operations of this run are written.
    i, o : In, Out(stream.Signature(token))
        From and to the network.
    alu_op, alu_a, alu_b : Out; alu_o : In
        Only without ALU.
    probe : Out(probe_layout(overlay, sizes))
        Only if ``probed``: the write port of the value memory, in the cycle of the write.

    Timing
    ------
    Four stages: consume (S), operate (A), select (R), generate (G), one
    token in and one out a cycle; with wake = 2 a token has up to two
    consumers. ``i.ready`` depends on registers and on the memory read
    for A, not on ``i.valid``; ``o.valid`` on registers and memory
    outputs. Stalled by two results that would be written in one cycle,
    by consumers chained to a packet, and by the network. Source:
    docs/overlay.md section 3 (DFM 2014, figure 2b).

    """

    def __init__(
        self,
        *,
        overlay: Overlay,
        sizes: Sizes,
        classes: Iterable[str],
        with_alu: bool = True,
        probed: bool = False,
    ):
        self.overlay = overlay
        self.sizes = sizes
        self.latencies = {name: overlay.latency(name) for name in classes}
        self.with_alu = with_alu
        self.probed = probed
        self.specs = specs = memories(overlay, sizes)
        self.form = {"fp32": FP32, "fp64": FP64}[overlay.format]
        self.token = struct(packet(overlay, sizes))
        self._consumers = ("node", "slot") + (
            ("pair", "node2", "slot2") if overlay.wake == 2 else ()
        )  # fields of a token
        self._memories = {}
        for name, spec in specs.items():
            if name not in ("control", "ready", "seed", "near", "near_seed", "near_ready"):
                banks = BANKED[name] if overlay.wake == 2 and name in BANKED else (name,)
                words = 2 if name == "chain" else 1  # of a node
                for bank in banks:
                    self._memories[bank] = Memory(
                        shape=struct(spec.layout),
                        depth=words * -(-spec.depth // (words * len(banks))),
                        init=[],
                        attrs=ram_attributes(None),
                    )
        senders = specs["first"].depth
        if overlay.ready == "fifo":
            self._ready = ReadyQueue(senders=senders, depth=specs["ready"].depth)
        else:
            self._ready = ReadyBits(senders=senders, seeds=specs["seed"].depth)
        self.RESTART_CYCLES = self._ready.RESTART_CYCLES
        self._near = None
        if overlay.forwards:
            self._near = Near(
                word=struct(specs["near"].layout),
                node=self.token["node"].shape,
                depth=specs["near"].depth,
                seeds=specs["near_seed"].depth,
            )
            self.RESTART_CYCLES = max(self.RESTART_CYCLES, self._near.RESTART_CYCLES)
        width = overlay.width
        alu = (
            {}
            if with_alu
            else {
                "alu_op": Out(OP_BITS),
                "alu_a": Out(width),
                "alu_b": Out(width),
                "alu_o": In(width),
            }
        )
        super().__init__(
            {
                "x": In(self.token["x"].shape),
                "y": In(self.token["y"].shape),
                "host": In(host_layout(overlay, sizes)),
                "look": In(self.token["node"].shape),
                "value": Out(width),
                "restart": In(1),
                "running": In(1),
                "done": Out(1),
                "i": In(stream.Signature(self.token)),
                "o": Out(stream.Signature(self.token)),
                **alu,
                **({"probe": Out(probe_layout(overlay, sizes))} if probed else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for name, memory in self._memories.items():
            m.submodules[f"{name}_memory"] = memory
        m.submodules.ready = self._ready
        self._load(m)
        self._result = Signal(self.overlay.width, name="result")  # what is written to `value`
        if self._near is not None:
            m.submodules.near = self._near
            self._load_near(m, self._near)

        # A token that leaves the generator for this PE, and the moment it is taken.
        local = stream.Signature(self.token).create(path=("local",))
        trigger, issue = self._consume(m, local)
        enter = self._operate(m, trigger, issue)
        offers = self._select_and_generate(m, enter)
        if self._near is None:
            self._generate_here(m, local, *offers)
        else:
            self._generate_near(m, local, *offers, self._near)
        if self.probed:
            write = self._writes["value"]
            m.d.comb += [
                self.probe.valid.eq(write.en),
                self.probe.address.eq(write.addr),
                self.probe.data.eq(write.data),
            ]
        return m

    # Loading: every memory has one write port; `value` shares its with the results.

    def _load(self, m: Module) -> None:
        self._writes = {}
        self._registers = {}
        host = self.host
        numbers = {name: k for k, name in enumerate(MEMORIES["dynamic"])}
        for name, spec in self.specs.items():
            banks = [bank for bank in (name, *BANKED.get(name, ())) if bank in self._memories]
            bit = 1 if name == "chain" else 0  # of the address: the bank
            for k, bank in enumerate(banks):
                port = self._writes[bank] = write_port(self._memories[bank], f"put_{bank}")
                if spec.loaded:
                    mine = host.valid & (host.memory == numbers[name])
                    m.d.comb += [
                        port.en.eq(mine if len(banks) == 1 else mine & (host.address[bit] == k)),
                        port.addr.eq(
                            host.address
                            if len(banks) == 1
                            else Cat(host.address[:bit], host.address[bit + 1 :])
                        ),
                        port.data.eq(host.data),
                    ]
        with m.If(host.valid & (host.memory == numbers["control"])):
            with m.Switch(host.address):
                for k, name in enumerate(registers(self.overlay)):
                    register = self._registers[name] = Signal(
                        range(self.specs["value"].depth + 1), name=name
                    )
                    with m.Case(k):
                        m.d.sync += register.eq(host.data)
        if isinstance(self._ready, ReadyBits):
            m.d.comb += [
                self._ready.seed.valid.eq(host.valid & (host.memory == numbers["seed"])),
                self._ready.seed.address.eq(host.address),
                self._ready.seed.data.eq(host.data),
                self._ready.count.eq(self._registers["senders"]),
            ]
        else:
            m.d.comb += self._ready.sources.eq(self._registers["sources"])
        m.d.comb += self._ready.restart.eq(self.restart)

    def _load_near(self, m: Module, near: Near) -> None:
        """The words and the seeds of the near set."""
        host = self.host
        memory = MEMORIES["dynamic"].index
        m.d.comb += [
            near.put.valid.eq(host.valid & (host.memory == memory("near"))),
            near.put.address.eq(host.address),
            near.put.data.eq(host.data),
            near.seed.valid.eq(host.valid & (host.memory == memory("near_seed"))),
            near.seed.address.eq(host.address),
            near.seed.data.eq(host.data),
            near.nears.eq(self._registers["nears"]),
            near.restart.eq(self.restart),
            near.running.eq(self.running),
        ]

    # S

    def _consume(self, m: Module, local: stream.Interface) -> tuple[_Trigger, Signal]:
        """The operation that has its operands, and the signal by which it is taken."""
        if self.overlay.wake == 2:
            return self._consume_two(m, local)
        chained = Signal()
        stall = Signal()
        consume = Signal()
        token = Signal(self.token)
        followed = Signal()  # a token was consumed, whose chain has been read
        arrived = Signal(self.overlay.width)  # its value
        chain = None
        if "chain" in self._memories:
            chain = self._memories["chain"].read_port()
            m.d.comb += [
                chained.eq(followed & chain.data.valid),
                chain.en.eq(consume),
                chain.addr.eq(Cat(token.slot == RIGHT, token.node)),
            ]
        m.d.comb += [
            self.i.ready.eq(self.running & ~stall & ~chained),
            local.ready.eq(self.i.ready & ~self.i.valid),
            consume.eq(~stall & (chained | (self.running & (self.i.valid | local.valid)))),
            token.eq(Mux(self.i.valid, self.i.payload, local.payload)),
        ]
        if chain is not None:
            with m.If(chained):
                m.d.comb += [
                    token.value.eq(arrived),
                    *(
                        getattr(token, name).eq(getattr(chain.data, name))
                        for name in self._consumers
                    ),
                ]
        with m.If(~stall):
            m.d.sync += followed.eq(consume)
        with m.If(consume):
            m.d.sync += arrived.eq(token.value)

        issue = Signal()
        trigger = self._match(m, 0, token.node, token.slot, consume, token.value, arrived)
        m.d.comb += stall.eq(trigger.valid & ~issue)
        with m.If(~stall):
            m.d.sync += trigger.valid.eq(trigger.fires)
        return trigger, issue

    def _match(self, m: Module, bank: int, node, slot, consume, value, arrived) -> _Trigger:
        """A consumer meets its operand: what triggers in the next cycle
        (``fires``, ``next_node``), and the trigger of the last; the
        caller sets its ``valid``.
        """

        def name(memory):
            return memory if self.overlay.wake == 1 else BANKED[memory][bank]

        present = read_port(self._memories[name("present")], name("present"), domain="comb")
        put_present = self._writes[name("present")]
        stored = read_port(self._memories[name("token")], name("token"))
        put_stored = self._writes[name("token")]
        op = read_port(self._memories[name("op")], name("op"))
        address = node if self.overlay.wake == 1 else node[1:]
        fires = Signal(name=name("op") + "_fires")
        m.d.comb += [
            present.addr.eq(address),
            stored.addr.eq(address),
            op.addr.eq(address),
            stored.en.eq(consume),
            op.en.eq(consume),
            fires.eq(consume & ((slot == ONLY) | present.data.bit)),
            put_present.addr.eq(address),
            put_present.data.eq(~present.data.bit),
            put_present.en.eq(consume & (slot != ONLY)),
            put_stored.addr.eq(address),
            put_stored.data.eq(value),
            put_stored.en.eq(consume & (slot != ONLY) & ~present.data.bit),
        ]
        valid = Signal(name=name("op") + "_valid")
        held = Signal(2, name=name("op") + "_slot")
        last_node = Signal(self.token["node"].shape, name=name("op") + "_node")
        stored_first = Signal(name=name("op") + "_stored_first")
        with m.If(consume):
            m.d.sync += [held.eq(slot), last_node.eq(node)]
        m.d.comb += stored_first.eq(held == RIGHT)
        operand = stored.data.as_value()
        return _Trigger(
            valid=valid,
            node=last_node,
            op=op.data.op,
            left=Mux(stored_first, operand, arrived),
            right=Mux(stored_first, arrived, operand),
            fires=fires,
            next_node=node,
        )

    def _consume_two(self, m: Module, local: stream.Interface) -> tuple[_Trigger, Signal]:
        """Two banks, each of which serves one consumer a cycle: the
        token's, else one chained to an earlier consumer of this bank.
        """
        stall = Signal()
        consume = Signal()
        delivered = Signal()
        token = Signal(self.token)
        chains = []
        for bank in range(2):
            link = data.StructLayout(
                {
                    **{name: self.token[name].shape for name in ("node", "slot")},
                    "value": self.overlay.width,
                }
            )
            chains.append(Links(link=link, depth=CHAINED[2]))
            m.submodules[f"links{bank}"] = chains[bank]
        room = Cat(chain.room for chain in chains)
        forwarded = self._forward(m, room, stall)
        m.d.comb += [
            self.i.ready.eq(
                self.running & ~stall & room.all() & ~(_needs(self.i.payload) & forwarded).any()
            ),
            delivered.eq(self.i.valid & self.i.ready),
            local.ready.eq(
                self.running
                & ~stall
                & ~delivered
                & ~(_needs(local.payload) & (forwarded | ~room)).any()
            ),
            consume.eq(delivered | (local.valid & local.ready)),
            token.eq(Mux(delivered, self.i.payload, local.payload)),
        ]
        banks = []
        for bank, waiting in enumerate(chains):
            leads = token.node[0] == bank  # the token's first consumer is this bank's
            mine = Signal(name=f"mine{bank}")
            serve = Signal(name=f"serve{bank}")
            consumer = Signal(waiting.link, name=f"consumer{bank}")
            arrived = Signal(self.overlay.width, name=f"arrived{bank}")
            followed = Signal(name=f"followed{bank}")
            chain = read_port(self._memories[BANKED["chain"][bank]], f"chain{bank}")
            m.d.comb += [
                mine.eq(consume & (leads | token.pair)),
                waiting.take.eq(waiting.o.valid & ~stall & ~mine & ~forwarded[bank]),
                serve.eq(mine | forwarded[bank] | waiting.take),
                consumer.eq(waiting.o.link),
                chain.en.eq(serve),
                chain.addr.eq(Cat(consumer.slot == RIGHT, consumer.node[1:])),
                waiting.i.valid.eq(followed & chain.data.valid),
                waiting.i.link.node.eq(chain.data.node),
                waiting.i.link.slot.eq(chain.data.slot),
                waiting.i.link.value.eq(arrived),
            ]
            with m.If(mine):
                m.d.comb += [
                    consumer.node.eq(Mux(leads, token.node, token.node2)),
                    consumer.slot.eq(Mux(leads, token.slot, token.slot2)),
                    consumer.value.eq(token.value),
                ]
            if self._near is not None:
                own = self._near.first
                with m.If(forwarded[bank]):
                    m.d.comb += [
                        consumer.node.eq(Mux(own.node[0] == bank, own.node, own.node2)),
                        consumer.slot.eq(Mux(own.node[0] == bank, own.slot, own.slot2)),
                        consumer.value.eq(self._result),
                    ]
            m.d.sync += followed.eq(serve)
            with m.If(serve):
                m.d.sync += arrived.eq(consumer.value)
            banks.append(
                self._match(m, bank, consumer.node, consumer.slot, serve, consumer.value, arrived)
            )
            m.d.sync += banks[bank].valid.eq(banks[bank].fires)
        second = consume & token.pair & token.node[0]
        if self._near is not None:
            second |= forwarded.all() & self._near.first.node[0]
        return self._in_turn(m, banks, second, stall)

    def _forward(self, m: Module, room: Value, stall: Value) -> Signal:
        """The banks that serve consumers of the result that is written."""
        forwarded = Signal(2)
        if self._near is not None:
            first = self._near.first
            served = Signal(name="forward")
            m.d.comb += [
                served.eq(first.valid & ~stall & ~(_needs(first) & ~room).any()),
                forwarded.eq(Mux(served, _needs(first), 0)),
                self._near.late.eq(~served),
            ]
        return forwarded

    def _in_turn(self, m: Module, banks: list[_Trigger], second, stall) -> tuple[_Trigger, Signal]:
        """The triggers of both banks, one after the other; ``second``: bank 1's before bank 0's."""
        swapped = Signal()  # `second` of the last cycle
        m.d.sync += swapped.eq(second)

        shape = data.StructLayout(
            {
                "node": self.token["node"].shape,
                "op": OP_BITS,
                "left": self.overlay.width,
                "right": self.overlay.width,
            }
        )
        m.submodules.waiting = waiting = Waiting(trigger=shape, depth=WAITING)
        for place in range(2):
            now = waiting.i[place]
            soon = waiting.soon[place]
            m.d.comb += [
                now.valid.eq(Mux(swapped ^ place, banks[1].valid, banks[0].valid)),
                *(
                    getattr(now.trigger, name).eq(
                        Mux(swapped ^ place, getattr(banks[1], name), getattr(banks[0], name))
                    )
                    for name in ("node", "op", "left", "right")
                ),
                soon.valid.eq(Mux(second ^ place, banks[1].fires, banks[0].fires)),
                soon.node.eq(Mux(second ^ place, banks[1].next_node, banks[0].next_node)),
            ]
        oldest = waiting.o.trigger
        m.d.comb += stall.eq(~waiting.room)
        trigger = _Trigger(
            valid=waiting.o.valid,
            node=oldest.node,
            op=oldest.op,
            left=oldest.left,
            right=oldest.right,
            fires=waiting.following.valid,
            next_node=waiting.following.node,
        )
        return trigger, waiting.issue

    # A

    def _operate(self, m: Module, trigger: _Trigger, issue: Signal) -> data.View:
        """Writes results; returns what enters the ready set."""
        due = data.StructLayout({"valid": 1, "node": self.token["node"].shape})
        written = Signal(due)
        enter = Signal(due)
        coming = Signal(due)  # is written in the next cycle
        result = self._result
        if self.with_alu:
            m.submodules.alu = alu = Alu(
                form=self.form, latencies=self.latencies, deep=self.overlay.alu == "deep"
            )
            m.d.comb += [
                alu.en.eq(issue),
                alu.op.eq(trigger.op),
                alu.a.eq(trigger.left),
                alu.b.eq(trigger.right),
                result.eq(alu.o),
            ]
        else:
            m.d.comb += [
                self.alu_op.eq(Mux(issue, trigger.op, 0)),
                self.alu_a.eq(trigger.left),
                self.alu_b.eq(trigger.right),
                result.eq(self.alu_o),
            ]

        is_sender = self._registers["senders"]
        deepest = max(self.latencies.values())
        if deepest == 1:
            m.d.comb += [
                issue.eq(trigger.valid),
                written.valid.eq(issue),
                written.node.eq(trigger.node),
                coming.valid.eq(trigger.fires),
                coming.node.eq(trigger.next_node),
            ]
        else:
            # queue[k] is written k cycles from now.
            queue = [Signal(due, name=f"due{k}") for k in range(deepest)]
            taken = Signal(deepest)
            m.d.comb += taken.eq(Cat(entry.valid for entry in queue))
            lands = Signal(deepest)  # one-hot: when the result of the trigger is written
            with m.Switch(trigger.op):
                for name, latency in self.latencies.items():
                    with m.Case(*(op for op in Op if OP_CLASS.get(op) == name)):
                        m.d.comb += lands.eq(1 << latency - 1)
            m.d.comb += [issue.eq(trigger.valid & ~(lands & taken).any()), written.eq(queue[0])]
            for k in range(deepest):
                follower = queue[k + 1] if k + 1 < deepest else Const(0, due.size)
                inserted = issue & lands[k + 1] if k + 1 < deepest else Const(0)
                after = Signal(due, name=f"due_next{k}")
                m.d.comb += after.eq(follower)
                with m.If(inserted):
                    m.d.comb += [after.valid.eq(1), after.node.eq(trigger.node)]
                m.d.sync += queue[k].eq(after)
                if k == 0:
                    m.d.comb += coming.eq(after)
        m.d.comb += [
            enter.valid.eq(coming.valid & (coming.node < is_sender)),
            enter.node.eq(coming.node),
        ]
        if self._near is not None:
            m.d.comb += self._near.coming.eq(coming)

        write = self._writes["value"]
        fired = Signal.like(self._registers["fires"])
        with m.If(written.valid):
            m.d.comb += [write.en.eq(1), write.addr.eq(written.node), write.data.eq(result)]
            m.d.sync += fired.eq(fired + 1)
        with m.If(self.restart):
            m.d.sync += fired.eq(0)
        m.d.comb += self.done.eq(fired == self._registers["fires"])
        return enter

    # R and G

    def _select_and_generate(self, m: Module, enter: data.View) -> tuple[Signal, data.View, Signal]:
        """The generator: whether a token stands in it, the token, and
        the signal (the caller's) by which it leaves.
        """
        ready = self._ready
        m.d.comb += [ready.enter.valid.eq(enter.valid), ready.enter.node.eq(enter.node)]

        first = self._memories["first"].read_port()
        rest = self._memories["rest"].read_port()
        value = self._memories["value"].read_port(transparent_for=[self._writes["value"]])
        # a token stands in the generator; it comes from `rest`
        busy = Signal()
        further = Signal()
        follow = Signal(
            self.specs["first"].layout.fields[-1][1]
        )  # where in `rest` the next but one is
        token = Signal(self.token)
        last = Signal()
        m.d.comb += last.eq(Mux(further, rest.data.last, first.data.last))
        for name in ("x", "y", *self._consumers):
            m.d.comb += getattr(token, name).eq(
                Mux(further, getattr(rest.data, name), getattr(first.data, name))
            )
        m.d.comb += token.value.eq(value.data.as_value())

        leaves = Signal()
        m.d.comb += [
            ready.o.ready.eq(self.running & (~busy | (leaves & last))),
            first.addr.eq(ready.o.payload),
            first.en.eq(ready.o.ready & ready.o.valid),
            value.addr.eq(Mux(self.running, ready.o.payload, self.look)),
            value.en.eq(~self.running | first.en),
            self.value.eq(value.data),
            rest.addr.eq(Mux(further, follow, first.data.rest)),
            rest.en.eq(leaves & ~last),
        ]
        with m.If(first.en):
            m.d.sync += [busy.eq(1), further.eq(0)]
        with m.Elif(rest.en):
            m.d.sync += [further.eq(1), follow.eq(rest.addr + 1)]
        with m.Elif(leaves):
            m.d.sync += busy.eq(0)
        return busy, token, leaves

    def _generate_here(
        self, m: Module, local: stream.Interface, busy: Value, token: data.View, leaves: Value
    ) -> None:
        """A token goes to the network, or to this PE."""
        here = Signal()
        m.d.comb += [
            here.eq((token.x == self.x) & (token.y == self.y)),
            local.valid.eq(busy & here),
            local.payload.eq(token),
            self.o.valid.eq(busy & ~here),
            self.o.payload.eq(token),
            leaves.eq(busy & Mux(here, local.ready, self.o.ready)),
        ]

    def _generate_near(
        self,
        m: Module,
        local: stream.Interface,
        busy: Value,
        token: data.View,
        leaves: Value,
        near: Near,
    ) -> None:
        """A token goes to the network; what waits in the near set, to this PE."""
        value = self._memories["value"].read_port(transparent_for=[self._writes["value"]])
        m.d.comb += [
            self.o.valid.eq(busy),
            self.o.payload.eq(token),
            leaves.eq(busy & self.o.ready),
            value.addr.eq(near.chosen.node),
            value.en.eq(near.chosen.valid),
            local.valid.eq(near.o.valid),
            near.o.ready.eq(local.ready),
            local.payload.value.eq(value.data.as_value()),
            *(
                getattr(local.payload, name).eq(getattr(near.o.payload, name))
                for name in self._consumers
            ),
        ]


def _needs(token: data.View) -> Value:
    """The banks, a bit each, in which a token's consumers are."""
    odd = token.node[0]
    return Cat(~odd | token.pair, odd | token.pair)
