"""The results of docs/dag_scheduler.md, for `docs/generate.py`.

The scripts bench/dag_*.py say what is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import dag_contest
import dag_gaps
import dag_generated
import dag_growth
import dag_machine
import dag_trial
from tables import frame

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
RECORDS = {
    "contest": dag_contest.RECORD,
    "generated": dag_generated.RECORD,
    "gaps": dag_gaps.RECORD,
    "growth": dag_growth.RECORD,
    "trial": dag_trial.RECORD,
    "machine": dag_machine.RECORD,
}


def stored(name: str) -> list[dict]:
    """The stored records of a bench."""
    return RECORDS[name].rows()


def markdown(rows: Sequence[dict]) -> str:
    names = list(rows[0])
    return frame(
        names,
        [[*map(str, r.values())] for r in rows],
        [all(str(r[n])[:1] in "0123456789+-" for r in rows) for n in names],
    )


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/dag_scheduler.md."""
    return {
        "contest": contest_block,
        "generated": lambda: markdown(dag_generated.summary(stored("generated"))),
        "gaps": gaps_block,
        "growth": growth_block,
        "trial": lambda: markdown(stored("trial")),
        "machine": lambda: markdown(dag_machine.summary(stored("machine"))),
        "ledgers": lambda: markdown(dag_machine.ledgers(stored("machine"))),
        "ranks": ranks,
        "machine on RTL": lambda: markdown(dag_machine.reduced(stored("machine"))),
    }


def contest_block() -> str:
    """The contest's problems, and what a first run costs."""
    start, *solved = stored("contest")
    met = sum(dag_contest.verdict(r) == "met" for r in solved)
    return (
        f"{markdown(dag_contest.summary(solved))}\n\n"
        f"{met} of {len(solved)} met, with compilation cached and one job. "
        f"A small problem with nothing compiled takes {start['cold_s']:.1f} s "
        f"({start['cold_cpu_s']:.1f} s of CPU), then {start['cached_s']:.1f} s "
        f"({start['cached_cpu_s']:.1f} s). {_load([start, *solved])}"
    )


def gaps_block() -> str:
    """Where the gap between schedule and bound comes from."""
    records = stored("gaps")
    limit = f"{records[0]['time_limit_s']:g} s each."
    return f"{markdown(dag_gaps.summary(records))}\n\n{dag_gaps.ranges(records)} {limit}"


def growth_block() -> str:
    """Time and memory by size."""
    grown = stored("growth")
    limit = f"{grown[0]['time_limit_s']:g} s each."
    return f"{markdown(dag_growth.summary(grown))}\n\n{limit} {_load(grown)}"


def ranks() -> str:
    """Whether the prediction orders schedules as the machine does."""
    judged = dag_machine.judge(stored("machine"))
    rows = [
        {
            "over": f"{judged[what]} {what}",
            "rank correlation (Spearman)": f"{judged[f'over_{what}']:.3f}",
        }
        for what in ("schedules", "programs")
    ]
    return markdown(rows)


def _load(records: list[dict]) -> str:
    return (
        f"Wall clock on {records[0]['cores']} cores, load average "
        f"{min(r['load'] for r in records):.1f} to {max(r['load'] for r in records):.1f}."
    )


def draw_growth(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    records = stored("growth")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for kind in dict.fromkeys(r["kind"] for r in records):
        rows = [r for r in records if r["kind"] == kind]
        ops = [r["ops"] for r in rows]
        left.plot(ops, [r["within_1_percent_cpu_s"] for r in rows], "o-", label=kind)
        right.plot(ops, [r["peak_memory_mb"] for r in rows], "o-", label=kind)
    left.set_yscale("log")
    left.set_ylabel("CPU seconds to within 1 % of the final latency")
    right.set_ylabel("peak memory, MB")
    right.set_ylim(bottom=0)
    for axis in (left, right):
        axis.set_xlabel("operations")
    right.legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_machine(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 5.5), layout="constrained")
    runs = dag_machine.full_size(stored("machine"))
    for held, marker, label in (
        (False, "o", "a subgraph"),
        (True, "s", "subgraphs with retained tensors"),
    ):
        programs = [p for r in runs for p in r["programs"] if bool(p["kept"]) == held]
        axis.scatter(
            [p["predicted"] for p in programs],
            [p["cycles"] for p in programs],
            marker=marker,
            alpha=0.6,
            label=f"{label} ({len(programs)} programs)",
        )
    ends = [
        min(min(p) for p in dag_machine.times(runs)) * 0.8,
        max(max(p) for p in dag_machine.times(runs)) * 1.25,
    ]
    axis.plot(ends, ends, "k-", lw=0.8, label="equal")
    axis.plot(ends, [e / 2 for e in ends], "k:", lw=0.8, label="predicted / simulated 2")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("predicted latency of a program, cycles")
    axis.set_ylabel("simulated on the model, cycles")
    axis.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw() -> None:
    """The pictures of the page."""
    draw_growth(RESULTS / "dag_growth.png")
    draw_machine(RESULTS / "dag_machine.png")
