"""Deliberately wrong fabrics, to see the check fail: units a cycle slower, a cycle faster, or wrong
in a bit, kind by kind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from unittest import mock

from ..machine.errors import RunError
from ..machine.kinds import KINDS, kind_of
from ..machine.unitgraph import UnitGraph

__all__ = ["MUTATIONS", "SWIFT", "armed", "mutation_bits"]

SLOW = ("latency", "interval", "value")
"""Switches 0 to 2 of a unit's first penstock_mutation.

``latency``: every stream that such a unit delivers (takes, if it delivers none) passes one more
FIFO of full rate. ``interval``: each of these streams carries a beat at most every II + 1 cycles.
``value``: the lowest payload bit of every data beat of these streams is flipped (a scratchpad's own
references, and what is no tile of a source, excepted: those are what other units act by).
"""
SWIFT = {"latency-1": ("map", "matmul"), "interval-1": ("accum", "map", "matmul")}
"""Switches 0 and 1 of a second one, and the kinds whose parameters give room for it.

``latency-1``: the result leaves a cycle early (L - 1 with the datapath as it is). ``interval-1``: a
unit of II = 2 gets twice its lanes or rows and II = 1, with the same L (the latency of an
accumulator is its interval).
"""
MUTATIONS = (*SLOW, *SWIFT)


def kinds_of(graph: UnitGraph) -> list[str]:
    return sorted({u.kind for u in graph.units})


def mutation_bits(graph: UnitGraph, mutate: Mapping[str, str]) -> list[int]:
    """Per kind of the graph, in alphabetical order, which slow ones are on; then, likewise, which
    swift ones.
    """
    kinds = kinds_of(graph)
    where = f"mutation of {graph.name}"
    if unknown := [k for k in mutate if k not in kinds]:
        raise RunError(
            f"no unit of kind {', '.join(unknown)}", where, remedy=f"kinds: {', '.join(kinds)}"
        )
    if unknown := [m for m in mutate.values() if m not in MUTATIONS]:
        raise RunError(
            f"unknown mutation {', '.join(unknown)}",
            where,
            remedy=f"mutations: {', '.join(MUTATIONS)}",
        )
    for kind, what in mutate.items():
        if what in SWIFT and kind not in SWIFT[what]:
            raise RunError(
                f"no unit of kind {kind} can have {what}",
                where,
                remedy=f"kinds: {', '.join(SWIFT[what])}",
            )
    return [
        1 << switches.index(mutate[k]) if mutate.get(k) in switches else 0
        for switches in (SLOW, tuple(SWIFT))
        for k in kinds
    ]


@contextlib.contextmanager
def armed(graph: UnitGraph) -> Iterator[None]:
    """While open, fabrics are built with units that have the switches of :data:`MUTATIONS`."""
    from ..hw.registry import UNITS, component

    saved = dict(UNITS)
    kinds = kinds_of(graph)
    try:
        for index, kind in enumerate(kinds):
            UNITS[kind] = _switched(component(kind), kind, index, len(kinds))
        yield
    finally:
        UNITS.clear()
        UNITS.update(saved)


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


def _switched(cls, kind: str, index: int, kinds: int):
    from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, Value
    from amaranth.lib import data, wiring
    from amaranth.lib.wiring import In

    from ..hw.place import _silence as silence
    from ..hw.units.fifo import Fifo

    class Chosen(wiring.Component):
        """One of several units of equal ports: all see the inputs, that of ``switches`` (none: the
        first) takes and gives beats.
        """

        def __init__(self, units):
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
                    if name in self.units[0].input_names:
                        m.d.comb += [
                            there.valid.eq(here.valid & on),
                            there.payload.eq(here.payload),
                        ]
                        with m.If(on):
                            m.d.comb += here.ready.eq(there.ready)
                    elif name in self.units[0].output_names:
                        m.d.comb += there.ready.eq(here.ready & on)
                        with m.If(on):
                            m.d.comb += [here.payload.eq(there.payload), here.valid.eq(there.valid)]
                    elif member.flow == In:
                        m.d.comb += Value.cast(there).eq(Value.cast(here))
                    else:
                        with m.If(on):
                            m.d.comb += Value.cast(here).eq(Value.cast(there))
            return m

    class Switched(cls):
        def __init__(self, **kw):
            super().__init__(**kw)
            silence(self)  # its own parts stay unused: those of `inner` are elaborated
            self._MustUse__silence = False
            self.swift = {what: unit for what in SWIFT if (unit := _swift(cls, kind, what, **kw))}
            self.inner = Chosen([cls(**kw), *self.swift.values()]) if self.swift else cls(**kw)

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = inner = self.inner
            late = Signal()
            slow = Signal()
            wrong = Signal()
            m.submodules.mutation = Instance(
                "penstock_mutation",
                p_KIND=index,
                i_clk=ClockSignal(),
                o_late=late,
                o_slow=slow,
                o_wrong=wrong,
            )
            if self.swift:
                early = Signal()
                quick = Signal()
                m.submodules.swift = Instance(
                    "penstock_mutation",
                    p_KIND=kinds + index,
                    i_clk=ClockSignal(),
                    o_late=early,
                    o_slow=quick,
                )
                for k, what in enumerate(self.swift):
                    m.d.comb += inner.switches[k].eq((early, quick)[list(SWIFT).index(what)])
            outgoing = self.output_names
            changed = outgoing or self.input_names
            pause = kind_of(kind).of(self.params).interval(self.t) or 1
            for name, member in self.signature.members.items():
                here = getattr(self, name)
                there = getattr(inner, name)
                if name in changed:
                    source, sink = (
                        (there, wiring.flipped(here)) if outgoing else (wiring.flipped(here), there)
                    )
                    shape = source.payload.shape()
                    bits = Signal(Value.cast(source.payload).shape(), name=f"{name}_bits")
                    payload = data.View(shape, bits)
                    acted_by = (kind == "scratchpad" and "page" in shape.members) or (
                        kind == "source" and "elements" not in shape.members
                    )
                    m.d.comb += bits.eq(
                        Value.cast(source.payload)
                        ^ (Const(0) if acted_by else wrong & source.payload.data)
                    )
                    fifo = m.submodules[f"{name}_late"] = Fifo(shape=shape, depth=2)
                    wait = Signal(range(pause + 1), name=f"{name}_wait")
                    free = ~slow | (wait == 0)
                    with m.If(sink.valid & sink.ready):
                        m.d.sync += wait.eq(pause)
                    with m.Elif(wait != 0):
                        m.d.sync += wait.eq(wait - 1)
                    m.d.comb += [
                        fifo.i.payload.eq(payload),
                        fifo.i.valid.eq(source.valid & late),
                        fifo.o.ready.eq(sink.ready & free & late),
                    ]
                    with m.If(late):
                        m.d.comb += [
                            sink.payload.eq(fifo.o.payload),
                            sink.valid.eq(fifo.o.valid & free),
                            source.ready.eq(fifo.i.ready),
                        ]
                    with m.Else():
                        m.d.comb += [
                            sink.payload.eq(payload),
                            sink.valid.eq(source.valid & free),
                            source.ready.eq(sink.ready & free),
                        ]
                elif member.is_port:
                    outer = Value.cast(here)
                    own = Value.cast(there)
                    m.d.comb += own.eq(outer) if member.flow == wiring.In else outer.eq(own)
                else:
                    wiring.connect(m, wiring.flipped(here), there)
            return m

    return Switched
