"""Units that can be made wrong while they run: what
:func:`armed` puts in the place of a kind's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, Value, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..hw.place import silence
from ..hw.registry import UNITS, component
from ..hw.units.fifo import Fifo
from ..hw.units.unit import Unit
from ..machine.kinds import KINDS, kind_of
from ..machine.unitgraph import UnitGraph
from .mutation import SWIFT, kinds_of


@contextlib.contextmanager
def _timing(kind: str, latency: int, interval: int) -> Iterator[None]:
    """While open, a kind has these L and II."""
    with mock.patch.multiple(KINDS[kind], latency=lambda *_: latency, interval=lambda *_: interval):
        yield


def _swift(cls, kind: str, what: str, *, params, t, **kw):
    """A unit of L - 1 or II - 1, or None where there is no room for it."""
    rule = kind_of(kind).of(params)
    latency = rule.latency(t)
    interval = rule.interval(t)
    if kind not in SWIFT[what] or latency is None or interval is None:
        return None
    if what == "latency-1" and latency > interval:
        latency -= 1
    elif what == "interval-1" and interval == 2:
        width = "rows_per_cycle" if kind == "matmul" else "lanes"
        params = {**params, width: params[width] * 2}
        interval = 1
    else:
        return None
    with _timing(kind, latency, interval):
        return cls(params=params, t=t, **kw)


class Chosen(wiring.Component):
    """One of several units of equal ports: all see the inputs, that of ``switches`` (none: the
    first) takes and gives beats.
    """

    def __init__(self, units: list[Unit]):
        self.units = units
        super().__init__({**units[0].signature.members, "switches": In(len(units) - 1)})

    def elaborate(self, platform):
        m = Module()
        for k, unit in enumerate(self.units):
            m.submodules[f"unit{k}"] = unit
            on = self.switches[k - 1] if k else ~self.switches.any()
            for name, member in unit.signature.members.items():
                here = getattr(self, name)
                there = getattr(unit, name)
                if name in unit.input_names:
                    m.d.comb += there.valid.eq(here.valid & on)
                    m.d.comb += there.payload.eq(here.payload)
                    with m.If(on):
                        m.d.comb += here.ready.eq(there.ready)
                elif name in unit.output_names:
                    m.d.comb += there.ready.eq(here.ready & on)
                    with m.If(on):
                        m.d.comb += here.payload.eq(there.payload)
                        m.d.comb += here.valid.eq(there.valid)
                elif member.flow == In:
                    m.d.comb += Value.cast(there).eq(Value.cast(here))
                else:
                    with m.If(on):
                        m.d.comb += Value.cast(here).eq(Value.cast(there))
        return m


class Disturbed(wiring.Component):
    """A stream that can be made late, slow, or wrong in a bit.

    Parameters
    ----------
    shape : ShapeLike
        Of a beat.
    pause : int
        Cycles between two beats of a stream that is slow.
    kept : bool
        The payload stays right: other units act by it.

    Members
    -------
    i, o : streams of ``shape``
        A beat passes at once but where one of the switches is on.
    late : In(1)
        Beats pass a FIFO of full rate.
    slow : In(1)
        After a beat the stream waits for ``pause`` cycles.
    wrong : In(1)
        The lowest bit of a data beat is flipped.
    """

    def __init__(self, shape, *, pause: int, kept: bool):
        self.shape = shape
        self.pause = pause
        self.kept = kept
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "late": In(1),
                "slow": In(1),
                "wrong": In(1),
            }
        )

    def flipped(self, m: Module) -> data.View:
        """The payload, wrong where asked."""
        given = Value.cast(self.i.payload)
        bits = Signal(given.shape())
        flip = Const(0) if self.kept else self.wrong & self.i.payload.data
        m.d.comb += bits.eq(given ^ flip)
        return data.View(self.shape, bits)

    def free(self, m: Module) -> ValueLike:
        """True if a beat may leave: always, or ``pause`` cycles after the last."""
        wait = Signal(range(self.pause + 1))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += wait.eq(self.pause)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        return ~self.slow | (wait == 0)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = Fifo(shape=self.shape, depth=2)
        payload = self.flipped(m)
        free = self.free(m)
        m.d.comb += fifo.i.payload.eq(payload)
        m.d.comb += fifo.i.valid.eq(self.i.valid & self.late)
        m.d.comb += fifo.o.ready.eq(self.o.ready & free & self.late)
        with m.If(self.late):
            m.d.comb += self.o.payload.eq(fifo.o.payload)
            m.d.comb += self.o.valid.eq(fifo.o.valid & free)
            m.d.comb += self.i.ready.eq(fifo.i.ready)
        with m.Else():
            m.d.comb += self.o.payload.eq(payload)
            m.d.comb += self.o.valid.eq(self.i.valid & free)
            m.d.comb += self.i.ready.eq(self.o.ready & free)
        return m


def switches(m: Module, name: str, number: int) -> dict[str, Signal]:
    """The three switches that the bench drives, of one number."""
    found = {what: Signal(name=f"{name}_{what}") for what in ("late", "slow", "wrong")}
    m.submodules[name] = Instance(
        "penstock_mutation",
        p_KIND=number,
        i_clk=ClockSignal(),
        **{f"o_{what}": signal for what, signal in found.items()},
    )
    return found


def others_act_by(kind: str, shape: data.StructLayout) -> bool:
    """True if other units act by a stream's payload: a scratchpad's own references, and what is no
    tile of a source.
    """
    if kind == "scratchpad":
        return "page" in shape.members
    return kind == "source" and "elements" not in shape.members


def switched(cls: type[Unit], kind: str, index: int, kinds: int) -> type[Unit]:
    """A unit of ``kind`` with the switches of :data:`penstock.tb.mutation.MUTATIONS`.

    Parameters
    ----------
    cls : type
        The kind's own unit.
    kind : str
        Its name.
    index, kinds : int
        The kind's place among those of the fabric, and their number: the switches' numbers.
    """

    class Switched(cls):
        def __init__(self, **kw):
            super().__init__(**kw)
            silence(self)  # its own parts stay unused: those of `inner` are elaborated
            self._MustUse__silence = False
            self.swift = {what: unit for what in SWIFT if (unit := _swift(cls, kind, what, **kw))}
            self.inner = Chosen([cls(**kw), *self.swift.values()]) if self.swift else cls(**kw)

        def choose(self, m: Module) -> None:
            """Let the bench choose among the swift forms."""
            chosen = switches(m, "swift", kinds + index)
            early = (chosen["late"], chosen["slow"])
            for k, what in enumerate(self.swift):
                m.d.comb += self.inner.switches[k].eq(early[list(SWIFT).index(what)])

        def disturb(self, m: Module, name: str, slow: dict[str, Signal]) -> None:
            """Lead a stream past its switches."""
            here = getattr(self, name)
            there = getattr(self.inner, name)
            shape = there.payload.shape()
            part = Disturbed(
                shape,
                pause=kind_of(kind).of(self.params).interval(self.t) or 1,
                kept=others_act_by(kind, shape),
            )
            m.submodules[f"{name}_disturbed"] = part
            for what, signal in slow.items():
                m.d.comb += getattr(part, what).eq(signal)
            if name in self.output_names:
                wiring.connect(m, there, part.i)
                wiring.connect(m, part.o, wiring.flipped(here))
            else:
                wiring.connect(m, wiring.flipped(here), part.i)
                wiring.connect(m, part.o, there)

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = self.inner
            slow = switches(m, "mutation", index)
            if self.swift:
                self.choose(m)
            changed = self.output_names or self.input_names
            for name, member in self.signature.members.items():
                here = getattr(self, name)
                there = getattr(self.inner, name)
                if name in changed:
                    self.disturb(m, name, slow)
                elif member.is_port:
                    outer = Value.cast(here)
                    own = Value.cast(there)
                    m.d.comb += own.eq(outer) if member.flow == In else outer.eq(own)
                else:
                    wiring.connect(m, wiring.flipped(here), there)
            return m

    return Switched


@contextlib.contextmanager
def armed(graph: UnitGraph) -> Iterator[None]:
    """While open, fabrics are built with units that have the switches of
    :data:`penstock.tb.mutation.MUTATIONS`.
    """
    saved = dict(UNITS)
    kinds = kinds_of(graph)
    try:
        for index, kind in enumerate(kinds):
            UNITS[kind] = switched(component(kind), kind, index, len(kinds))
        yield
    finally:
        UNITS.clear()
        UNITS.update(saved)
