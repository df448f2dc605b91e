"""Dynamic against static: tiling, time-multiplexing and parallelisation over seeded draws of routing and lengths.

    python bench/dynamic.py [--on both|model] [--size small|full] [--only tiling|regions|attention] [--draws N] [--json OUT] [--page]

Half of the draws are skewed, half balanced, and none is left out. Every variant is one structure: its draws differ in streams and tensors only and share one
simulator build. ``--json`` adds the runs to a record (those of the same size, variant and draw are replaced), ``--page`` writes docs/dynamic.md from the
stored one (docs/results/dynamic.json).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from penstock import api
from penstock.machine.config import Config, check, load
from penstock.machine.record import writable, write_text
from penstock.progress import display

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "results" / "dynamic.json"
PAGE = ROOT / "docs" / "dynamic.md"
CONFIG = "small_fpga"
DRAWS = 20
SKEW = 1.5
"""Of the skewed draws: popularity of experts 1 / rank^1.5; log-normal lengths of deviation 1.5. Balanced draws have 0."""


def machine(study: str) -> Config:
    """``small_fpga``; for attention with a quarter of the matrix rate and twice the bandwidth, so that a region's compute is the limit (as in the paper's figure 14)
    and not the one memory port that all regions share: there every order of requests takes as long as the caches take to load."""
    small = load(CONFIG)
    if study != "attention":
        return small
    m = small.machine
    return check(replace(small, name=f"{CONFIG} rows_per_cycle=1 dram.interval=1", machine=replace(m, rows_per_cycle=1, dram=replace(m.dram, interval=1))))


@dataclass(frozen=True)
class Variant:
    """One program, run at every draw: ``name`` says what differs within its ``study``."""

    study: str
    name: str
    program: str
    params: dict


@dataclass(frozen=True)
class Row:
    """One run: cycles of the model and of the RTL (None: not run), bytes on chip by the symbolic rule and at the peak of pages in use, compute utilisation.

    ``failed`` holds the message of a run that has no result.
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
    offchip: int | None = None
    utilisation: float | None = None
    mismatches: int | None = None
    values_ok: bool | None = None
    failed: str | None = None


def variants(size: str) -> list[Variant]:
    """Everything that is laid side by side. ``small``: 4 experts, 32 tokens; 8 requests over 2 regions. ``full``: 8 experts, 64 tokens; 16 requests over 4 regions, 1 to 32 KV tiles."""
    moe = {"tokens": 32, "experts": 4} if size == "small" else {"tokens": 64, "experts": 8}
    requests = {"requests": 8, "regions": 2, "most": 8} if size == "small" else {"requests": 16, "regions": 4, "most": 32}
    regions = (2, 1) if size == "small" else (4, 2, 1)
    tiles = (4, 8, 16) if size == "small" else (4, 8, 16, 32)
    return [
        *(Variant("tiling", f"static {n}", "moe", moe | {"tile_rows": n}) for n in tiles),
        Variant("tiling", "dynamic", "moe", moe | {"tile_rows": 0}),
        *(Variant("regions", f"{n} regions" if n > 1 else "1 region", "moe", moe | {"tile_rows": 0, "regions": n}) for n in regions),
        *(Variant("attention", p, "attention", requests | {"heads": 8, "parallel": p}) for p in ("coarse", "interleaved", "dynamic")),
    ]


def measure(v: Variant, size: str, draws: int, on: str, progress=None) -> list[Row]:
    """One variant at every draw: one simulator build where the RTL is asked for."""
    skewed = [i < draws // 2 for i in range(draws)]
    found = api.outcomes(v.program, machine(v.study), [v.params | {"skew": SKEW if s else 0.0} for s in skewed], on=on, seed=range(draws), progress=progress)
    rows = []
    for i, (o, s) in enumerate(zip(found, skewed)):
        row = Row(size, v.study, v.name, i, s, failed=str(o.error).splitlines()[0] if o.error else None)
        if r := o.rtl or o.model:
            row = replace(row, cycles=o.model.cycles, cycles_rtl=o.rtl.cycles if o.rtl else None, onchip=r.onchip_bytes, peak=r.onchip_peak_bytes, offchip=r.offchip_bytes,
                          utilisation=r.compute_utilisation, mismatches=r.mismatches if o.rtl else None, values_ok=r.values_ok)
        rows.append(row)
    return rows


def distance(point: tuple[float, float], base: Iterable[tuple[float, float]]) -> float:
    """Pareto Improvement Distance of (cycles, bytes) to the Pareto-optimal part of ``base`` (section 5.2 of the paper): above 1, the point lies beyond it."""
    base = list(base)
    front = [q for q in base if not any(r[0] <= q[0] and r[1] <= q[1] and r != q for r in base)]
    return min(max(q[0] / point[0], q[1] / point[1]) for q in front)


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

        return [distance(at("dynamic", d), [at(n, d) for n in static if self.of("tiling", n, d).cycles]) for d in self.draws(skewed)]

    def ratios(self, study: str, name: str, to: tuple[str, str], quantity: str, skewed: bool) -> list[float]:
        """A quantity of one variant over that of another, one a draw."""
        return [getattr(self.of(study, name, d), quantity) / getattr(self.of(*to, d), quantity) for d in self.draws(skewed)]


def _spread(values: Sequence[float], worst: Callable = min) -> str:
    return f"{statistics.median(values):.3f} | {worst(values):.3f}"


def tables(rows: Sequence[Row], size: str) -> list[str]:
    """The three comparisons of one size: median and worst over the skewed draws and over the balanced ones."""
    s = Study(rows, size)
    kinds = [(k, "skewed" if k else "balanced") for k in (True, False) if s.draws(k)]
    lines = []
    if "dynamic" in s.names("tiling") and len(s.names("tiling")) > 1:
        lines += ["#### Tiling", "", "| draws | on-chip bytes | PID of dynamic tiling, median | worst | draws beyond the static front |", "|---|---|--:|--:|--:|"]
        for k, name in kinds:
            for q, title in (("onchip", "symbolic"), ("peak", "measured, peak of pages in use")):
                pid = s.distances(q, k)
                lines.append(f"| {name} | {title} | {_spread(pid)} | {sum(p > 1 for p in pid)} of {len(pid)} |")
        lines += ["", "| draws | tile | cycles, median | worst | on-chip B, symbolic | measured, median | worst | off-chip B, median |", "|---|---|--:|--:|--:|--:|--:|--:|"]
        for k, name in kinds:
            lines += [_tile_row(s, name, n, k) for n in s.names("tiling")]
        lines.append("")
    if s.names("regions") and "dynamic" in s.names("tiling"):
        lines += ["#### Time-multiplexing", "", "Against dynamic tiling with hardware for every expert: compute utilisation gained, cycles and bytes paid.", "",
                  "| draws | regions | utilisation ×, median | worst | cycles ×, median | worst | on-chip B ×, symbolic, median | worst | measured, median | worst |",
                  "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
        base = ("tiling", "dynamic")
        for k, name in kinds:
            for n in s.names("regions"):
                cells = [_spread(s.ratios("regions", n, base, "utilisation", k)), *(_spread(s.ratios("regions", n, base, q, k), max) for q in ("cycles", "onchip", "peak"))]
                lines.append(f"| {name} | {n} | {' | '.join(cells)} |")
        lines.append("")
    if "dynamic" in s.names("attention"):
        lines += ["#### Attention", "", "Cycles of the static parallelisations over those of the dynamic one: above 1, dynamic is faster.", "",
                  "| draws | against | cycles ×, median | worst | draws won | on-chip B ×, measured, median | worst |", "|---|---|--:|--:|--:|--:|--:|"]
        to = ("attention", "dynamic")
        for k, name in kinds:
            for n in s.names("attention"):
                if n != "dynamic":
                    got = s.ratios("attention", n, to, "cycles", k)
                    lines.append(f"| {name} | {n} | {_spread(got)} | {sum(g > 1 for g in got)} of {len(got)} | {_spread(s.ratios('attention', n, to, 'peak', k))} |")
        lines += ["", "| draws | | cycles, median | worst | on-chip B, symbolic | measured, median | worst |", "|---|---|--:|--:|--:|--:|--:|"]
        for k, name in kinds:
            for n in s.names("attention"):
                got = [s.of("attention", n, d) for d in s.draws(k)]
                lines.append(f"| {name} | {n} | {_median(got, 'cycles')} | {_most(got, 'cycles')} | {_median(got, 'onchip')} | {_median(got, 'peak')} | {_most(got, 'peak')} |")
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
    cells = (_median(got, "cycles"), _most(got, "cycles"), _median(got, "onchip"), _median(got, "peak"), _most(got, "peak"), _median(got, "offchip"))
    return f"| {draws} | {name} | {' | '.join(map(str, cells))} |"


def checked(rows: Sequence[Row]) -> str:
    """What the RTL did, in one sentence for each variant that has not run there."""
    done = [r for r in rows if r.cycles_rtl is not None]
    wrong = [r for r in done if r.cycles_rtl != r.cycles or r.mismatches or not r.values_ok]
    failed = [r for r in rows if r.failed]
    text = (f"{len(done)} of {len(rows)} runs were made on the RTL as well; in {len(done) - len(wrong)} of them every beat, the cycles and the values are the model's"
            f" ({len(failed)} runs without a result).")
    if missing := list(dict.fromkeys(f"{r.study} {r.name}" for r in rows if r.cycles_rtl is None)):
        text += f" On the model alone: {', '.join(missing)}."
    return text


def read(path: Path = RECORD) -> list[Row]:
    """Rows of a stored record."""
    return [Row(**r) for r in json.loads(path.read_text())["rows"]]


def store(path: Path, rows: Sequence[Row]) -> list[Row]:
    """Put rows into a record, in place of those of the same size, variant and draw; returns all of them."""
    def key(r):
        return r.size, r.study, r.name, r.draw

    kept = {key(r): r for r in (read(path) if path.exists() else [])} | {key(r): r for r in rows}
    order = {(size, v.study, v.name): i for i, (size, v) in enumerate((size, v) for size in SIZES for v in variants(size))}
    every = sorted(kept.values(), key=lambda r: (order[r.size, r.study, r.name], r.draw))
    body = ",\n".join(json.dumps(asdict(r)) for r in every)
    write_text(path, f'{{"versions": {json.dumps(api.versions())},\n"rows": [\n{body}\n]}}\n')
    return every


SIZES = {"small": "4 experts, top-2, 32 tokens; 8 requests over 2 regions, 1 to 8 KV tiles", "full": "8 experts, top-2, 64 tokens; 16 requests over 4 regions, 1 to 32 KV tiles"}


def page(rows: Sequence[Row]) -> str:
    """docs/dynamic.md."""
    lines = ["# Dynamic against static", "",
             "The paper's three uses of run-time information, as the machine runs them: tiles as large as an expert's share of the tokens, experts that share hardware, requests that go",
             f"to the region that is free. Machine `{CONFIG}` (attention: matmul at one row a cycle, memory of a line a cycle), tiles of 16 x 16 elements (4 x 4 physical ones) and their static alternatives. Draws: seeds 0, 1, ...; the first half skewed",
             f"(experts' popularity 1 / rank^{SKEW}, log-normal lengths of deviation {SKEW}), the second balanced (uniform routing, equal lengths); none is left out. *Worst* is the least",
             "favourable draw for the dynamic side (largest cycles and bytes in the tables of absolute numbers). PID is the Pareto Improvement Distance of section 5.2: above 1, no static tile",
             "is as good in both cycles and on-chip bytes. On-chip bytes are *symbolic* (the published rule, with the draw's sizes) and *measured* (peak of scratchpad pages in use).", "",
             "Written by `python bench/dynamic.py --page` from docs/results/dynamic.json; renewed by `python bench/dynamic.py --on both --json docs/results/dynamic.json`.", ""]
    for size, what in SIZES.items():
        if mine := [r for r in rows if r.size == size]:
            lines += [f"## {what}", "", checked(mine), "", *(line.replace("####", "###") for line in tables(rows, size))]
    return "\n".join([*lines, *READING, ""])


READING = [
    "## Reading",
    "",
    "* Dynamic tiling loads an expert's weights once where static tiles load them once for every tile: it wins while loads dominate, and by more in memory in use than in the symbolic",
    "  figure, which counts a whole tile wherever one may come. A static tile as large as the largest share comes near in cycles and pays in padding.",
    "* It starts an expert only when the expert's last row is known; static tiles start with the first full one. That is what it loses where one expert gets nearly everything.",
    "* Regions trade cycles for compute that stands idle: the fewer, the higher the utilisation; a tile waits on chip as a whole before and after its turn, which is what many regions pay in pages.",
    "* Dynamic attention needs three things: regions whose compute is the limit (with one memory port as the limit every order takes as long), room for a whole request in front of each",
    "  region, and a signal from where a cache is used up: one from where it is loaded comes early by all that the region's buffers hold. It loses the draws in which a long request comes last.",
]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--on", choices=("model", "both"), default="model")
    p.add_argument("--size", choices=tuple(SIZES), default="small")
    p.add_argument("--only", default="", metavar="TEXT", help="variants whose study and name contain TEXT")
    p.add_argument("--draws", type=int, default=DRAWS)
    p.add_argument("--json", type=Path, metavar="OUT")
    p.add_argument("--page", action="store_true")
    p.add_argument("--quiet", action="store_true")
    args = p.parse_args()
    if args.page:
        write_text(PAGE, page(read()))
        return 0
    if args.json:
        writable(args.json)
    rows = []
    with display(args.quiet) as progress:
        for v in variants(args.size):
            if args.only in f"{v.study} {v.name}":
                rows += measure(v, args.size, args.draws, args.on, progress)
                if args.json:
                    store(args.json, [r for r in rows if (r.study, r.name) == (v.study, v.name)])
    print("\n".join([*tables(rows, args.size), checked(rows)]))
    for r in rows:
        if r.failed:
            print(f"FAILED {r.study} {r.name} draw {r.draw}: {r.failed[:300]}")
    return 1 if any(r.failed or r.values_ok is False or r.mismatches for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
