"""Speed of model and RTL at figure 8's median point, and how the model scales: one run, ratios beside each other.

    python bench/speed.py [--rtl] [--fig8] [--json OUT]

Targets: model >= 1 M machine cycles/s timing only, >= 200 k with values, >= 10 M events/s, cost per event within 1.5x from 10^5 to 10^7;
RTL >= 2 k cycles/s; all points of figure 8 on RTL within 600 s, builds included. An event is one beat taken from one channel or one memory
line. Wall times: on a busy machine they say little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from penstock import api, figures, model
from penstock.frontend import build, lower
from penstock.machine.config import load

MEDIAN = {"tile_b": 32, "tile_inter": 64}
REPEATS = 5


def model_speed(values: bool) -> dict:
    """Warm speed at the median point: the median of several runs."""
    config = load("fig8")
    program = build("swiglu", MEDIAN, config)
    graph = lower(program.graph, config)
    tensors = program.inputs(0) if values else None
    model.run(graph, config, tensors, values=values)
    runs = [model.run(graph, config, tensors, values=values) for _ in range(REPEATS)]
    wall = statistics.median(r.wall_s for r in runs)
    return {"what": "model with values" if values else "model timing only", "cycles": runs[0].cycles, "events": runs[0].events, "wall_s": wall,
            "setup_s": statistics.median(r.setup_s for r in runs), "cycles_per_s": runs[0].cycles / wall, "events_per_s": runs[0].events / wall}


def scaling() -> list[dict]:
    """Cost per event as the run grows (batch x 1 ... x 128 of the median point: 10^5 to 10^7 events)."""
    config = load("fig8")
    rows = []
    for factor in (1, 4, 16, 64, 128):
        graph = lower(build("swiglu", MEDIAN | {"batch": 64 * factor}, config).graph, config)
        model.run(graph, config, values=False)
        run = min((model.run(graph, config, values=False) for _ in range(3)), key=lambda r: r.wall_s)
        rows.append({"what": f"model, batch x{factor}", "cycles": run.cycles, "events": run.events, "wall_s": run.wall_s, "ns_per_event": run.wall_s / run.events * 1e9})
    cost = [r["ns_per_event"] for r in rows]
    return [*rows, {"what": "model, dearest event / cheapest", "ratio": max(cost) / min(cost)}]


def fig8_time() -> dict:
    """All 15 points on RTL with the check of every beat: wall time, builds included unless they are cached."""
    start = time.perf_counter()
    rtl = [r for r in figures.fig8_records(True) if r.backend == "rtl"]
    return {"what": f"figure 8, {len(rtl)} points on RTL", "cycles": sum(r.cycles for r in rtl), "wall_s": time.perf_counter() - start,
            "setup_s": sum(r.setup_s for r in rtl), "cycles_per_s": sum(r.cycles for r in rtl) / sum(r.wall_s for r in rtl)}


def rtl_speed() -> dict:
    """RTL with every channel observed, warm build."""
    record = api.run("swiglu", "fig8", MEDIAN, on="both")[-1]
    return {"what": "RTL, all channels observed", "cycles": record.cycles, "wall_s": record.wall_s, "cycles_per_s": record.cycles / record.wall_s}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rtl", action="store_true", help="also the RTL (builds it if it is not in the cache)")
    p.add_argument("--fig8", action="store_true", help="also all of figure 8 on RTL")
    p.add_argument("--json", metavar="OUT")
    args = p.parse_args()
    rows = [model_speed(False), model_speed(True), *scaling()]
    if args.rtl:
        rows.append(rtl_speed())
    if args.fig8:
        rows.append(fig8_time())
    from penstock.cli import print_table

    print_table(rows)
    if args.json:
        from penstock.machine.record import write_text

        write_text(args.json, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
