"""Counts the words of sentences in README.md, CHANGELOG.md and docs: `python docs/sentences.py`.

Code blocks and comments are left out. A cell of a table, an item of a list and a heading end a
sentence, as a full stop does. A name in backticks or a link's text counts as the words that one
reads: `penstock run` is one name.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LIMIT", "SHARE", "USUAL", "Sentence", "pages", "sentences", "share_of_usual"]

ROOT = Path(__file__).parents[1]
LIMIT = 40
"""Most words of any sentence."""
USUAL = 30
"""Most words of nearly all sentences."""
SHARE = 0.95
"""How many that is."""

END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[^a-z])")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|vs|cf|No|Fig|Sec|et al)\.")


@dataclass(frozen=True)
class Sentence:
    """A sentence, and where it begins."""

    page: Path
    line: int
    words: int
    text: str

    def __str__(self) -> str:
        name = self.page.relative_to(ROOT)
        return f"{name}:{self.line}: {self.words} words: {self.text}"


def pages() -> list[Path]:
    """README, changelog and the pages of docs."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def sentences(page: Path) -> list[Sentence]:
    """Every sentence of a page in its order."""
    return list(_sentences(page))


def _sentences(page: Path) -> Iterator[Sentence]:
    for line, text in _paragraphs(page.read_text(encoding="utf-8")):
        for part in END.split(ABBREVIATIONS.sub(r"\1", text)):
            if words := _words(part):
                yield Sentence(page, line, words, part.strip())


def share_of_usual(found: Iterable[Sentence]) -> float:
    """The share of sentences of at most ``USUAL`` words."""
    lengths = [s.words for s in found]
    return sum(n <= USUAL for n in lengths) / max(len(lengths), 1)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """What stands together: paragraphs, items, cells, headings, each with its first line."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    open_at = 0
    kept = []
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        mark = re.match(r"(`{3,}|~{3,}|:{3,})", stripped)
        if fence or (mark and mark[1][0] != ":"):
            if fence and stripped == fence:
                fence = ""
            elif not fence:
                fence = mark[1]
        elif stripped.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                yield number, cell
        elif kept and stripped and not re.match(r"([*+-]|\d+\.|#+|\(\w[\w.-]*\)=)( |$)", stripped):
            kept.append(stripped)
            continue
        if kept:
            yield open_at, " ".join(kept)
            kept = []
        starts = stripped and not mark and not fence and not stripped.startswith("|")
        if starts and not re.fullmatch(r"\(\w[\w.-]*\)=", stripped):
            open_at = number
            kept = [re.sub(r"^([*+-]|\d+\.|#+) +", "", stripped)]
    if kept:
        yield open_at, " ".join(kept)


def _words(text: str) -> int:
    """Words of a sentence as it is read."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`+[^`]*`+", "name", text)
    return len(re.findall(r"[^\s]*\w[^\s]*", text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--least",
        type=int,
        default=LIMIT + 1,
        metavar="WORDS",
        help="list sentences of so many words or more (default: %(default)s)",
    )
    parser.add_argument("pages", nargs="*", type=Path, help="pages (default: all)")
    args = parser.parse_args()
    found = [s for page in args.pages or pages() for s in sentences(page.resolve())]
    for s in found:
        if s.words >= args.least:
            print(s)
    longest = max(s.words for s in found)
    share = share_of_usual(found)
    print(f"{len(found)} sentences, the longest of {longest} words, {share:.1%} of at most {USUAL}")
    return longest > LIMIT or share < SHARE


if __name__ == "__main__":
    sys.exit(main())
