"""The findings of docs/deadlock.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from made.deadlock import findings as stored
from penstock.runs.deadlock import Finding
from tables import frame


def markdown(header: tuple[str, ...], rows: list[tuple]) -> str:
    return frame(
        header,
        [["" if x is None else str(x) for x in r] for r in rows],
        [isinstance(x, int) for x in rows[0]],
    )


def command(found: list[Finding]) -> str:
    """The line that finds all this, with the trace where `penstock new
    traces` puts it.
    """
    f = found[0]
    params = f.params | {"trace": f"traces/routing/{Path(f.params['trace']).name}"}
    fixed = [f"--set {k}={v}" for k, v in params.items() if k != "tile_rows"]
    tiles = ",".join(str(x.params["tile_rows"]) for x in found)
    return (
        f"penstock deadlock {f.program} --config {f.config} --timing {f.timing} --depth "
        f"{f.depth} {' '.join(fixed)} --set tile_rows={tiles}"
    )


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/deadlock.md."""
    return {"command": shown_command, "points": points, "circle": circle, "reliefs": reliefs}


def shown_command() -> str:
    """What found all this, as a block."""
    return f"```sh long\npenstock new traces\n{command(stored())}\n```"


def points() -> str:
    """A line for each size of tile."""
    rows = [_point(f) for f in stored()]
    header = (
        "tile rows",
        f"at depth {stored()[0].depth}",
        "units in the circle",
        "depth of all that frees",
        "or depth of one kind",
        "slots",
    )
    return markdown(header, rows)


def _point(f: Finding) -> tuple:
    if f.deadlock is None:
        return f.params["tile_rows"], f"{f.cycles} cycles", None, None, None, None
    best = f.deadlock.reliefs[0]
    return (
        f.params["tile_rows"],
        f"deadlock after cycle {f.deadlock.cycle}",
        len(f.deadlock.circle),
        f.deadlock.uniform,
        f"{best.depth} (`{best.channel}`)",
        best.slots,
    )


def circle() -> str:
    """Who waits for whom at the first point that does not finish."""
    first = next(f for f in stored() if f.deadlock)
    what = {"room": "room in", "beat": "a token on"}
    rows = [
        (f"`{s.unit}`", s.kind, f"{what[s.why]} `{s.channel}`", f"{s.held} of {s.depth}")
        for s in first.deadlock.circle
    ]
    table = markdown(("unit", "kind", "waits for", "holds"), rows)
    tile, cycle = first.params["tile_rows"], first.deadlock.cycle
    return f"With tiles of {tile} rows, after cycle {cycle}:\n\n{table}"


def reliefs() -> str:
    """The depth that frees each point, of one kind of channel alone."""
    rows = [
        (f.params["tile_rows"], f"`{r.channel}`", r.count, r.depth, r.slots)
        for f in stored()
        if f.deadlock
        for r in f.deadlock.reliefs
    ]
    return markdown(("tile rows", "channel", "channels", "depth", "slots"), rows)
