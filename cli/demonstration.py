"""``penstock demo``: the whole way once on the small machine, and figure 8."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from .. import figures
from ..runs import api, explain, tables
from ..runs.progress import Progress, display
from ..system.output import folder
from .options import values_verdict

SMALL = "small_fpga"
PHASES = (
    "a linear layer: compile the model's kernels and the RTL's simulator (once), run both",
    "export Verilog and timeline",
    "figure 8 of the paper: SwiGLU by tile size, beside the published numbers",
    "a point of it in RTL: build the simulator of the paper's machine (minutes), run both",
)
"""In their order; the last with ``paper`` alone."""
POINT = {"tile_b": 64, "tile_inter": 64}
"""Point of figure 8, on the paper's machine."""


def run(out: Path, *, paper: bool = False, quiet: bool = False) -> int:
    """Run, compare and export a small program, and draw figure 8; files go to ``out``.

    Parameters
    ----------
    out
        A folder, made if needed.
    paper
        Also one point of figure 8 on the RTL of the paper's machine: minutes the first time.
    quiet
        No progress on standard error.

    Returns
    -------
    int
        The exit status: 1 where values or beats differ.
    """
    folder(out)
    source = files("penstock.samples") / "files" / "program.py"
    with display(quiet) as progress, as_file(source) as sample:
        phases = PHASES if paper else PHASES[:-1]
        _begin(phases, 0)
        records = _compare(str(sample), SMALL, {}, progress)
        print(f"\n{explain.text(records[0])}")
        _begin(phases, 1)
        written = api.verilog(str(sample), SMALL, out=out, progress=progress)
        progress.step("timeline")
        written.append(api.timeline(str(sample), SMALL, out=out / "timeline.json"))
        _wrote(written)
        _begin(phases, 2)
        measured = figures.fig8_records(False, progress)
        progress.step("draw figure 8")
        rows, agreements = figures.fig8(out, measured)
        tables.print_table(rows)
        tables.print_table(agreements)
        _wrote([out / "fig8.csv", out / "fig8.png"])
        if paper:
            _begin(phases, 3)
            records += _compare("swiglu", figures.FIG8_CONFIG, POINT, progress)
    api.save_records(records, out / "demo.json")
    _wrote([out / "demo.json"])
    print(
        "next: `penstock new`, or `penstock demo --paper` for the paper's machine"
        if not paper
        else "next: `penstock new`"
    )
    return values_verdict(records)


def _begin(phases: Sequence[str], at: int) -> None:
    """Print the phase that begins, and those that are left."""
    left = [phase.partition(":")[0].partition(" (")[0] for phase in phases[at + 1 :]]
    print(f"\n{at + 1} of {len(phases)}  {phases[at]} ...")
    print(f"        then: {'; '.join(left) or 'nothing'}", flush=True)


def _compare(program: str, config: str, params: dict, progress: Progress) -> list:
    records = api.run(program, config, params, on="both", progress=progress)
    tables.print_table(tables.quantities(records))
    print(tables.agreement(records[-1]), flush=True)
    return records


def _wrote(paths: list[Path]) -> None:
    print(f"wrote {', '.join(map(str, paths))}", flush=True)
