"""A configured unit beside the dedicated one of the same parameters: one stimulus, every output of
both compared in every cycle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib.wiring import Flow, In, Out
from amaranth.sim import Simulator

from ..hw.beat import Payloads
from ..hw.registry import component
from ..hw.units.fifo import Fifo
from ..hw.units.unit import Unit, widest
from ..machine.array.capability import Capability
from ..machine.beat import (
    STOP_BITS,
    STOP_DONE,
    BufferRef,
    Payload,
    Scalar,
    Selector,
    Tile,
    beat_bits,
)
from ..machine.config import Machine
from ..machine.faults import Fault
from ..machine.kinds import KINDS, REQUIRED, Among, Given, Kind, Optional, Ports, UpTo, kind_of
from .stimulus import ragged, value

TRIES = 1000
EDGE = 2
TILE = Tile(EDGE, "fp32")
REFERENCE = BufferRef(8)
Form = Sequence[tuple[int, bool]]
BOUNDS = {Ports: 3, Among: 0b11111, UpTo: 8, Given: 0, Optional: 3}
"""Bounds by setting, where a test states none."""
STATED = {
    "source": [{"beats": None}],  # a dedicated fabric's has no memory
    "sink": [{"beats": None}],
    "accum": [
        {"fn": fns, "lanes": lanes, "init": 2**32 - 1}
        for fns, lanes in ((["add", "max"], 4), (["max", "add"], 2))
    ],
    "map": [{"fn": "sub", "arity": 2, "lanes": 2, "tuple_in": False, "constant": 2**32 - 1}],
    "matmul": [{"rows_per_cycle": 1}],
    "row_reduce": [{"fn": ["add", "max"]}],
    "permute": [{"fn": "transpose"}],
    "top_k": [{"n": 3, "k": 2, "rank": 2}],
    "generate": [{"fn": fn} for fn in ("address", "elements", "expert", "last")],
}
"""Bounds of the parameters that are fixed in a slot, of one or several slots."""
OVERFLOWS = (Fault.ACCUMULATORS, Fault.ROWS)
"""Faults from which on a unit that keeps more does otherwise: a comparison ends with one."""


def capability(kind: str, stated: Mapping[str, Any]) -> Capability:
    """A capability of a kind: the bounds that are stated, and one for each other setting."""
    params = kind_of(kind).params
    bounds = {
        key: BOUNDS[type(x.setting)]
        for key, x in params.items()
        if type(x.setting) in BOUNDS and x.setting.most in (None, REQUIRED)
    }
    return Capability(kind, {**bounds, **stated})


def every() -> list[Capability]:
    """Slots of every kind but those of memories."""
    return [
        capability(name, stated)
        for name, kind in sorted(KINDS.items())
        if not kind.memory and not kind.offchip
        for stated in STATED.get(name, [{}])
    ]


def drawn(slot: Capability, rng: np.random.Generator) -> Kind:
    """A unit that fits a slot and can be built."""

    def below(n: int) -> int:
        return int(rng.integers(n))

    kind = kind_of(slot.kind)
    for _ in range(TRIES):
        unit = kind.of(
            {k: kind.params[k].setting.draw(bound, below) for k, bound in slot.bounds.items()}
        )
        if _streams(unit, TILE):
            return unit
    raise ValueError(f"No unit fits {slot!r}")


def _streams(kind: Kind, plain: Payload) -> Payloads | None:
    """Payloads that the ports of a unit may have; None if its parameters break a rule."""
    wide = [plain, Scalar(8), *(Selector(n) for n in range(1, 5)), TILE]
    for given in itertools.product(wide, repeat=len(kind.inputs())):
        try:
            made = kind.payloads(given)
        except ValueError:
            continue
        outputs = len(kind.outputs())
        made = (None,) * outputs if made is None else made
        return Payloads(given, tuple((*given, wide[0])[0] if x is None else x for x in made))
    return None


class Pair(Elaboratable):
    """Both units, the registers of the one, and the difference of their outputs."""

    def __init__(
        self, slot: Capability, unit: Kind, settings: Mapping[str, int], plain: Payload = TILE
    ):
        self.unit = _built(unit, plain, slot)
        self.slot = _built(slot, plain, slot)
        self.settings = {**slot.settings(unit), **settings}
        self.names = [_streams_of(self.slot, way) for way in (In, Out)]
        self.valid = {name: Signal(name=f"{name}_valid") for name in self.names[0]}
        self.beat = {
            name: Signal(len(Value.cast(getattr(self.slot, name).payload)), name=f"{name}_beat")
            for name in self.names[0]
        }
        self.ready = {name: Signal(name=f"{name}_ready") for name in self.names[1]}
        self.taken = {name: Signal(name=f"{name}_taken") for name in self.names[0]}
        self.unequal: dict[str, Signal] = {}
        self.over = Signal()
        self.cycle = Signal(32)

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = self.unit
        m.submodules.slot = self.slot
        m.d.sync += self.cycle.eq(self.cycle + 1)  # a clock, for units without a register
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
        over = [Cat(unit.error[bit] for bit in OVERFLOWS) for unit in (self.unit, self.slot)]
        self._same(m, "overflow", *over)
        m.d.comb += self.over.eq(over[0].any())
        return m

    def _same(self, m: Module, name: str, unit: Any, slot: Any) -> None:
        self.unequal[name] = differs = Signal(name=f"{name}_differs")
        m.d.comb += differs.eq(Value.cast(unit) != Value.cast(slot))

    def _input(self, m: Module, name: str) -> None:
        slot = getattr(self.slot, name)
        bits = self.beat[name]
        m.d.comb += [slot.valid.eq(self.valid[name]), Value.cast(slot.payload).eq(bits)]
        if name not in self.unit.signature.members:
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
        if name not in self.unit.signature.members:
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


def _streams_of(unit: Unit, way: Flow) -> list[str]:
    """Members that are streams, those to the outside of the fabric among them."""
    return [
        name
        for name, member in unit.signature.members.items()
        if member.is_signature and member.flow is way and "payload" in member.signature.members
    ]


def _built(kind: Kind | Capability, plain: Payload, slot: Capability) -> Unit:
    """A unit, or the slot itself; ``plain`` is on the ports that may carry anything."""
    posts = KINDS[slot.kind].posts
    payload = REFERENCE if posts and slot.bounds[posts] is not None else plain
    return component(slot.kind)(
        kind=kind, t=EDGE, config=Machine(t=EDGE), payloads=_streams(widest(kind), payload)
    )


def _beats(rng: np.random.Generator, payload: Payload, form: Form) -> Iterator[int]:
    """Beats of the given stops with data or without, as bits, for ever."""
    high = int(rng.integers(1, EDGE + 1))
    for stop, bare in itertools.cycle(form):
        rows = None if rng.integers(2) else int(rng.integers(high + 1))
        bits = 0 if bare else value(rng, payload, rows)
        yield bits | stop << payload.bits | (not bare) << payload.bits + STOP_BITS


def _form(rng: np.random.Generator) -> Form:
    """Stops of some streams and of their Dones, some for empty tensors: (stop, bare)."""
    streams = [ragged(rng, int(rng.integers(1, 5)), 3)[:60] for _ in range(3)]
    levels = [s for stream in streams for s in (*stream, STOP_DONE)]
    return [(s, s == STOP_DONE or (s > 0 and not rng.integers(8))) for s in levels]


def unequal(
    slot: Capability,
    unit: Kind,
    rng: np.random.Generator,
    cycles: int,
    settings: Mapping[str, int] = {},
) -> list[str]:
    """Outputs in which a slot that is configured for a unit differs from the dedicated unit in
    any cycle: as ``cycle 7: result_payload``. ``settings`` are registers that hold something else.
    """
    pair = Pair(slot, unit, settings)
    payloads: dict[str, Payload] = dict.fromkeys(pair.names[0], TILE)
    payloads |= dict(zip(pair.slot.input_names, pair.slot.payloads.inputs, strict=True))
    payloads |= dict(zip(pair.unit.input_names, pair.unit.payloads.inputs, strict=True))
    form = _form(rng)
    found: list[str] = []

    def feed(name: str) -> Iterator[int]:
        """Most inputs have beats of the same stops."""
        own = payloads[name]
        more = len(pair.beat[name]) - beat_bits(own)
        for beat in _beats(rng, own, form if rng.integers(4) else _form(rng)):
            yield beat & (1 << own.bits) - 1 | beat >> own.bits << own.bits + more

    async def bench(ctx):
        beats = {name: feed(name) for name in payloads}
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
            over = ctx.get(pair.over)
            compared = ["overflow"] if over else pair.unequal
            found.extend(f"cycle {cycle}: {x}" for x in compared if ctx.get(pair.unequal[x]))
            if found or over:
                return
            for name in beats:
                held[name] &= not ctx.get(pair.taken[name])
            await ctx.tick()

    simulate(pair, bench)
    return found


class FifoPair(Elaboratable):
    """A FIFO of an array that may hold ``limit`` entries, beside the dedicated one of ``depth``."""

    def __init__(self, places: int, depth: int, limit: int | None = None):
        self.own = Fifo(shape=8, depth=depth)
        self.slot = Fifo(shape=8, depth=places, configured=True)
        self.limit = depth if limit is None else limit
        self.put = Signal()
        self.get = Signal()
        self.beat = Signal(8)
        self.differs = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.own = own = self.own
        m.submodules.slot = slot = self.slot
        m.d.comb += slot.limit.eq(self.limit)
        for fifo in (own, slot):
            m.d.comb += [
                fifo.i.valid.eq(self.put),
                fifo.i.payload.eq(self.beat),
                fifo.o.ready.eq(self.get),
            ]
        m.d.comb += self.differs.eq(
            (own.i.ready != slot.i.ready)
            | (own.o.valid != slot.o.valid)
            | (own.o.valid & (own.o.payload != slot.o.payload))
            | (own.level != slot.level)
        )
        return m


def simulate(design: Elaboratable, bench: Callable) -> None:
    """Run ``bench``, a test bench of Amaranth's simulator, to its end."""
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
