"""Generated blocks of a page: text between marks that name the script which writes it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Blocks"]


@dataclass(frozen=True)
class Blocks:
    """The blocks that ``writer``, a script's path in the project, writes."""

    writer: str

    def _marks(self, name: str) -> tuple[str, str]:
        return f"<!-- {name}: written by {self.writer} -->\n", f"\n<!-- end of {name} -->"

    def between(self, page: str, name: str) -> str:
        """The text between the marks of a block."""
        begin, end = self._marks(name)
        return page.partition(begin)[2].partition(end)[0]

    def insert(self, page: str, name: str, text: str) -> str:
        """The page with another text between the marks of a block."""
        begin, end = self._marks(name)
        head, _, rest = page.partition(begin)
        return f"{head}{begin}{text}{end}{rest.partition(end)[2]}"
