"""`penstock demo`: the whole way once, at one point of figure 8, and the figure itself."""

from __future__ import annotations

from pathlib import Path

from penstock.machine.output import folder

from . import api, cli, explain, figures, points
from .progress import display

POINT = {"tile_b": 64, "tile_inter": 64}


def run(out: Path, quiet: bool = False) -> int:
    """Model and RTL at one point with values, Verilog, a timeline, figure 8 from model and published numbers; files go to ``out``."""
    print(f"1. SwiGLU at {' '.join(f'{k}={v}' for k, v in POINT.items())} on the model and on the RTL of the paper's machine "
          "(the first time, compiling the model and building the simulator take three or four minutes)", flush=True)
    folder(out)
    with display(quiet) as progress:
        records = api.run("swiglu", figures.FIG8_CONFIG, POINT, on="both", progress=progress)
    api.save_records(records, out / "demo.json")
    points.print_table(points.quantities(records))
    rtl = records[-1]
    print(f"   every beat of {rtl.channels_observed}/{rtl.channels_total} channels equal, {rtl.mismatches} mismatches\n")
    print(explain.text(records[0]), "\n")
    print("2. Verilog of a small fabric", flush=True)
    cli.main(["verilog", "swiglu", "--config", "small_fpga", "--out", str(out), *(["--quiet"] if quiet else [])])
    print("3. Timeline (open it at ui.perfetto.dev)", flush=True)
    api.timeline("swiglu", figures.FIG8_CONFIG, POINT, out=out / "timeline.json")
    print(f"wrote {out / 'timeline.json'}\n4. Figure 8, model beside published numbers", flush=True)
    with display(quiet) as progress:
        rows, agreements = figures.fig8(out, figures.fig8_records(False, progress))
    points.print_table(rows)
    points.print_table(agreements)
    print(f"wrote {out}/fig8.csv and fig8.png")
    return 0
