"""Runs the command blocks of README.md and docs: `python docs/commands.py [PAGE ...]`.

A block is fenced and begins with its language, `sh` or `python`; the words behind it say how it
runs:

* nothing: in seconds;
* `long`: in minutes, not with `--quick`;
* `clone`: in a clone of the repository only, so not here.

The blocks of a page run one after the other in one empty folder. Its Python blocks are one program,
in the place of the first, and long if one of them is. What is installed beside this Python runs,
never the clone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = ("sh", "python")
MARKS = {"long", "clone"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its first line in the page, and what stands behind the fence."""

    page: str
    line: int
    language: str
    marks: frozenset[str]
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The command blocks of a page in their order."""
    found = []
    opened = None
    lines = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif opened is None:
            language, *marks = line[3:].split() or [""]
            opened = number + 1, language, frozenset(marks)
            lines = []
        else:
            if opened[1] in LANGUAGES:
                found.append(Block(page.name, *opened, "\n".join(lines) + "\n"))
            opened = None
    return found


def runs(page: Path, quick: bool) -> list[Block]:
    """The blocks of a page that are run, in order; all its Python is one block."""
    here = [b for b in blocks(page) if "clone" not in b.marks]
    programs = [b for b in here if b.language == "python"]
    out = []
    for block in here:
        if block.language == "sh":
            out.append(block)
        elif block is programs[0]:
            marks = frozenset().union(*(p.marks for p in programs))
            text = "\n".join(p.text for p in programs)
            out.append(Block(block.page, block.line, "python", marks, text))
    return [b for b in out if not (quick and "long" in b.marks)]


def environment(cache: str) -> dict[str, str]:
    """Environment in which commands are looked for beside this Python first."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {"PENSTOCK_CACHE": cache, "MPLBACKEND": "Agg", **kept, "PATH": path}


def run(block: Block, folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """Exit status and what was printed."""
    if block.language == "sh":
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    else:
        script = folder / "page.py"
        script.write_text(block.text, encoding="utf-8")
        command = [sys.executable, str(script)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


def installed_outside(env: dict[str, str]) -> None:
    """Refuses to run against a clone."""
    code = "import penstock; print(penstock.__file__)"
    with tempfile.TemporaryDirectory() as folder:
        where = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=env,
            text=True,
            capture_output=True,
            check=True,
        ).stdout.strip()
    if ROOT in Path(where).parents and "site-packages" not in where:
        raise SystemExit(f"penstock is imported from a clone ({where}): install the wheel")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("pages", nargs="*", metavar="PAGE", help="names of pages (default: all)")
    p.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    p.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="TEXT",
        help="leave out blocks that have this text; may be repeated",
    )
    args = p.parse_args()
    if unknown := set(args.pages) - {page.name for page in PAGES}:
        p.error(f"no page {', '.join(sorted(unknown))}")
    failed = []
    with tempfile.TemporaryDirectory(prefix="penstock-pages-") as base:
        env = environment(str(Path(base) / "cache"))
        installed_outside(env)
        for page in PAGES:
            if args.pages and page.name not in args.pages:
                continue
            folder = Path(base) / page.stem
            folder.mkdir()
            for block in runs(page, args.quick):
                if any(text in block.text for text in args.skip):
                    print(f"{block}: left out", flush=True)
                    continue
                began = time.monotonic()
                status, printed = run(block, folder, env)
                print(
                    f"{block}: {'ok' if status == 0 else 'FAILED'}, "
                    f"{time.monotonic() - began:.0f} s",
                    flush=True,
                )
                if status:
                    failed.append(str(block))
                    print(printed, flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all blocks ran")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
