"""Neighbours in a mesh or a torus."""

from collections.abc import Iterator, Mapping

from amaranth.hdl import Module
from amaranth.lib import wiring

OPPOSITE = {"e": "w", "w": "e", "s": "n", "n": "s"}
STEP = {"e": (1, 0), "w": (-1, 0), "s": (0, 1), "n": (0, -1)}


def links_of(
    tiles: Mapping[tuple[int, int], wiring.Component], *, rows: int, cols: int, torus: bool
) -> Iterator[tuple[tuple[int, int], str, tuple[int, int]]]:
    """Every link that leads to a neighbour: place of its source, side there, place of its end."""
    for (x, y), tile in tiles.items():
        for side, (dx, dy) in STEP.items():
            if not hasattr(tile, f"{side}_o"):
                continue
            to = ((x + dx) % cols, (y + dy) % rows) if torus else (x + dx, y + dy)
            if to in tiles:
                yield (x, y), side, to


def connect_mesh(
    m: Module,
    tiles: Mapping[tuple[int, int], wiring.Component],
    *,
    rows: int,
    cols: int,
    torus: bool,
) -> None:
    """Connect each output link of each tile (``e_o``, ...) to the neighbour's opposite input
    (``w_i``, ...).

    In a mesh the links at the border end: inputs stay at their reset values, so nothing comes in,
    and a stream is never ready. In a torus they go round.

    Parameters
    ----------
    m : Module
        Where the connections are made.
    tiles : mapping
        (x, y) -> tile; x grows to the East, y to the South.
    rows, cols : int
        Of the mesh.
    torus : bool
        Whether the links at the border go round.
    """
    for at, side, to in links_of(tiles, rows=rows, cols=cols, torus=torus):
        source = getattr(tiles[at], f"{side}_o")
        sink = getattr(tiles[to], f"{OPPOSITE[side]}_i")
        if tiles[at].signature.members[f"{side}_o"].is_signature:
            wiring.connect(m, source, sink)
        else:
            m.d.comb += sink.eq(source)
