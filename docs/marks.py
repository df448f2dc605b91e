"""Generated blocks of a page: what stands between two marks, in hand-written Markdown."""

from __future__ import annotations

import re

WRITER = "docs/generate.py"
BEGIN = re.compile(rf"<!-- ([\w ,]+): written by {WRITER} -->\n")


def names(page: str) -> list[str]:
    """The blocks of a page in their order."""
    return BEGIN.findall(page)


def between(page: str, name: str) -> str:
    """The text of a block."""
    begin, end = _place(page, name)
    return page[begin:end].strip()


def insert(page: str, name: str, text: str) -> str:
    """The page with another text in a block."""
    begin, end = _place(page, name)
    return f"{page[:begin]}{text.strip()}\n{page[end:]}"


def _place(page: str, name: str) -> tuple[int, int]:
    """Begin and end of a block's text; KeyError where there is no such block, or two."""
    first = f"<!-- {name}: written by {WRITER} -->\n"
    last = f"<!-- end of {name} -->"
    if page.count(first) != 1 or page.count(last) != 1:
        raise KeyError(f"the page needs one block {name!r}")
    return page.index(first) + len(first), page.index(last)
