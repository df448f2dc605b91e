"""Clock rates: parts of the overlay placed and routed on a Lattice ECP5 by nextpnr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...hw.nextpnr import SPEEDS, rates
from ...machine.errors import PenstockError
from ...runs.progress import Progress


def pieces() -> list[tuple[str, str, Callable[[], Any]]]:
    """PEs without ALU, routers and switch, the ALU, and whole tiles without and with it, at full
    capacity and fp32: part, variant, and what makes it.
    """
    from ...hw.arith.format import FP32
    from ...hw.units.token.alu import Alu
    from ...hw.units.token.tile import DynamicTile, StaticTile
    from ..core.config import PIPELINED, Overlay
    from .parts import CAPACITY, EVERY, FURTHER, MESH, PARTS, full_sizes

    work: list[tuple[str, str, Callable[[], Any]]] = [
        (f"{p.pe} {p.part}", p.variant, lambda p=p: p.make(32, CAPACITY))
        for p in (*PARTS, *FURTHER)
        if p.variant not in LEFT_OUT
    ]
    tiles = {"dynamic": DynamicTile, "static": StaticTile}
    for pe, tile in tiles.items():
        overlay = Overlay(rows=MESH, cols=MESH, pe=pe)
        work.append(
            (
                f"{pe} tile",
                "no ALU",
                lambda tile=tile, o=overlay: tile(
                    overlay=o, sizes=full_sizes(CAPACITY), classes=["add"], with_alu=False
                ),
            )
        )
    for alu in ("pipelined", "deep"):
        of = Overlay(alu=alu)
        latencies = {name: of.latency(name) for name in PIPELINED["fp32"]}
        work.append(
            (
                f"ALU, {alu}",
                EVERY,
                lambda given=latencies, deep=of.deep: Alu(form=FP32, latencies=given, deep=deep),
            )
        )
    for pe, alu in TILES:
        overlay = Overlay(rows=MESH, cols=MESH, alu=alu, pe=pe)
        work.append(
            (
                f"{pe} tile",
                f"{EVERY}, {alu}",
                lambda tile=tiles[pe], o=overlay: tile(
                    overlay=o, sizes=full_sizes(CAPACITY), classes=list(PIPELINED["fp32"])
                ),
            )
        )
    return work


def clock_rates(
    progress: Progress | None = None,
    *,
    only: str = "",
    seeds: Sequence[int] = (1,),
    speed: str = SPEEDS[0],
) -> list[dict]:
    """Clocks of the :func:`pieces` whose name or variant contains ``only``, and their resources on
    the device.

    Each row has the least rate over the seeds of the placement, and its critical path.
    """
    work = [piece for piece in pieces() if only in f"{piece[0]} {piece[1]}"]
    if not work:
        names = ", ".join(dict.fromkeys(part for part, _, _ in pieces()))
        raise PenstockError(f"no part's name contains {only!r}", remedy=f"parts: {names}")
    progress = progress or Progress()
    progress.plan(len(work))
    rows = []
    for part, variant, make in work:
        progress.stage(f"place and route: {part}, {variant}")
        row = {"part": part, "variant": variant}
        rows.append(row | rates(make, seeds=seeds, speed=speed))
        progress.done(part)
    return rows


LEFT_OUT = ("mesh forward", "contexts in LUT RAM")
"""Variants not placed and routed: like others, or unsuited to LUT RAM of 16 words."""
TILES = (
    ("dynamic", "pipelined"),
    ("static", "pipelined"),
    ("dynamic", "deep"),
    ("static", "deep"),
    ("dynamic", "registered"),
)
"""Tiles with ALU. A static PE has its operands in registers anyway."""
