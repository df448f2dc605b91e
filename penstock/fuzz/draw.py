"""Draws random well-typed programs: every operator, over streams of any rank, type and emptiness, with sizes that tiles do not divide.

A program is drawn forwards, and evaluated while it is drawn, so a stream that has to agree with another (an operand, a selector, a reference) is made to measure.
Streams whose order the machine's timing decides (behind a merge of several units) only meet streams that come from themselves.
"""

from __future__ import annotations

import numpy as np

from penstock.frontend.types import BufferType
from penstock.machine.errors import PenstockError

from .drawer import Drawer, Live, Refused
from .recipe import Recipe
from .steps import RARE, VARIANTS

__all__ = ["VARIANTS", "draw"]

MOST_STEPS = 14


def draw(seed: tuple[int, ...], t: int, dtype: str, focus: str | None = None) -> Recipe:
    """A random program for tiles of t x t with tensors of ``dtype``, built around one of :data:`VARIANTS`."""
    rng = np.random.default_rng(seed)
    focus = focus or list(VARIANTS)[int(rng.integers(len(VARIANTS)))]
    for _ in range(50):
        d = Drawer(rng, t, dtype, int(rng.integers(1 << 31)))
        wanted, before = d.number(2, 6), d.number(0, 2)
        names, k = [*VARIANTS, *RARE * 3], 0
        done = False
        for _attempt in range(60):
            if len(d.recipe.steps) >= MOST_STEPS or done and k >= wanted:
                break
            name = focus if not done and k >= before else d.one_of(*names)
            d.hungry = not d.live or name == focus or d.chance(0.25)
            if _try(d, name):
                k += 1
                done = done or name == focus
        if done and _read(d):
            return d.recipe
    raise PenstockError(f"no program with {focus} could be drawn from seed {seed}")


def _read(d: Drawer) -> bool:
    """Give every on-chip memory somebody that reads it."""
    read = {d.element(Live(step["ins"][0], True)).memory for step in d.recipe.steps if step["op"] == "Streamify"}
    for s in list(d.live):
        e = d.element(s)
        if isinstance(e, BufferType) and e.memory not in read and not s.readers:
            read.add(e.memory)
            try:
                d.add("Streamify", [s])
            except (Refused, PenstockError):
                return False
    return True


def _try(d: Drawer, name: str) -> bool:
    """One step, or none of its parts."""
    steps, live = list(d.recipe.steps), [Live(list(s.at), s.fixed, s.readers) for s in d.live]
    try:
        VARIANTS[name](d)
        return True
    except (Refused, PenstockError):
        d.recipe.steps, d.live = steps, live
        if len(d.built.nodes) != len(steps):
            d.drop()
        return False
