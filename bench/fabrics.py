"""Runs of programs on fabrics and arrays, model and RTL: figure 8, the paper's figures, regression,
fuzzing, bounds, dynamic against static, programs on an array.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from inputs import data
from measurements import Bench, Row
from penstock.cli import fuzz as fuzzer
from penstock.figures import FIGURES as PUBLISHED
from penstock.figures import Runs, Traces, write
from penstock.figures.fig8 import FIG8_CONFIG, FIG8_GRID, HBM2_CONFIG
from penstock.figures.published import fig8 as published_fig8
from penstock.fuzz.campaign import Campaign, run_programs
from penstock.machine.config import Config, check, load
from penstock.machine.forms import FORMS
from penstock.runs import api, array_rtl, regress, simulation
from penstock.runs import array as arrays
from penstock.runs.executors import named
from penstock.runs.pareto import distance
from penstock.runs.point import Point
from penstock.scheduler.array.mapping import map_program
from penstock.tb import api as tb
from penstock.tb.array import array_design

POINTS = {
    f"{p['tile_b']} x {p['tile_inter']}{what}": (config, p)
    for config, what in ((FIG8_CONFIG, ""), (HBM2_CONFIG, " hbm2"))
    for p in api.grid_points(FIG8_GRID)
}
"""Points of figure 8 by memory: configuration and sizes of tiles."""


def figure_8(case: str) -> list[Row]:
    """One point on model and RTL, beside the published simulator and HDL."""
    config, params = POINTS[case]
    model, rtl = api.run("swiglu", config, params, on="both")
    row: Row = {"memory": "hbm2" if config == HBM2_CONFIG else "pipe"} | params
    if config == FIG8_CONFIG:
        (step,) = api.run("swiglu", config, params, timing="stepsim", values=False)
        found = {(p.tile_b, p.tile_inter): p for p in published_fig8()}
        point = found[params["tile_b"], params["tile_inter"]]
        row |= {"step": point.step_cycles, "stepsim": step.cycles, "hdl": point.hdl_cycles}
        row["off_step"] = off(step.cycles, point.step_cycles)
        row["off_hdl"] = off(model.cycles, point.hdl_cycles)
    return [row | compared(model, rtl)]


def compared(model: Any, rtl: Any) -> Row:
    """Columns of a point, and its record on RTL, which `penstock figures` draws."""
    record = asdict(replace(rtl, units=[], channels=[], build=None))
    return point_row(model.cycles, record) | {"record": stored(record)}


def point_row(model: int, rtl: Row) -> Row:
    return {
        "model": model,
        "rtl": rtl["cycles"],
        "differ": rtl["mismatches"],
        "channels": f"{rtl['channels_observed']}/{rtl['channels_total']}",
        "values": rtl["values_ok"],
        "error": rounded(rtl["max_rel_err"]),
        "rtl_rate": round(rtl["cycles"] / rtl["wall_s"]),
    }


def off(ours: int, published: int | None) -> float | None:
    """Relative error against a published number."""
    return None if published is None else round(abs(ours / published - 1), 4)


def stored(record: Row) -> Row:
    """Fields of a record that have a value, but for its versions, which the run has."""
    kept = {k: rounded(v) for k, v in record.items() if v is not None and v != []}
    return kept | {"versions": {}}


def figure(name: str) -> list[Row]:
    """One figure in the timing `stepsim` on the published traces, with this machine's cycles."""
    with tempfile.TemporaryDirectory() as folder, named() as pool:
        write(PUBLISHED[name], Path(folder), Traces(data()), True, Runs(executor=pool))
        made = json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
    return rows_of_figure(made)


POINT = ("construction", "trace", "tile", "regions", "requests", "parallel", "variation")
POINT = (*POINT, "cycles", "step_cycles")
POINT = (*POINT, "machine_cycles", "machine_bound", "offchip_bytes", "onchip_bytes", "utilisation")
POINT = (*POINT, "onchip_active_bytes", "allocated_flops_per_cycle", "bandwidth_used")


def rows_of_figure(made: Row) -> list[Row]:
    """Points of a figure, agreements with the published series, and its summary but for times."""
    points = [{k: p[k] for k in POINT if p.get(k) is not None} for p in made["rows"]]
    found = [{"what": "point"} | p for p in points]
    found += [{"what": "agreement"} | a for a in made["agreements"]]
    found += [
        {"what": "summary", "of": s["what"]} | {k: s[k] for k in s if k != "what"}
        for s in made["summary"]
        if not s["what"].startswith("seconds")
    ]
    return [{k: rounded(v) for k, v in row.items()} for row in found]


def rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


DESIGNS = {d.name: d for d in regress.DESIGNS}


def regression(name: str) -> list[Row]:
    """All points of a design of `penstock regress` on model and RTL."""
    _, (*rows, _total) = regress.run(designs=(DESIGNS[name],), deep=True)
    return [regressed(row) for row in rows]


def regressed(row: Row) -> Row:
    return {
        "point": row["point"],
        "model": row["cycles model"],
        "rtl": row["cycles RTL"],
        "channels": row["channels"],
        "differ": row["differ"],
        "values": row["values"],
        "error": rounded(row["max rel err"]),
        "rate": row["RTL cycles/s"],
    }


ON_ARRAY = "array_small"
CAMPAIGNS: dict[str, tuple[str, ...]] = {
    **{
        f"part {k + 1}": ("--count", "800", "--streams", "6667", "--seed", str(k)) for k in range(3)
    },
    **{
        f"form {form}": ("--count", "670", "--seed", str(41 + k), "--form", form)
        for k, form in enumerate(FORMS[1:])
    },
    **{
        f"array {k + 1}": ("--count", "200", "--seed", str(61 + k), "--array", ON_ARRAY)
        for k in range(10)
    },
}
"""Options of `penstock fuzz` by campaign."""


def fuzz(case: str) -> list[Row]:
    """One campaign on RTL; programs of failures are kept in out/fuzz."""
    parser = argparse.ArgumentParser()
    fuzzer.add_arguments(parser)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "fuzz.json")
        options = [*CAMPAIGNS[case], "--on", "rtl", "--keep", "out/fuzz", "--json", str(out)]
        fuzzer.command(parser.parse_args(options))
        report = json.loads(out.read_text(encoding="utf-8"))
    return [fuzzed(case, report)]


def fuzzed(case: str, report: Row) -> Row:
    counts = report["counts"]
    return {
        "kind": case.split()[0],
        "programs": counts.get("programs", 0),
        "streams": counts.get("streams", 0),
        "beats": counts.get("beats compared on RTL", 0),
        "cycles": counts.get("cycles on RTL", 0),
        "refused": counts.get("refused", 0) + counts.get("refusals", 0),
        "failures": len(report["failures"]),
        "builds": counts.get("RTL builds"),
        "seconds": round(report["wall_s"]),
    }


def bounds(case: str) -> list[Row]:
    """Cycles of 500 random programs on the model over their lower bounds; the case is the seed."""
    found = Campaign()
    run_programs(found, 500, int(case))
    below = sum("below the bound" in f.message for f in found.failures)
    return [bounded(sorted(found.gaps), below)]


def bounded(gaps: list[float], below: int) -> Row:
    row: Row = {"programs": len(gaps), "below": below}
    row["at_bound"] = sum(g <= 1.0 for g in gaps)
    return row | {
        "median": round(statistics.median(gaps), 3),
        "ninety": round(gaps[int(0.9 * len(gaps))], 3),
        "most": round(gaps[-1], 3),
    }


CONFIG = "small_fpga"
DRAWS = 20
SKEW = 1.5
"""Skew of the first half of the draws: popularity of experts 1 / rank^1.5, log-normal lengths."""
SIZES: dict[str, dict[str, Any]] = {
    "small": {
        "moe": {"tokens": 32, "experts": 4},
        "requests": {"requests": 8, "regions": 2, "most": 8},
        "regions": (2, 1),
        "tiles": (4, 8, 16),
    },
    "full": {
        "moe": {"tokens": 64, "experts": 8},
        "requests": {"requests": 16, "regions": 4, "most": 32},
        "regions": (4, 2, 1),
        "tiles": (4, 8, 16, 32),
    },
}
STUDIES = ("tiling", "regions", "attention")


def machine(study: str) -> Config:
    """`small_fpga`; for attention with a quarter of the matrix rate and twice the bandwidth, so
    that a region's compute is the limit, as in the paper's figure 14.
    """
    small = load(CONFIG)
    if study != "attention":
        return small
    m = small.machine
    name = f"{CONFIG} rows_per_cycle=1 dram.interval=1"
    faster = replace(m, rows_per_cycle=1, dram=replace(m.dram, interval=1))
    return check(replace(small, name=name, machine=faster))


def variants(size: str, study: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Programs that are laid side by side; the first one is dynamic."""
    s = SIZES[size]
    dynamic = {"dynamic": ("moe", s["moe"] | {"tile_rows": 0})}
    if study == "tiling":
        return dynamic | {f"static {n}": ("moe", s["moe"] | {"tile_rows": n}) for n in s["tiles"]}
    if study == "regions":
        shared = {n: s["moe"] | {"tile_rows": 0, "regions": n} for n in s["regions"]}
        return dynamic | {f"{n} regions": ("moe", params) for n, params in shared.items()}
    return {
        how: ("attention", s["requests"] | {"heads": 8, "parallel": how})
        for how in ("dynamic", "coarse", "interleaved")
    }


def drawn(
    study: str, program: str, params: dict[str, Any], draws: Sequence[int], on: str
) -> list[Row]:
    """One program at each draw, of which the first ten are skewed; all share one build."""
    points = [params | {"skew": SKEW if i < DRAWS // 2 else 0.0} for i in draws]
    rows = []
    for i, o in zip(
        draws, api.outcomes(program, machine(study), points, on=on, seed=draws), strict=True
    ):
        row: Row = {"draw": i, "skewed": i < DRAWS // 2}
        if r := o.rtl or o.model:
            row |= {"cycles": o.model.cycles, "onchip": r.onchip_bytes, "peak": r.onchip_peak_bytes}
            row |= {"offchip": r.offchip_bytes, "utilisation": r.compute_utilisation}
            equal = o.rtl is None or (r.cycles == o.model.cycles and not r.mismatches)
            row["equal"] = bool(equal and r.values_ok)
        rows.append(row)
    return rows


def sides(found: dict[str, list[Row]]) -> list[Row]:
    """Medians of each variant, skewed and balanced draws apart, and ratios to the dynamic one."""
    rows = []
    for skewed in (True, False):
        alike = {name: [r for r in of if r["skewed"] == skewed] for name, of in found.items()}
        dynamic = alike["dynamic"]
        for name, of in alike.items():
            ran = [r for r in of if "cycles" in r]
            row: Row = {"draws": "skewed" if skewed else "balanced", "variant": name}
            row |= {"runs": len(of), "equal": sum(r.get("equal", False) for r in of)}
            if not ran:
                rows.append(row)
                continue
            for key in ("cycles", "onchip", "peak", "offchip", "utilisation"):
                row[key] = rounded(statistics.median(r[key] for r in ran))
            pairs = [(a, b) for a, b in zip(of, dynamic, strict=True) if "cycles" in a]
            row["cycles_x"] = round(
                statistics.median(a["cycles"] / b["cycles"] for a, b in pairs), 3
            )
            row["peak_x"] = round(statistics.median(a["peak"] / b["peak"] for a, b in pairs), 3)
            row["slower"] = sum(a["cycles"] > b["cycles"] for a, b in pairs)
            rows.append(row)
    return rows


def distances(found: dict[str, list[Row]], quantity: str, skewed: bool) -> list[float]:
    """Distance of dynamic tiling to the static tiles, one a draw."""
    out = []
    for k, row in enumerate(found["dynamic"]):
        if row["skewed"] == skewed:
            static = [of[k] for name, of in found.items() if name != "dynamic"]
            points = [(s["cycles"], s[quantity]) for s in static if "cycles" in s]
            out.append(distance((row["cycles"], row[quantity]), points))
    return out


def dynamic(case: str) -> list[Row]:
    """A study at a size: all variants at all draws, model and RTL."""
    size, study = case.split()
    made = variants(size, study).items()
    found = {name: drawn(study, *of, range(DRAWS), "both") for name, of in made}
    return with_distance(study, found)


def with_distance(study: str, found: dict[str, list[Row]]) -> list[Row]:
    """Rows of a study; the dynamic one of tiling has its distance in cycles and measured bytes."""
    rows = sides(found)
    for row in rows if study == "tiling" else ():
        if row["variant"] == "dynamic":
            pid = distances(found, "peak", row["draws"] == "skewed")
            row |= {"pid": round(statistics.median(pid), 3), "pid_least": round(min(pid), 3)}
    return rows


MEMORIES = ("pipe", "ideal")
PROGRAMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "swiglu": (ON_ARRAY, "swiglu", dict(batch=64, dim=64, inter=128, tile_b=16, tile_inter=32)),
    "swiglu, more rows": (
        ON_ARRAY,
        "swiglu",
        dict(batch=128, dim=32, inter=256, tile_b=32, tile_inter=16),
    ),
    "simple_moe": (ON_ARRAY, "simple_moe", dict(rows=128, dim=64, out=64)),
    "simple_moe, deeper": (ON_ARRAY, "simple_moe", dict(rows=64, dim=128, out=64)),
    "simple_moe, more rows": (ON_ARRAY, "simple_moe", dict(rows=256, dim=32, out=64)),
    "moe, dynamic": (ON_ARRAY, "moe", dict(inter=512, tokens=64, tile_rows=0)),
    "moe, static": (ON_ARRAY, "moe", dict(inter=256, tokens=128)),
    "moe, static, more tokens": (ON_ARRAY, "moe", dict(inter=256, tokens=256)),
    "moe, tiles of 8 rows": (ON_ARRAY, "moe", dict(inter=128, tokens=128, tile_rows=8)),
    "moe, one region": (ON_ARRAY, "moe", dict(tokens=256, regions=1)),
    "moe, dynamic, short": (ON_ARRAY, "moe", dict(inter=256, tokens=64, tile_rows=0)),
    "attention, coarse": (ON_ARRAY, "attention", dict(requests=32, parallel="coarse")),
    "attention, dynamic": (ON_ARRAY, "attention", dict(requests=16)),
    "attention, longer": (ON_ARRAY, "attention", dict(requests=16, most=96)),
    "attention, wider": (ON_ARRAY, "attention", dict(requests=16, head_dim=64)),
    "moe, 8 experts": ("array_moe8", "moe", {}),
}
"""Array, program and parameters."""
RTL = "on RTL"
ON_RTL: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"operators, {part}": ("operators", {"part": part})
        for part in ("routing", "memory", "compute")
    },
    **{
        name: PROGRAMS[name][1:]
        for name in ("swiglu", "simple_moe", "moe, dynamic", "moe, static", "moe, one region")
    },
    "attention, dynamic": PROGRAMS["attention, dynamic"][1:],
}
"""Programs that run on one build of the RTL of `array_small`."""


def on_memory(array: str, memory: str) -> Config:
    """An array with a kind of memory."""
    config = load(array)
    dram = replace(config.machine.dram, kind=memory)
    return replace(config, machine=replace(config.machine, dram=dram))


def array(case: str) -> list[Row]:
    """A program on an array beside a fabric of its own; or programs on the array's RTL."""
    if case == RTL:
        return array_on_rtl()
    preset, program, params = PROGRAMS[case]
    graph = Point(program, load(preset), params).graph
    network = load(preset).array
    map_program(graph, network)  # compiles
    start = time.process_time()
    mapping = map_program(graph, network)
    row = {"array": preset, "units": len(graph.units), "hops": mapping.hops}
    row["map_cpu_s"] = round(time.process_time() - start, 2)
    for memory in MEMORIES:
        placed = arrays.placed(Point(program, on_memory(preset, memory), params))
        own = simulation.on_model(placed.point, values=False, trace=False)
        there = simulation.on_model(placed.on_array(), values=False, trace=False)
        row |= {f"{memory}_own": int(own.cycles), f"{memory}_array": int(there.cycles)}
        row[f"{memory}_ratio"] = round(there.cycles / own.cycles, 4)
    return [row]


def array_on_rtl() -> list[Row]:
    """Every program on one build; one that differs from the model ends the run."""
    placed = [arrays.place(name, ON_ARRAY, params) for name, params in ON_RTL.values()]
    points = [one.on_array() for one in placed]
    config = points[0].config
    simulated = tb.simulate(array_design(config), [p.stimulus() for p in points], config)
    rows = []
    for name, one, point, ran in zip(ON_RTL, placed, points, simulated, strict=True):
        _, rtl = array_rtl.compared(point, ran, values=True)
        own, _ = arrays.run(one, values=False)
        row = {"program": name, "own": own.cycles, "there": rtl.cycles}
        row |= {"fifos": rtl.channels_observed, "beats": rtl.compared["beats"]}
        rows.append(row | {"values": rtl.values_ok})
    return rows


FIGURE_8 = Bench(lambda: POINTS, figure_8)
FIGURES = Bench(lambda: PUBLISHED, figure)
REGRESSION = Bench(lambda: DESIGNS, regression)
FUZZ = Bench(lambda: CAMPAIGNS, fuzz)
BOUNDS = Bench(lambda: [f"{seed:03}" for seed in range(1, 21)], bounds)
DYNAMIC = Bench(lambda: [f"{size} {study}" for size in SIZES for study in STUDIES], dynamic)
ARRAY = Bench(lambda: [*PROGRAMS, RTL], array)
