"""Moves of a run that a bench sees: writes to value memories and tokens of links, by cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.config import WRITE_NONE, packet
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
    tokens = run.tokens
    assert tokens is not None
    if isinstance(image, StaticImage):
        links = routes(image)
        held[links.target] = held[links.origin]
        pe, cycle = np.nonzero(image.context["write"] != WRITE_NONE)
        address = image.context["address"][pe, cycle]
        words = held[tokens["origin"]].tolist()
    else:
        assert isinstance(image, DynamicImage)
        held[image.base[image.copy_pe] + image.copy_address] = found[image.copy_node]
        local = np.flatnonzero(run.written >= 0)
        pe = np.searchsorted(image.base, local, side="right") - 1
        address = local - image.base[pe]
        cycle = run.written[local]
        columns = {name: np.maximum(tokens[name], 0) for name in tokens.dtype.names or ()}
        columns["y"], columns["x"] = np.divmod(tokens["pe"], image.overlay.cols)
        columns |= {"pair": tokens["node2"] >= 0, "value": held[carried(image, tokens)]}
        words = packet(image.overlay, image.sizes).pack(columns)
    data = held[image.base[pe] + address]
    where = zip(cycle.tolist(), pe.tolist(), strict=True)
    what = zip(address.tolist(), data.tolist(), strict=True)
    on = zip(tokens["cycle"].tolist(), tokens["link"].tolist(), strict=True)
    if isinstance(image, HybridImage):
        assert run.began is not None
        there = routes(image).crossings
        crossed = (run.began[there["cycle"]].tolist(), (WIRES + there["link"]).tolist())
        on = [*on, *zip(*crossed, strict=True)]
        words = [*words, *held[there["origin"]].tolist()]
    writes = dict(zip(where, what, strict=True))
    known = run.known(image)
    return Moves(run.cycles, found, known, writes, dict(zip(on, words, strict=True)))
