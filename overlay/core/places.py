"""Signals inside an overlay's Verilog by which a bench sees writes and tokens."""

from __future__ import annotations

from dataclasses import dataclass

from .config import LINKS, Overlay, Sizes, packet

WIRES = 1 << 20
"""Added to the number of a hybrid link: its wires, on which contexts put values."""


@dataclass(frozen=True)
class Place:
    """A write port, or a link, where words move; paths are those of the hierarchy.

    Attributes
    ----------
    name
        Of the place, in tables.
    late
        Cycles after a move in which its signals show it.
    when
        Signals whose lowest bits are high where something moves; none: wires that count where
        somebody reads them.
    parts
        Signals of the words.
    shift
        Bits of a part below its word.
    """

    name: str
    late: int
    when: tuple[str, ...]
    parts: tuple[str, ...]
    shift: int = 0


def _tile(overlay: Overlay, pe: int) -> str:
    return f"tile_{pe % overlay.cols}_{pe // overlay.cols}"


def write_ports(overlay: Overlay) -> dict[int, Place]:
    """Writes by PE: address and word of its value memory; a PE with contexts shows one a cycle
    later.
    """
    static = overlay.pe != "dynamic"
    port = "pe._put__" if static else "pe.values.write__"
    found: dict[int, Place] = {}
    for pe in range(overlay.pes):
        tile = _tile(overlay, pe)
        en, addr, data = (f"{tile}.{port}{name}" for name in ("en", "addr", "data"))
        found[pe] = Place(f"{tile} write", int(static), (en,), (addr, data))
    return found


def links(overlay: Overlay, sizes: Sizes) -> dict[int, Place]:
    """Moves by link: its stream, or its register, which shows a token a cycle later; of static PEs
    the wires; of hybrid ones both.
    """
    found: dict[int, Place] = {}
    for link in overlay.links():
        pe, side = divmod(link, len(LINKS))
        path = f"{_tile(overlay, pe)}.{LINKS[side]}_o"
        if overlay.pe == "static":
            found[link] = Place(path, 1, (), (path,))
        elif overlay.torus:
            found[link] = Place(path, 1, (path,), (path,), shift=1)
        else:
            found[link] = Place(path, 0, (f"{path}_valid", f"{path}_ready"), (f"{path}_payload",))
        if overlay.pe == "hybrid":
            below = packet(overlay, sizes).width - overlay.width
            found[WIRES + link] = Place(f"{path} wires", 1, (), (f"{path}_payload",), below)
    return found
