"""A configured unit beside the dedicated one of the same parameters: one stimulus, every output of
both compared in every cycle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.sim import Simulator

from ..hw.beat import Payloads
from ..hw.registry import component
from ..hw.units.unit import Unit
from ..machine.array.capability import Capability
from ..machine.beat import STOP_BITS, STOP_DONE, Payload, Scalar, Selector, Tile
from ..machine.config import Machine
from ..machine.faults import Fault
from ..machine.kinds import REQUIRED, Among, Kind, OneOf, Ports, kind_of
from .stimulus import ragged, value

__all__ = ["capability", "drawn", "unequal"]

TRIES = 1000
EDGE = 2
TILE = Tile(EDGE, "fp32")
OVERFLOWS = (Fault.ACCUMULATORS, Fault.ROWS)
"""Faults behind which a unit that keeps more goes on otherwise: a comparison ends with one."""


def capability(kind: str, stated: Mapping[str, Any]) -> Capability:
    """A capability of a kind: the bounds that are stated, and one for each other setting that needs
    one.
    """
    bounds = dict(stated)
    for key, x in kind_of(kind).params.items():
        needed = x.setting.most is REQUIRED and x.required and key not in bounds
        if needed and isinstance(x.setting, Ports):
            bounds[key] = 3
        elif needed and isinstance(x.setting, Among):
            bounds[key] = 0b11111
        elif needed and not isinstance(x.setting, OneOf):
            bounds[key] = 8
    return Capability(kind, bounds)


def drawn(slot: Capability, rng: np.random.Generator) -> dict[str, Any]:
    """Parameters of a unit that fits a slot and can be built."""

    def below(n: int) -> int:
        return int(rng.integers(n))

    kind = kind_of(slot.kind)
    for _ in range(TRIES):
        params = {
            key: kind.params[key].setting.draw(bound, below) for key, bound in slot.bounds.items()
        }
        if _streams(kind.of(params)):
            return params
    raise ValueError(f"No unit fits {slot!r}")


def _streams(kind: Kind) -> Payloads | None:
    """Payloads that the ports of a unit may have; None if its parameters break a rule."""
    wide = [TILE, Scalar(8), *(Selector(n) for n in range(1, 5))]
    for given in itertools.product(wide, repeat=len(kind.inputs())):
        try:
            made = kind.payloads(given)
        except ValueError:
            continue
        outputs = len(kind.outputs())
        made = (None,) * outputs if made is None else made
        return Payloads(given, tuple(given[0] if x is None else x for x in made))
    return None


class _Pair(Elaboratable):
    """Both units, the registers of the one, and what of their outputs differs."""

    def __init__(self, slot: Capability, params: dict[str, Any]):
        self.unit = _built(slot.kind, params, params, False)
        self.slot = _built(slot.kind, slot.bounds, slot.widest(), True)
        self.settings = slot.settings(params)
        self.names = (self.slot.input_names, self.slot.output_names)
        self.valid = {name: Signal(name=f"{name}_valid") for name in self.names[0]}
        self.beat = {
            name: Signal(len(Value.cast(getattr(self.slot, name).payload)), name=f"{name}_beat")
            for name in self.names[0]
        }
        self.ready = {name: Signal(name=f"{name}_ready") for name in self.names[1]}
        self.taken = {name: Signal(name=f"{name}_taken") for name in self.names[0]}
        self.unequal: dict[str, Signal] = {}
        self.over = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = self.unit
        m.submodules.slot = self.slot
        for name, number in self.settings.items():
            m.d.comb += self.slot.cfg[name].eq(number)
        if hasattr(self.unit, "cfg"):
            for name, _ in self.unit.cfg.shape():
                m.d.comb += self.unit.cfg[name].eq(self.settings[name])
        for name in self.names[0]:
            self._input(m, name)
        for name in self.names[1]:
            self._output(m, name)
        for name in ("busy", "blocked", "done", "error", "post"):
            if hasattr(self.unit, name):
                self._same(m, name, getattr(self.unit, name), getattr(self.slot, name))
            elif hasattr(self.slot, name):
                self._same(m, name, getattr(self.slot, name).valid, 0)
        m.d.comb += self.over.eq(Cat(self.unit.error[bit] for bit in OVERFLOWS).any())
        return m

    def _same(self, m: Module, name: str, unit: Any, slot: Any) -> None:
        self.unequal[name] = differs = Signal(name=f"{name}_differs")
        m.d.comb += differs.eq(Value.cast(unit) != Value.cast(slot))

    def _input(self, m: Module, name: str) -> None:
        slot = getattr(self.slot, name)
        bits = self.beat[name]
        m.d.comb += [slot.valid.eq(self.valid[name]), Value.cast(slot.payload).eq(bits)]
        if name not in self.unit.input_names:
            self._same(m, name, slot.ready, 0)
            return
        unit = getattr(self.unit, name)
        own = len(Value.cast(unit.payload)) - STOP_BITS - 1
        m.d.comb += [
            unit.valid.eq(self.valid[name]),
            Value.cast(unit.payload).eq(Cat(bits[:own], bits[-STOP_BITS - 1 :])),
            self.taken[name].eq(unit.valid & unit.ready),
        ]
        self._same(m, name, unit.ready, slot.ready)

    def _output(self, m: Module, name: str) -> None:
        slot = getattr(self.slot, name)
        m.d.comb += slot.ready.eq(self.ready[name])
        if name not in self.unit.output_names:
            self._same(m, name, slot.valid, 0)
            return
        unit = getattr(self.unit, name)
        m.d.comb += unit.ready.eq(self.ready[name])
        self._same(m, name, unit.valid, slot.valid)
        bits = Value.cast(unit.payload)
        own = len(bits) - STOP_BITS - 1
        more = Const(0, len(Value.cast(slot.payload)) - len(bits))
        given = Cat(bits[:own], more, bits[own:])
        made = Value.cast(slot.payload)
        self._same(m, f"{name}_payload", Mux(unit.valid, given, 0), Mux(unit.valid, made, 0))


def _built(
    kind: str, params: Mapping[str, Any], widest: Mapping[str, Any], configured: bool
) -> Unit:
    return component(kind)(
        params=dict(params),
        t=EDGE,
        config=Machine(t=EDGE),
        payloads=_streams(kind_of(kind).of(widest)),
        configured=configured,
    )


def _beats(rng: np.random.Generator, payload: Payload, stops: list[int]) -> Iterator[int]:
    """Beats of the given stops, every eighth a bare one, as bits."""
    for stop in stops:
        bare = stop == STOP_DONE or (stop > 0 and not rng.integers(8))
        bits = 0 if bare else value(rng, payload)
        yield bits | stop << payload.bits | (not bare) << payload.bits + STOP_BITS


def _stops(rng: np.random.Generator) -> list[int]:
    """Stops of two streams and of their Dones."""
    one = ragged(rng, int(rng.integers(1, 5)), 3)
    return [*one[:60], STOP_DONE, *ragged(rng, 2, 4), STOP_DONE]


def unequal(
    slot: Capability, params: dict[str, Any], rng: np.random.Generator, cycles: int
) -> list[str]:
    """Outputs in which a slot that is configured for ``params`` differs from the dedicated unit in
    any cycle: as ``cycle 7: result_payload``.
    """
    pair = _Pair(slot, params)
    payloads = dict(zip(pair.slot.input_names, pair.slot.payloads.inputs, strict=True))
    stops = _stops(rng)
    found: list[str] = []

    def feed(payload: Payload) -> Iterator[int]:
        own = stops if rng.integers(4) else _stops(rng)
        return itertools.chain(_beats(rng, payload, own), itertools.cycle([0]))

    async def bench(ctx):
        beats = {name: feed(payload) for name, payload in payloads.items()}
        waits = rng.random(len(beats) + len(pair.ready)) ** 2
        held: dict[str, bool] = dict.fromkeys(beats, False)
        for cycle in range(cycles):
            for name, rate in zip(beats, waits, strict=False):
                if not held[name] and rng.random() >= rate * 0.8:
                    ctx.set(pair.beat[name], next(beats[name]))
                    held[name] = True
                ctx.set(pair.valid[name], held[name])
            for name, rate in zip(pair.ready, waits[len(beats) :], strict=True):
                ctx.set(pair.ready[name], bool(rng.random() >= rate * 0.8))
            found.extend(f"cycle {cycle}: {name}" for name, x in pair.unequal.items() if ctx.get(x))
            if found or ctx.get(pair.over):
                return
            for name in beats:
                held[name] &= not ctx.get(pair.taken[name])
            await ctx.tick()

    simulate(pair, bench)
    return found


def simulate(design: Elaboratable, bench: Callable) -> None:
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
