"""Makes a failing program small: drops steps, replaces them by sources, thins sources out, and
takes back depths and waits, while it still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..frontend.meaning.elements import nested
from ..frontend.types import ScalarType, SelectorType, TileType
from ..machine.errors import PenstockError
from .recipe import Recipe, build, lists, references, renumbered, without


def shrink(
    recipe: Recipe, fails: Callable[[Recipe], bool], t: int, dtype: str, tries: int = 200
) -> Recipe:
    """A smaller recipe that ``fails`` too, after at most so many tries."""
    left = tries
    seen = {recipe.key()}
    again = True
    while again and left > 0:
        again = False
        for smaller in _candidates(recipe, t, dtype):
            if smaller.key() in seen:
                continue
            seen.add(smaller.key())
            left -= 1
            if _still(smaller, fails):
                recipe = smaller
                again = True
                break
            if left <= 0:
                break
    return recipe


def _still(recipe: Recipe, fails) -> bool:
    try:
        return bool(recipe.steps) and fails(recipe)
    except PenstockError:
        return False


def _candidates(recipe: Recipe, t: int, dtype: str) -> Iterator[Recipe]:
    """Smaller recipes, the boldest first."""
    n = len(recipe.steps)
    for size in (n // 2, n // 4, 1):
        if size:
            for start in range(n - size, -1, -size):
                yield without(recipe, set(range(start, start + size)))
    for key, plain in (("stalls", None), ("depths", None), ("depth", 0)):
        if recipe.run[key] != plain:
            out = recipe.copy()
            out.run[key] = plain
            yield out
    yield from _cut(recipe, t, dtype)
    yield from _thin(recipe)


def _cut(recipe: Recipe, t: int, dtype: str) -> Iterator[Recipe]:
    """A step whose result is given: sources in its place, so that what leads to it can go."""
    try:
        built = build(recipe, t, dtype, evaluate=True)
    except PenstockError:
        return
    for i, step in enumerate(recipe.steps):
        if (
            step["op"] in ("Source", "Feedback")
            or not built.nodes[i]
            or not built.nodes[i][0].outputs
        ):
            continue
        sources = []
        for port, out in enumerate(built.nodes[i][0].outputs):
            source = _source(built.items[i, port], out)
            if source is None:
                break
            sources.append(source)
        else:
            new = recipe.copy()
            extra = len(sources) - 1
            new.steps = new.steps[:i] + sources + [_moved(s, i, extra) for s in new.steps[i + 1 :]]
            yield new


def _moved(step: dict, at: int, extra: int) -> dict:
    """A later step, after step ``at`` has become ``extra`` + 1 sources of one port each."""
    step = renumbered(step, {k: k + extra if k > at else k for k in references(step)})

    def place(ref):
        return [at + ref[1], 0] if ref[0] == at else ref

    if "ins" in step:
        step["ins"] = [place(r) for r in step["ins"]]
    if step.get("ref"):
        step["ref"] = place(step["ref"])
    for key in ("shape", "tile"):
        if step["op"] == "Source" and step.get(key):
            step[key] = [
                ["of", *place(x[1:3]), x[3]] if isinstance(x, list) else x for x in step[key]
            ]
    return step


def _sides(tile: np.ndarray) -> list[int]:
    return list(tile.shape)


def _source(items: list, t) -> dict | None:
    """A source of these elements, or None if they cannot be given from outside."""
    leaf: Callable[[Any], Any]
    e = t.element
    if isinstance(e, TileType):
        leaf = _sides
        kind = {
            "tile": [d.value if d.value is not None else "ragged" for d in (e.rows, e.cols)],
            "dtype": e.dtype,
        }
    elif isinstance(e, SelectorType):
        leaf = sorted
        kind = {"selector": e.n}
    elif isinstance(e, ScalarType):
        leaf = int
        kind = {"scalar": e.bits}
    else:
        return None
    elements = nested([(None if v is None else _Leaf(leaf(v)), s) for v, s in items], t.rank)
    shape = [
        "static" if d.value is not None else "ragged" if d.kind.ragged else "dynamic"
        for d in t.shape
    ]
    return {"op": "Source", "shape": shape, "elements": _plain(elements), **kind}


class _Leaf:
    """Keeps an element that is a list apart from the dimensions."""

    def __init__(self, value):
        self.value = value


def _plain(x):
    return x.value if isinstance(x, _Leaf) else [_plain(y) for y in x]


def _thin(recipe: Recipe) -> Iterator[Recipe]:
    """Fewer elements: the same index of the same dimension goes from all sources that have it."""
    sources = [s for s in recipe.steps if s["op"] == "Source"]
    for depth in range(3):
        sizes = {len(x) for s in sources for x in lists(s["elements"], depth, len(s["shape"]))}
        for n in sorted(sizes, reverse=True):
            for index in range(n):
                out = recipe.copy()
                for s in out.steps:
                    if s["op"] == "Source" and len(s["shape"]) > depth:
                        for x in lists(s["elements"], depth, len(s["shape"])):
                            if len(x) == n:
                                del x[index]
                yield out
