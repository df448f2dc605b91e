"""Beats, channels and what all units share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...machine.beat import STOP_DONE
from ...machine.unitgraph import Unit as MachineUnit

if TYPE_CHECKING:
    from .machine import Golden


class Beat(NamedTuple):
    stop: int
    data: int = 1
    numbers: tuple[int, ...] = ()

    @property
    def done(self) -> bool:
        return not self.data and self.stop == STOP_DONE


END = Beat(STOP_DONE, 0)


class Plan(NamedTuple):
    """Effect of a combinational unit in a cycle, if every output that it writes has a slot."""

    out: Mapping[int, Beat]  # by output
    taken: Iterable[int]  # inputs
    update: Callable[[], object] = lambda: None  # of its state


class Channel:
    def __init__(self, depth: int):
        self.depth = depth
        self.beats: deque[Beat] = deque()
        self.pushed: Beat | None = None
        self.taken = False
        # the trace
        self.accept: list[int] = []
        self.take_: list[int] = []
        self.seen: list[Beat] = []

    def peek(self) -> Beat | None:
        return self.beats[0] if self.beats else None

    def ready(self) -> bool:
        return len(self.beats) < self.depth

    def push(self, beat: Beat) -> None:
        assert self.ready() and self.pushed is None
        self.pushed = beat

    def take(self) -> Beat:
        assert self.beats and not self.taken
        self.taken = True
        return self.beats[0]

    def commit(self, c: int) -> None:
        if self.taken:
            self.beats.popleft()
            self.take_.append(c)
        if self.pushed is not None:
            self.beats.append(self.pushed)
            self.accept.append(c)
            self.seen.append(self.pushed)
        self.pushed = None
        self.taken = False


UNITS: dict[str, Callable[..., Unit]] = {}
"""Kind -> what makes one of its units."""

C = TypeVar("C", bound=Callable[..., "Unit"])


def golden(*kinds: str) -> Callable[[C], C]:
    """Registers a class of units for some kinds (also from outside the tree)."""

    def register(cls: C) -> C:
        UNITS.update(dict.fromkeys(kinds, cls))
        return cls

    return register


class Unit:
    """Base: `step` is one cycle; it may set `offers` (a beat that was not accepted)."""

    done = True  # whether the run may end as far as this unit is concerned

    def __init__(self, g: Golden, u: MachineUnit, ins: list[Channel], outs: list[Channel]):
        self.g = g
        self.u = u
        self.kind: Any = u.kind
        self.ins = ins
        self.outs = outs
        self.offers = self.granted = False
        self.busy = self.blocked = 0
        self.setup()

    def setup(self) -> None: ...

    def step(self, c: int) -> None:
        """Combinational units: fire when there is something to emit and every output written has a
        slot.
        """
        fired = self.plan()
        if fired is None:
            return
        if all(self.outs[o].ready() for o in fired.out):
            for o, b in fired.out.items():
                self.outs[o].push(b)
            for i in fired.taken:
                self.ins[i].take()
            fired.update()
        else:
            self.offers = True

    def plan(self) -> Plan | None:
        """Plan of the unit for this cycle; None: nothing."""
        b = self.ins[0].peek()
        if b is None:
            return None
        return Plan({0: b if b.done else b._replace(stop=self.stop(b.stop))}, [0])

    def stop(self, stop: int) -> int:
        """The stop with which a beat of this one leaves."""
        return stop

    def heads(self) -> list[Beat] | None:
        """The first beat of every input, once all have one."""
        beats = [b for c in self.ins if (b := c.peek()) is not None]
        return beats if len(beats) == len(self.ins) else None

    def account(self) -> None:
        if self.granted or any(c.taken for c in self.ins) or any(c.pushed for c in self.outs):
            self.busy += 1
        elif self.offers:
            self.blocked += 1
        self.offers = self.granted = False
