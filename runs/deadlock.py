"""`penstock deadlock`: whether programs can finish on channels of a given depth, the units that
wait for each other where they cannot, and the depths that free them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from .. import model
from ..frontend import build, lower
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.deadlock import Deadlock, DeadlockError
from ..machine.limits import CHANNEL_DEPTHS, SEEDS, within
from ..machine.timings import known_timing
from ..model import stepsim
from ..system.output import write_text
from . import boundary
from .progress import of as progress_of
from .provenance import versions


@dataclass(frozen=True)
class Finding:
    """Outcome of one point."""

    # program, config, timing, params, depth, seed: what was run; ``depth``: slots of a channel
    program: str
    config: str
    timing: str
    params: dict
    depth: int
    seed: int
    cycles: int | None  # of a run that finished, else None
    deadlock: Deadlock | None  # of one that did not
    # wall_s, versions: seconds of the run and of the search; what made them
    wall_s: float
    versions: dict

    def to_dict(self) -> dict:
        """The finding as JSON data."""
        return vars(self) | {"deadlock": self.deadlock and self.deadlock.to_dict()}

    @classmethod
    def from_dict(cls, d: dict) -> Finding:
        """Finding from the data of :meth:`to_dict`."""
        given: dict[str, Any] = dict(d)
        given["deadlock"] = d["deadlock"] and Deadlock.from_dict(d["deadlock"])
        return cls(**given)


def find(
    program,
    config: str | Config,
    points: Sequence[dict],
    *,
    timing: str = "machine",
    depth: int | None = None,
    seed: int = 0,
    progress=None,
) -> list[Finding]:
    """Run a program without values at each of ``points`` (parameters) and explain the deadlocks.

    Parameters
    ----------
    program, config, points
        As of :func:`penstock.runs.api.run_points`.
    timing, seed, progress
        As of :func:`penstock.runs.api.run`.
    depth
        Slots of every channel in place of the configuration's.

    Raises
    ------
    PenstockError
        Bad input, or a run that fails for another reason.
    """
    timing = known_timing(timing)
    within("seed", seed, SEEDS)
    config = config if isinstance(config, Config) else load_config(config)
    if depth is not None:
        within("depth", depth, CHANNEL_DEPTHS)
        config = replace(
            config,
            machine=replace(config.machine, channel_depth=depth),
            stepsim=replace(config.stepsim, fifo_depth=depth),
        )
    show = progress_of(progress)
    return [_find(program, config, p, timing, seed, show) for p in points]


def _find(program, config: Config, params: dict, timing: str, seed: int, show) -> Finding:

    built = build(program, params, config)
    graph = lower(built.graph, config, timing=timing)
    streams = built.streams(seed)
    label = " ".join(f"{k}={v}" for k, v in params.items())
    show.step(f"{built.name} {label}")
    start = perf_counter()
    cycles = None
    found = None
    try:
        if timing == "stepsim":
            sources = boundary.source_tokens(built.graph, graph, streams)
            cycles = stepsim.run(graph, config, sources=sources, search=False).cycles
        else:
            cycles = model.run(
                graph,
                config,
                values=False,
                sources=boundary.source_beats(built.graph, graph, streams),
            ).cycles
    except DeadlockError as e:
        found = e.deadlock
        if timing == "stepsim":
            found = stepsim.relieved(
                graph,
                config,
                found,
                sources,
                lambda text: show.stage(f"{built.name} {label}: {text}"),
            )
    depth = config.stepsim.fifo_depth if timing == "stepsim" else config.machine.channel_depth
    return Finding(
        built.name,
        config.name,
        timing,
        params,
        depth,
        seed,
        None if cycles is None else int(cycles),
        found,
        perf_counter() - start,
        versions(),
    )


def row(f: Finding) -> dict:
    """A finding as a row of a table."""
    d = f.deadlock
    out = dict(f.params) | {"depth": f.depth, "cycles": f.cycles}
    if d is None:
        return out | {"result": "finishes"}
    best = d.reliefs[0] if d.reliefs else None
    out |= {
        "result": f"deadlock after cycle {d.cycle}",
        "units in the circle": len(d.circle),
        "depth of all that frees": d.uniform,
    }
    for name, n in (("buffers", d.buffers), ("pages", d.pages), ("spill", d.spill)):
        if n is not None:
            out[f"or machine.{name}"] = n
    if best:
        out["or depth"] = best.depth
        out["of"] = (
            best.channel if best.count == 1 else f"{best.channel} and {best.count - 1} like it"
        )
    return out


def circle_rows(d: Deadlock) -> list[dict]:
    """The circle of a deadlock: a row for each unit and the channel that it waits for."""
    what = {"room": "room in", "beat": "a beat on", "page": "a page"}
    return [
        {
            "unit": s.unit,
            "kind": s.kind,
            "waits for": f"{what[s.why]} {s.channel}".strip(),
            "holds": f"{s.held} of {s.depth}" if s.channel else None,
            "of": s.on,
        }
        for s in d.circle
    ]


def save(found: Sequence[Finding], path: str | Path) -> None:
    """Write findings as JSON."""
    write_text(path, json.dumps([f.to_dict() for f in found], indent=1) + "\n")


def load(path: str | Path) -> list[Finding]:
    """Read findings."""
    return [Finding.from_dict(d) for d in json.loads(Path(path).read_text(encoding="utf-8"))]
