"""Links of an array in the placed graph of a program: a link's track is the `hop` that it leads to,
which is named by where it is (docs/array.md).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..machine.array.description import BUFFER_KIND
from ..machine.unitgraph import UnitGraph

_TRACK = re.compile(r"hop_(\d+)_(\d+)_(tile|small)_(north|east|south|west)_(\d+)")


class Link(NamedTuple):
    """A link's track, by the site that it leads to and the side on which it does."""

    plane: str
    row: int
    col: int
    side: str
    track: int

    def __str__(self) -> str:
        where = f"into site {self.row}, {self.col} from the {self.side}"
        return f"{self.plane} link {where}, track {self.track}"

    @property
    def whole(self) -> str:
        """The link without its track."""
        return str(self).rpartition(", ")[0]


def link_of(kind: str, name: str) -> Link | None:
    """The track that a unit stands for; None for all but the hops behind links."""
    found = _TRACK.fullmatch(name) if kind == BUFFER_KIND else None
    if found is None:
        return None
    row, col, plane, side, track = found.groups()
    return Link(plane, int(row), int(col), side, int(track))


def tracks(graph: UnitGraph) -> dict[int, str]:
    """The name of the track that each channel of a placed graph is, of those that are one."""
    found = ((c.id, graph.units[c.dst[0]]) for c in graph.channels)
    named = ((k, link_of(unit.kind.name, unit.name)) for k, unit in found)
    return {k: str(link) for k, link in named if link is not None}
