"""The order in which merging units take their inputs' units, against docs/timing.md section 3.2: a
replay of the record of their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..machine.beat import STOP_DONE
from ..machine.trace import ChannelTrace, Run
from ..machine.unitgraph import UnitGraph


@dataclass(frozen=True)
class _Part:
    """A unit of the data at an input."""

    port: int  # the input
    # first cycle in which its first beat is at the head of the channel, and the beat before it has
    # been taken (rule 1)
    arrived: int
    # first, last: cycles in which its first and its last beat were taken; ``last`` -1: not to the
    # end of the run
    first: int
    last: int


def _parts(port: int, trace: ChannelTrace, rank: int) -> Iterator[_Part]:
    """The units of one input that were begun."""

    def arrived(begin: int) -> int:
        before = int(trace.take[begin - 1]) if begin else -1
        return max(int(trace.accept[begin]), before) + 1

    n = len(trace.accept)
    done = (trace.data == 0) & (trace.stop == STOP_DONE)
    ends = np.flatnonzero(done | (trace.stop >= rank))
    begin = 0
    for end in map(int, ends):
        if not done[end] and trace.take[begin] >= 0:
            yield _Part(port, arrived(begin), int(trace.take[begin]), int(trace.take[end]))
        begin = end + 1
    if begin < n and trace.take[begin] >= 0:
        yield _Part(port, arrived(begin), int(trace.take[begin]), -1)


def choices(units: UnitGraph, run: Run, u: int) -> list[tuple[_Part, list[_Part]]]:
    """Choices of a merging unit, in order, and for each the alternatives: units of other inputs
    that had arrived by then and that it considers.
    """
    unit = units.units[u]
    inputs = units.inputs(u)
    n = unit.kind.n
    queues = [list(_parts(k, run.channels[inputs[k].id], unit.kind.rank)) for k in range(n)]
    taken = sorted((part for queue in queues for part in queue), key=lambda part: part.first)
    rounds = np.full(len(taken), 0)
    if len(inputs) > n:  # a selector is taken with the last beat of its last unit
        selectors = run.channels[inputs[n].id].take
        selectors = selectors[selectors >= 0]
        rounds = np.searchsorted(selectors, [part.first for part in taken])
    out = []
    following: dict[int, _Part] = {}  # by input, the unit that it gives next; of one round
    for i in reversed(range(len(taken))):
        part = taken[i]
        if i + 1 < len(taken) and rounds[i] != rounds[i + 1]:
            following.clear()
        others = [o for o in following.values() if o.port != part.port]
        out.append((part, [o for o in others if o.arrived <= part.first]))
        following[part.port] = part
    return out[::-1]


def against_the_rule(units: UnitGraph, run: Run) -> str | None:
    """The first unit that a merging unit took out of turn, in words."""
    for u in units.units:
        if not u.kind.by_arrival:
            continue
        busy = -1
        for part, others in choices(units, run, u.id):
            best = min([part, *others], key=lambda o: (o.arrived, o.port))
            if best is not part:
                return (
                    f"{u.name} takes the unit of input {part.port} (arrived in cycle "
                    f"{part.arrived}) in cycle {part.first}, where that of input {best.port} "
                    f"(arrived in cycle {best.arrived}) comes first"
                )
            if part.arrived > part.first or part.first <= busy:
                return (
                    f"{u.name} takes the unit of input {part.port} in cycle {part.first}, before "
                    f"it has arrived (cycle {part.arrived}) or while another is moved"
                )
            busy = part.last
    return None
