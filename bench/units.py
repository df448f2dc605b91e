"""Units whose cost and clock rate are recorded: those of programs, and some made by themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from amaranth.lib import wiring
from penstock.hw.beat import Payloads
from penstock.hw.fabric import Fabric
from penstock.hw.parts import Part, parts
from penstock.hw.registry import component
from penstock.machine.beat import Payload, Selector, Tile
from penstock.machine.config import Machine
from penstock.machine.functions import lookup
from penstock.machine.kinds import Kind
from penstock.machine.kinds.compute import Map
from penstock.machine.kinds.copies import Expand
from penstock.machine.kinds.routing import TopK
from penstock.machine.kinds.rows import Permute


def _made(kind: Kind, machine: Machine, *payloads: Payload, inputs: int = 1) -> wiring.Component:
    """A unit by itself; the first of ``payloads`` are its inputs'."""
    given = Payloads(payloads[:inputs], payloads[inputs:])
    return component(kind.name)(kind=kind, t=machine.t, config=machine, payloads=given)


def _map(fn: str, machine: Machine) -> wiring.Component:
    """An element-wise function."""
    n = lookup(fn).arity
    lanes = min(machine.lanes_for(fn), machine.t**2)
    kind = Map(fn=fn, arity=n, lanes=lanes, deep=machine.deep)
    return _made(kind, machine, *[Tile(machine.t, "fp32")] * (n + 1), inputs=n)


def _permute(fn: str, machine: Machine) -> wiring.Component:
    """Elements moved within a tile; halves of four columns."""
    half = {"halves": 4}.get(fn, 0)
    return _made(Permute(fn=fn, half=half), machine, *[Tile(machine.t, "fp32")] * 2)


def _expand(machine: Machine) -> wiring.Component:
    """Tiles, each for all tiles of a row."""
    return _made(Expand(level=1), machine, *[Tile(machine.t, "bf16")] * 3, inputs=2)


def _top_k(machine: Machine) -> wiring.Component:
    """Two of eight columns."""
    tile = Tile(machine.t, "fp32")
    return _made(TopK(n=8, k=2, rank=2), machine, tile, Selector(8), Selector(8), tile)


Maker = Callable[[Machine], wiring.Component]

ALONE: dict[str, Maker] = {
    **{f"map {fn}": partial(_map, fn) for fn in ("max", "rsqrt", "log", "tanh", "gelu", "select")},
    "expand": _expand,
    **{f"permute {fn}": partial(_permute, fn) for fn in ("transpose", "halves")},
    "top_k": _top_k,
}
"""Units that no recorded program has with every tile, by kind and function."""


def called(part: Part, name: str) -> bool:
    """True if a part, or a unit of it, has a name: its kind and function, or these and the
    unit's.
    """
    return name == part.name or name in (f"{part.name} {unit}" for unit in part.units)


def part_of(fabric: Fabric, name: str) -> wiring.Component:
    """The first part of a fabric that is called so, as a component of its own."""
    return next(part for part in parts(fabric) if called(part, name)).make()
