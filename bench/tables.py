"""Tables of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def frame(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """A table of cells that are text already; ``right``: which columns
    stand at the right, as numbers do.
    """
    rule = "|" + "|".join("--:" if r else "---" for r in right) + "|"
    head, *lines = ("| " + " | ".join(cells) + " |" for cells in (header, *rows))
    return "\n".join([head, rule, *lines])
