"""Speed of model and RTL in one run, judged against the targets: exit 1 on a miss.

    python bench/speed.py [--skip rtl] [--skip fig8] [--skip wide]

The model is timed warm at figure 8's median point, the RTL with every channel observed, the figure
from an empty cache with all its builds. An event is one beat taken from one channel, or one memory
line. Run it on a machine that does nothing else; `nox -s measure -- speed` writes the table.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator

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
TARGETS: dict[str, tuple[str, str, float]] = {
    "model, timing only": ("machine cycles/s", "at least", 1e6),
    "model with values": ("machine cycles/s", "at least", 200e3),
    "model, events": ("events/s", "at least", 10e6),
    "model, dearest event against cheapest from 10^5 to 10^7 events": ("ratio", "at most", 1.5),
    "RTL, every channel observed": ("cycles/s", "at least", 2e3),
    "figure 8, 15 points on RTL checked beat by beat, builds included": ("s", "at most", 600),
    "export and build of a fabric 16 wide, from an empty cache": ("s", "at most", 90),
    "simulator builds for these 15 points": ("builds", "at most", 3),
}
"""Unit, bound and limit of what is measured."""
TIMING, VALUES, EVENTS, GROWTH, RTL, FIGURE, WIDE, BUILDS = TARGETS


def median_graph(batch: int = 64):
    """The program of the median point, lowered, with its configuration."""
    config = load("fig8")
    program = build("swiglu", MEDIAN | {"batch": batch}, config)
    return program, lower(program.graph, config), config


def model_speed(values: bool) -> tuple[float, float]:
    """Cycles and events a second, warm: at the median of several runs."""
    program, graph, config = median_graph()
    tensors = program.inputs(0) if values else None
    model.run(graph, config, tensors, values=values)
    runs = [model.run(graph, config, tensors, values=values) for _ in range(REPEATS)]
    wall = statistics.median(r.wall_s for r in runs)
    return runs[0].cycles / wall, runs[0].events / wall


def growth() -> float:
    """Cost of the dearest event over that of the cheapest, as the run grows: the best of several
    rounds over all sizes.
    """
    best: dict[int, float] = {}
    graphs = {f: median_graph(64 * f)[1:] for f in FACTORS}
    for turn in range(1 + REPEATS):
        for factor, (graph, config) in graphs.items():
            run = model.run(graph, config, values=False)
            if turn:  # the first one compiles
                best[factor] = min(best.get(factor, 1.0), run.wall_s / run.events)
    return max(best.values()) / min(best.values())


def wide_speed() -> float:
    """Seconds of export and build of the median point's fabric, and of all that builds share, from
    an empty cache.
    """
    _, graph, config = median_graph()
    with empty_cache():
        start = time.perf_counter()
        prepare(graph, config)
        return time.perf_counter() - start


def measured(skip: set[str], show: Progress) -> Iterator[tuple[str, float]]:
    """Quantities with their numbers; the figure's builds begin with an empty cache."""
    cycles, events = model_speed(False)
    yield TIMING, cycles
    yield EVENTS, events
    yield VALUES, model_speed(True)[0]
    yield GROWTH, growth()
    if "wide" not in skip:
        yield WIDE, wide_speed()
    with contextlib.nullcontext() if "fig8" in skip else empty_cache():
        if "fig8" not in skip:
            start = time.perf_counter()
            rtl = [r for r in figures.fig8_records(True, show) if r.backend == "rtl"]
            yield FIGURE, time.perf_counter() - start
            yield BUILDS, len({r.build for r in rtl})
        if "rtl" not in skip:
            record = api.run("swiglu", "fig8", MEDIAN, on="both", progress=show)[-1]
            yield RTL, record.cycles / record.wall_s


def judged(skip: set[str], show: Progress) -> list[Row]:
    """The targets with their numbers, in their order."""
    found = dict(measured(skip, show))
    rows = []
    for what, (unit, bound, limit) in TARGETS.items():
        number = found.get(what)
        row = {"what": what, "unit": unit, "bound": bound, "limit": limit, "measured": number}
        if number is None:
            verdict = "not measured"
        else:
            good = number >= limit if bound == "at least" else number <= limit
            verdict = "met" if good else "MISSED"
        rows.append(row | {"verdict": verdict})
    return rows


SPEED = Bench(
    lambda: ["model and RTL"],
    lambda _: [{"group": "speed"} | row for row in judged(set(), Progress())],
)


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
        rows = judged(set(args.skip), show)
    print_table(rows)
    return int(any(row["verdict"] == "MISSED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
