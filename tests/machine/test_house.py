"""The house: nothing is silenced, and nothing is looked for beside the repository."""

import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = {"out", "build", "dist"}
SILENCED: set[str] = set()
"""Files that still silence the linter or the type checker by a comment."""


@functools.cache
def files() -> list[Path]:
    found = [*ROOT.glob("*.py"), *(p for p in ROOT.glob("[a-z]*/**/*.py"))]
    return sorted(
        p for p in found if p.relative_to(ROOT).parts[0] not in SKIPPED and "egg-info" not in str(p)
    )


def test_nothing_is_silenced_in_the_code():
    words = (
        "# no" + "qa",
        "# type: " + "ignore",
        "# pyright: " + "ignore",
        "# ruff: " + "no" + "qa",
    )
    found = {
        str(path.relative_to(ROOT))
        for path in files()
        if any(word in path.read_text() for word in words)
    }
    assert found == SILENCED


def climbs_out(path: Path, text: str) -> bool:
    """True if a file names a folder above the repository, from its own place."""
    most = len(path.parts) - 1
    climbs = re.findall(r"\b__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text)
    return any(int(n) > most for n in climbs) or "ROOT.parent" in text


def test_nothing_is_looked_for_beside_the_repository():
    """Inputs that do not ship are where PENSTOCK_DATA says (docs/contributing.md).

    Children are given the folder from which this package is imported.
    """
    named = {Path(__file__), ROOT / "system" / "children.py"}
    others = [p for p in files() if p not in named]
    assert [p for p in others if climbs_out(p.relative_to(ROOT), p.read_text())] == []
    assert climbs_out(Path("tests/a/b.py"), 'Path(__file__).parents[3] / "data"')
    assert not climbs_out(Path("tests/a/b.py"), "Path(__file__).parents[2]")
