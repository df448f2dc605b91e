"""The parts of the overlay that are measured: PEs, routers and switches, ALUs and tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.config import PIPELINED, Overlay, Sizes, packet

CAPACITY = 1024
"""Nodes, edges and contexts per PE unless they are swept, as in the paper."""
MESH = 16
"""Packets carry the address of a PE in a mesh of 16 x 16, as in the paper."""


@dataclass(frozen=True)
class Payload(Overlay):
    """An overlay whose values have any number of bits: nothing but its costs can be asked for."""

    bits: int = 32

    @property
    def width(self) -> int:
        return self.bits


@dataclass(frozen=True)
class Part:
    """One of the things measured: how it is named, how it is made from bits of payload and
    capacity, whether payloads are swept, and which contexts (every n-th; 0: none).
    """

    pe: str
    part: str
    variant: str
    make: Callable[[int, int], object]
    payloads: bool = True
    stride: int = 1


def _dynamic(bits: int, **choices) -> Payload:
    return Payload(rows=MESH, cols=MESH, bits=bits, **choices)


def full_sizes(capacity: int) -> Sizes:
    return Sizes(**dict.fromkeys(vars(Sizes()), capacity))


def _dynamic_pe(bits: int, capacity: int, **choices):
    from ...hw.units.token.dynamic_pe import DynamicPE

    return DynamicPE(
        overlay=_dynamic(bits, **choices),
        sizes=full_sizes(capacity),
        classes=["add"],
        with_alu=False,
    )


def _router(bits: int, capacity: int, network: str, **choices):
    from ...hw.noc.hoplite_router import HopliteRouter
    from ...hw.noc.token import struct
    from ...hw.noc.xy_router import XYRouter

    overlay = _dynamic(bits, **choices)
    token = struct(packet(overlay, full_sizes(capacity)))
    return (
        XYRouter(token=token, fifo_depth=overlay.fifo_depth)
        if network == "mesh"
        else HopliteRouter(token=token)
    )


def _static_pe(bits: int, capacity: int, context_ram: str):
    from ...hw.units.token.static_pe import StaticPE

    # The value memory keeps its size: what is swept are the contexts.
    return StaticPE(
        overlay=_dynamic(bits, pe="static"),
        sizes=replace(full_sizes(CAPACITY), contexts=capacity),
        classes=["add"],
        with_alu=False,
        context_ram=context_ram,
    )


def _switch(bits: int, capacity: int, context_ram: str):
    from ...hw.noc.tm_switch import TimeMultiplexedSwitch

    return TimeMultiplexedSwitch(width=bits, contexts=capacity, context_ram=context_ram)


PARTS = (
    Part("dynamic", "PE", "token", lambda bits, n: _dynamic_pe(bits, n), stride=2),
    Part("dynamic", "switch", "mesh", lambda bits, n: _router(bits, n, "mesh"), stride=0),
    Part("static", "PE", "contexts in LUT RAM", lambda bits, n: _static_pe(bits, n, "distributed")),
    Part(
        "static", "switch", "contexts in LUT RAM", lambda bits, n: _switch(bits, n, "distributed")
    ),
    Part(
        "static",
        "PE",
        "contexts in block RAM",
        lambda bits, n: _static_pe(bits, n, "block"),
        payloads=False,
        stride=3,
    ),
    Part(
        "static",
        "switch",
        "contexts in block RAM",
        lambda bits, n: _switch(bits, n, "block"),
        payloads=False,
        stride=3,
    ),
)
"""Swept over payload and contexts; of contexts a router knows only the few bits of a node's
address. The first of each kind is what the paper measured: a token per edge, a mesh;
contexts in LUT RAM.
"""
FURTHER = (
    Part("dynamic", "PE", "forward", lambda bits, n: _dynamic_pe(bits, n, local="forward")),
    Part(
        "dynamic",
        "switch",
        "mesh forward",
        lambda bits, n: _router(bits, n, "mesh", local="forward"),
    ),
    Part("dynamic", "switch", "hoplite", lambda bits, n: _router(bits, n, "hoplite")),
)
"""At 32 bits and full capacity only."""
EVERY = "every operation"

LEFT_OUT = ("mesh forward", "contexts in LUT RAM")
"""Variants not placed and routed: like others, or unsuited to LUT RAM of 16 words."""
TILES = (
    ("dynamic", "pipelined"),
    ("static", "pipelined"),
    ("hybrid", "pipelined"),
    ("dynamic", "deep"),
    ("static", "deep"),
    ("dynamic", "registered"),
)
"""Tiles with ALU. A static PE has its operands in registers anyway."""
Piece = tuple[str, str, Callable[[], Any]]
"""A part, its variant, and what makes it."""


def pieces() -> list[Piece]:
    """PEs without ALU, routers and switch, the ALU, and whole tiles without and with it, at full
    capacity and fp32.
    """
    work: list[Piece] = [
        (f"{p.pe} {p.part}", p.variant, lambda p=p: p.make(32, CAPACITY))
        for p in (*PARTS, *FURTHER)
        if p.variant not in LEFT_OUT
    ]
    every = list(PIPELINED["fp32"])
    work += [
        (f"{pe} tile", "no ALU", lambda pe=pe: tile(Overlay(MESH, MESH, pe), ["add"], False))
        for pe in ("dynamic", "static", "hybrid")
    ]
    work += [
        (f"ALU, {kind}", EVERY, lambda kind=kind: alu(Overlay(alu=kind), every))
        for kind in ("pipelined", "deep")
    ]
    return work + [
        (
            f"{pe} tile",
            f"{EVERY}, {kind}",
            lambda pe=pe, kind=kind: tile(Overlay(MESH, MESH, pe, alu=kind), every),
        )
        for pe, kind in TILES
    ]


def tile(overlay: Overlay, classes: list[str], with_alu: bool = True) -> Any:
    """A PE with its router, of full capacity."""
    from ...hw.units.token.tile import TILES

    return TILES[overlay.pe](
        overlay=overlay, sizes=full_sizes(CAPACITY), classes=classes, with_alu=with_alu
    )


def alu(overlay: Overlay, classes: list[str]) -> Any:
    """The ALU of a PE that does these classes of operations."""
    from ...hw.arith.format import FP32, FP64
    from ...hw.units.token.alu import Alu

    return Alu(
        form=FP32 if overlay.format == "fp32" else FP64,
        latencies={name: overlay.latency(name) for name in classes},
        deep=overlay.deep,
        registered=overlay.alu == "registered",
    )
