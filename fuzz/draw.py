"""Draws random well-typed programs: every operator, over streams of any rank, type and emptiness,
with sizes that tiles do not divide.

A program is drawn forwards, and evaluated while it is drawn, so a stream that has to agree with
another (an operand, a selector, a reference) is made to measure. Streams whose order the machine's
timing decides (behind a merge of several units) only meet streams that come from themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..frontend.analysis.forms import forms_of
from ..frontend.types import DYNAMIC_TILE, BufferType
from ..machine.errors import PenstockError
from .drawer import CannotDrawError, Drawer, Live
from .recipe import Recipe
from .steps import RARE, VARIANTS

MOST_STEPS = 18
SIZED = (DYNAMIC_TILE, "run_time_columns")
"""Words in forms of tiles whose size only the run knows."""
MOST_TRIES = (200, 100)
"""Tries to reach the first goal, and each further one."""


@dataclass(frozen=True)
class Goal:
    """Desired features of a program: a step of :data:`VARIANTS` with one of ``names``, and then an
    operator in ``form`` (None: any).
    """

    names: tuple[str, ...]
    form: str | None = None

    def met(self, d: Drawer) -> bool:
        return self.form is None or any(self.form in forms_of(n, d.t) for n in d.built.graph.nodes)


def draw(seed: tuple[int, ...], t: int, dtype: str, goals: Sequence[Goal] = ()) -> Recipe:
    """A random program for tiles of t x t with tensors of ``dtype``.

    It meets the first of ``goals`` (default: one of :data:`VARIANTS`), others if that is easy.
    """
    rng = np.random.default_rng(seed)
    goals = goals or [Goal((list(VARIANTS)[int(rng.integers(len(VARIANTS)))],))]
    for _ in range(50):
        d = Drawer(rng, t, dtype, int(rng.integers(1 << 31)))
        wanted = d.number(2, 6)
        before = d.number(0, 2)
        k = _any(d, before)
        for i, goal in enumerate(goals):
            if (i and goal.form and goal.met(d)) or len(d.recipe.steps) >= MOST_STEPS:
                continue
            d.sized = any(what in (goal.form or "") for what in SIZED)
            for _try_again in range(MOST_TRIES[i > 0]):
                d.hungry = True
                if met := attempt(d, d.one_of(*goal.names), goal):
                    k += 1
                    break
            if not i and not met:
                break
        else:
            d.sized = False
            _any(d, wanted - k)
            if _read(d):
                return d.recipe
    raise PenstockError(
        f"no program with {goals[0].form or goals[0].names[0]} could be drawn from seed {seed}"
    )


def _any(d: Drawer, count: int) -> int:
    """Up to ``count`` steps of any kind; how many they are."""
    k = 0
    for _ in range(20):
        if k >= count or len(d.recipe.steps) >= MOST_STEPS:
            break
        d.hungry = not d.live or d.chance(0.25)
        k += attempt(d, d.one_of(*VARIANTS, *RARE * 3))
    return k


def _read(d: Drawer) -> bool:
    """Give every on-chip memory somebody that reads it."""
    read = {
        d.type(Live(step["ins"][0], True)).buffer.memory
        for step in d.recipe.steps
        if step["op"] == "Streamify"
    }
    for s in list(d.live):
        e = d.element(s)
        if isinstance(e, BufferType) and e.memory not in read and not s.readers:
            read.add(e.memory)
            try:
                d.add("Streamify", [s])
            except (CannotDrawError, PenstockError):
                return False
    return True


def attempt(d: Drawer, name: str, goal: Goal | None = None) -> bool:
    """One step that meets the goal, or none of its parts."""
    steps = list(d.recipe.steps)
    live = [Live(list(s.at), s.fixed, s.readers) for s in d.live]
    built, saved = d.built, d.built.saved()
    try:
        VARIANTS[name](d)
        if goal is not None and not goal.met(d):
            raise CannotDrawError
        return True
    except (CannotDrawError, PenstockError):
        d.recipe.steps = steps
        d.live = live
        d.built = built
        built.restore(saved)
        return False
