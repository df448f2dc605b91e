"""Renews the generated blocks of all pages: `python docs/generate.py [PAGE ...]`.

A block is made from declarations in the code, or from stored records (figures/fig8_rtl.json and
docs/results); `--check` writes nothing and names the blocks that are not up to date. Pictures of
stored records are drawn with `--pictures`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from marks import between, insert
from penstock.system.output import write_text

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench" / "dag")]  # where results are reported

MAKERS = {
    "README.md": "report:readme",
    "docs/cli.md": "reference:cli",
    "docs/configuration.md": "reference:configuration",
    "docs/dag_scheduler.md": "dag_report:blocks",
    "docs/dataflow_graphs.md": "graphs:blocks",
    "docs/deadlock.md": "deadlock_report:blocks",
    "docs/dynamic.md": "dynamic:blocks",
    "docs/figures.md": "figures_report:blocks",
    "docs/fuzzing.md": "fuzz_report:blocks",
    "docs/kinds.md": "reference:kinds",
    "docs/operators.md": "reference:operators",
    "docs/overlay_resources.md": "overlay_resources:blocks",
    "docs/overlay_results.md": "overlay_report:blocks",
    "docs/programs.md": "report:programs",
    "docs/regression.md": "regress_report:blocks",
    "docs/results.md": "report:results",
    "docs/samples.md": "reference:samples",
    "docs/timing.md": "reference:timing",
}
"""For each page the module and its function that gives the makers of the blocks by name."""

PICTURES = ["report:draw", "dag_report:draw"]

SLOW = {"output", "simple_moe"}
"""Blocks that take a minute: they run the RTL, and have a test of their own."""


def makers(page: str) -> dict[str, Callable[[], str]]:
    """What makes each block of a page."""
    return _function(MAKERS[page])()


def stale(skip: Container[str] = ()) -> Iterator[str]:
    """The blocks that are not as they would be made now."""
    for page in MAKERS:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, make in makers(page).items():
            if name not in skip and between(text, name) != make().strip():
                yield f"{page}: {name}"


def renew(page: str, skip: Container[str] = ()) -> None:
    """Write the blocks of a page."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    for name, make in makers(page).items():
        if name not in skip:
            text = insert(text, name, make())
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
    parser.add_argument("--quick", action="store_true", help="leave out what runs the RTL")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures as well")
    args = parser.parse_args()
    if args.check:
        found = list(stale(SLOW))
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
    sys.exit(main())
