"""Reduction of a stream over some of its dimensions."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring

from ...machine.beat import Tile
from ...machine.faults import Fault
from ...machine.functions import identity_bits
from ...machine.functions import lookup as entry
from ..stream import connect
from .accumulate import Accumulate
from .drain import Drain
from .operands import Operands
from .unit import Unit


class Accum(Unit):
    """Reduces over the dimensions in ``reduce``; positions in the kept dimensions below the highest
    of them index a memory.

    Members
    -------
    ``cfg.init_rows``, ``cfg.init_cols``: 20 bits each. ``error`` bits ``Fault.ACCUMULATORS``: a
    group has more than ``depth`` kept positions; ``Fault.STOP``: the tiles that are reduced
    together differ in their physical tiles.

    Timing
    ------
    II = t * t / lanes, L = II + S - 1: a group whose last beat is taken in c is drained from c + L,
    a tile a cycle. Meanwhile a beat is taken only into an accumulator already drained, and not if
    it ends a group. S = 1; deep, a register behind the accumulators and the stages of the function,
    and a beat waits until S cycles after the last one of its accumulator. The accumulators are read
    one cycle ahead (block RAM), with the cycle's write passed through. An empty group's result is
    drained likewise. A scan delivers each beat's state from c + L on, and takes a beat when the one
    before leaves. Source: docs/timing.md sections 3.1 and 3.4.
    """

    implements = "accum"

    def __init__(self, *, t, **built):
        super().__init__(t=t, **built)
        self.depth = self.kind.depth  # of the memories; a unit may have less
        self.lanes = self.kind.lanes
        for fn in self.choices("fn"):
            if entry(fn).arity != 2 or entry(fn).stages != 1:
                raise ValueError(
                    f"Function of an accumulator must have two operands and one stage, not {fn!r}"
                )
        if not isinstance(self.lanes, int) or self.lanes < 1 or t * t % self.lanes:
            raise ValueError(f"Lanes must divide t * t = {t * t}, not {self.lanes!r}")
        self.expect("output", self.payloads.outputs[0], Tile(t, "fp32"))
        self.starts = self.capability.bounds["init"] is not None
        self.latency, self.interval = self.kind.pipeline(t)
        self.loop = self.kind.loop

    def elaborate(self, platform):
        m = Module()
        given = self.settings.init_given
        identity = self.pick("fn", lambda fn: Const(identity_bits(fn, self.starts), 32))
        init = Mux(given, Cat(self.settings.init, Const(0, 32))[:32], identity)
        m.submodules.operands = operands = Operands(self, identity)
        m.submodules.accumulate = accumulate = Accumulate(self)
        m.submodules.drain = drain = Drain(self, init, (identity == 0) & ~given)
        connect(m, wiring.flipped(self.data), operands.data)
        connect(m, operands.steps, accumulate.steps)
        connect(m, operands.group, drain.group)
        connect(m, drain.result, wiring.flipped(self.result))
        m.d.comb += [
            operands.drained.eq(drain.drained),
            operands.leaving.eq(drain.leaving),
            accumulate.ahead.eq(operands.ahead),
            accumulate.at.eq(drain.at),
            drain.tile.eq(accumulate.tile),
            drain.note.eq(accumulate.note),
            self.error[Fault.ACCUMULATORS].eq(operands.over),
            self.error[Fault.STOP].eq(operands.differs | accumulate.differs),
        ]
        self.report(m, offers=self.result.valid)
        return m
