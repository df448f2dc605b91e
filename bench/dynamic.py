"""Dynamic against static: tiling, time-multiplexing and parallelisation
over seeded draws of routing and lengths.

    python bench/dynamic.py [--on both|model] [--size small|full] [--only TEXT] [--draws N]

``--only`` picks variants whose study and name contain the text,
``--draws`` the first of the skewed and of the balanced draws. What is
run is in bench/made/dynamic.py; `nox -s records -- dynamic` renews the
record that docs/dynamic.md is made from.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence

from made.dynamic import DRAWS, SIZES, Cost, Row, costs, measure, rows, variants
from penstock.runs.pareto import distance
from penstock.runs.progress import display


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
        """Of dynamic tiling to the static tiles, one a draw;
        ``quantity``: onchip or peak.
        """
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
    """The three comparisons of one size: median and worst over the
    skewed draws and over the balanced ones.
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
            None if None in parts else sum(filter(None, parts))
            for parts in zip(export, build, one, strict=True)
        ]
        cells = ["-" if x is None else f"{x:.1f}" for x in (*export, *build, *one, *whole)]
        lines.append(f"| {c.study} {c.name} | {c.channels} | {' | '.join(cells)} |")
    return [*lines, ""]


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/dynamic.md: for each size the comparisons, and
    what the runs cost.
    """
    found = {}
    for size in SIZES:
        found[f"{size}, runs"] = lambda size=size: runs_of(size)
        found[f"{size}, comparisons"] = lambda size=size: comparisons(size)
        found[f"{size}, seconds"] = lambda size=size: "\n".join(expenses(costs(size), size))
    return found


def runs_of(size: str) -> str:
    """What was run, in words and numbers."""
    return f"{SIZES[size][0].upper()}{SIZES[size][1:]}.\n\n{checked(rows(size))}"


def comparisons(size: str) -> str:
    """The three comparisons."""
    return "\n".join(tables(rows(size), size)).replace("#### ", "### ")


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
    p.add_argument("--quiet", action="store_true")
    args = p.parse_args()
    draws = [
        first + i for first in (0, DRAWS // 2) for i in range(min(args.draws // 2, DRAWS // 2))
    ]
    found = []
    with display(args.quiet) as progress:
        for v in variants(args.size):
            if args.only in f"{v.study} {v.name}":
                found += measure(v, args.size, draws, args.on, progress)[0]
    print("\n".join([*tables(found, args.size), checked(found)]))
    for r in found:
        if r.failed:
            print(f"FAILED {r.study} {r.name} draw {r.draw}: {r.failed[:300]}")
    return 1 if any(r.failed or r.values_ok is False or r.mismatches for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
