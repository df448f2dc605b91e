"""The hybrid PE: a sequencer of contexts, and tokens in what the contexts leave free."""

from collections.abc import Iterable

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import DECISIONS, Overlay, Sizes, bits_for
from ...ram import read_port
from .dynamic_pe import DynamicPE
from .sequencer import fetch_layout
from .static_pe import StaticPE


class HybridPE(StaticPE):
    """A static PE whose ALU and value memory a dynamic half uses as well.

    Parameters
    ----------
    overlay, sizes, classes, with_alu, probed
        See :class:`~penstock.hw.units.token.static_pe.StaticPE`.

    Members
    -------
    host, look, value, restart, running, fetch, i, o, alu_op, alu_a, alu_b, alu_o, probe
        See there.
    done : Out(1)
        The dynamic half has nothing left to do, unless a token comes.
    fetches : In(fetch_layout(address))
        The contexts that come.
    decided : Out(DECISIONS)
        Conditions that were sent a cycle ago, to decide, and are not zero.
    active : Out(1)
        A context holds.
    x, y : In
        This PE's place.
    token_i, token_o : In, Out(stream.Signature(token))
        From and to the network.

    Timing
    ------
    As of both halves. A context has ALU and write first, and says for
    each latency whether an operation of the dynamic half may begin. Such
    a result is written as the contexts' are, and a value that is written
    by either half is ready if its address is a sender's. Source:
    docs/overlay.md section 7.1.
    """

    RESTART_CYCLES = 5

    def __init__(
        self,
        *,
        overlay: Overlay,
        sizes: Sizes,
        classes: Iterable[str],
        with_alu: bool = True,
        probed: bool = False,
    ):
        classes = [name for name in classes if name != "switch"]  # contexts do without
        self._half = DynamicPE(overlay=overlay, sizes=sizes, classes=classes, shared=True)
        super().__init__(
            overlay=overlay, sizes=sizes, classes=classes, with_alu=with_alu, probed=probed
        )

    def _further(self):
        token = self._half.token
        return {
            "fetches": In(fetch_layout(bits_for(self.specs["context"].depth))),
            "decided": Out(DECISIONS),
            "active": Out(1),
            "x": In(token["x"].shape),
            "y": In(token["y"].shape),
            "token_i": In(stream.Signature(token)),
            "token_o": Out(stream.Signature(token)),
        }

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.submodules.half = half = self._half
        write = self._write
        context = self._context
        result = half.result
        with m.If(self.running & result.valid):
            m.d.comb += [
                write.valid.eq(1),
                write.address.eq(result.node),
                write.data.eq(self._result),
            ]
        ends = self.overlay.ends
        free = Signal(len(ends))
        m.d.comb += [
            free.eq(Mux(~self._active, -1, Mux(context.op != 0, 0, context.free))),
            half.free.eq(
                Cat(free[ends.index(end)] for end in sorted(set(self.latencies.values())))
            ),
            half.written.valid.eq(self.running & write.valid),
            half.written.node.eq(write.address),
            half.host.eq(self.host),
            half.running.eq(self.running),
            half.restart.eq(self.restart),
            half.x.eq(self.x),
            half.y.eq(self.y),
            half.alu_o.eq(self._result),
            self.active.eq(self._active),
            self.done.eq(half.done),
        ]
        decides = Signal(1 + DECISIONS)
        m.d.comb += decides.eq(1 << context.decide)
        m.d.sync += self.decided.eq(Mux(self._active & ~self.form.is_zero(self.o), decides[1:], 0))
        wiring.connect(m, wiring.flipped(self.token_i), half.i)
        wiring.connect(m, half.o, wiring.flipped(self.token_o))
        self._send(m, half)
        return m

    def _send(self, m: Module, half: DynamicPE) -> None:
        """The value that the generator sends: of the memory, or what it does not have yet."""
        write = self._write
        put = self._put
        send = half.send
        port = read_port(self._values, "token_port")
        same = write.valid & (write.address == send.node)
        just = put.en & (put.addr == send.node)
        passed = Signal()
        kept = Signal.like(self.value)
        m.d.comb += [
            port.addr.eq(send.node),
            port.en.eq(send.valid),
            half.sent.eq(Mux(passed, kept, port.data)),
        ]
        with m.If(send.valid):
            m.d.sync += [passed.eq(same | just), kept.eq(Mux(same, write.data, self._written[0]))]

    def _operate(self, m: Module, issue: Value, op: Value, a: Value, b: Value, result: Signal):
        """The ALU, of both halves: an operation of the dynamic one has a code."""
        half = self._half
        self._result = result
        theirs = half.alu_op != 0
        super()._operate(
            m,
            issue | theirs,
            Mux(issue, op, half.alu_op),
            Mux(issue, a, half.alu_a),
            Mux(issue, b, half.alu_b),
            result,
        )

    def _count(self, m: Module, length: Signal) -> tuple[Value, Value, Value]:
        """Address of the fetch, whether a context holds in two cycles, and whether one does now."""
        fetches = self.fetches
        m.d.comb += self.fetch.eq(fetches.fetch)
        return fetches.ahead, fetches.coming, fetches.active
