"""The overlay's RTL against its model, case by case: exit 1 where any differs.

    python bench/overlay_rtl.py [--only TEXT ...]

A case is one build of the RTL and the graphs that run on it, one after
the other, without a reset in between (`overlay/regression.py`). Those
that begin with ``placements`` are a graph of `bench/overlay_placement.py`
each, static or with results forwarded, as placed for time; they share
builds. `nox -s records -- overlay_rtl` renews the record that
docs/overlay_results.md shows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from inputs import SHIPPED
from overlay_placement import GRAPHS as PLACED
from overlay_placement import LARGE, SIDES, file_of, graph_of
from penstock.machine.overlay import Overlay
from penstock.overlay.regression import SUITES, Ran, run, run_mapped
from penstock.overlay.sweep import FORWARD
from penstock.scheduler.token import Mapped, map_graph
from records import Record, overlay_rtl
from silent import silent

SUITE_CASES = {c.name: c for cases in SUITES.values() for c in cases}
KINDS = {"static": {"pe": "static"}, "forward": {k: v[0] for k, v in FORWARD.items()}}
"""PEs of the placements."""
MOST_SIDE = {"static": 16, "forward": 8}
LEAST = {"static": {2: 32768, 4: 8192}, "forward": {}}
"""Depth of memories by side, so that most graphs share a build; else 2048."""


def placements() -> dict[str, tuple[str, str, int]]:
    """Graph, kind of PE and side, by the name of the case."""
    return {
        f"placements: {k}x{k} {kind} {graph}": (graph, kind, k)
        for large in (False, True)
        for kind, most in MOST_SIDE.items()
        for k in SIDES[large]
        for graph in PLACED
        if k <= most and large == (graph in LARGE)
    }


PLACEMENTS = placements()


@lru_cache(maxsize=1)
def placed(graph: str, side: int) -> Mapped:
    """A graph on static PEs, placed for time."""
    return map_graph(graph_of(graph), Overlay(side, side, pe="static"))


def placement(name: str) -> tuple[Overlay, Ran]:
    """A placement on the RTL."""
    graph, kind, side = PLACEMENTS[name]
    mapped = placed(graph, side)
    if kind != "static":
        mapped = map_graph(mapped.graph, Overlay(side, side, **KINDS[kind]), pe=mapped.pe)
    return mapped.overlay, run_mapped({graph: mapped}, least=LEAST[kind].get(side, 2048))


def entry(name: str) -> dict:
    """A case's entry in the record."""
    if name in PLACEMENTS:
        suite = "placements"
        o, ran = placement(name)
    else:
        case = SUITE_CASES[name]
        suite = case.suite
        o = case.overlay
        ran = run(case, SHIPPED / "matrices")
    return {
        "suite": suite,
        "mesh": f"{o.rows}x{o.cols}",
        "variant": o.name(),
        "alu": o.alu,
        "format": o.format,
        "kinds": o.kinds,
        "clocks": ran.clocks,
        "spent": {k: round(v, 1) for k, v in ran.seconds.items()},
        "rows": [asdict(x) | {"equal": x.equal} for x in ran.outcomes],
    }


def files(name: str) -> Iterable[Path]:
    """The matrix of a placement."""
    return filter(None, [file_of(PLACEMENTS[name][0])]) if name in PLACEMENTS else ()


CASES = (*SUITE_CASES, *PLACEMENTS)

RECORD = Record(
    "overlay_rtl",
    cases=lambda: CASES,
    run=entry,
    sources=lambda case: silent(overlay_rtl("overlay/regression.py")),
    needs=files,
)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help=(
            "cases whose name contains TEXT; may be repeated: all those of the first, then of "
            "the second"
        ),
    )
    args = p.parse_args()
    cases = list(dict.fromkeys(c for text in args.only or [""] for c in CASES if text in c))
    bad = 0
    for k, name in enumerate(cases, 1):
        r = entry(name)
        wrong = [g["graph"] for g in r["rows"] if not g["equal"]]
        bad += bool(wrong)
        print(
            f"{k}/{len(cases)} {name}: {len(r['rows'])} graphs, "
            f"{sum(g['cycles'] for g in r['rows'])} cycles "
            f"({', '.join(f'{n} {s}' for n, s in r['spent'].items())})"
            + (f"; DIFFERENT: {', '.join(wrong)}" if wrong else ""),
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
