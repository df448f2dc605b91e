"""Single-unit streams: every kind of unit between sources and sinks, all in one fabric, and
run-time parameters, streams and waits that differ from point to point.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import model
from ..machine.beat import MAX_STOP, BufferRef, Scalar, Tile, Tuple
from ..machine.config import Config, Dram, Machine, Stepsim, check
from ..machine.errors import RunError
from ..machine.kinds.accum import Accum
from ..machine.kinds.compute import Map
from ..machine.kinds.copies import Broadcast, Repeat, Zip
from ..machine.kinds.numbers import Address, Signal
from ..machine.kinds.shape import Flatten, Promote, Reshape
from ..machine.unitgraph import UnitGraph
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from ..system.output import folder, write_text
from ..testing import buffers, offchip, routing, units
from ..testing.patterns import PATTERNS
from ..testing.stimulus import end_empty, value
from ..testing.zoo import Zoo
from . import fabric
from .campaign import StreamFailure

TOGETHER = 40
"""Points of one simulator launch."""
SINK_PATTERNS = ("always", "random", "bursty", "late")


def machine(t: int = 2, dtype: str = "fp32") -> Config:
    """The machine of the streams."""
    m = Machine(
        t=t,
        dtype=dtype,
        rows_per_cycle=t,
        lanes={"default": t * t},
        accum_tiles=64,
        pages=32,
        frames=8,
        port_lanes=2,
        load_lines=32,
        dram=Dram(channels=4),
    )
    return check(Config("fuzz_streams", m, Stepsim()))


def tall(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Units at the highest ranks and stop levels, with empty groups at every level."""
    z = Zoo("tall", t)
    tile = Tile(t, dtype)
    ref = BufferRef(8)
    number = Scalar(8)

    def items(payload, rank: int, empty: float = 0.4) -> Callable:
        def drawn(rng):
            out = []
            for s in _tall(rng, rank):
                if s and rng.random() < empty:
                    end_empty(out, s)
                else:
                    out.append((value(rng, payload), s))
            return out

        return drawn

    top = MAX_STOP
    z.add(Broadcast(n=2), [(tile, items(tile, top))], [tile] * 2)
    z.add(Zip(), [(number, items(number, top)), (ref, items(ref, top))], [Tuple((number, ref))])
    wide = Tile(t, "fp32")
    z.add(Map(fn="exp", arity=1, lanes=t * t), [(wide, items(wide, top))], [wide])
    z.add(Flatten(lo=0, hi=top), [(number, items(number, top))], [number])
    for lo, hi, hold in ((1, 3, False), (6, top, False), (0, top - 1, True), (5, top - 1, True)):
        stream = items(number, top, 0.4 if hold else 0)  # an empty part needs a beat held back
        z.add(Flatten(lo=lo, hi=hi, hold=hold), [(number, stream)], [number])
    for level in (0, 7, top - 1):
        z.add(Promote(level=level), [(ref, items(ref, top - 1))], [ref])
    z.add(Promote(level=top, outermost=True), [(ref, items(ref, top - 1))], [ref])
    z.add(Repeat(count=2), [(number, items(number, top - 1))], [number])
    for level in (0, 1, 6, top):
        z.add(Signal(level=level), [(number, items(number, top))], [Scalar(1)])
    z.add(
        Reshape(dim=0, chunk=2, pad=True, pad_rows=1, pad_cols=1, flags=0),
        [(number, items(number, top - 1))],
        [number, Scalar(1)],
    )
    z.add(Address(stride=3), [(number, items(number, top))] * 2, [Scalar(32)])

    def tiles(rng):  # those of a group take as many physical tiles each
        return [
            beat
            for value, s in items(wide, top - 2)(rng)
            for beat in ([(None, s + 2)] if value is None else [(value, 0), (value, s + 2)])
        ]

    sums = Accum(fn="add", reduce=0b100, depth=8, lanes=t * t, init_rows=1, init_cols=1)
    z.add(sums, [(wide, tiles)], [wide])
    return z


def _tall(rng: np.random.Generator, rank: int) -> list[int]:
    """Stops of every level, the highest last; a few of each."""
    stops = [int(s) for s in rng.integers(0, rank + 1, int(rng.integers(0, 24)))]
    return [*stops, rank] if stops or rng.random() < 0.8 else []


def zoos(seed: int) -> list[Zoo]:
    """All zoos; those with memory have sizes of their own for each seed, and always the same
    structure.
    """
    return [
        units.shapes(),
        units.rows(),
        units.arithmetic(),
        buffers.buffers(),
        routing.routing(),
        tall(),
        offchip.memory(seed=seed),
        offchip.listed(),
        offchip.triggered(seed=seed),
        offchip.scattered(seed=seed),
    ]


def tested(graph: UnitGraph) -> int:
    """Units that are not sources or sinks: streams of one point."""
    return sum(u.kind.name not in ("source", "sink") for u in graph.units)


@dataclass
class _Point:
    graph: UnitGraph
    parts: list
    tensors: dict
    sources: dict
    sinks: dict
    seed: int


def point(seed: int) -> _Point:
    """All zoos side by side with streams, run-time parameters and waits of one seed."""
    rng = np.random.default_rng([seed, 21])
    cases = []
    for z in zoos(seed):
        source = PATTERNS[int(rng.integers(len(PATTERNS)))]
        sink = SINK_PATTERNS[int(rng.integers(len(SINK_PATTERNS)))]
        cases.append(z.point(seed, source, sink))
    graph, parts = fabric.side_by_side([c.graph for c in cases], "streams")
    return _Point(
        graph,
        parts,
        {
            p.prefix + n: a
            for p, c in zip(parts, cases, strict=True)
            for n, a in (c.tensors or {}).items()
        },
        {u + p.unit: s for p, c in zip(parts, cases, strict=True) for u, s in c.sources.items()},
        {u + p.unit: s for p, c in zip(parts, cases, strict=True) for u, s in c.sinks.items()},
        seed,
    )


def streams_of_a_point() -> int:
    """Streams that run side by side in a point."""
    return tested(point(0).graph)


def run_streams(
    campaign,
    count: int,
    seed: int,
    *,
    on: str = "rtl",
    keep: Path | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    exact: bool = False,
) -> None:
    """Run at least ``count`` single-unit streams on the model and, ``on`` rtl, compare every beat
    of the RTL's; ``exact``: ``seed`` is a point's own. The campaign's ``first`` is that of its
    points.
    """
    from ..tb import api

    show = progress_of(progress)
    config = machine()
    per = streams_of_a_point()
    wanted = -(-count // per)
    show.plan(wanted)
    number = 0
    while number < wanted and not campaign.late():
        points = [
            point(seed if exact else seed * 100_003 + campaign.first + number + i)
            for i in range(min(TOGETHER, wanted - number))
        ]
        number += len(points)
        start = time.perf_counter()
        cases = []
        for p in points:
            run = model.run(
                p.graph, config, p.tensors, trace=True, sources=p.sources, sinks=p.sinks
            )
            campaign.coverage.add_run(p.graph, run)
            campaign.counts["streams"] += per
            campaign.counts["beats on the model"] += sum(len(c.stop) for c in run.channels)
            cases.append(api.Point(p.graph, p.tensors, p.sources, p.sinks, expected=run))
        campaign.seconds["model"] += time.perf_counter() - start
        if on == "rtl":
            start = time.perf_counter()
            runs = api.run_many(cases, config, keep_going=True, stage=show.stage)
            for p, got in zip(points, runs, strict=True):
                if isinstance(got, RunError):
                    _fail(campaign, p, str(got), config, keep)
                    continue
                report = got.extra["report"]
                campaign.counts["beats compared on RTL"] += report.beats
                campaign.counts["cycles on RTL"] += got.cycles
                campaign.counts["streams on RTL"] += per
                if not report.ok:
                    _fail(
                        campaign,
                        p,
                        "\n".join(str(d) for d in report.differences[:4])
                        or f"{report.observed} of {report.total} channels observed",
                        config,
                        keep,
                    )
            campaign.seconds["RTL"] += time.perf_counter() - start
        for p in points:
            show.done(f"streams of seed {p.seed}")


def _fail(campaign, p: _Point, message: str, config: Config, keep: Path | None) -> None:

    failure = StreamFailure(message, p.seed)
    campaign.failures.append(failure)
    if keep is not None:
        folder(keep)
        failure.path = keep / f"fuzz_streams_{p.seed}.json"
        write_text(failure.path, json.dumps(failure.to_dict(), indent=1) + "\n")
