"""Measures the overlay's tool chain in one run, and judges it against
its targets: exit 1 on a miss.

    python bench/overlay_speed.py [--skip rtl]

The graph of 20,000 nodes is the LU of mna_c880; without the matrices a
generated circuit of that size. The large one is the LU of circuit_1
(2,624 rows, 0.7 million nodes), left out without them. Compiled code is
warm (numba keeps it on disk; a first small run loads it); the RTL is
built from an empty cache. `nox -s records -- overlay_speed` renews the
record that docs/overlay_results.md shows. Run it on a machine that does
nothing else; the record has the load average at the start. ``cpu_s`` is
what the process and its children took.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from clock import now
from inputs import matrix
from penstock.frontend.spice import graph_from, source
from penstock.machine.dataflow import DataflowGraph
from penstock.machine.overlay import Overlay
from penstock.model import overlay as model
from penstock.overlay.sweep import BEST
from penstock.runs.tables import print_table
from penstock.scheduler.token import Effort, map_graph
from records import Record, overlay_rtl
from silent import silent

SMALL = "mna_c880.mtx"
SMALL_GENERATED = "gen:gates:230"
LARGE = "circuit_1.mtx"
SECONDS = 50.0
"""Of the search for a better static placement; the large graph's may end the list that it is at."""
KINDS = {
    "static": {"pe": "static"},
    "dynamic": {},
    "best dynamic": {k: v[0] for k, v in BEST.items()},
}
"""Static multicast; FIFO and a token per edge; the best dynamic PE."""


@dataclass
class Line:
    """One measurement with its target: seconds of wall clock and of CPU
    (children included), at most ``limit`` of the former.
    """

    what: str
    graph: str
    nodes: int
    limit: float
    wall_s: float
    cpu_s: float
    cycles: int | None = None

    @property
    def verdict(self) -> str:
        return "met" if self.wall_s <= self.limit else "MISSED"


def timed(work: Callable):
    """What ``work`` returns, and the seconds of wall clock and of CPU
    that it took.
    """
    since = now()
    result = work()
    taken = [end - start for end, start in zip(now(), since, strict=True)]
    print(f"{taken[0]:.2f} s, {taken[1]:.2f} s of CPU", file=sys.stderr, flush=True)
    return result, *taken


def run_model(image):
    """Cycles and every value."""
    outcome = model.simulate(image)
    model.values(image, outcome)
    return outcome


def warm() -> None:
    """Load all compiled code."""
    graph = graph_from("gen:gates:12")
    for keys in KINDS.values():
        run_model(map_graph(graph, Overlay(2, 2, **keys)).image)
        run_model(map_graph(graph, Overlay(2, 2, **keys), objective="cut").image)


def on_the_model(name: str, graph: DataflowGraph) -> list[Line]:
    """A graph of 20,000 nodes at 16x16, mapped and modelled."""
    lines = []
    for kind, keys in KINDS.items():
        m, wall, cpu = timed(functools.partial(map_graph, graph, Overlay(16, 16, **keys)))
        lines.append(
            Line(
                f"placement and {'schedule' if kind == 'static' else 'image'}, {kind} 16x16",
                name,
                len(graph),
                5,
                wall,
                cpu,
            )
        )
        if kind == "static":
            work = functools.partial(map_graph, graph, m.overlay, effort=Effort(seconds=SECONDS))
            better, wall, cpu = timed(work)
            what = f"the same, improved for {SECONDS:.0f} s"
            lines.append(Line(what, name, len(graph), 60, wall, cpu, better.schedule.length))
        outcome, wall, cpu = timed(lambda m=m: run_model(m.image))
        lines.append(
            Line(f"model with values, {kind} 16x16", name, len(graph), 2, wall, cpu, outcome.cycles)
        )
    return lines


def on_the_rtl(name: str, graph: DataflowGraph) -> list[Line]:
    """The same graph at 4x4 on RTL, with mapping, export and build from
    an empty cache.
    """
    from penstock.tb.overlay_api import run_image

    lines = []
    for kind, keys in KINDS.items():
        rtl, wall, cpu = timed(
            lambda keys=keys: run_image(map_graph(graph, Overlay(4, 4, **keys)).image)
        )
        lines.append(
            Line(f"RTL with build, {kind} 4x4", name, len(graph), 90, wall, cpu, rtl.cycles)
        )
    return lines


def large(name: str, spec: str) -> list[Line]:
    """The LU of a matrix from its file: graph, placement and schedule
    or image, model.
    """
    ways: dict[str, tuple[str, dict, float]] = {
        "static": ("static", {"objective": "connectivity"}, 90),
        "dynamic": ("dynamic", {}, 90),
        f"static for time in {SECONDS:.0f} s": ("static", {"effort": Effort(seconds=SECONDS)}, 180),
    }
    lines = []
    for way, (kind, given, limit) in ways.items():

        def work(kind=kind, given=given):
            source._factors_of.cache_clear()
            graph = graph_from(spec)
            return graph, run_model(map_graph(graph, Overlay(16, 16, **KINDS[kind]), **given).image)

        (graph, outcome), wall, cpu = timed(work)
        what = f"read, factorised, built, placed and modelled, {way} 16x16"
        lines.append(Line(what, name, len(graph), limit, wall, cpu, outcome.cycles))
    return lines


def measure(skip: Sequence[str] = ()) -> dict:
    """All measurements but the skipped ones, judged, and the load
    before them.
    """
    load = os.getloadavg()[0]
    there = matrix(SMALL).exists()
    name = f"lu:{SMALL}" if there else SMALL_GENERATED
    graph = graph_from(f"lu:{matrix(SMALL)}" if there else SMALL_GENERATED)
    warm()
    lines = on_the_model(name, graph)
    if "large" not in skip and matrix(LARGE).exists():
        lines += large(f"lu:{LARGE}", f"lu:{matrix(LARGE)}")
    if "rtl" not in skip:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as empty:
            cache = os.environ.get("PENSTOCK_CACHE")
            os.environ["PENSTOCK_CACHE"] = empty  # builds are part of the time
            lines += on_the_rtl(name, graph)
            if cache is None:
                del os.environ["PENSTOCK_CACHE"]
            else:
                os.environ["PENSTOCK_CACHE"] = cache
    return {
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "rows": [
            {k: round(v, 2) if isinstance(v, float) else v for k, v in asdict(line).items()}
            | {"verdict": line.verdict}
            for line in lines
        ],
    }


RECORD = Record(
    "overlay_speed",
    cases=lambda: ["all"],
    run=lambda case: measure(),
    sources=lambda case: silent(overlay_rtl("bench/overlay_speed.py")),
    needs=lambda case: [matrix(SMALL), matrix(LARGE)],
)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=("rtl", "large"),
        help="leave a measurement out; may be repeated",
    )
    rows = measure(p.parse_args().skip)["rows"]
    print_table(rows)
    return int(any(row["verdict"] == "MISSED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
