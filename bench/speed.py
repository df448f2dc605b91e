"""Speed of model and RTL at figure 8's median point, and how the model scales: one run, ratios beside each other.

    python bench/speed.py [--rtl] [--json OUT]

Targets: model >= 1 M machine cycles/s timing only, >= 200 k with values, >= 10 M events/s, cost per event within 1.5x from 10^5 to 10^7;
RTL >= 2 k cycles/s. An event is one beat taken from one channel or one memory line.
"""

from __future__ import annotations

import argparse
import json
import statistics

from penstock import api, model
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
    """Cost per event as the run grows (batch x 1 ... x 64 of the median point)."""
    config = load("fig8")
    rows = []
    for factor in (1, 4, 16, 64):
        graph = lower(build("swiglu", MEDIAN | {"batch": 64 * factor}, config).graph, config)
        model.run(graph, config, values=False)
        run = min((model.run(graph, config, values=False) for _ in range(3)), key=lambda r: r.wall_s)
        rows.append({"what": f"model, batch x{factor}", "cycles": run.cycles, "events": run.events, "wall_s": run.wall_s, "ns_per_event": run.wall_s / run.events * 1e9})
    return rows


def rtl_speed() -> dict:
    """RTL with every channel observed, warm build."""
    record = api.run("swiglu", "fig8", MEDIAN, on="both")[-1]
    return {"what": "RTL, all channels observed", "cycles": record.cycles, "wall_s": record.wall_s, "cycles_per_s": record.cycles / record.wall_s}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rtl", action="store_true", help="also the RTL (builds it if it is not in the cache)")
    p.add_argument("--json", metavar="OUT")
    args = p.parse_args()
    rows = [model_speed(False), model_speed(True), *scaling()]
    if args.rtl:
        rows.append(rtl_speed())
    from penstock.cli import print_table

    print_table(rows)
    if args.json:
        from penstock.machine.record import write_text

        write_text(args.json, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
