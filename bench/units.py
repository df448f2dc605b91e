"""Units whose cost and clock rate are recorded: those of programs, and two made by themselves."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.lib import wiring
from penstock.hw.beat import Payloads
from penstock.hw.fabric import Fabric
from penstock.hw.parts import Part, parts
from penstock.hw.registry import component
from penstock.machine.beat import Tile
from penstock.machine.config import Machine
from penstock.machine.kinds import Kind
from penstock.machine.kinds.compute import Map
from penstock.machine.kinds.copies import Expand


def _made(kind: Kind, dtype: str, machine: Machine) -> wiring.Component:
    """A unit of two inputs and an output of tiles."""
    tile = Tile(machine.t, dtype)
    return component(kind.name)(
        kind=kind, t=machine.t, config=machine, payloads=Payloads((tile, tile), (tile,))
    )


def _maximum(machine: Machine) -> wiring.Component:
    """Elementwise maximum of two tiles."""
    lanes = min(machine.lanes_for("max"), machine.t**2)
    return _made(Map(fn="max", arity=2, lanes=lanes, deep=machine.deep), "fp32", machine)


def _expand(machine: Machine) -> wiring.Component:
    """Tiles, each for all tiles of a row."""
    return _made(Expand(level=1), "bf16", machine)


Maker = Callable[[Machine], wiring.Component]

ALONE: dict[str, Maker] = {"map max": _maximum, "expand": _expand}
"""Units that no recorded program has with every tile, by kind and function."""


def called(part: Part, name: str) -> bool:
    """True if a part, or a unit of it, has a name: its kind and function, or these and the
    unit's.
    """
    return name == part.name or name in (f"{part.name} {unit}" for unit in part.units)


def part_of(fabric: Fabric, name: str) -> wiring.Component:
    """The first part of a fabric that is called so, as a component of its own."""
    return next(part for part in parts(fabric) if called(part, name)).make()
