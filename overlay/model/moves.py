"""Moves of a run that a bench sees: writes to value memories and tokens of links, by cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.config import WRITE_ALU, WRITE_NET, packet
from ..core.image import DynamicImage, HybridImage, Image, StaticImage
from ..core.places import WIRES
from .routes import routes
from .simulate import Run, simulate
from .values import carried, values


@dataclass(frozen=True)
class Moves:
    """Writes and tokens of a run.

    Attributes
    ----------
    cycles
        Of the run.
    values, known
        Word of each node at the end; which of them a run computes.
    writes
        Cycle and PE -> address and word.
    tokens
        Cycle and link -> the packet (dynamic), or the word of a value that somebody receives
        (static). Of hybrid PEs both; with the latter the link's number is above ``WIRES``.
    """

    cycles: int
    values: np.ndarray
    known: np.ndarray
    writes: dict[tuple[int, int], tuple[int, int]]
    tokens: dict[tuple[int, int], int]


def moves(image: Image, run: Run | None = None) -> Moves:
    """Moves of a run of the model that kept its tokens; of a new one where none is given."""
    run = run or simulate(image, tokens=True)
    held = np.zeros(image.base[-1], np.uint64)
    found = values(image, run)
    held[image.base[image.node_pe] + image.node_address] = found
    known = run.known(image)
    tokens = run.tokens
    assert tokens is not None
    writes: dict[tuple[int, int], tuple[int, int]] = {}
    crossed: dict[tuple[int, int], int] = {}
    written = run.written
    if isinstance(image, HybridImage):
        assert run.contexts is not None
        image = image.taken(run.contexts)
    if isinstance(image, StaticImage | HybridImage):
        received = routes(image)
        for kind, data in ((WRITE_ALU, None), (WRITE_NET, held[received.origin])):
            pe, cycle = np.nonzero(image.context["write"] == kind)
            local = image.base[pe] + image.context["address"][pe, cycle]
            data = held[local] if data is None else data
            writes |= _writes(image, cycle, local, data)
            written = np.where(np.isin(np.arange(len(held)), local), -1, written)
        there = received.crossings
        wires = WIRES if isinstance(image, HybridImage) else 0
        on = zip(there["cycle"].tolist(), (wires + there["link"]).tolist(), strict=True)
        crossed |= zip(on, held[there["origin"]].tolist(), strict=True)
    if isinstance(image, DynamicImage):
        if not isinstance(image, HybridImage):
            held[image.base[image.copy_pe] + image.copy_address] = found[image.copy_node]
        local = np.flatnonzero(written >= 0)
        writes |= _writes(image, written[local], local, held[local])
        columns = {name: np.maximum(tokens[name], 0) for name in tokens.dtype.names or ()}
        columns["y"], columns["x"] = np.divmod(tokens["pe"], image.overlay.cols)
        columns |= {"pair": tokens["node2"] >= 0, "value": held[carried(image, tokens)]}
        words = packet(image.overlay, image.sizes).pack(columns)
        on = zip(tokens["cycle"].tolist(), tokens["link"].tolist(), strict=True)
        crossed |= zip(on, words, strict=True)
    return Moves(run.cycles, found, known, writes, crossed)


def _writes(
    image: Image, cycle: np.ndarray, local: np.ndarray, data: np.ndarray
) -> dict[tuple[int, int], tuple[int, int]]:
    """Writes by cycle and PE."""
    pe = np.searchsorted(image.base, local, side="right") - 1
    address = local - image.base[pe]
    where = zip(cycle.tolist(), pe.tolist(), strict=True)
    return dict(zip(where, zip(address.tolist(), data.tolist(), strict=True), strict=True))
