"""Figures 14, 15 and 21: attention with coarse, interleaved and dynamic parallelisation over four
regions.
"""

from __future__ import annotations

from statistics import geometric_mean

from ..machine.config import load
from ..machine.record import Record
from .base import MACHINE, Figure, Summary, compared, gain, timings
from .points import Point
from .published import attention
from .traces import DRAWN_SKEWS, Lengths, Traces

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
CLASSES = ("low", "median", "high")
BAR = 0.26
"""Width of a bar, of the distance of two groups."""
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


def variation(trace: str) -> str:
    """The class of a batch: its name begins with the deviation of its lengths, or has the skew that
    they are drawn with. Empty for one that varies as none of the paper does.
    """
    head, _, rest = trace.partition("_" if "_" in trace else " ")
    if head.isdigit():
        known = [int(head) in each for each in DEVIATIONS]
    else:
        known = [rest.startswith(str(skew)) for skew in DRAWN_SKEWS]
    return CLASSES[known.index(True)] if any(known) else ""


def class_of(p: Point, r: Record) -> dict:
    """Variation of a row's batch; those without one do not count in the paper's ratios."""
    return {"variation": variation(p.at["trace"])}


def where(r: dict) -> tuple:
    return r["trace"], r["requests"]


def fig14_summary(rows: list[dict]) -> Summary:
    out = []
    for cycles, timing in timings(rows):
        for name in CLASSES:
            mine = [r for r in rows if r["variation"] == name]
            traces = dict.fromkeys(r["trace"] for r in mine)
            gains = [
                gain(mine, "interleaved", "dynamic", where, cycles, trace=trace) for trace in traces
            ]
            what = f"dynamic over interleaved, {name} variation"
            if gains:
                out.append(compared("fig14", f"{what}, least{timing}", min(gains)))
                out.append(compared("fig14", f"{what}, most{timing}", max(gains)))
    return out


def fig15_summary(rows: list[dict]) -> Summary:
    return [
        compared("fig15", f"dynamic over coarse at {n}{timing}", faster)
        for cycles, timing in timings(rows)
        for n in FIG15_REQUESTS
        for faster in [gain(rows, "coarse", "dynamic", where, cycles, requests=n)]
    ]


def fig21_summary(rows: list[dict]) -> Summary:
    """Gains over the batches of the figure, each size of equal weight, and by size; then over all
    that there are.
    """
    meant = [r for r in rows if r["variation"]]
    groups = [(rows, ", all batches there are")] if len(meant) < len(rows) else []
    if meant:
        groups.insert(0, (meant, ""))
    out = []
    for cycles, timing in timings(rows):
        for way in WAYS[1::-1]:
            for mine, which in groups:
                what = f"dynamic over {way}"
                by_size = gains_by_size(mine, way, cycles)
                mean = geometric_mean(by_size.values())
                out.append(compared("fig21", f"{what}{which}{timing}", mean))
                out += [
                    compared("fig21", f"{what}, batch {n}{which}{timing}", g)
                    for n, g in by_size.items()
                ]
    return out


def gains_by_size(rows: list[dict], way: str, cycles: str) -> dict[int, float]:
    """Gain of dynamic parallelisation over ``way``, by the size of a batch."""
    sizes = dict.fromkeys(r["requests"] for r in rows)
    return {n: gain(rows, way, "dynamic", where, cycles, requests=n) for n in sizes}


def plot_fig14(fig, rows: list[dict]) -> None:
    """Gain of dynamic over interleaved parallelisation for each batch, in three classes."""
    ax = fig.subplots()
    traces = list(dict.fromkeys(r["trace"] for r in rows))
    series = {"cycles": ("o", "#e6550d", "ours"), "step_cycles": ("_", "black", "published")}
    for column, (style, colour, label) in {
        **series,
        MACHINE: ("D", "#31a354", "this machine"),
    }.items():
        known = [r for r in rows if column in r]
        at = [x for x in traces if any(r["trace"] == x for r in known)]
        gains = [gain(known, "interleaved", "dynamic", where, column, trace=x) for x in at]
        if column == "cycles":
            ax.bar(at, gains, 0.6, color=colour, label=label)
        elif at:
            ax.plot(at, gains, style, color=colour, markersize=20 if style == "_" else 5)
            ax.lines[-1].set_label(label)
    names = [f"{x}\n{variation(x)}" for x in traces]
    ax.axhline(1, color="0.4", linewidth=1)
    ax.set_xticks(range(len(traces)), names, fontsize=8)
    ax.set(xlabel="KV lengths of 64 requests, by variation", ylabel="gain over interleaved")
    ax.legend(frameon=False, fontsize=9)


def plot_fig15(fig, rows: list[dict]) -> None:
    """Cycles of both ways by the number of requests."""
    ax = fig.subplots()
    names = list(dict.fromkeys(r["requests"] for r in rows))
    ways = [w for w in WAYS if any(r["parallel"] == w for r in rows)]
    for i, way in enumerate(ways):
        mine = [r for r in rows if r["parallel"] == way]
        x = [names.index(r["requests"]) + (i - (len(ways) - 1) / 2) * BAR for r in mine]
        ax.bar(x, [r["cycles"] / 1e3 for r in mine], BAR, color=COLOURS[way], label=way)
        for column, style, colour, label in (
            ("step_cycles", "_", "black", "published"),
            (MACHINE, "D", "#31a354", "this machine"),
        ):
            at = [(j, r[column] / 1e3) for j, r in zip(x, mine, strict=True) if column in r]
            if at:
                named = label if way == ways[-1] else None
                ax.plot(*zip(*at, strict=True), style, color=colour, label=named)
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="cycles (thousands)", xlabel="requests")
    ax.legend(frameon=False, fontsize=9)


def plot_fig21(fig, rows: list[dict]) -> None:
    """Performance of each way, of dynamic parallelisation's, by class: batch and variation."""
    ax = fig.subplots()
    sizes = dict.fromkeys(r["requests"] for r in rows)
    groups = [(n, c) for n in sizes for c in CLASSES if any(_in(r, n, c) for r in rows)]
    for i, way in enumerate(WAYS):
        x = [g + (i - 1) * BAR for g in range(len(groups))]
        for column, hatch in (("cycles", ""), (MACHINE, "//")):
            if column in rows[0]:
                gains = [
                    gain([r for r in rows if _in(r, *g)], way, "dynamic", where, column)
                    for g in groups
                ]
                style = {"color": COLOURS[way]} if not hatch else {"fill": False, "hatch": hatch}
                label = way if not hatch else "this machine" if way == WAYS[-1] else None
                ax.bar(x, [1 / g for g in gains], BAR, label=label, **style)
    ax.set_xticks(range(len(groups)), [f"{n} requests,\n{c}" for n, c in groups], fontsize=8)
    ax.set(ylabel="performance, of dynamic", xlabel="class of batches: size, variation of lengths")
    ax.legend(frameon=False, fontsize=9, ncols=4)


def _in(r: dict, requests: int, variation: str) -> bool:
    return (r["requests"], r["variation"]) == (requests, variation)


FIGURES = (
    Figure(
        "fig14",
        "Figure 14: gain of dynamic parallelisation by variation of lengths, batch 64",
        fig14,
        fig14_summary,
        plot_fig14,
        class_of,
    ),
    Figure(
        "fig15",
        "Figure 15: parallelisation of attention by batch",
        fig15,
        fig15_summary,
        plot_fig15,
        size=(7, 5),
    ),
    Figure(
        "fig21",
        "Figure 21: parallelisation of attention by class of batches",
        fig21,
        fig21_summary,
        plot_fig21,
        class_of,
    ),
)
