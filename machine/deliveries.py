"""Recorded deliveries: when an off-chip memory took each line of a run, and when it delivered it.

A file of them is CSV: the names of :data:`COLUMNS`, then a row a line, in the order of requests.
DRAM kind `trace` replays one (docs/timing.md section 5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..system.output import write_text
from ..system.reading import read_text
from .dram import NO_DELIVERIES
from .errors import ConfigError, RunError

if TYPE_CHECKING:
    from .trace import Run
    from .unitgraph import UnitGraph

COLUMNS = ("taken", "delivered", "address", "write")
"""Cycle in which the memory took the line's request, and in which it delivered data or
acknowledgement; first byte of the line; 1: it was written.
"""


@dataclass(frozen=True)
class Deliveries:
    """Deliveries of a memory in a run."""

    # int64 [lines, 4]: :data:`COLUMNS`, in the order of requests; of a chunk its lanes in order
    rows: np.ndarray

    @classmethod
    def read(cls, path: str | Path) -> Deliveries:
        """Read the deliveries of a file.

        Raises
        ------
        ConfigError
            It cannot be read, or is no such recording.
        """
        head, *lines = read_text(path).splitlines() or [""]
        if head != ",".join(COLUMNS):
            raise ConfigError(
                f"line 1 must be {','.join(COLUMNS)}, not {head[:60]!r}",
                str(path),
                remedy=NO_DELIVERIES,
            )
        rows = [_row(line, f"{path}, line {k}") for k, line in enumerate(lines, 2)]
        found = cls(np.array(rows, np.int64).reshape(-1, len(COLUMNS)))
        found._check(str(path))
        return found

    def write(self, path: str | Path) -> None:
        """Write a file that :meth:`read` reads."""
        lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in self.rows.tolist())]
        write_text(path, "\n".join(lines) + "\n")

    @property
    def taken(self) -> np.ndarray:
        """Cycles in which the memory took lines."""
        return self.rows[:, 0]

    @property
    def delivered(self) -> np.ndarray:
        """Cycles in which it delivered them."""
        return self.rows[:, 1]

    @property
    def lanes(self) -> int:
        """Most lines that it delivered in a cycle."""
        return int(np.unique(self.delivered, return_counts=True)[1].max(initial=0))

    def _check(self, where: str) -> None:
        """Raise ConfigError for deliveries that no memory makes."""
        early = np.flatnonzero(self.taken[1:] < self.taken[:-1]) + 1
        wrong = dict.fromkeys(early.tolist()[:1], "taken before the line above it")
        for k in np.flatnonzero(self.delivered <= self.taken).tolist()[:1]:
            wrong[k] = "delivered before the cycle after it was taken"
        for k in sorted(wrong)[:1]:
            raise ConfigError(f"a line is {wrong[k]}", f"{where}, line {k + 2}")


def _row(line: str, where: str) -> list[int]:
    """The numbers of a line of a file."""
    cells = line.split(",")
    if len(cells) != len(COLUMNS) or not all(x.isdecimal() and len(x) < 19 for x in cells):
        raise ConfigError(f"must be {len(COLUMNS)} integers from 0 on, not {line[:60]!r}", where)
    return [int(x) for x in cells]


def of_run(run: Run, graph: UnitGraph) -> Deliveries:
    """Deliveries of a traced run of a unit graph, on the model or on RTL.

    Raises
    ------
    RunError
        The run has no trace, or ended with lines on their way.
    """
    if len(run.ports) != len(graph.ports):
        raise RunError(
            "has no trace of its memory ports", f"run of {graph.name}", remedy="run it with a trace"
        )
    parts = [np.zeros((0, len(COLUMNS)), np.int64)]
    for unit, port in zip(graph.ports, run.ports, strict=True):
        write = np.full(len(port.accept), graph.units[unit].kind.offchip == "write")
        parts.append(np.stack([port.accept + 1, port.deliver, port.address, write], axis=1))
    rows = np.concatenate(parts).astype(np.int64)
    if (rows[:, 1] < 0).any():
        raise RunError("ended with lines on their way", f"run of {graph.name}")
    return Deliveries(rows[np.argsort(rows[:, 0], kind="stable")])
