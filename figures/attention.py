"""Figures 14, 15 and 21: attention with coarse, interleaved and dynamic parallelisation over four
regions.
"""

from __future__ import annotations

from statistics import geometric_mean

from ..machine.config import load
from ..machine.record import Record
from .base import MACHINE, Figure, gain, timings
from .points import Point
from .published import attention, statements
from .traces import Lengths, Traces

CONFIG = "paper_attention"
WAYS = ("coarse", "interleaved", "dynamic")
COLOURS = {"coarse": "#9ecae1", "interleaved": "#3182bd", "dynamic": "#e6550d"}
KV_TILE = 32
MOST = {16: 146, 64: 202, 80: 204}
"""Tiles of KV_TILE rows that the published caches have room for, by batch; others, and batches of
longer requests, as many as their longest takes.
"""
SHARE = 16
"""Consecutive requests of a region where parallelisation is coarse, whatever the batch: a small one
leaves regions idle, a large one comes round again.
"""
DEVIATIONS = (range(450, 600), range(950, 1050), range(1300, 1500))
"""Standard deviations of the batches of 64 that were published: little, some and much. The paper
does not name the batches of 16 and 80 of figure 21; those that vary as much give its two ratios.
"""
MOST_LEVEL = 16
"""Names of traces that fit side by side below a picture; more of them slant."""
FIG15_TRACE = "0996_4007"
FIG15_REQUESTS = (16, 32, 48, 64)


def points_of(lengths: Lengths, requests: int, ways=WAYS) -> list[Point]:
    """A point for each way, with the first ``requests`` of a batch."""
    known = attention().get((lengths.name, requests), {}) if "trace" in lengths.params else {}
    return [
        Point(
            "published_attention",
            load(CONFIG),
            {
                "requests": requests,
                "most": max(MOST.get(lengths.requests, 0), lengths.longest // KV_TILE + 1),
                "parallel": way,
                **lengths.params,
                **({"share": SHARE} if way == "coarse" else {}),
            },
            {"trace": lengths.name, "requests": requests, "parallel": way},
            lengths.seed,
            {"cycles": known[way]} if way in known else {},
            work=requests,
        )
        for way in ways
    ]


def fig14(traces: Traces) -> list[Point]:
    return [p for lengths in traces.lengths(64) for p in points_of(lengths, 64)]


def fig15(traces: Traces) -> list[Point]:
    """The first requests of one trace; coarse parallelisation leaves the regions idle whose share
    of 16 is missing.
    """
    found = {x.name: x for x in traces.lengths(64)}
    lengths = found.get(FIG15_TRACE) or list(found.values())[len(found) // 2]
    return [p for n in FIG15_REQUESTS for p in points_of(lengths, n, ("coarse", "dynamic"))]


def fig21(traces: Traces) -> list[Point]:
    return [
        p
        for batch in traces.batches()
        for lengths in traces.lengths(batch)
        for p in points_of(lengths, batch)
    ]


def of_figure(trace: str) -> bool:
    """True if a batch varies as those of the paper do; its name begins with the deviation."""
    deviation, _, _ = trace.partition("_")
    return not deviation.isdigit() or any(int(deviation) in each for each in DEVIATIONS)


def told_apart(p: Point, r: Record) -> dict:
    """True if a row counts in the ratios of figure 21."""
    return {"of_figure": "yes" if of_figure(p.at["trace"]) else "no"}


def where(r: dict) -> tuple:
    return r["trace"], r["requests"]


def fig14_summary(rows: list[dict]) -> list[dict]:
    return [
        {
            "what": f"dynamic over {way}, geometric mean{timing}",
            "published": None,
            "ours": gain(rows, way, "dynamic", where, cycles),
        }
        for cycles, timing in timings(rows)
        for way in WAYS[:2]
    ]


def fig15_summary(rows: list[dict]) -> list[dict]:
    said = statements("fig15")
    return [
        {
            "what": what + timing,
            "published": None if timing else said.get(what),
            "ours": gain(rows, "coarse", "dynamic", where, cycles, requests=n),
        }
        for cycles, timing in timings(rows)
        for n in FIG15_REQUESTS
        for what in [f"dynamic over coarse at {n}"]
    ]


def fig21_summary(rows: list[dict]) -> list[dict]:
    """Gains over the batches of the figure, each size of equal weight, and by size; then over all
    that there are.
    """
    said = statements("fig21")
    meant = [r for r in rows if r["of_figure"] == "yes"]
    groups = [(rows, ", all batches there are")] if len(meant) < len(rows) else []
    if meant:
        groups.insert(0, (meant, ""))
    out = []
    for cycles, timing in timings(rows):
        for way in WAYS[1::-1]:
            for mine, which in groups:
                by_size = gains_by_size(mine, way, cycles)
                known = said[f"dynamic over {way}"] if not timing and not which else None
                out.append(
                    {
                        "what": f"dynamic over {way}{which}{timing}",
                        "published": known,
                        "ours": geometric_mean(by_size.values()),
                    }
                )
                out += [
                    {
                        "what": f"dynamic over {way}, batch {n}{which}{timing}",
                        "published": None,
                        "ours": g,
                    }
                    for n, g in by_size.items()
                ]
    return out


def gains_by_size(rows: list[dict], way: str, cycles: str) -> dict[int, float]:
    """Gain of dynamic parallelisation over ``way``, by the size of a batch."""
    sizes = dict.fromkeys(r["requests"] for r in rows)
    return {n: gain(rows, way, "dynamic", where, cycles, requests=n) for n in sizes}


def plot_bars(fig, rows: list[dict]) -> None:
    """Cycles of each way: groups of bars, a row of them for each number of requests if there are
    several traces.
    """
    batches = list(dict.fromkeys(r["requests"] for r in rows))
    single = len({r["trace"] for r in rows}) == 1
    panels = [rows] if single else [[r for r in rows if r["requests"] == n] for n in batches]
    for ax, mine in zip(fig.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        names = list(dict.fromkeys(r["requests"] if single else r["trace"] for r in mine))
        ways = [w for w in WAYS if any(r["parallel"] == w for r in mine)]
        width = 0.8 / len(ways)
        for i, way in enumerate(ways):
            bars = [r for r in mine if r["parallel"] == way]
            x = [
                names.index(r["requests"] if single else r["trace"])
                + (i - (len(ways) - 1) / 2) * width
                for r in bars
            ]
            ax.bar(x, [r["cycles"] / 1e3 for r in bars], width, color=COLOURS[way], label=way)
            known = [
                (at, r["step_cycles"] / 1e3)
                for at, r in zip(x, bars, strict=True)
                if "step_cycles" in r
            ]
            if known:
                ax.plot(
                    *zip(*known, strict=True),
                    "_",
                    markersize=14,
                    color="black",
                    label="published" if way == ways[-1] else None,
                )
        if MACHINE in mine[0]:
            own = [
                (
                    names.index(r["requests"] if single else r["trace"])
                    + (ways.index(r["parallel"]) - (len(ways) - 1) / 2) * width,
                    r[MACHINE] / 1e3,
                )
                for r in mine
            ]
            ax.plot(
                *zip(*own, strict=True), "D", markersize=4, color="#31a354", label="this machine"
            )
        slant = {"rotation": 30, "ha": "right"} if len(names) > MOST_LEVEL else {}
        ax.set_xticks(range(len(names)), names, fontsize=8, **slant)
        ax.set(
            ylabel="cycles (thousands)",
            xlabel="requests" if single else f"KV lengths of {mine[0]['requests']} requests",
        )
    fig.axes[0].legend(frameon=False, fontsize=9, ncols=5)


FIGURES = (
    Figure(
        "fig14",
        "Figure 14: parallelisation of attention, batch 64",
        fig14,
        fig14_summary,
        plot_bars,
    ),
    Figure(
        "fig15",
        "Figure 15: parallelisation of attention by batch",
        fig15,
        fig15_summary,
        plot_bars,
        size=(7, 5),
    ),
    Figure(
        "fig21",
        "Figure 21: parallelisation of attention, all batches",
        fig21,
        fig21_summary,
        plot_bars,
        told_apart,
        size=(14, 10),
    ),
)
