"""Negotiated-congestion routing (PathFinder): every net takes its least tree at prices that rise on
links that too many want, until no link has more nets than tracks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...machine.array.description import Array
from ...machine.array.network import SIDES
from ...machine.errors import LoweringError
from .steiner import pruned, tree

ROUNDS = 120
PRICE = 0.02
RISE = 1.15
HISTORY = 0.02
"""Prices begin low: a net that has another least tree takes that one, long before a net takes a
longer one.
"""


@dataclass(frozen=True)
class Wish:
    """A net that the switches carry: its plane, and the sites of its source and ends."""

    net: int
    plane: str
    root: int
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Trees:
    """The links of every net, as bool [4 x sites] by net; how many rounds it took."""

    links: dict[int, np.ndarray]
    rounds: int


def detours(array: Array, wishes: list[Wish], trees: Trees) -> dict[int, float]:
    """The links of each net's tree, as a share of its least tree's, by net; of nets that leave
    their site.
    """
    base = base_cost(array)
    found = {}
    for w in wishes:
        if any(end != w.root for end in w.ends):
            least = _tree(w, base, array.cols).sum()
            found[w.net] = float(trees.links[w.net].sum() / least)
    return found


def base_cost(array: Array) -> np.ndarray:
    """1 for every link; infinite where the grid ends."""
    cost = np.ones((array.rows, array.cols, len(SIDES)))
    edges = (cost[0], cost[:, -1], cost[-1], cost[:, 0])  # in the order of SIDES
    for side, edge in enumerate(edges):
        edge[:, side] = np.inf
    return cost.ravel()


def route(array: Array, wishes: list[Wish]) -> Trees:
    """Trees for all nets.

    Raises
    ------
    LoweringError
        Links that more nets want than they have tracks, where negotiation does not end.
    """
    links: dict[int, np.ndarray] = {}
    rounds = 0
    for plane, tracks in array.tracks.items():
        own = [w for w in wishes if w.plane == plane]
        rounds = max(rounds, _plane(array, plane, tracks, own, links))
    return Trees(links, rounds)


def _plane(
    array: Array, plane: str, tracks: int, wishes: list[Wish], links: dict[int, np.ndarray]
) -> int:
    base = base_cost(array)
    history = np.zeros(len(base))
    use = np.zeros(len(base), np.int64)
    price = PRICE
    for step in range(ROUNDS):
        for w in wishes:
            old = links.get(w.net)
            if old is not None:
                if step > 1 and not (old & (use > tracks)).any():
                    continue
                use -= old
            over = np.maximum(use + 1 - tracks, 0)
            cost = (base + history) * (1 + price * over)
            links[w.net] = _tree(w, cost, array.cols)
            use += links[w.net]
        if (use <= tracks).all():
            return step + 1
        history += HISTORY * np.maximum(use - tracks, 0)
        price *= RISE
    worst = int(np.argmax(use - tracks))
    row, col = divmod(worst // 4, array.cols)
    raise LoweringError(
        f"{int(np.maximum(use - tracks, 0).sum())} tracks of the {plane} plane are missing, "
        f"{use[worst] - tracks} of them {SIDES[worst % 4]} of site {row}, {col}",
        f"array {array.name}",
        f"a link has {tracks} tracks on this plane",
        f"give tracks.{plane} = {int(use.max())}, or try another seed",
    )


def _tree(wish: Wish, cost: np.ndarray, cols: int) -> np.ndarray:
    used = np.zeros(len(cost), np.bool_)
    ends = np.array([e for e in dict.fromkeys(wish.ends) if e != wish.root], np.int64)
    if len(ends):
        tree(wish.root, ends, cost, cols, used)
        used = pruned(wish.root, ends, cols, used)
    return used
