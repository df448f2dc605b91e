"""Dynamic against static: tiling, time-multiplexing and parallelisation over seeded draws of
routing and lengths.

    python bench/dynamic.py [--on both|model] [--size small|full] [--only TEXT] [--draws N] [--json
    OUT]

Half of the draws are skewed, half balanced, and none is left out. Every variant is one structure:
its draws differ in streams and tensors only and share one simulator build. ``--only`` picks
variants whose study and name contain the text, ``--draws`` the first of the skewed and of the
balanced draws. ``--json`` adds the runs to a record (those of the same size, variant and draw are
replaced) after every variant; docs/dynamic.md is made from docs/results/dynamic.json.
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
            "| draws | regions | utilisation x, median | worst | cycles x, median | worst | "
            "on-chip B x, symbolic, median | worst | measured, median | worst |",
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
            "| draws | against | cycles x, median | worst | draws won | on-chip B x, measured, "
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
    """What the RTL did, as a table."""
    done = [r for r in rows if r.cycles_rtl is not None]
    wrong = [r for r in done if r.cycles_rtl != r.cycles or r.mismatches or not r.values_ok]
    missing = list(dict.fromkeys(f"{r.study} {r.name}" for r in rows if r.cycles_rtl is None))
    lines = [
        "| what | runs |",
        "|---|--:|",
        f"| made on RTL too | {len(done)} of {len(rows)} |",
        f"| equal in every beat, the cycles and the values | {len(done) - len(wrong)} |",
        f"| without a result | {sum(bool(r.failed) for r in rows)} |",
    ]
    if held := [r.peak / r.bound for r in rows if r.bound]:
        lines.append(f"| most pages in use, of the requirement by rule `paper` | {max(held):.1%} |")
    if missing:
        lines.append(f"| on the model alone | {', '.join(missing)} |")
    return "\n".join(lines)


def expenses(costs: Sequence[Cost], size: str) -> list[str]:
    """What the RTL runs of one size cost, a row for each variant."""
    mine = [c for c in costs if c.size == size]
    if not mine:
        return []
    lines = [
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
        cells = ["-" if x is None else f"{x:.1f}" for x in (*export, *build, *one, *whole)]
        lines.append(f"| {c.study} {c.name} | {c.channels} | {' | '.join(cells)} |")
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


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/dynamic.md: for each size the comparisons, and what the runs cost."""
    found = {}
    for size in SIZES:
        found[f"{size}, runs"] = lambda size=size: runs_of(size)
        found[f"{size}, comparisons"] = lambda size=size: comparisons(size)
        found[f"{size}, seconds"] = lambda size=size: "\n".join(expenses(read_costs(), size))
    return found


def runs_of(size: str) -> str:
    """What was run, in words and numbers."""
    return f"{SIZES[size][0].upper()}{SIZES[size][1:]}.\n\n{checked(of_size(size))}"


def comparisons(size: str) -> str:
    """The three comparisons."""
    return "\n".join(tables(of_size(size), size)).replace("#### ", "### ")


def of_size(size: str) -> list[Row]:
    """The stored runs of one size."""
    return [r for r in read() if r.size == size]


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
    p.add_argument("--quiet", action="store_true")
    args = p.parse_args()
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
