"""Ways of received values of a static image: read back from the contexts of its switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...machine.errors import RunError
from ..core.config import LINKS, SWITCH_CODES, WRITE_NET
from ..core.image import HybridImage, StaticImage

CROSSING = np.dtype([(name, np.int64) for name in ("cycle", "link", "origin")])
"""A value on a link: the cycle in which a switch puts it there, the link's number (`LINKS`), the
local address that was sent.
"""


@dataclass(frozen=True)
class Routes:
    """Origins of received values."""

    # target, origin: int64 [receipts]: local address that is written, and local address that was
    # sent
    target: np.ndarray
    origin: np.ndarray
    crossings: np.ndarray  # :data:`CROSSING`, each once: values on links that somebody receives


def routes(image: StaticImage | HybridImage) -> Routes:
    """Follow every receipt back through the switches to what was sent.

    Raises
    ------
    RunError
        A value is received that nobody sent.
    """
    cols = image.overlay.cols
    where, when = np.nonzero(image.context["write"] == WRITE_NET)
    target = image.base[where] + image.context["address"][where, when]
    inputs = {
        out: {code: port for port, code in codes.items()} for out, codes in SWITCH_CODES.items()
    }
    step = {"W": (-1, "e"), "E": (1, "w"), "N": (-cols, "s"), "S": (cols, "n")}
    # the value on output `out` of switch `where` in cycle `when`: back to the PE input that it
    # comes from
    out = np.full(len(where), "p")
    live = np.arange(len(where))
    crossed = []
    while len(live):
        port = np.empty(len(live), "U1")
        for name, codes in inputs.items():
            mine = np.flatnonzero(out[live] == name)
            chosen = image.switch[name][where[live[mine]], when[live[mine]]]
            port[mine] = [codes[int(c)] for c in chosen]
        for name, (shift, neighbour) in step.items():
            moved = live[port == name]
            where[moved] += shift
            when[moved] -= 1
            out[moved] = neighbour
            link = len(LINKS) * where[moved] + LINKS.index(neighbour)
            crossed.append(np.stack([when[moved], link, moved], axis=1))
        live = live[port != "P"]
        if (when[live] < 0).any():
            raise RunError("a value is received that nobody sent", "overlay image")
    origin = image.base[where] + image.context["send"][where, when]
    rows = np.concatenate([np.zeros((0, 3), np.int64), *crossed])
    rows[:, 2] = origin[rows[:, 2]]
    return Routes(target, origin, np.unique(rows, axis=0).view(CROSSING).reshape(-1))
