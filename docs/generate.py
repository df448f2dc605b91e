"""Writes the generated blocks of pages: `python docs/generate.py [PAGE ...]`.

A block is made from declarations in the code (docs/reference.py), or it is a table of dated
measurements (docs/tables.toml). `--check` writes nothing and names the blocks that are not up to
date. `--pictures` draws the pictures.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import sys
import tempfile
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from marks import between, insert
from penstock import cli
from penstock.system.collector import RARELY
from penstock.system.output import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
sys.path.append(str(ROOT / "bench"))
tables = importlib.import_module("tables")
reference = importlib.import_module("reference")
Makers = dict[str, Callable[[], str]]
COMMAND = ["run", "swiglu", "--config", "small_fpga", "--on", "both"]
"""The README's run of its program."""
EXAMPLE = ["run", "simple_moe", "--config", "small_fpga", "--on", "both"]
"""The run of docs/programs.md."""
DECLARED = (
    "array",
    "board",
    "cli",
    "configuration",
    "figures",
    "kinds",
    "layers",
    "operators",
    "samples",
    "step_scripts",
    "timing",
)
DECLARED = (*DECLARED, "top")
"""Pages with blocks of docs/reference.py."""
SLOW = {"output", "simple_moe"}
"""Blocks that take a minute: they run the RTL, and have a test of their own."""


def makers(page: str) -> Makers:
    """Makers of the blocks of a page by name."""
    name = page.removeprefix("docs/").removesuffix(".md")
    found: Makers = dict(tables.blocks(page))
    if name in DECLARED:
        found |= getattr(reference, name)()
    if name.startswith("overlay_re"):
        found |= importlib.import_module("overlay_cycles").blocks(page)
    if page == "README.md":
        found |= {"output": lambda: printed(COMMAND), "results": tables.short}
    if page == "docs/programs.md":
        found |= {"top2": sample, "simple_moe": lambda: printed(EXAMPLE)}
    return found


def pages() -> list[str]:
    """Pages with generated blocks."""
    every = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
    return [page for page in every if makers(page)]


def sample() -> str:
    """The text that `penstock new top2` writes, below its docstring."""
    text = (ROOT / "samples" / "files" / "top2.py").read_text(encoding="utf-8")
    _, _, program = text.partition('"""\n\n')
    return f"```python\n{program}```"


def printed(command: list[str]) -> str:
    """The output of a command, as a block."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if cli.main([*command, "--quiet"]):
            raise SystemExit(1)
    return f"```text\n{out.getvalue()}```"


def stale(skip: Container[str] = ()) -> Iterator[str]:
    """Blocks that differ from those made now."""
    for page in pages():
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


def draw() -> None:
    """Pictures of pages, figure 8, its fabric, and the overlay's curves; commands of the package
    draw the others.
    """
    from penstock import figures
    from penstock.frontend import build, lower
    from penstock.frontend.show.draw import draw_fabric
    from penstock.machine.config import load

    importlib.import_module("pictures").draw(RESULTS)
    importlib.import_module("overlay_cycles").draw(RESULTS)
    with tempfile.TemporaryDirectory() as folder:
        figures.fig8(Path(folder), figures.fig8_records(False) + figures.hbm2_records(False))
        (RESULTS / "fig8.png").write_bytes(Path(folder, "fig8.png").read_bytes())
    config = load("fig8")
    draw_fabric(lower(build("swiglu", {}, config).graph, config), config, RESULTS / "fabric.png")


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
    wanted = [page if page in pages() else f"docs/{page}" for page in args.pages]
    if unknown := [page for page in wanted if page not in pages()]:
        parser.error(f"no blocks in {', '.join(unknown)}; pages: {', '.join(pages())}")
    for page in wanted or pages():
        renew(page, SLOW if args.quick else ())
        print(f"wrote {page}", flush=True)
    if args.pictures:
        draw()
    return 0


if __name__ == "__main__":
    gc.set_threshold(*RARELY)
    sys.exit(main())
