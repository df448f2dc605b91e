"""The shell of pipelined units: credits, valid shift and output queue."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring

from ...machine.beat import Tile
from ...machine.faults import Fault
from ...machine.kinds import queue_entries
from ..beat import Payloads, beat_layout
from ..stream import connect
from .delay import delay
from .fifo import Fifo
from .unit import Unit


class Pipelined(Unit):
    """Base of units with a latency: takes one beat from every input together and returns one tile,
    in order.

    A subclass gives the datapath in :meth:`datapath`. It works on ``interval`` groups of a tile,
    one a cycle, the first in the cycle of the take; the shell collects their results, clears
    invalid elements and queues the tile.

    Parameters
    ----------
    kind, t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`; the kind has L >= II, and one output, a tile.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`. ``error`` bit ``Fault.STOP``: beats taken together
    differ in stop or data; those of the first input are kept.

    Timing
    ------
    A beat is taken from each input in c when all are visible, fewer than L + II + 1 are inside
    (start of the cycle) and c >= last take + II. Its result is offered from c + L, one a cycle. An
    input's ``ready`` depends on the other inputs' ``valid`` and on registers, not on the output's
    ``ready``: the ready path is cut here. Done takes the same way. Source: docs/timing.md section
    2.
    """

    def __init__(self, *, t: int, payloads: Payloads, **built):
        super().__init__(t=t, payloads=payloads, **built)
        self.latency, self.interval = self.kind.pipeline(t)
        if not 1 <= self.interval <= self.latency:
            raise ValueError(
                f"Interval must be from 1 to the latency {self.latency!r}, not {self.interval!r}"
            )
        made = payloads.outputs[0]
        if not isinstance(made, Tile):
            raise ValueError(f"Payload of the output must be a Tile, not {made!r}")
        self.made = made

    def datapath(self, m: Module, first: Value, enter: Value) -> Value:
        """Elements of one group of the output tile, row-major.

        Parameters
        ----------
        m : Module
            Where the logic goes.
        first : Value
            The operands at the inputs are taken in this cycle: group 0 enters.
        enter : Value
            A group enters (``first``, and the ``interval - 1`` cycles after).

        Returns
        -------
        Value
            The results of the group that entered ``latency - interval`` cycles ago.
        """
        raise NotImplementedError

    def extent(self) -> tuple[Value, Value]:
        """Valid rows and columns of the result of the beats at the inputs."""
        raise NotImplementedError

    def uses(self, operand: stream.Interface) -> Value:
        """True if the unit takes beats of an input; not where a setting stands for them."""
        return Const(1)

    def elaborate(self, platform):
        m = Module()
        head = self.inputs[0].payload
        payload = self.made
        m.submodules.queue = queue = Fifo(
            shape=beat_layout(payload), depth=queue_entries(self.latency, self.interval)
        )

        take = Signal()
        deliver = Signal()
        credit = Signal(range(queue.depth + 1))
        wait = Signal(range(self.interval))
        free = (credit != queue.depth) & (wait == 0)
        used = [self.uses(i) for i in self.inputs]
        valid = [i.valid | ~x for x, i in zip(used, self.inputs, strict=True)]
        m.d.comb += [
            take.eq(Cat(valid).all() & free),
            deliver.eq(self.outputs[0].valid & self.outputs[0].ready),
        ]
        connect(m, queue.o, wiring.flipped(self.outputs[0]))
        m.d.sync += [
            credit.eq(credit + take - deliver),
            wait.eq(Mux(take, self.interval - 1, Mux(wait == 0, 0, wait - 1))),
        ]
        for k, i in enumerate(self.inputs):
            others = valid[:k] + valid[k + 1 :]
            differs = (i.payload.stop != head.stop) | (i.payload.data != head.data)
            m.d.comb += i.ready.eq(Cat(used[k], *others).all() & free)
            with m.If(take & used[k] & differs):
                m.d.comb += self.error[Fault.STOP].eq(1)

        first = Signal()
        enter = Signal()
        m.d.comb += [first.eq(take & head.data), enter.eq(first)]
        if self.interval > 1:
            working = Signal()
            with m.If(wait == 0):
                m.d.sync += working.eq(first)
            m.d.comb += enter.eq(first | (working & (wait != 0)))
        group = self.datapath(m, first, enter)

        rows, cols = self.extent()
        note_layout = data.StructLayout(
            {"rows": payload.count_bits, "cols": payload.count_bits, "stop": 4, "data": 1}
        )
        note = delay(
            m, Cat(rows, cols, head.stop, head.data), self.latency - 1, name="note", reset_less=True
        )
        note = data.View(note_layout, note)
        ready = delay(m, enter, self.latency - self.interval, name="result")
        elements = self._collect(m, group, ready)
        m.d.comb += [
            queue.i.valid.eq(delay(m, take, self.latency - 1, name="take")),
            queue.i.payload.eq(Cat(*self._masked(m, elements, note), note)),
        ]
        self.report(m, offers=self.outputs[0].valid)
        return m

    def _masked(self, m: Module, elements: Value, note: data.View) -> list[Value]:
        """The elements, zero where the tile has no value."""
        payload = self.made
        t = payload.t
        bits = payload.element_bits
        row_valid = Signal(t)
        col_valid = Signal(t)
        m.d.comb += [
            row_valid.eq(Cat(k < note.rows for k in range(t))),
            col_valid.eq(Cat(k < note.cols for k in range(t))),
        ]
        return [
            Mux(row_valid[k // t] & col_valid[k % t], elements.word_select(k, bits), 0)
            for k in range(t * t)
        ]

    def _collect(self, m, group, ready):
        """The whole tile in the cycle of its last group; earlier ones wait in a shift register."""
        if self.interval == 1:
            return group
        earlier = Signal(len(group) * (self.interval - 1), reset_less=True)
        tile = Signal(len(group) * self.interval)
        m.d.comb += tile.eq(Cat(earlier, group))
        with m.If(ready):
            m.d.sync += earlier.eq(tile[len(group) :])
        return tile
