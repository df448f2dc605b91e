"""The dynamically scheduled PE: an operation fires when its operands have come."""

from collections.abc import Iterable

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import (
    MEMORIES,
    OP_BITS,
    Overlay,
    Sizes,
    bits_for,
    memories,
    packet,
    registers,
)
from ...arith.format import FP32, FP64
from ...noc.token import struct
from .consume import Consume
from .consume_two import ConsumeTwo
from .generate import Generate
from .layouts import due_layout, host_layout, put_layout, result_layout
from .near import Near
from .operate import Operate
from .ready_bits import ReadyBits
from .ready_queue import ReadyQueue
from .values import Values


class DynamicPE(wiring.Component):
    """A PE whose nodes fire as their tokens arrive.

    Parameters
    ----------
    overlay : Overlay
        Network, local consumers, format and latencies.
    sizes : Sizes
        With ``overlay``, the depths of the memories.
    classes : iterable of str
        Classes of operations that the ALU does.
    with_alu : bool
        Without it, operands and results are ports: the PE's own logic, to be counted apart.
    probed : bool
        With it, the port ``probe`` shows every write to the value memory.
    shared : bool
        It is half of a hybrid PE, which has ALU and value memory.

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
        Nothing is left to do here, unless a token comes.
    i, o : In, Out(stream.Signature(token))
        From and to the network.
    alu_op, alu_a, alu_b : Out; alu_o : In
        Only without ALU.
    probe : Out(put_layout(specs["value"]))
        Only if ``probed``: the write port of the value memory, in the cycle of the write.
    free, result, written, send, sent
        Only if ``shared``, in place of ``look``, ``value`` and ``probe``: as
        :class:`~penstock.hw.units.token.operate.Operate` has it; a result that is written, in that
        cycle; what is written at all; a node that is sent; its value, from the next cycle on.

    Timing
    ------
    Four stages: consume (S), operate (A), select (R), generate (G), one token in and one out a
    cycle; with forwarding a token has up to two consumers. ``i.ready`` depends on registers and on
    the memory read for A, not on ``i.valid``; ``o.valid`` on registers and memory outputs. Stalled
    by two results that would be written in one cycle, by consumers chained to a packet, and by the
    network. Source: docs/overlay.md section 3 (DFM 2014, figure 2b).
    """

    def __init__(
        self,
        *,
        overlay: Overlay,
        sizes: Sizes,
        classes: Iterable[str],
        with_alu: bool = True,
        probed: bool = False,
        shared: bool = False,
    ):
        self.overlay = overlay
        self.specs = specs = memories(overlay, sizes)
        self.token = struct(packet(overlay, sizes))
        self.with_alu = with_alu and not shared
        self.probed = probed
        self.shared = shared
        node = self.token["node"].shape
        senders = specs["first"].depth
        latencies = {name: overlay.latency(name) for name in classes}
        forwards = overlay.forwards
        timed = 0 if forwards else bits_for(len(set(latencies.values())))
        if forwards:
            self._consume = ConsumeTwo(overlay=overlay, sizes=sizes, specs=specs)
        else:
            self._consume = Consume(overlay=overlay, sizes=sizes, specs=specs, latencies=latencies)
        self._operate = Operate(
            node=node,
            form={"fp32": FP32, "fp64": FP64}[overlay.format],
            latencies=latencies,
            timed=timed,
            with_alu=self.with_alu,
            deep=overlay.deep,
            registered=overlay.alu == "registered",
            shared=shared,
        )
        if not shared:
            self._values = Values(
                node=node, spec=specs["value"], switches="switch" in latencies, probed=probed
            )
        if forwards:
            self._ready = ReadyBits(senders=senders, seeds=specs["seed"].depth)
        else:
            self._ready = ReadyQueue(senders=senders, depth=specs["ready"].depth)
        self._generate = Generate(
            overlay=overlay, sizes=sizes, specs=specs, sender=self._ready.o.payload.shape()
        )
        self.RESTART_CYCLES = self._ready.RESTART_CYCLES
        self._near = None
        if forwards:
            self._near = Near(
                word=struct(specs["near"].layout),
                node=node,
                depth=specs["near"].depth,
                seeds=specs["near_seed"].depth,
            )
            self.RESTART_CYCLES = max(self.RESTART_CYCLES, self._near.RESTART_CYCLES)
        super().__init__(self._members(overlay, sizes))

    def _members(self, overlay: Overlay, sizes: Sizes) -> dict:
        width = overlay.width
        node = self.token["node"].shape
        alu = {"alu_op": Out(OP_BITS), "alu_a": Out(width), "alu_b": Out(width), "alu_o": In(width)}
        alone = {
            "look": In(node),
            "value": Out(width),
            **({"probe": Out(put_layout(self.specs["value"]))} if self.probed else {}),
        }
        half = {
            "free": In(len(self._operate.ends)),
            "result": Out(result_layout(node, width)),
            "written": In(due_layout(node)),
            "send": Out(self._generate.send.shape()),
            "sent": In(width),
        }
        return {
            "x": In(self.token["x"].shape),
            "y": In(self.token["y"].shape),
            "host": In(host_layout(overlay, sizes)),
            "restart": In(1),
            "running": In(1),
            "done": Out(1),
            "i": In(stream.Signature(self.token)),
            "o": Out(stream.Signature(self.token)),
            **({} if self.with_alu else alu),
            **(half if self.shared else alone),
        }

    def elaborate(self, platform):
        m = Module()
        m.submodules.consume = consume = self._consume
        m.submodules.operate = operate = self._operate
        m.submodules.ready = self._ready
        m.submodules.generate = generate = self._generate
        self._registers = self._load_registers(m)
        self._load(m, "op", consume.put_op)
        if "chain" in self.specs:
            self._load(m, "chain", consume.put_chain)
        self._load(m, "first", generate.put_first)
        self._load(m, "rest", generate.put_rest)

        m.d.comb += [
            consume.running.eq(self.running),
            operate.i.eq(consume.o),
            consume.issue.eq(operate.issue),
            generate.running.eq(self.running),
            generate.x.eq(self.x),
            generate.y.eq(self.y),
        ]
        if self.shared:
            m.d.comb += [
                operate.free.eq(self.free),
                self.result.eq(operate.o),
                self.send.eq(generate.send),
                generate.value.eq(self.sent),
            ]
        else:
            self._keep(m)
        wiring.connect(m, wiring.flipped(self.i), consume.i)
        wiring.connect(m, self._ready.o, generate.i)
        self._restart(m)
        self._end(m)
        if self._near is None:
            self._send_here(m)
        else:
            self._send_near(m, self._near)
        if not self.with_alu:
            m.d.comb += [
                self.alu_op.eq(operate.alu_op),
                self.alu_a.eq(operate.alu_a),
                self.alu_b.eq(operate.alu_b),
                operate.alu_o.eq(self.alu_o),
            ]
        return m

    def _keep(self, m: Module) -> None:
        """Values, in a memory of its own."""
        m.submodules.values = values = self._values
        generate = self._generate
        self._load(m, "value", values.put)
        m.d.comb += [
            values.written.eq(self._operate.o),
            values.running.eq(self.running),
            values.look.eq(self.look),
            values.send.eq(generate.send),
            self.value.eq(values.value),
            generate.value.eq(values.value),
            generate.shut.eq(values.shut),
        ]
        if self.probed:
            m.d.comb += self.probe.eq(values.probe)

    def _load(self, m: Module, name: str, put) -> None:
        """Words of a memory that the host writes go to ``put``."""
        number = MEMORIES[self.overlay.pe].index(name)
        m.d.comb += [
            put.valid.eq(self.host.valid & (self.host.memory == number)),
            put.address.eq(self.host.address),
            put.data.eq(self.host.data),
        ]

    def _load_registers(self, m: Module) -> dict[str, Signal]:
        """Registers by name; the host writes them, too."""
        host = self.host
        shape = range(self.specs["value"].depth + 1)
        held = {name: Signal(shape, name=name) for name in registers(self.overlay)}
        number = MEMORIES[self.overlay.pe].index("control")
        with m.If(host.valid & (host.memory == number)):
            with m.Switch(host.address):
                for k, register in enumerate(held.values()):
                    with m.Case(k):
                        m.d.sync += register.eq(host.data)
        return held

    def _restart(self, m: Module) -> None:
        """Mark ready operations: at the start, and as results are written."""
        ready = self._ready
        queued = isinstance(ready, ReadyQueue)
        # A queue shows a node as it enters, ready bits in the next cycle.
        comes = self._operate.o if queued else self._operate.coming
        if self.shared:
            comes = self.written
        m.d.comb += [
            ready.restart.eq(self.restart),
            ready.enter.valid.eq(comes.valid & (comes.node < self._registers["senders"])),
            ready.enter.node.eq(comes.node),
        ]
        if queued:
            m.d.comb += [
                ready.sources.eq(self._registers["sources"]),
                *([] if self.shared else [self._values.fresh.eq(ready.direct)]),
            ]
        else:
            self._load(m, "seed", ready.seed)
            m.d.comb += ready.count.eq(self._registers["senders"])

    def _end(self, m: Module) -> None:
        """The run is done when no stage has anything, here and elsewhere."""
        generate = self._generate
        busy = Signal()
        m.d.comb += [
            busy.eq(
                self._consume.busy
                | self._operate.busy
                | self._ready.o.valid
                | generate.local.valid
                | generate.o.valid
            ),
            self.done.eq(~busy),
        ]
        if self._near is not None:
            m.d.comb += self.done.eq(~busy & ~self._near.busy)

    def _send_here(self, m: Module) -> None:
        """A token goes to the network, or to this PE."""
        wiring.connect(m, self._generate.o, wiring.flipped(self.o))
        wiring.connect(m, self._generate.local, self._consume.local)

    def _send_near(self, m: Module, near: Near) -> None:
        """A token goes to the network; consumers here get results as they are written, or later,
        from the near set.
        """
        m.submodules.near = near
        self._load(m, "near", near.put)
        self._load(m, "near_seed", near.seed)
        wiring.connect(m, self._generate.o, wiring.flipped(self.o))
        consume = self._consume
        local = consume.local
        m.d.comb += [
            near.restart.eq(self.restart),
            near.nears.eq(self._registers["nears"]),
            near.running.eq(self.running),
            near.coming.eq(self._operate.coming),
            near.late.eq(consume.late),
            near.shut.eq(self._operate.o.shut),
            consume.first.eq(near.first),
            consume.result.eq(self._operate.o.value),
            self._values.near.eq(near.chosen),
            local.valid.eq(near.o.valid),
            near.o.ready.eq(local.ready),
            local.payload.value.eq(self._values.nearby),
        ]
        for name in ("node", "slot", "pair", "node2", "slot2"):
            m.d.comb += local.payload[name].eq(near.o.payload[name])
