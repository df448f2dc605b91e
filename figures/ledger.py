"""The ledger: numbers that the papers state in texts, tables and captions, each with ours."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import correlation, geometric_mean

from .base import Summary
from .published import fig8, stated

PAPERS = {
    "A": "STeP, ASPLOS'26",
    "V": "STeP, first version",
    "C": "DAG scheduling contest",
    "D": "Kapre and Siddhartha, DFM'14",
}


def ledger(summaries: Mapping[str, Summary]) -> list[dict]:
    """Statements with place, ours, and the difference; ``summaries``: of the figures made. Ours is
    empty where no program of this package makes the number.
    """
    ours = {(f, row["what"]): row["ours"] for f, rows in summaries.items() for row in rows}
    ours["fig8", "Pearson correlation of the simulator with the HDL"] = _correlation()
    gains = [v for (f, what), v in ours.items() if f == "fig12" and "utilisation gained" in what]
    if gains:
        ours["fig12", "utilisation gained, geometric mean"] = geometric_mean(gains)
    rows = [
        _row(
            PAPERS[s["paper"]], _place(s), s["what"], s["value"], ours.get((s["figure"], s["what"]))
        )
        for s in stated()
        if s["what"] != "hours"
    ]
    return rows + _contest() + _devices()


def _place(statement: dict) -> str:
    place, figure = statement["place"], statement["figure"].replace("fig", "figure ")
    return place if place == figure else f"{place}, {figure}"


def _row(paper: str, place: str, what: str, stated: float, ours: float | None) -> dict:
    off = None if ours is None else ours / stated - 1
    row = {"paper": paper, "place": place, "what": what, "stated": stated, "ours": ours}
    return row | {"difference": off}


def _correlation() -> float:
    """Published simulator against published HDL, over the points whose HDL cycles are public."""
    known = [(p.step_cycles, p.hdl_cycles) for p in fig8() if p.hdl_cycles]
    return correlation(*zip(*known, strict=True))


def _contest() -> list[dict]:
    """Totals of the worked examples of the contest's statement."""
    from ..scheduler.dag import evaluate
    from ..testing.dag_cases import EXAMPLES, WORKED

    return [
        _row(PAPERS["C"], f"example {name}", "total latency", sum(latencies), total)
        for name, (number, plan, latencies) in WORKED.items()
        for total in [evaluate(EXAMPLES[number], plan, check_latencies=False).latency]
    ]


def _devices() -> list[dict]:
    """Sizes of the graphs of device equations."""
    from ..overlay.graphs.devices import PUBLISHED, device_graph

    return [
        _row(PAPERS["D"], "table II", f"{known[0]} beside {name}: {what}", stated, ours)
        for name, known in PUBLISHED.items()
        for s in [device_graph(name).statistics]
        for what, stated, ours in zip(
            ("nodes", "edges", "depth"), known[1:], (s.nodes, s.edges, s.depth), strict=True
        )
    ]
