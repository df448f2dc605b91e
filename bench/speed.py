"""Measures the speed of model and RTL in one run, and judges it against the targets: exit 1 on a
miss.

    python bench/speed.py [--skip rtl] [--skip fig8] [--skip wide]

The model is timed warm at figure 8's median point, the RTL with every channel observed, the figure
from an empty cache with all its builds. An event is one beat taken from one channel, or one memory
line. Run it on a machine that does nothing else; `nox -s measure -- speed` writes the table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass

import hbm2_speed
from empty_cache import empty_cache
from measurements import Bench, Row
from penstock import figures, model
from penstock.frontend import build, lower
from penstock.machine.config import load
from penstock.runs import api
from penstock.runs.progress import Progress, display
from penstock.runs.tables import print_table
from penstock.tb.api import prepare

MEDIAN = {"tile_b": 32, "tile_inter": 64}
REPEATS = 5
FACTORS = (1, 4, 16, 64, 128)
"""Batches of the median point: 10^5 to 10^7 events."""


@dataclass
class Target:
    """One line of the table.

    Attributes
    ----------
    what, unit
        What is measured, and in what.
    bound, limit
        ``at least`` or ``at most`` this number.
    measured
        The number (None: not measured in this run).
    """

    what: str
    unit: str
    bound: str
    limit: float
    measured: float | None = None

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        good = (
            self.measured >= self.limit if self.bound == "at least" else self.measured <= self.limit
        )
        return "met" if good else "MISSED"


def targets() -> dict[str, Target]:
    """The targets by name."""
    return {
        "timing": Target("model, timing only", "machine cycles/s", "at least", 1e6),
        "values": Target("model with values", "machine cycles/s", "at least", 200e3),
        "events": Target("model, events", "events/s", "at least", 10e6),
        "growth": Target(
            "model, dearest event against cheapest from 10^5 to 10^7 events",
            "ratio",
            "at most",
            1.5,
        ),
        "rtl": Target("RTL, every channel observed", "cycles/s", "at least", 2e3),
        "fig8": Target(
            "figure 8, 15 points on RTL checked beat by beat, builds included", "s", "at most", 600
        ),
        "wide": Target(
            "export and build of a fabric 16 wide, from an empty cache", "s", "at most", 90
        ),
        "builds": Target("simulator builds for these 15 points", "builds", "at most", 3),
    }


def model_speed(values: bool) -> dict:
    """Warm speed at the median point: the median of several runs."""
    config = load("fig8")
    program = build("swiglu", MEDIAN, config)
    graph = lower(program.graph, config)
    tensors = program.inputs(0) if values else None
    model.run(graph, config, tensors, values=values)
    runs = [model.run(graph, config, tensors, values=values) for _ in range(REPEATS)]
    wall = statistics.median(r.wall_s for r in runs)
    return {
        "what": "model with values" if values else "model, timing only",
        "cycles": runs[0].cycles,
        "events": runs[0].events,
        "wall_s": wall,
        "setup_s": statistics.median(r.setup_s for r in runs),
        "cycles_per_s": runs[0].cycles / wall,
        "events_per_s": runs[0].events / wall,
    }


def growth(show: Progress) -> list[dict]:
    """Cost per event as the run grows (batch x 1 ... x 128 of the median point): the best of
    several rounds over all sizes.
    """
    config = load("fig8")
    graphs = {
        f: lower(build("swiglu", MEDIAN | {"batch": 64 * f}, config).graph, config) for f in FACTORS
    }
    best: dict[int, object] = {}
    for round_ in range(1 + REPEATS):
        for factor, graph in graphs.items():
            run = model.run(graph, config, values=False)
            if round_ and (factor not in best or run.wall_s < best[factor].wall_s):
                best[factor] = run
        show.done(f"model, round {round_} over {len(graphs)} sizes")
    return [
        {
            "what": f"model, batch x{f}",
            "cycles": r.cycles,
            "events": r.events,
            "wall_s": r.wall_s,
            "setup_s": r.setup_s,
            "events_per_s": r.events / r.wall_s,
            "ns_per_event": r.wall_s / r.events * 1e9,
        }
        for f, r in best.items()
    ]


def rtl_speed(show: Progress) -> dict:
    """RTL with every channel observed, at the median point (built first if it has to be)."""
    record = api.run("swiglu", "fig8", MEDIAN, on="both", progress=show)[-1]
    return {
        "what": "RTL",
        "cycles": record.cycles,
        "events": record.events,
        "wall_s": record.wall_s,
        "setup_s": record.setup_s,
        "cycles_per_s": record.cycles / record.wall_s,
    }


def wide_speed() -> dict:
    """Export and build of the median point's fabric, and of all that builds share, from an empty
    cache.
    """
    config = load("fig8")
    graph = lower(build("swiglu", MEDIAN, config).graph, config)
    with empty_cache():
        start = time.perf_counter()
        prepare(graph, config)
        return {"what": "a fabric 16 wide, built", "wall_s": time.perf_counter() - start}


def fig8_speed(show: Progress) -> dict:
    """All points of figure 8 on model and RTL with the check of every beat; wall time with whatever
    has to be built.
    """
    start = time.perf_counter()
    rtl = [r for r in figures.fig8_records(True, show) if r.backend == "rtl"]
    return {
        "what": f"figure 8, {len(rtl)} points on RTL",
        "cycles": sum(r.cycles for r in rtl),
        "wall_s": time.perf_counter() - start,
        "setup_s": sum(r.setup_s for r in rtl),
        "cycles_per_s": sum(r.cycles for r in rtl) / sum(r.wall_s for r in rtl),
        "builds": len({r.build for r in rtl}),
    }


def measure(skip: set[str], show: Progress) -> tuple[list[dict], dict[str, Target]]:
    """All measurements but the skipped ones; the targets with what was measured."""
    judged = targets()
    show.plan(4 + REPEATS)
    rows = [model_speed(False), model_speed(True)]
    for row in rows:
        show.done(row["what"])
    judged["timing"].measured = rows[0]["cycles_per_s"]
    judged["values"].measured = rows[1]["cycles_per_s"]
    judged["events"].measured = rows[0]["events_per_s"]
    rows += (grown := growth(show))
    cost = [r["ns_per_event"] for r in grown]
    judged["growth"].measured = max(cost) / min(cost)
    if "wide" not in skip:
        rows.append(wide_speed())
        judged["wide"].measured = rows[-1]["wall_s"]
        show.done(rows[-1]["what"])
    if "fig8" not in skip:
        rows.append(fig8_speed(show))
        judged["fig8"].measured = rows[-1]["wall_s"]
        judged["builds"].measured = rows[-1]["builds"]
    if "rtl" not in skip:
        rows.append(rtl_speed(show))
        judged["rtl"].measured = rows[-1]["cycles_per_s"]
    return rows, judged


def judged(skip: set[str], show: Progress) -> dict:
    """The targets, and all that was measured; the figure's builds begin with an empty cache."""
    # builds are part of the figure's time
    with contextlib.nullcontext() if "fig8" in skip else empty_cache():
        rows, found = measure(skip, show)
    return {
        "cores": os.cpu_count(),
        "measured": rows,
        "rows": [asdict(t) | {"verdict": t.verdict} for t in found.values()],
    }


ALL = "model and RTL"


def run(case: str) -> list[Row]:
    """The targets with their measured values, or a stream of requests on HBM2."""
    if case == ALL:
        return [{"group": "speed"} | row for row in judged(set(), Progress())["rows"]]
    return [{"group": "hbm2"} | hbm2_speed.run(case)]


SPEED = Bench(lambda: [ALL, *hbm2_speed.CASES], run)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=("rtl", "fig8", "wide"),
        help="leave a measurement out; its targets are not judged",
    )
    p.add_argument("--quiet", action="store_true", help="no progress on standard error")
    args = p.parse_args()
    with display(args.quiet) as show:
        found = judged(set(args.skip), show)
    print_table(found["measured"])
    print_table(found["rows"])
    return int(any(row["verdict"] == "MISSED" for row in found["rows"]))


if __name__ == "__main__":
    sys.exit(main())
