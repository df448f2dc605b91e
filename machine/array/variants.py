"""Variants that the slots of an array are built of: for each slot the units that it can be, the
payloads that their streams have, and the pins of the slot that these take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..beat import BufferRef, Payload, Scalar, Selector, Tile, Tuple
from ..config import Machine
from ..errors import ConfigError
from ..functions import lookup
from ..kinds import Fixed, Kind, OneOf, Port, Table, kind_of
from .capability import Capability
from .description import SMALL_BITS, Slot

NATIVE = ("load", "matmul", "random_store", "store")
"""Kinds that are built for tiles of the machine's element type."""
EITHER = ("accum", "map", "row_reduce")
"""Kinds that take and give tiles of either element type, as a register says."""
NUMBER = Scalar(32)
NUMBERS = frozenset("a address b count n start".split())
"""Ports of the small plane that carry a number of 32 bits at most."""
CONTAINER_TYPE = "fp32"
LOW_BITS = SMALL_BITS.bit_length() - 1
"""Of a register that says how many bits the first member of a tuple has."""


def container(plane: str, t: int) -> Payload:
    """Payload on a plane: a tile of fp32, whose words hold a bf16 element in their low half; or 64
    bits, whose low ones hold a scalar, a selector or a reference.
    """
    return Tile(t, CONTAINER_TYPE) if plane == "tile" else Scalar(SMALL_BITS)


@dataclass(frozen=True)
class Pin:
    """A stream of a unit in a slot."""

    port: Port  # of the unit
    number: int  # of the slot's input or output
    plane: str  # that the pin is on
    payload: Payload  # that the unit is built for
    typed: bool = False  # whether the element type of its tiles matters to the unit
    # whether a register says if they are of bf16; the unit is then built for fp32
    either: bool = False
    # whether it is of two members, and a register says where the second begins
    joined: bool = False

    @property
    def register(self) -> dict[str, int]:
        """Name and bits of that register; none where there is none."""
        if self.either:
            return {f"bf16_{self.port.member}": 1}
        return {f"low_{self.port.member}": LOW_BITS} if self.joined else {}

    def value(self, payload: Payload) -> dict[str, int]:
        """Register value for a payload."""
        held: int = isinstance(payload, Tile) and payload.dtype == "bf16"
        if isinstance(payload, Tuple):
            held = payload.members[0].bits
        return {name: int(held) for name, _ in self.register.items()}

    def carries(self, payload: Payload) -> bool:
        """True if the unit takes or gives a payload here."""
        if not isinstance(payload, Tile):
            return self.plane == "small" and payload.bits <= self.payload.bits
        own = self.payload
        same = isinstance(own, Tile) and payload.t == own.t
        return same and (not self.typed or self.either or payload == own)


@dataclass(frozen=True)
class Variant:
    """A unit that a slot can be."""

    # kind, capability: of the unit
    kind: str
    capability: Capability
    # inputs, outputs: its streams, by port number
    inputs: tuple[Pin, ...]
    outputs: tuple[Pin, ...]

    @property
    def label(self) -> str:
        """Label of the variant, in a few words."""
        fn = self.capability.params.get("fn")
        return f"{self.kind} {fn}" if isinstance(fn, str) else self.kind

    @property
    def registers(self) -> dict[str, int]:
        """Bits of every register: of the unit, and of the element types."""
        formats = {k: v for x in (*self.inputs, *self.outputs) for k, v in x.register.items()}
        return self.capability.registers() | formats

    @property
    def tables(self) -> dict[str, Table]:
        """Tables of the unit."""
        return self.capability.tables()

    def misses(
        self, unit: Kind, inputs: Sequence[Payload], outputs: Sequence[Payload]
    ) -> list[str]:
        """Features that the variant lacks for a unit between these payloads, as
        parts of a message; empty: it fits.
        """
        found = self.capability.misses(unit)
        if found:
            return found
        for pins, payloads in zip(self.pins(unit), (inputs, outputs), strict=True):
            for pin, payload in zip(pins, payloads, strict=True):
                if not pin.carries(payload):
                    found.append(f"{pin.port} carries {payload!r}, not {pin.payload!r}")
        return found

    def pins(self, unit: Kind) -> tuple[list[Pin], list[Pin]]:
        """The pins that a unit uses, by its ports."""
        ins = {x.port: x for x in self.inputs}
        outs = {x.port: x for x in self.outputs}
        return [ins[p] for p in unit.inputs()], [outs[p] for p in unit.outputs()]

    def settings(
        self, unit: Kind, inputs: Sequence[Payload], outputs: Sequence[Payload]
    ) -> dict[str, int]:
        """Register values for a unit that the variant can be."""
        values = self.capability.settings(unit)
        for pins, payloads in zip(self.pins(unit), (inputs, outputs), strict=True):
            for pin, payload in zip(pins, payloads, strict=True):
                values |= pin.value(payload)
        return values


def variants(slot: Slot, machine: Machine) -> tuple[Variant, ...]:
    """Variants of a slot: one unit a kind, and one for each value of a parameter that its unit is
    built for (as the function of a `map`).
    """
    return tuple(
        _variant(slot, kind, bounds, machine)
        for kind in slot.kinds
        for bounds in _each(kind, _filled(kind, slot.bounds(kind), machine), machine)
    )


def _filled(kind: str, bounds: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The bounds of a slot, with those that are the machine's."""
    rank: int = bounds.get("rank", 0)
    pages = machine.pages
    readers: list[Mapping[str, int]] = bounds.get("readers", [])
    if sum("affine" in reader for reader in readers) > 1:
        raise ConfigError(
            "has several readers with `affine`", f"slot for {kind}", "a slot has one at most"
        )
    given: dict[str, Any] = {
        "rows_per_cycle": machine.rows_per_cycle,
        "depth": machine.accum_tiles,
        "lanes": machine.lanes_for("accum"),
        "tuple_in": False,
        "pages": pages,
        "frames": machine.frames,
        "limit": [pages] * len(bounds.get("writers", ())),
        "repeat": [0] * len(readers),
    }
    if machine.deep:
        given["deep"] = True
    if kind == "load":
        given |= dict.fromkeys(("shape", "row_step", "col_step"), [0] * rank)
    if kind == "scratchpad":
        loops = sum(reader.get("affine", 0) for reader in readers)
        given |= dict.fromkeys(("shape", "stride"), [0] * loops)
    if "trigger" in bounds:  # or none
        given["trigger"] = [*OneOf.choices(bounds["trigger"]), None]
        bounds = {k: v for k, v in bounds.items() if k != "trigger"}
    return {k: v for k, v in given.items() if k in kind_of(kind).params} | dict(bounds)


def _each(kind: str, bounds: dict[str, Any], machine: Machine) -> Iterator[dict[str, Any]]:
    """Bounds of one unit: a fixed parameter with a list of values makes one of each."""
    for key, x in kind_of(kind).params.items():
        many = isinstance(bounds.get(key), (list, tuple))
        if many and isinstance(x.setting, Fixed) and list not in (x.types or ()):
            for value in bounds[key]:
                yield from _each(kind, bounds | {key: value}, machine)
            return
    if kind == "map":
        fn = lookup(bounds["fn"])
        if fn.arity > bounds["arity"]:
            raise ConfigError(
                f"arity is {bounds['arity']}",
                f"slot for {kind}",
                f"function {fn.name} has {fn.arity} operands",
            )
        bounds = bounds | {"arity": fn.arity, "lanes": machine.lanes_for(fn.name)}
        if fn.arity == 1:
            bounds = {k: v for k, v in bounds.items() if k not in ("spread", "constant")}
            bounds["spread"] = None
    yield bounds


def _variant(slot: Slot, kind: str, bounds: dict[str, Any], machine: Machine) -> Variant:
    capability = Capability(kind, bounds)
    widest = capability.widest()
    into = slot.pins_of(kind, outputs=False)
    out_of = slot.pins_of(kind, outputs=True)
    taken = tuple(_taken(slot, kind, p, capability, machine) for p in widest.inputs())
    given = widest.payloads(taken)
    made = (None,) * len(widest.outputs()) if given is None else given
    either = kind in EITHER
    native = kind in NATIVE
    ins: list[Pin] = []
    for port, payload in zip(widest.inputs(), taken, strict=True):
        tile = isinstance(payload, Tile)
        number = into[port.member]
        plane = slot.inputs[number].plane
        ins.append(Pin(port, number, plane, payload, native or either, either and tile))
    outs: list[Pin] = []
    for port, stated in zip(widest.outputs(), made, strict=True):
        number = out_of[port.member]
        plane = slot.outputs[number].plane
        payload = stated or _given(plane, native, machine)
        many = either and stated is None and isinstance(payload, Tile)
        joined = isinstance(payload, Tuple)
        outs.append(Pin(port, number, plane, payload, native or either, many, joined))
    return Variant(kind, capability, tuple(ins), tuple(outs))


def _given(plane: str, native: bool, machine: Machine) -> Payload:
    """Payload that a unit gives on an output that its kind leaves open."""
    if plane == "small":
        return Scalar(SMALL_BITS)
    return Tile(machine.t, machine.dtype if native else CONTAINER_TYPE)


def _taken(slot: Slot, kind: str, port: Port, capability: Capability, machine: Machine) -> Payload:
    """Payload that the unit of a slot takes on a port."""
    bounds = capability.bounds
    plane = slot.plane(port)
    if plane == "tile":
        return Tile(machine.t, machine.dtype if kind in NATIVE else CONTAINER_TYPE)
    if port.name == "read":
        return BufferRef(bounds["pages"])
    if port.name == "selector":
        return Selector(bounds.get("n", SMALL_BITS))
    return NUMBER if port.name in NUMBERS else Scalar(SMALL_BITS)
