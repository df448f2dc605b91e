"""What is known of a run in which nothing can move any more: who waits for whom, and the channel depths that free it. Both timings report this."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .errors import RunError


@dataclass(frozen=True)
class Stall:
    """One unit of the circle.

    Attributes
    ----------
    unit, kind
        Who waits: unit name and kind.
    why
        ``room``: its output is full; ``beat``: its input is empty; ``page``: it writes buffers, and may take no further page.
    channel, held, depth
        The channel that it waits at (empty for a page), the beats in it and its slots.
    on
        The unit that it waits for: the next one of the circle.
    """

    unit: str
    kind: str
    why: str
    channel: str
    held: int
    depth: int
    on: str


@dataclass(frozen=True)
class Relief:
    """Channels that free the run when they alone are this deep.

    Attributes
    ----------
    channel
        Name of one of them, which is full in the circle; the others join units of the same names but for their numbers.
    count, depth
        Number of channels; smallest depth that frees.
    """

    channel: str
    count: int
    depth: int

    @property
    def slots(self) -> int:
        return self.count * self.depth


@dataclass(frozen=True)
class Deadlock:
    """A deadlock.

    Attributes
    ----------
    cycle
        After which nothing moved.
    circle
        Units that wait for each other, each for the next, the last for the first.
    uniform
        Smallest depth that, given to every channel, frees the run; None: none does, or it was not looked for.
    reliefs
        Likewise, of channels of one name alone; the fewest slots first.
    buffers
        Smallest ``machine.buffers`` that frees the run; None: none does, or no writer holds as many as it may.
    pages
        Smallest ``machine.pages`` that frees the run; None: none does, or no writer of the circle waits for a scratchpad without a free page.
    """

    cycle: int
    circle: tuple[Stall, ...]
    uniform: int | None = None
    reliefs: tuple[Relief, ...] = ()
    buffers: int | None = None
    pages: int | None = None

    def to_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_dict(d: dict) -> "Deadlock":
        return Deadlock(**d | {"circle": tuple(Stall(**s) for s in d["circle"]), "reliefs": tuple(Relief(**r) for r in d["reliefs"])})


class DeadlockError(RunError):
    """A run that nothing can move any more.

    Attributes
    ----------
    deadlock
        The report.
    """

    def __init__(self, deadlock: Deadlock, what: str, where: str, remedy: str):
        super().__init__(what, where, remedy=remedy)
        self.deadlock = deadlock
