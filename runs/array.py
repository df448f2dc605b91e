"""Programs on an array: placed, and run on the model beside their own fabric."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ..machine.array.network import Network
from ..machine.array.streams import in_memories
from ..machine.array.structure import Structure
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import ConfigError, PenstockError
from ..machine.limits import SEEDS, within
from ..machine.record import Record
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..scheduler.array import Mapping, map_program
from ..system.reading import is_table, read_json
from . import simulation
from .point import Point
from .progress import Progress
from .recording import record


@dataclass(frozen=True)
class Placed:
    """A program on an array."""

    point: Point  # the program on a fabric of its own
    mapping: Mapping  # where it lies
    # its own streams come and go at ports of the array, even where a slot has a memory for them
    ports: bool = False

    def on_array(self) -> Point:
        """The point whose unit graph is the placed one, its own streams in the memories of slots as
        far as they fit.
        """
        return self._on_array

    @cached_property
    def _on_array(self) -> Point:
        point = with_graph(self.point, self.mapping.graph)
        structure = Structure(point.config)
        if self.ports or not (structure.source_memories or structure.sink_memories):
            return point
        beats = {u: len(given.stop) for u, given in point.source_beats().items()}
        if structure.sink_memories and any(u.kind.name == "sink" for u in point.graph.units):
            beats |= arrived(point.graph, simulation.on_model(point, values=False, trace=False))
        return with_graph(point, in_memories(point.graph, structure, beats))


def with_graph(point: Point, graph: UnitGraph) -> Point:
    """A point with another unit graph."""
    point = copy.copy(point)
    vars(point).pop("_source_beats", None)  # by the units of the graph before
    point.graph = graph
    return point


def arrived(graph: UnitGraph, run: Run) -> dict[int, int]:
    """Beats that came to each sink, Done among them, by unit."""
    ends = {u.id for u in graph.units if u.kind.name == "sink"}
    return {c.dst[0]: run.shapes[c.id].count + 1 for c in graph.channels if c.dst[0] in ends}


def array_config(array: str | Config) -> Config:
    """The configuration of an array, by preset name or path, or as it is.

    Raises
    ------
    ConfigError
        It describes none.
    """
    config = load_config(array) if isinstance(array, str) else array
    if config.array is None:
        raise without_array(config.name)
    return config


def without_array(name: str) -> ConfigError:
    """Message about a configuration that describes no array."""
    return ConfigError(
        "has no table [array]",
        f"config {name}",
        remedy="presets with one: array_small, array_tiny, array_moe8",
    )


def place(
    program: str,
    array: str | Config,
    params: dict | None = None,
    *,
    seed: int = 0,
    effort: float = 1.0,
    keep: str | Path | None = None,
    ports: bool = False,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Placed:
    """Map a program onto an array.

    Parameters
    ----------
    program, params
        As of :func:`penstock.run`.
    array
        Configuration with an ``[array]`` table, or its name.
    seed
        Of the placement; the program's inputs have seed 0.
    effort
        Times the usual number of moves.
    keep
        A mapping of an older form of the program, as ``penstock array map --json`` writes it: units
        of the same names stay where they are, as far as that is good. It may be of another array:
        slots are found by their names.
    ports
        As of :class:`Placed`.
    tolerance
        As of :func:`penstock.run`.
    progress
        A display.
    """
    within("seed", seed, SEEDS)
    if not 0.01 <= effort <= 1000:
        raise PenstockError(f"effort must be from 0.01 to 1000, not {effort!r}")
    config = array_config(array)
    show = progress or Progress()
    show.step(f"build {program}")
    point = Point(program, config, params or {}, tolerance=tolerance)
    assert config.array is not None
    kept = None if keep is None else _slots_of(keep, Network(config.array))
    found = placed(point, seed=seed, effort=effort, keep=kept, progress=show)
    return replace(found, ports=ports)


def placed(
    point: Point,
    *,
    seed: int = 0,
    effort: float = 1.0,
    keep: dict[str, int] | None = None,
    progress: Progress | None = None,
) -> Placed:
    """Map a point's program onto the array of its configuration; arguments as of :func:`place`,
    ``keep`` by the names of units.

    Raises
    ------
    PenstockError
        The configuration has no array, or the program does not fit.
    """
    array = point.config.array
    if array is None:
        raise without_array(point.config.name)
    show = progress or Progress()
    mapping = map_program(
        point.graph, array, seed=seed, effort=effort, keep=keep, progress=show.stage
    )
    return Placed(point, mapping)


def _slots_of(path: str | Path, network: Network) -> dict[str, int]:
    """The slots by the names of units of a mapping in a file; those of another array are found by
    their names.
    """
    data = read_json(path)
    slots = data.get("slots") if is_table(data) else None
    if not is_table(slots) or not all(isinstance(s, str) for s in slots.values()):
        raise PenstockError(
            "is no mapping of a program",
            str(path),
            remedy="write one with `penstock array map PROGRAM --json FILE`",
        )
    there = {s.name: s.id for s in network.slots}
    return {unit: there[slot] for unit, slot in slots.items() if slot in there}


def run(placed: Placed, *, values: bool = True, progress: Progress | None = None) -> list[Record]:
    """Records of the model: on the program's own fabric, and on the array."""
    show = progress or Progress()
    records = []
    for what, point in (("its own fabric", placed.point), ("the array", placed.on_array())):
        show.step(f"model on {what}")
        result = simulation.on_model(point, values, trace=False)
        records.append(record(point, result, outputs=values))
    return records
