"""Runs on the overlay's RTL that hold it against the model: graphs, machines, and the
comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...scheduler.token import map_graph
from ...scheduler.token.partition import objective_of
from ..core.config import Overlay
from ..core.dataflow import DataflowGraph
from ..core.ops import Op, format_of
from ..graphs.devices import DEVICES
from ..graphs.source import graph_from
from ..model import simulate
from .traffic import TRAFFIC

STATIC = dict(pe="static")
PLAIN = dict(network="mesh")
TORUS = dict(network="hoplite")
FORWARD = dict(network="mesh", local="forward")
FORWARD_TORUS = dict(network="hoplite", local="forward")
DYNAMIC = (PLAIN, TORUS, FORWARD, FORWARD_TORUS)
VARIANTS = (STATIC, *DYNAMIC)

DEVICE_GRAPHS = (*(f"device:{name}" for name in DEVICES), "device:diode*5")
GENERATED = ("gen:ladder:60", "gen:ring:30", "gen:gates:25")
FROM_FILES = ("lu:mna_s27.mtx", "lu:mna_s344.mtx", "lu:fpga_dcop_01.mtx")
"""Matrices, by their name in the folder that is given."""


@dataclass(frozen=True)
class Case:
    """Graphs, one after the other, on one overlay: one build of the RTL."""

    suite: str  # what the case belongs to; a suite's cases differ in ``overlay`` only
    # overlay, graphs: the machine, and specifications of what runs on it
    overlay: Overlay
    graphs: tuple[str, ...]
    # placements of :data:`~.traffic.TRAFFIC`, each graph on each of them; none: the graph's own
    traffic: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        o = self.overlay
        further = "" if o.kinds == "homogeneous" else f" {o.kinds}"
        return f"{self.suite}: {o.rows}x{o.cols} {o.name()} {o.alu} {o.format}{further}"


def _cases(
    suite: str,
    graphs: Iterable[str],
    meshes: Iterable[int],
    keys: Iterable[dict],
    traffic: Iterable[str] = (),
    **fixed,
) -> list[Case]:
    return [
        Case(suite, Overlay(rows=k, cols=k, **v, **fixed), tuple(graphs), tuple(traffic))
        for k in meshes
        for v in keys
    ]


ALL = (*DEVICE_GRAPHS, *GENERATED, *FROM_FILES)

SUITES = {
    "4x4": _cases("4x4", ALL, (4,), VARIANTS),
    "other meshes": _cases("other meshes", ALL, (1, 2, 8), VARIANTS),
    "16x16": _cases(
        "16x16", ("device:hbt", "gen:gates:12"), (16,), (STATIC, PLAIN, TORUS, FORWARD)
    ),
    "fp64": [
        c
        for alu in ("unit", "pipelined")
        for c in _cases(
            "fp64",
            (*GENERATED, *FROM_FILES[:2]),
            (4,),
            (STATIC, PLAIN, FORWARD),
            format="fp64",
            alu=alu,
        )
    ],
    "pipelined": [
        c
        for kinds in ("homogeneous", "specialised")
        for c in _cases(
            "pipelined",
            (*DEVICE_GRAPHS, *GENERATED),
            (4,),
            (STATIC, PLAIN, TORUS, FORWARD),
            alu="pipelined",
            kinds=kinds,
        )
    ],
    "adversarial": _cases(
        "adversarial",
        ("gen:gates:25", "device:diode*5"),
        (4,),
        (PLAIN, TORUS, FORWARD, FORWARD_TORUS),
        traffic=TRAFFIC,
        fifo_depth=2,
    ),
}
"""Suite -> cases."""


@dataclass(frozen=True)
class Outcome:
    """One graph of a case on the RTL."""

    graph: str  # what ran, with its placement where that is not its own
    cycles: int  # of the RTL
    wrong: int  # values that differ from the NumPy reference of the arithmetic, in any bit
    # writes, tokens: compared with the model (static: and the schedule): writes to value memories,
    # tokens on links
    writes: int
    tokens: int
    differs: str | None  # the first write, token or count of cycles that differs, in words

    @property
    def equal(self) -> bool:
        return self.wrong == 0 and self.differs is None


def graphs_of(case: Case, matrices: Path | None) -> dict[str, DataflowGraph]:
    """The case's graphs by specification: those that the format can do, and those of files only
    where the folder has them.
    """
    known = format_of(case.overlay.format).ops

    def here(spec):
        return not spec.startswith("lu:") or (
            matrices is not None and (matrices / spec[3:]).exists()
        )

    found = {spec: _graph(spec, matrices) for spec in case.graphs if here(spec)}
    return {spec: g for spec, g in found.items() if {Op(c) for c in np.unique(g.op)} <= known}


@lru_cache(maxsize=32)
def _graph(spec: str, matrices: Path | None) -> DataflowGraph:
    if matrices is None or not spec.startswith("lu:"):
        return graph_from(spec)
    return replace(graph_from(f"lu:{matrices / spec[3:]}"), title=spec)


@lru_cache(maxsize=256)
def _placement(spec: str, matrices: Path | None, overlay: Overlay, objective: str) -> np.ndarray:
    """Cases that differ in what the placement does not see share it."""
    return map_graph(_graph(spec, matrices), overlay, objective=objective).pe


def run(case: Case, matrices: Path | None = None) -> list[Outcome]:
    """Run a case: every graph mapped, run on the model and on the RTL, all values read back."""
    from ..tb.api import run_images
    from .watch import watch

    o = case.overlay
    graphs = graphs_of(case, matrices)
    seen = Overlay(rows=o.rows, cols=o.cols, kinds=o.kinds, format=o.format)
    if case.traffic:
        mapped = {
            f"{spec}, {t}": map_graph(g, o, pe=TRAFFIC[t](g, o.rows, np.random.default_rng(k)))
            for spec, g in graphs.items()
            for k, t in enumerate(case.traffic)
        }
    else:
        mapped = {
            spec: map_graph(g, o, pe=_placement(spec, matrices, seen, objective_of(o)))
            for spec, g in graphs.items()
        }
    outcomes = []
    runs = run_images([m.image for m in mapped.values()])
    for (what, m), rtl in zip(mapped.items(), runs, strict=True):
        wanted = m.graph.evaluate(fmt=o.format).view(format_of(o.format).word).astype(np.uint64)
        watched = watch(m, simulate(m.image, tokens=True), rtl)
        wrong = int(np.count_nonzero(rtl.values != wanted))
        found = (rtl.cycles, wrong, watched.writes, watched.tokens, watched.first)
        outcomes.append(Outcome(what, *found))
    return outcomes
