"""Dynamic against static: tiling, time-multiplexing and parallelisation
over seeded draws of routing and lengths, on model and RTL.

Half of the draws are skewed, half balanced, and none is left out. Every
variant is one structure: its draws differ in streams and tensors only
and share one simulator build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import clock
from penstock.machine.config import Config, check, load
from penstock.runs import api
from penstock.runs.progress import Progress
from records import Record, on_rtl, preset

CONFIG = "small_fpga"
DRAWS = 20
SKEW = 1.5
"""Of the skewed draws: popularity of experts 1 / rank^1.5; log-normal lengths of deviation 1.5.

Balanced draws have 0.
"""


def machine(study: str) -> Config:
    """``small_fpga``; for attention with a quarter of the matrix rate
    and twice the bandwidth, so that a region's compute is the limit (as
    in the paper's figure 14) and not the one memory port that all
    regions share: there every order of requests takes as long as the
    caches take to load.
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
    """One program, run at every draw: ``name`` says what differs within
    its ``study``.
    """

    study: str
    name: str
    program: str
    params: dict


@dataclass(frozen=True)
class Row:
    """One run: cycles of the model and of the RTL (None: not run),
    bytes on chip by the symbolic rule and at the peak of pages in use,
    compute utilisation.

    ``bound`` is the symbolic figure of the text's equations (rule
    ``paper``), which counts two of each buffer: what pages in use stay
    within. ``failed`` holds the message of a run that has no result.
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
    """What one variant cost on the RTL: wall-clock and CPU seconds (of
    this process and its children) of its export, its simulator's build
    (None: from the cache), and all its ``draws`` together: simulated,
    compared beat by beat on every one of its ``channels``, values
    checked.
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
    """Hands a display what it is told, and keeps the wall-clock and CPU
    time of every stage, by its first word.
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

    ``small``: 4 experts, 32 tokens; 8 requests over 2 regions.
    ``full``: 8 experts, 64 tokens; 16 requests over 4 regions, 1 to 32
    KV tiles.
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
    """One variant at some of the draws: one simulator build where the
    RTL is asked for, and then what that cost.
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
    for i, o, s, bound in zip(draws, found, skewed, bounds, strict=True):
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


SIZES = {
    "small": "4 experts, top-2, 32 tokens; 8 requests over 2 regions, 1 to 8 KV tiles",
    "full": "8 experts, top-2, 64 tokens; 16 requests over 4 regions, 1 to 32 KV tiles",
}


def _cases() -> dict[str, tuple[str, Variant]]:
    return {f"{size}: {v.study} {v.name}": (size, v) for size in SIZES for v in variants(size)}


def run(case: str) -> dict:
    """All draws of a variant, and what they cost."""
    size, variant = _cases()[case]
    rows, cost = measure(variant, size, range(DRAWS), "both", Progress())
    return {"rows": [asdict(r) for r in rows], "cost": asdict(cost) if cost else None}


RECORD = Record(
    "dynamic",
    cases=_cases,
    run=run,
    sources=lambda case: on_rtl(
        "bench/made/dynamic.py", f"workloads/{_cases()[case][1].program}.py", preset(CONFIG)
    ),
)


def rows(size: str) -> list[Row]:
    """The stored rows of a size."""
    return [Row(**r) for r in RECORD.rows(f"{size}: ")]


def costs(size: str) -> list[Cost]:
    """What the stored runs of a size cost."""
    return [Cost(**e["cost"]) for e in RECORD.entries(f"{size}: ") if e["cost"]]
