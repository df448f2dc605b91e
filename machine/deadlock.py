"""Facts about a run in which nothing can move any more: the units that wait for each other, and the
channel depths that free it. Both timings report them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .errors import RunError


@dataclass(frozen=True)
class Stall:
    """One unit of the circle."""

    # unit, kind: who waits: unit name and kind
    unit: str
    kind: str
    # ``room``: its output is full; ``beat``: its input is empty; ``page``: it writes buffers, and
    # may take no further page
    why: str
    # channel, held, depth: the channel that it waits at (empty for a page), the beats in it and its
    # slots
    channel: str
    held: int
    depth: int
    on: str  # the unit that it waits for: the next one of the circle


@dataclass(frozen=True)
class Relief:
    """Channels that free the run when they alone are this deep."""

    # name of one of them, which is full in the circle; the others join units of the same names but
    # for their numbers
    channel: str
    # count, depth: number of channels; smallest depth that frees
    count: int
    depth: int

    @property
    def slots(self) -> int:
        return self.count * self.depth


@dataclass(frozen=True)
class Deadlock:
    """A deadlock."""

    cycle: int  # after which nothing moved
    # units that wait for each other, each for the next, the last for the first
    circle: tuple[Stall, ...]
    # smallest depth that, given to every channel, frees the run; None: none does, or it was not
    # looked for
    uniform: int | None = None
    # likewise, of channels of one name alone; the fewest slots first
    reliefs: tuple[Relief, ...] = ()
    # smallest ``machine.buffers`` that frees the run; None: none does, or no writer holds as many
    # as it may
    buffers: int | None = None
    # smallest ``machine.pages`` that frees the run; None: none does, or no writer of the circle
    # waits for a scratchpad without a free page
    pages: int | None = None
    held: tuple[str, ...] = ()  # units of the circle that hold a beat back until the next one comes
    # smallest ``machine.spill`` that was found to free the run; None: none does, or no writer of
    # the circle waits for a scratchpad without a free page
    spill: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Deadlock:
        given = dict(d)
        given["circle"] = tuple(Stall(**s) for s in d["circle"])
        given["reliefs"] = tuple(Relief(**r) for r in d["reliefs"])
        given["held"] = tuple(d.get("held", ()))
        return Deadlock(**given)


class DeadlockError(RunError):
    """A run that nothing can move any more.

    Attributes
    ----------
    deadlock
        The report.
    why
        In one clause: that units wait for each other, or for what will not come.
    units
        A line for each of them.
    starved
        The unit that waits for what will not come, where there is one.
    """

    def __init__(
        self,
        deadlock: Deadlock,
        why: str,
        where: str | None,
        remedy: str | None,
        units: Sequence[str] = (),
        operators: Sequence[str] = (),
        starved: str = "",
    ):
        super().__init__(f"deadlock after cycle {deadlock.cycle}: {why}", where, remedy=remedy)
        self.deadlock = deadlock
        self.why = why
        self.units = tuple(units)
        self.starved = starved
        self.args = (
            "\n".join([str(self), *_listed("operators", operators), *_listed("units", units)]),
        )

    def of_operators(self, label: Callable[[str], str]) -> DeadlockError:
        """The same error, with the operators of a program first.

        Parameters
        ----------
        label
            Of an operator's name: how a message calls it, with its line.
        """
        lines: list[str] = []
        for s in self.deadlock.circle:
            one, other = (_operator(name) for name in (s.unit, s.on))
            if one != other:
                lines.append(f"{label(one)} waits for {_WAITS[s.why]} {other}")
        alone = self.starved or next((s.unit for s in self.deadlock.circle), "")
        if alone and (self.starved or not lines):
            lines.insert(0, label(_operator(alone)))
        return DeadlockError(
            self.deadlock, self.why, self.where, self.remedy, self.units, lines, self.starved
        )


LISTED = 8
"""Operators, and units, of a circle that a message tells of."""
_WAITS = {"room": "room in", "beat": "a beat from", "page": "a page of"}


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    """Lines below the message: the first of ``lines``, under their title."""
    more = (
        [f"and {len(lines) - LISTED} more (`penstock deadlock` lists all)"]
        if len(lines) > LISTED
        else []
    )
    return [f"  {title}:", *(f"    {line}" for line in (*lines[:LISTED], *more))] if lines else []


def _operator(unit: str) -> str:
    """The name of the operator that a unit serves: the part before its role."""
    return unit.partition(".")[0]
