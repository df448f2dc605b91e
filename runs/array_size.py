"""An array that is made for a set of programs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..machine.array.description import MOST_TRACKS, Array
from ..machine.config import from_dict, path_of
from ..machine.errors import ConfigError, LoweringError
from ..machine.unitgraph import UnitGraph
from ..scheduler.array import Mapping, map_program
from ..scheduler.array.size import grid_of, sites_for
from ..system.reading import read_text
from .array import array_config
from .point import Point
from .progress import Progress


@dataclass(frozen=True)
class Sized:
    """An array for some programs: its configuration as text, and the mapping of each on it."""

    text: str
    mappings: list[Mapping]


def size(
    programs: Sequence[tuple[str, dict]], like: str, *, progress: Progress | None = None
) -> Sized:
    """The array of the fewest slots, made of the sites of another one, on which each of some
    programs lies alone.

    Parameters
    ----------
    programs
        Name and parameters of each.
    like
        Configuration with an ``[array]`` table: its machine and its sites.
    progress
        A display.

    Raises
    ------
    LoweringError
        A unit fits none of its sites.
    """
    show = progress or Progress()
    config = array_config(like)
    given = config.array
    assert given is not None
    graphs: list[UnitGraph] = []
    for name, params in programs:
        show.step(f"build {name}")
        graphs.append(Point(name, config, params).graph)
    show.step("count sites")
    grid = grid_of(sites_for(graphs, given), given)
    wide = dict.fromkeys(given.tracks, MOST_TRACKS)
    show.step("count tracks")
    drafts = [map_program(g, replace(given, grid=grid, tracks=wide)) for g in graphs]
    used = [mapping.tracks_used() for mapping in drafts]
    tracks = {p: max([1, *(n for u in used for k, n in u.items() if k[0] == p)]) for p in wide}
    while True:
        show.step(f"map all with {tracks['tile']} + {tracks['small']} tracks")
        array = replace(given, grid=grid, tracks=tracks)
        try:
            mappings = [map_program(g, array) for g in graphs]
        except LoweringError:
            if max(tracks.values()) >= MOST_TRACKS:
                raise
            tracks = {p: n + 1 for p, n in tracks.items()}
            continue
        return Sized(_described(like, array, [name for name, _ in programs]), mappings)


def _described(like: str, array: Array, names: list[str]) -> str:
    """The configuration of an array as text: that of another one with its own grid, tracks and
    description.

    Raises
    ------
    ConfigError
        The other one is not written as the presets are.
    """
    text = read_text(path_of(like))
    description = f"Sites of {Path(like).stem}, as many as {', '.join(names)} need."
    grid = "".join(f'    "{row}",\n' for row in array.grid)
    tracks = "".join(f"{plane} = {n}\n" for plane, n in array.tracks.items())
    for pattern, new in (
        (r"^description = .*$", f'description = "{description}"'),
        (r"^grid = \[[^]]*\]", f"grid = [\n{grid}]"),
        (r"^\[array\.tracks\]\n(\w.*\n)*", f"[array.tracks]\n{tracks}"),
    ):
        text = re.sub(pattern, lambda _, new=new: new, text, count=1, flags=re.MULTILINE)
    made = from_dict(tomllib.loads(text), array.name).array
    if made != array:
        raise ConfigError(
            "cannot be written anew with another grid",
            f"config {like}",
            "grid is a list, [array.tracks] a table of lines",
            "write it as the preset array_small is written",
        )
    return text
