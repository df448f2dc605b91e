"""Dynamic against static: tiling, time-multiplexing and parallelisation over seeded draws of
routing and lengths.

    python bench/dynamic.py [--on both|model] [--size small|full] [--only TEXT] [--draws N] [--json
    OUT] [--page]

Half of the draws are skewed, half balanced, and none is left out. Every variant is one structure:
its draws differ in streams and tensors only and share one simulator build. ``--only`` picks
variants whose study and name contain the text, ``--draws`` the first of the skewed and of the
balanced draws. ``--json`` adds the runs to a record (those of the same size, variant and draw are
replaced) after every variant, ``--page`` writes docs/dynamic.md from the stored one
(docs/results/dynamic.json).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import clock
from penstock.machine.config import Config, check, load
from penstock.runs import api
from penstock.runs.pareto import distance
from penstock.runs.progress import Progress, display
from penstock.system.output import writable, write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "results" / "dynamic.json"
PAGE = ROOT / "docs" / "dynamic.md"
CONFIG = "small_fpga"
DRAWS = 20
SKEW = 1.5
"""Of the skewed draws: popularity of experts 1 / rank^1.5; log-normal lengths of deviation 1.5.

Balanced draws have 0.
"""


def machine(study: str) -> Config:
    """``small_fpga``; for attention with a quarter of the matrix rate and twice the bandwidth, so
    that a region's compute is the limit (as in the paper's figure 14) and not the one memory port
    that all regions share: there every order of requests takes as long as the caches take to load.
    """
    small = load(CONFIG)
    if study != "attention":
        return small
    m = small.machine
    return check(
        replace(
            small,
            name=f"{CONFIG} rows_per_cycle=1 dram.interval=1",
            machine=replace(m, rows_per_cycle=1, dram=replace(m.dram, interval=1)),
        )
    )


@dataclass(frozen=True)
class Variant:
    """One program, run at every draw: ``name`` says what differs within its ``study``."""

    study: str
    name: str
    program: str
    params: dict


@dataclass(frozen=True)
class Row:
    """One run: cycles of the model and of the RTL (None: not run), bytes on chip by the symbolic
    rule and at the peak of pages in use, compute utilisation.

    ``bound`` is the symbolic figure of the text's equations (rule ``paper``), which counts two of
    each buffer: what pages in use stay within. ``failed`` holds the message of a run that has no
    result.
    """

    size: str
    study: str
    name: str
    draw: int
    skewed: bool
    cycles: int | None = None
    cycles_rtl: int | None = None
    onchip: int | None = None
    peak: int | None = None
    bound: int | None = None
    offchip: int | None = None
    utilisation: float | None = None
    mismatches: int | None = None
    values_ok: bool | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Cost:
    """What one variant cost on the RTL: wall-clock and CPU seconds (of this process and its
    children) of its export, its simulator's build (None: from the cache), and all its ``draws``
    together: simulated, compared beat by beat on every one of its ``channels``, values checked.
    """

    size: str
    study: str
    name: str
    draws: int
    channels: int
    export_s: float | None
    export_cpu_s: float | None
    build_s: float | None
    build_cpu_s: float | None
    run_s: float
    run_cpu_s: float


class Meter(Progress):
    """Hands a display what it is told, and keeps the wall-clock and CPU time of every stage, by its
    first word.
    """

    def __init__(self, shown: Progress):
        super().__init__()
        self.shown = shown
        self.spent = {}
        self.name = "model"
        self.since = clock.now()

    def plan(self, steps: int) -> None:
        self.shown.plan(steps)

    def step(self, what: str) -> None:
        self.shown.step(what)

    def done(self, what: str) -> None:
        self.shown.done(what)

    def stage(self, what: str) -> None:
        self.end(what.split()[0])
        self.shown.stage(what)

    def end(self, name: str = "") -> None:
        """The stage is over, and another one begins."""
        now = clock.now()
        wall, cpu = self.spent.get(self.name, (0.0, 0.0))
        self.spent[self.name] = (wall + now[0] - self.since[0], cpu + now[1] - self.since[1])
        self.name = name
        self.since = now


def variants(size: str) -> list[Variant]:
    """Everything that is laid side by side.

    ``small``: 4 experts, 32 tokens; 8 requests over 2 regions. ``full``: 8 experts, 64 tokens; 16
    requests over 4 regions, 1 to 32 KV tiles.
    """
    moe = {"tokens": 32, "experts": 4} if size == "small" else {"tokens": 64, "experts": 8}
    requests = (
        {"requests": 8, "regions": 2, "most": 8}
        if size == "small"
        else {"requests": 16, "regions": 4, "most": 32}
    )
    regions = (2, 1) if size == "small" else (4, 2, 1)
    tiles = (4, 8, 16) if size == "small" else (4, 8, 16, 32)
    return [
        *(Variant("tiling", f"static {n}", "moe", moe | {"tile_rows": n}) for n in tiles),
        Variant("tiling", "dynamic", "moe", moe | {"tile_rows": 0}),
        *(
            Variant(
                "regions",
                f"{n} regions" if n > 1 else "1 region",
                "moe",
                moe | {"tile_rows": 0, "regions": n},
            )
            for n in regions
        ),
        *(
            Variant("attention", p, "attention", requests | {"heads": 8, "parallel": p})
            for p in ("coarse", "interleaved", "dynamic")
        ),
    ]


def measure(
    v: Variant, size: str, draws: Sequence[int], on: str, progress: Progress
) -> tuple[list[Row], Cost | None]:
    """One variant at some of the draws: one simulator build where the RTL is asked for, and then
    what that cost.
    """
    skewed = [i < DRAWS // 2 for i in draws]
    meter = Meter(progress)
    points = [v.params | {"skew": SKEW if s else 0.0} for s in skewed]
    found = api.outcomes(v.program, machine(v.study), points, on=on, seed=draws, progress=meter)
    meter.end()
    bounds = [
        o.model.onchip_bytes if o.model else None
        for o in api.outcomes(
            v.program, machine(v.study), points, seed=draws, onchip_rule="paper", progress=progress
        )
    ]
    cost = None
    if any(o.rtl for o in found):
        cost = Cost(
            size,
            v.study,
            v.name,
            len(draws),
            max(o.rtl.channels_total for o in found if o.rtl),
            *(
                round(s, 1) if s is not None else None
                for k in ("export", "build", "simulate")
                for s in meter.spent.get(k, (None, None))
            ),
        )
    rows = []
    for i, o, s, bound in zip(draws, found, skewed, bounds, strict=False):
        row = Row(
            size, v.study, v.name, i, s, failed=str(o.error).splitlines()[0] if o.error else None
        )
        if r := o.rtl or o.model:
            row = replace(
                row,
                cycles=o.model.cycles,
                cycles_rtl=o.rtl.cycles if o.rtl else None,
                onchip=r.onchip_bytes,
                peak=r.onchip_peak_bytes,
                bound=bound,
                offchip=r.offchip_bytes,
                utilisation=r.compute_utilisation,
                mismatches=r.mismatches if o.rtl else None,
                values_ok=r.values_ok,
            )
        rows.append(row)
    return rows, cost


class Study:
    """Rows of one size as numbers by variant and draw."""

    def __init__(self, rows: Sequence[Row], size: str):
        self.rows = {(r.study, r.name, r.draw): r for r in rows if r.size == size}

    def names(self, study: str) -> list[str]:
        return list(dict.fromkeys(n for s, n, _ in self.rows if s == study))

    def draws(self, skewed: bool) -> list[int]:
        return sorted({d for (_, _, d), r in self.rows.items() if r.skewed == skewed})

    def of(self, study: str, name: str, draw: int) -> Row:
        return self.rows[study, name, draw]

    def distances(self, quantity: str, skewed: bool) -> list[float]:
        """Of dynamic tiling to the static tiles, one a draw; ``quantity``: onchip or peak."""
        static = [n for n in self.names("tiling") if n != "dynamic"]

        def at(name, d):
            r = self.of("tiling", name, d)
            return (r.cycles, getattr(r, quantity))

        return [
            distance(at("dynamic", d), [at(n, d) for n in static if self.of("tiling", n, d).cycles])
            for d in self.draws(skewed)
        ]

    def ratios(
        self, study: str, name: str, to: tuple[str, str], quantity: str, skewed: bool
    ) -> list[float]:
        """A quantity of one variant over that of another, one a draw."""
        return [
            getattr(self.of(study, name, d), quantity) / getattr(self.of(*to, d), quantity)
            for d in self.draws(skewed)
        ]


def _spread(values: Sequence[float], worst: Callable = min) -> str:
    return f"{statistics.median(values):.3f} | {worst(values):.3f}"


def tables(rows: Sequence[Row], size: str) -> list[str]:
    """The three comparisons of one size: median and worst over the skewed draws and over the
    balanced ones.
    """
    s = Study(rows, size)
    kinds = [(k, "skewed" if k else "balanced") for k in (True, False) if s.draws(k)]
    lines = []
    if "dynamic" in s.names("tiling") and len(s.names("tiling")) > 1:
        lines += [
            "#### Tiling",
            "",
            "| draws | on-chip bytes | PID of dynamic tiling, median | worst | draws beyond the "
            "static front |",
            "|---|---|--:|--:|--:|",
        ]
        for k, name in kinds:
            for q, title in (("onchip", "symbolic"), ("peak", "measured, peak of pages in use")):
                pid = s.distances(q, k)
                lines.append(
                    f"| {name} | {title} | {_spread(pid)} | {sum(p > 1 for p in pid)} of "
                    f"{len(pid)} |"
                )
        lines += [
            "",
            "| draws | tile | cycles, median | worst | on-chip B, symbolic | measured, median | "
            "worst | off-chip B, median |",
            "|---|---|--:|--:|--:|--:|--:|--:|",
        ]
        for k, name in kinds:
            lines += [_tile_row(s, name, n, k) for n in s.names("tiling")]
        lines.append("")
    if s.names("regions") and "dynamic" in s.names("tiling"):
        lines += [
            "#### Time-multiplexing",
            "",
            "Against dynamic tiling with hardware for every expert: compute utilisation gained, "
            "cycles and bytes paid.",
            "",
            "| draws | regions | utilisation ×, median | worst | cycles ×, median | worst | "
            "on-chip B ×, symbolic, median | worst | measured, median | worst |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        base = ("tiling", "dynamic")
        for k, name in kinds:
            for n in s.names("regions"):
                cells = [
                    _spread(s.ratios("regions", n, base, "utilisation", k)),
                    *(
                        _spread(s.ratios("regions", n, base, q, k), max)
                        for q in ("cycles", "onchip", "peak")
                    ),
                ]
                lines.append(f"| {name} | {n} | {' | '.join(cells)} |")
        lines.append("")
    if "dynamic" in s.names("attention"):
        lines += [
            "#### Attention",
            "",
            "Cycles of the static parallelisations over those of the dynamic one: above 1, "
            "dynamic is faster.",
            "",
            "| draws | against | cycles ×, median | worst | draws won | on-chip B ×, measured, "
            "median | worst |",
            "|---|---|--:|--:|--:|--:|--:|",
        ]
        to = ("attention", "dynamic")
        for k, name in kinds:
            for n in s.names("attention"):
                if n != "dynamic":
                    got = s.ratios("attention", n, to, "cycles", k)
                    lines.append(
                        f"| {name} | {n} | {_spread(got)} | {sum(g > 1 for g in got)} of "
                        f"{len(got)} | {_spread(s.ratios('attention', n, to, 'peak', k))} |"
                    )
        lines += [
            "",
            "| draws | | cycles, median | worst | on-chip B, symbolic | measured, median | worst |",
            "|---|---|--:|--:|--:|--:|--:|",
        ]
        for k, name in kinds:
            for n in s.names("attention"):
                got = [s.of("attention", n, d) for d in s.draws(k)]
                lines.append(
                    f"| {name} | {n} | {_median(got, 'cycles')} | {_most(got, 'cycles')} | "
                    f"{_median(got, 'onchip')} | {_median(got, 'peak')} | {_most(got, 'peak')} |"
                )
        lines.append("")
    return lines


def _median(rows: Sequence[Row], quantity: str) -> int:
    return round(statistics.median(getattr(r, quantity) for r in rows))


def _most(rows: Sequence[Row], quantity: str) -> int:
    return max(getattr(r, quantity) for r in rows)


def _tile_row(s: Study, draws: str, name: str, skewed: bool) -> str:
    got = [r for d in s.draws(skewed) if (r := s.of("tiling", name, d)).cycles]
    if not got:
        return f"| {draws} | {name} | deadlock | | | | | |"
    cells = (
        _median(got, "cycles"),
        _most(got, "cycles"),
        _median(got, "onchip"),
        _median(got, "peak"),
        _most(got, "peak"),
        _median(got, "offchip"),
    )
    return f"| {draws} | {name} | {' | '.join(map(str, cells))} |"


def checked(rows: Sequence[Row]) -> str:
    """What the RTL did, in one sentence for each variant that has not run there."""
    done = [r for r in rows if r.cycles_rtl is not None]
    wrong = [r for r in done if r.cycles_rtl != r.cycles or r.mismatches or not r.values_ok]
    failed = [r for r in rows if r.failed]
    text = (
        f"{len(done)} of {len(rows)} runs were made on the RTL as well; in "
        f"{len(done) - len(wrong)} of them every beat, the cycles and the values are the model's"
        f" ({len(failed)} runs without a result)."
    )
    if held := [r.peak / r.bound for r in rows if r.bound]:
        text += (
            f" Pages in use take at most {max(held):.1%} of the symbolic requirement of the "
            f"text's equations (rule `paper`: two of each buffer), over {len(held)} runs."
        )
    if missing := list(dict.fromkeys(f"{r.study} {r.name}" for r in rows if r.cycles_rtl is None)):
        text += f" On the model alone: {', '.join(missing)}."
    return text


def expenses(costs: Sequence[Cost], size: str) -> list[str]:
    """What the RTL runs of one size cost, a row for each variant."""
    mine = [c for c in costs if c.size == size]
    if not mine:
        return []
    lines = [
        "### Seconds on RTL",
        "",
        "Wall clock, and CPU of all processes, on 2 cores that had other work too. One build "
        "serves all draws, and all variants of equal structure (-: built for another",
        "one; static tiles differ in registers only); the others began without one in the cache. "
        "*one run* is the mean over the draws, with the comparison of every beat and the check "
        "of the values;",
        "*whole* is export, build and one run.",
        "",
        "| | channels | export | CPU | build | CPU | one run | CPU | whole | CPU |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for c in mine:
        export = (c.export_s, c.export_cpu_s)
        build = (c.build_s, c.build_cpu_s)
        one = (c.run_s / c.draws, c.run_cpu_s / c.draws)
        whole = [
            sum(parts) if None not in parts else None
            for parts in zip(export, build, one, strict=False)
        ]
        lines.append(
            f"| {c.study} {c.name} | {c.channels} | "
            f"{' | '.join('-' if x is None else f'{x:.1f}' for x in (*export, *build, *one, *whole))} "
            "|"
        )
    return [*lines, ""]


def read(path: Path = RECORD) -> list[Row]:
    """Rows of a stored record."""
    return [Row(**r) for r in json.loads(path.read_text())["rows"]]


def read_costs(path: Path = RECORD) -> list[Cost]:
    """What the runs of a stored record cost."""
    return [Cost(**c) for c in json.loads(path.read_text()).get("costs", [])]


def store(path: Path, rows: Sequence[Row], cost: Cost | None = None) -> list[Row]:
    """Put rows into a record, in place of those of the same size, variant and draw, and what they
    cost; returns all rows.

    A cost takes over export and build from the one that was there if its own came from the cache.
    """
    order = {
        (size, v.study, v.name): i
        for i, (size, v) in enumerate((size, v) for size in SIZES for v in variants(size))
    }

    def variant(r):
        return r.size, r.study, r.name

    kept = {(*variant(r), r.draw): r for r in [*(read(path) if path.exists() else []), *rows]}
    every = sorted(kept.values(), key=lambda r: (order[variant(r)], r.draw))
    costs = {variant(c): c for c in (read_costs(path) if path.exists() else [])}
    if cost:
        if before := costs.get(variant(cost)):
            cost = replace(
                cost,
                **{
                    k: getattr(before, k)
                    for k in ("export_s", "export_cpu_s", "build_s", "build_cpu_s")
                    if getattr(cost, k) is None
                },
            )
        costs[variant(cost)] = cost
    parts = [
        ",\n".join(json.dumps(asdict(r)) for r in part)
        for part in (sorted(costs.values(), key=lambda c: order[variant(c)]), every)
    ]
    write_text(
        path,
        f'{{"versions": {json.dumps(api.versions())},\n"costs": [\n{parts[0]}\n],\n"rows": '
        f"[\n{parts[1]}\n]}}\n",
    )
    return every


SIZES = {
    "small": "4 experts, top-2, 32 tokens; 8 requests over 2 regions, 1 to 8 KV tiles",
    "full": "8 experts, top-2, 64 tokens; 16 requests over 4 regions, 1 to 32 KV tiles",
}


def page(rows: Sequence[Row], costs: Sequence[Cost]) -> str:
    """docs/dynamic.md."""
    lines = [
        "# Dynamic against static",
        "",
        "The paper's three uses of run-time information, as the machine runs them: tiles as "
        "large as an expert's share of the tokens, experts that share hardware, requests that go",
        f"to the region that is free. Machine `{CONFIG}` (attention: matmul at one row a cycle, "
        "memory of a line a cycle), tiles of 16 x 16 elements (4 x 4 physical ones) and their "
        "static alternatives. Draws: seeds 0, 1, ...; the first half skewed",
        f"(experts' popularity 1 / rank^{SKEW}, log-normal lengths of deviation {SKEW}), the "
        "second balanced (uniform routing, equal lengths); none is left out. *Worst* is the "
        "least",
        "favourable draw for the dynamic side (largest cycles and bytes in the tables of "
        "absolute numbers). PID is the Pareto Improvement Distance of section 5.2: above 1, no "
        "static tile",
        "is as good in both cycles and on-chip bytes. On-chip bytes are *symbolic* (the "
        "published rule: one of each buffer, of the largest size in the draw) and *measured* "
        "(peak of scratchpad pages in use: up to two of each buffer, and",
        "never more than the rule `machine`, [timing.md](timing.md) section 4).",
        "",
        "Written by `python bench/dynamic.py --page` from docs/results/dynamic.json; renewed by "
        "`python bench/dynamic.py --on both --json docs/results/dynamic.json`.",
        "",
    ]
    for size, what in SIZES.items():
        if mine := [r for r in rows if r.size == size]:
            lines += [
                f"## {what}",
                "",
                checked(mine),
                "",
                *(line.replace("####", "###") for line in tables(rows, size)),
                *expenses(costs, size),
            ]
    return "\n".join([*lines, *READING, ""])


READING = [
    "## Reading",
    "",
    "* Dynamic tiling loads an expert's weights once where static tiles load them once for every "
    "tile: it wins while loads dominate. A static tile as large as the largest share comes near",
    "  in cycles and pays in padding and in bytes on chip.",
    "* Static tiles need something that neither figure of bytes counts: channels in front of the "
    "experts for all tiles that one may get (`waiting` of the workload `moe`), as the rows of an",
    "  expert wait there while another's tile waits for its next row. Without them some routings "
    "deadlock; a dynamic tile waits as a whole on chip.",
    "* Dynamic tiling starts an expert only when the expert's last row is known; static tiles "
    "start with the first full one. That is what it loses where one expert gets nearly "
    "everything.",
    "* Regions trade cycles for compute that stands idle: the fewer, the higher the utilisation; "
    "a tile waits on chip as a whole before and after its turn, which is what many regions pay "
    "in pages. The symbolic figure counts each region at its largest tile.",
    "* Dynamic attention needs three things: regions whose compute is the limit (with one memory "
    "port as the limit every order takes as long), room for a whole request in front of each",
    "  region, and a signal from where a cache is used up: one from where it is loaded comes "
    "early by all that the region's buffers hold. It loses the draws in which a long request "
    "comes last.",
]


def main() -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--on", choices=("model", "both"), default="model")
    p.add_argument("--size", choices=tuple(SIZES), default="small")
    p.add_argument(
        "--only", default="", metavar="TEXT", help="variants whose study and name contain TEXT"
    )
    p.add_argument(
        "--draws",
        type=int,
        default=DRAWS,
        metavar="N",
        help="the first N / 2 skewed draws and as many balanced ones",
    )
    p.add_argument("--json", type=Path, metavar="OUT")
    p.add_argument("--page", action="store_true")
    p.add_argument("--quiet", action="store_true")
    args = p.parse_args()
    if args.page:
        write_text(PAGE, page(read(), read_costs()))
        return 0
    if args.json:
        writable(args.json)
    draws = [
        first + i for first in (0, DRAWS // 2) for i in range(min(args.draws // 2, DRAWS // 2))
    ]
    rows = []
    with display(args.quiet) as progress:
        for v in variants(args.size):
            if args.only in f"{v.study} {v.name}":
                got, cost = measure(v, args.size, draws, args.on, progress)
                rows += got
                if args.json:
                    store(args.json, got, cost)
    print("\n".join([*tables(rows, args.size), checked(rows)]))
    for r in rows:
        if r.failed:
            print(f"FAILED {r.study} {r.name} draw {r.draw}: {r.failed[:300]}")
    return 1 if any(r.failed or r.values_ok is False or r.mismatches for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
