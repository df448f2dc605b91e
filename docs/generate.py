"""Renews the generated blocks of all pages: `python docs/generate.py [PAGE ...]`.

A block is made from declarations in the code, or from stored records (docs/results); `--check`
writes nothing and names the blocks that are not up to date. Below a table of records stands a note
of the commits that they are of, and of rows whose sources have changed since (bench/records.py).
`--check` leaves the notes alone, for a change of the sources dates no page; with `--notes` it looks
at them, too. Pictures of stored records are drawn with `--pictures`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from marks import between, insert
from penstock.__main__ import RARELY
from penstock.system.output import write_text

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "bench"))  # where results are reported
records = importlib.import_module("records")

MAKERS = {
    "README.md": "report:readme",
    "docs/array.md": "array_report:blocks",
    "docs/architecture.md": "onchip_report:blocks",
    "docs/board.md": "boards_report:blocks reference:board",
    "docs/bounds.md": "bounds_report:blocks",
    "docs/cli.md": "reference:cli",
    "docs/configuration.md": "reference:configuration mapping_report:blocks hbm2_speed:beside",
    "docs/contributing.md": "deep_report:blocks",
    "docs/dag_scheduler.md": "dag_report:blocks",
    "docs/dataflow_graphs.md": "graphs:blocks",
    "docs/deadlock.md": "deadlock_report:blocks",
    "docs/detection.md": "detection_report:blocks",
    "docs/dynamic.md": "dynamic:blocks",
    "docs/figures.md": "figures_report:blocks",
    "docs/fuzzing.md": "fuzz_report:blocks",
    "docs/kinds.md": "reference:kinds synthesis_report:of_kinds",
    "docs/model.md": "hbm2_speed:blocks",
    "docs/operators.md": "reference:operators",
    "docs/overlay_resources.md": "overlay_resources:blocks",
    "docs/overlay_results.md": "overlay_report:blocks",
    "docs/programs.md": "report:programs",
    "docs/regression.md": "regress_report:blocks",
    "docs/results.md": "report:results",
    "docs/samples.md": "reference:samples",
    "docs/sweeps.md": "sweep_speed:blocks",
    "docs/synthesis.md": "synthesis_report:blocks",
    "docs/timing.md": "reference:timing",
    "docs/top.md": "reference:top",
}
"""For each page the modules, each with its function that gives the makers of blocks by name."""

PICTURES = [
    "report:draw",
    "array_report:draw",
    "dag_report:draw",
    "figures_report:draw",
    "made.overlay_curves:draw",
]

SLOW = {"output", "simple_moe"}
"""Blocks that take a minute: they run the RTL, and have a test of their own."""


def makers(page: str) -> dict[str, Callable[[], str]]:
    """What makes each block of a page."""
    return {k: v for name in MAKERS[page].split() for k, v in _function(name)().items()}


def made(make: Callable[[], str]) -> str:
    """A block with its note: whatever is made of records has one."""
    with records.noting() as read:
        text = make().strip()
        below = records.note(read)
    return f"{text}\n\n{below}" if below else text


def stale(skip: Container[str] = (), notes: bool = False) -> Iterator[str]:
    """Blocks of declarations that differ from those made now; ``notes`` compares notes too."""
    seen = (lambda text: text) if notes else without_note
    for page, found in MAKERS.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        declared = [name for name in found.split() if name.startswith("reference:")]
        for name, make in [item for f in declared for item in _function(f)().items()]:
            if name not in skip and seen(between(text, name)) != seen(made(make)):
                yield f"{page}: {name}"


def without_note(text: str) -> str:
    """A block without its note."""
    *lines, last = text.splitlines() or [""]
    return "\n".join(lines).strip() if records.is_note(last) else text


def renew(page: str, skip: Container[str] = ()) -> None:
    """Write the blocks of a page."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    for name, make in makers(page).items():
        if name not in skip:
            text = insert(text, name, made(make))
    write_text(path, text)


def _function(name: str) -> Callable:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="pages (default: all)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing, and fail where a block is not up to date",
    )
    parser.add_argument("--notes", action="store_true", help="check the notes below tables, too")
    parser.add_argument("--quick", action="store_true", help="leave out what runs the RTL")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures as well")
    args = parser.parse_args()
    if args.check:
        found = list(stale(SLOW, args.notes))
        print("\n".join(found) or "all blocks are up to date")
        return bool(found)
    wanted = [page if page in MAKERS else f"docs/{page}" for page in args.pages]
    if unknown := [page for page in wanted if page not in MAKERS]:
        parser.error(f"no blocks in {', '.join(unknown)}; pages: {', '.join(MAKERS)}")
    for page in wanted or MAKERS:
        renew(page, SLOW if args.quick else ())
        print(f"renewed {page}", flush=True)
    for picture in PICTURES if args.pictures else ():
        _function(picture)()
    return 0


if __name__ == "__main__":
    gc.set_threshold(*RARELY)
    sys.exit(main())
