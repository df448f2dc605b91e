"""The schedule: subgraphs in order, each with its granularity, retained tensors and traversal."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

from ...machine.errors import PenstockError
from ...system.output import write_text
from ...system.reading import check_fields
from .jsonio import load, take_int, take_list, take_number

Granularity = tuple[int, int, int]
"""[w, h, k]: columns and rows of the output tile, depth of a reduction step."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """One entry of a schedule.

    Parameters
    ----------
    ops : operations in execution order
    granularity : [w, h, k]
    retain : tensors kept whole in fast memory for the next subgraph
    order : permutation of the tile indices, None for raster order
    latency : stated latency, units of time; nan if none is stated
    """

    ops: tuple[int, ...]
    granularity: Granularity
    retain: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    latency: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """Subgraphs, executed one after the other."""

    subgraphs: tuple[Subgraph, ...]

    @property
    def stated_latency(self) -> float:
        """Sum of the stated latencies, units of time."""
        return sum(s.latency for s in self.subgraphs if not math.isnan(s.latency))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schedule:
        """Read a solution file."""
        return load(path, cls.from_json)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schedule:
        """A schedule from the statement's JSON object; only its form is checked here."""
        check_fields(data, _FIELDS, "the schedule")
        columns: dict[str, list[Any]] = {}
        for key, rule in _FIELDS.items():
            if key not in data:
                if key in ("traversal_orders", "subgraph_latencies"):
                    columns[key] = [None] * len(columns["subgraphs"])
                    continue
                raise PenstockError("the field is missing", where=f"field {key!r}", rule=rule)
            columns[key] = take_list(data[key], f"field {key!r}", rule)
            if len(columns[key]) != len(columns["subgraphs"]):
                raise PenstockError(
                    f"{len(columns[key])} entries for {len(columns['subgraphs'])} subgraphs",
                    where=f"field {key!r}",
                    rule="the lists are parallel, one entry per subgraph",
                )
        return cls(
            tuple(
                _read_entry(i, {key: column[i] for key, column in columns.items()})
                for i in range(len(columns["subgraphs"]))
            )
        )

    def to_json(self) -> dict[str, Any]:
        """The statement's JSON object."""
        return {
            "subgraphs": [list(s.ops) for s in self.subgraphs],
            "granularities": [list(s.granularity) for s in self.subgraphs],
            "tensors_to_retain": [list(s.retain) for s in self.subgraphs],
            "traversal_orders": [
                None if s.order is None else list(s.order) for s in self.subgraphs
            ],
            "subgraph_latencies": [
                None if math.isnan(s.latency) else s.latency for s in self.subgraphs
            ],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the solution file (atomically)."""
        rows = ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in self.to_json().items()
        )
        write_text(path, "{\n" + rows + "\n}\n")


_FIELDS = {
    "subgraphs": "operations of each subgraph",
    "granularities": "[w, h, k] of each subgraph",
    "tensors_to_retain": "tensors each subgraph leaves in fast memory",
    "traversal_orders": "a permutation of the tiles, or null, per subgraph",
    "subgraph_latencies": "latency of each subgraph",
}


def _read_entry(index: int, entry: dict[str, Any]) -> Subgraph:
    where = f"subgraph {index}"

    def ints(key: str, rule: str, low: int) -> tuple[int, ...]:
        place = f"{where}, field {key!r}"
        return tuple(
            take_int(v, place, rule, low=low) for v in take_list(entry[key], place, _FIELDS[key])
        )

    granularity = ints("granularities", "w, h and k are positive", 1)
    if len(granularity) != 3:
        raise PenstockError(
            f"{len(granularity)} numbers",
            where=f"{where}, field 'granularities'",
            rule="three numbers [w, h, k]",
        )
    w, h, k = granularity
    order = (
        None if entry["traversal_orders"] is None else ints("traversal_orders", "a tile index", 0)
    )
    latency = math.nan
    if (stated := entry["subgraph_latencies"]) is not None:
        place = f"{where}, field 'subgraph_latencies'"
        latency = float(take_number(stated, place, "units of time", low=0, high=1e300))
    return Subgraph(
        ints("subgraphs", "an operation index", 0),
        (w, h, k),
        ints("tensors_to_retain", "a tensor index", 0),
        order,
        latency,
    )
