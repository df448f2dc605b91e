"""The bits of a fabric's memories, counted in its exported Verilog."""

from __future__ import annotations

from penstock.frontend import build, lower
from penstock.hw.export import export
from penstock.hw.fabric import Fabric
from penstock.hw.memories import by_class
from penstock.runs import regress
from records import UNITS, Record, Sources, preset

PRESET = "small_fpga"
NAMES = ("swiglu small_fpga", "moe static", "moe dynamic", "attention coarse", "attention dynamic")
DESIGNS = {d.name: d for d in regress.DESIGNS if d.name in NAMES}


def run(name: str) -> dict:
    """A row for each use of memories."""
    design = DESIGNS[name]
    config = design.machine()
    program = build(design.program, design.points[0], config)
    graph = lower(program.graph, config)
    done = export(Fabric(graph, config))
    found = by_class(done.verilog, done.sidecar)
    return {"rows": [{"use": use, "bits": n} for use, n in found.items()]}


def sources(name: str) -> Sources:
    """Of one design: hardware, and its program."""
    program = f"workloads/{DESIGNS[name].program}.py"
    own = ("bench/made/onchip.py", "hw/memories.py", "runs/regress.py")
    roots = (*own, *UNITS, program, preset(PRESET))
    return Sources(roots, ("tb", "cli", "runs/api.py", "model"))


RECORD = Record("onchip", cases=lambda: DESIGNS, run=run, sources=sources)
