"""Values of the options of ``penstock overlay``."""

from __future__ import annotations

import re

from ..machine.errors import PenstockError
from ..machine.limits import SIDES, within


def mesh_of(text: str, what: str = "--mesh") -> tuple[int, int]:
    """Rows and columns of RxC."""
    if not (m := re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text)):
        raise PenstockError(f"{what} takes ROWSxCOLUMNS, not {text[:60]!r}")
    return within(f"{what}: rows", int(m[1]), SIDES), within(f"{what}: columns", int(m[2]), SIDES)


def memory_depths(pairs: list[str]) -> dict[str, int]:
    """Depths of NAME=WORDS."""
    memories = {}
    for pair in pairs:
        name, eq, words = pair.partition("=")
        if not eq or not re.fullmatch(r"[0-9]{1,18}", words):
            raise PenstockError(f"--memory takes NAME=WORDS, not {pair[:60]!r}")
        if name in memories:
            raise PenstockError(f"--memory {name} is given twice")
        memories[name] = int(words)
    return memories
