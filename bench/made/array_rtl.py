"""Programs on the RTL of `array_small`: its build, and how fast one build runs them."""

from __future__ import annotations

from typing import Any

from clock import now
from empty_cache import empty_cache
from penstock.runs import array as runs
from penstock.runs import array_rtl
from penstock.tb import api
from penstock.tb.array import array_design
from records import Record, on_rtl, preset

from .array import CASES as LONG

ARRAY = "array_small"
PARTS = ("routing", "memory", "compute")
SHOWN = (
    "swiglu",
    "simple_moe",
    "moe, dynamic",
    "moe, static",
    "moe, one region",
    "attention, dynamic",
)
"""Of the programs that the model runs, too."""
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"operators, {part}": ("operators", {"part": part}) for part in PARTS},
    **{name: (LONG[name].program, LONG[name].params) for name in SHOWN},
}
"""Program and parameters of each row."""


def run(case: str) -> dict:
    """Export and build from an empty cache, then every program on that build."""
    with empty_cache():
        return _built() | {"rows": programs()}


def _built() -> dict[str, float]:
    """Seconds of the export and of the simulator build: wall time, CPU
    time.
    """
    start = now()
    design = array_design(runs.array_config(ARRAY))
    exported = now()
    api.build_design(design)
    built = now()
    return {
        "export_s": exported[0] - start[0],
        "export_cpu_s": exported[1] - start[1],
        "build_s": built[0] - exported[0],
        "build_cpu_s": built[1] - exported[1],
    }


def programs() -> list[dict]:
    """Every program on one build; one that differs from the model ends the run."""
    placed = [runs.place(name, ARRAY, params) for name, params in PROGRAMS.values()]
    points = [one.on_array() for one in placed]
    config = points[0].config
    simulated = api.simulate(array_design(config), [p.stimulus() for p in points], config)
    rows = []
    for one, point, ran in zip(placed, points, simulated, strict=True):
        _, rtl = array_rtl.compared(point, ran, values=True)
        own, _ = runs.run(one, values=False)
        assert rtl.compared is not None
        rows.append(
            {
                "own": own.cycles,
                "there": rtl.cycles,
                "fifos": rtl.channels_observed,
                "beats": rtl.compared["beats"],
                "values_ok": rtl.values_ok,
                "clocked_cpu_s": ran.extra["clocked_cpu_s"],
            }
        )
    return rows


RECORD = Record(
    "array_rtl",
    cases=lambda: [ARRAY],
    run=run,
    sources=lambda case: on_rtl(
        "bench/made/array_rtl.py",
        "bench/made/array.py",
        "hw/array/*.py",
        "runs/array_rtl.py",
        "tb/parts.cpp",
        "tb/parts_test.py",
        preset(ARRAY),
        *sorted({f"workloads/{program}.py" for program, _ in PROGRAMS.values()}),
    ),
)
