"""Paths that part and join again, where one has to hold beats until the other gives its first.

A stream with several readers goes on only when all of them take it. Where two of the paths meet in
an operator that takes a beat of each, and one of them gives its first only after n beats, the other
has to hold these n: its channels and units, up to the operator. If they hold fewer, nothing moves
any more.

* Where one path waits within an element (for all physical tiles of a logical one: a reference, a
  buffer, a sum of a row), the other is given room for them: how many physical tiles an element has
  is this machine's matter and not the program's.
* A flatten that holds a beat back gives its first with its second, so the other path gets a slot
  more.
* Paths that have joined once are not compared: the fork that parts them again is settled on its
  own. A fork is therefore looked at up to its reconvergence, the channel that all its paths
  go through: its immediate post-dominator.
* Where it waits for several elements (an Accum of many), their place is memory that the program
  has to name. It is refused, with the Fifo that frees it, where this is certain.

Paths through operators whose first element depends on the data are left to the run.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from ...machine.errors import LoweringError
from ...machine.unitgraph import Channel
from ..graph import Operator, Stream
from ..types import TileType, TupleType, ceil_div, dim, tiles_along
from .base import Lowering
from .steps import UNBOUNDED, Dims, Step, steps

MERGES = ("merge", "reassemble", "eager_merge", "partition", "store", "random_store", "store_at")
"""Units of several inputs that do not take a beat of each, or that end what is looked at."""
VISITS = 4
"""Times that an input is looked at again, for a path that waits for more."""
PLAIN = {
    "machine": ("map", "flatten", "promote", "broadcast"),
    "stepsim": ("map", "flatten", "promote", "broadcast"),
}
"""Kinds whose room is known for certain: a path through them alone can be refused."""

Line = tuple[float, float]
"""Least number, and how many more for each."""


@dataclass(slots=True, eq=False)
class Way:
    """A path from a fork to an input of a unit."""

    # branch, channel: the reader of the fork with which it begins, and the channel with which it
    # ends
    branch: int
    channel: Channel
    dims: Dims  # sizes of the stream in that channel
    lag: int  # beats that leave the fork before the first reaches the input, at least
    passed: int  # places of its channels, a bit each
    # before, step: the path up to the last unit, and that unit's step
    before: Way | None = None
    step: Step | None = None
    # waits, known: the path up to its last step that has ``needs``; what is known of :meth:`needed`
    # there
    waits: Way | None = None
    known: dict[int, int] = field(default_factory=dict)
    # least, weight: beats that it holds at least, and how many more for each one in the last
    # channel or beyond
    least: float = 0
    weight: float = 1

    def back(self) -> Iterator[tuple[Step, Way]]:
        """Steps from the last to the first, each with the path before it."""
        way = self
        while way.before and way.step:
            yield way.step, way.before
            way = way.before

    def needed(self, n: int) -> int:
        """Beats that leave the fork before the n-th reaches the input, at least."""
        way = self.waits
        passed = []
        while n > 1 and way and way.before and way.step and way.step.needs and n not in way.known:
            passed.append((way, n))
            n = way.step.needs(n)
            way = way.before.waits
        if way:
            n = way.known.get(n, n)
        for way, count in passed:
            way.known[count] = n
        return n

    def holds(self, depths: Sequence[int]) -> int:
        """Beats that leave the fork while none leaves the last channel; ``depths``: of channels."""
        held = depths[self.channel.id]
        for step, before in self.back():
            held = (step.takes(held) if step.takes else held) + depths[before.channel.id]
        return held


def settle(low: Lowering) -> None:
    """Give paths the room that they need within an element.

    Raises
    ------
    LoweringError
        Where one needs room for several elements, and has not got it.
    """
    try:
        paths = _Paths(low)
    except CycleError:  # refused as a loop that can never begin
        return
    for stream, starts in low.forks:
        paths.settle(stream, [paths.leaving[p.unit, p.port] for p in starts])


class _Paths:
    """Paths through the channels of a lowering, which go from earlier to later places.

    Attributes
    ----------
    leaving
        The channel that leaves each output, by id.
    depths
        Beats of each channel.
    order, place
        Channels by place, and places by channel.
    entered
        The last place of each unit's inputs.
    joined
        For a place from which a join is reached, the next that all paths from it to the last joins
        go through (the immediate post-dominator).
    """

    def __init__(self, low: Lowering):
        self.low = low
        self.leaving = {c.src: c.id for c in low.channels}
        self.depths = [c.depth or low.config.stepsim.fifo_depth for c in low.channels]
        self._onward: dict[tuple[int, Dims], list[tuple[Step, Line, int]]] = {}
        self._lags: dict[tuple[int, Dims], int] = {}
        kinds = [u.kind for u in low.units]
        self._joins = [
            len(kind.inputs()) > 1 and u.kind.name not in MERGES
            for u, kind in zip(low.units, kinds, strict=True)
        ]
        ahead = {c.id: [on for _, _, on in self.onward(c.id, ())] for c in low.channels}
        self.order = list(TopologicalSorter(ahead).static_order())[::-1]
        self.place = {c: at for at, c in enumerate(self.order)}
        self.entered = {low.channels[c].dst[0]: at for at, c in enumerate(self.order)}
        self.joined: dict[int, int] = {}
        for at in reversed(range(len(self.order))):
            further = [self.place[on] for on in ahead[self.order[at]]]
            further = [on for on in further if on in self.joined]
            if further or self._is_join(self.order[at]):
                self.joined[at] = self.meeting(further)

    def _is_join(self, channel: int) -> bool:
        return self._joins[self.low.channels[channel].dst[0]]

    def onward(self, channel: int, dims: Dims) -> list[tuple[Step, Line, int]]:
        """Steps of a stream through the unit behind a channel, each with a lower bound of what it
        takes and the next channel.
        """
        if (channel, dims) not in self._onward:
            unit, port = self.low.channels[channel].dst
            self._onward[channel, dims] = [
                (step, _line(step), self.leaving[unit, step.out])
                for step in steps(self.low, self.low.units[unit], port, dims)
                if (unit, step.out) in self.leaving
            ]
        return self._onward[channel, dims]

    def meeting(self, places: list[int]) -> int:
        """The first place that all paths from these go through; one beyond the last for none."""
        end = len(self.order)
        at = min(places, default=end)
        for other in sorted(places):
            while at != other:
                if at < other:
                    at = self.joined[at]
                else:
                    other = self.joined[other]
        return at

    def most(self, channel: int, dims: Dims) -> int:
        """Beats that leave a channel before the first reaches a join, on the path that waits for
        most; 0 where no join is reached.
        """
        todo = [(channel, dims)]
        while todo:
            state = todo[-1]
            onward = [(step, (on, step.dims)) for step, _, on in self.onward(*state)]
            unknown = [on for _, on in onward if on not in self._lags]
            todo += unknown
            if not unknown:
                todo.pop()
                lags = [(step, self._lags[on]) for step, on in onward if self._lags[on]]
                self._lags[state] = max(
                    int(self._is_join(state[0])),
                    *(step.needs(n) if step.needs else n for step, n in lags),
                    0,
                )
        return self._lags[channel, dims]

    def settle(self, stream: Stream, starts: list[int]) -> None:
        """Give the paths from a fork the room that they need."""
        dims, beats = _dims(self.low, stream)
        if beats is None:
            return
        lags = [self.most(start, dims) for start in starts]
        last = self._furthest(starts, dims, lags)
        facing = self._facing(starts, dims, last)
        joins = defaultdict(list)
        gone: dict[int, list[int]] = defaultdict(list)
        for branch in sorted(range(len(starts)), key=lambda branch: -lags[branch]):
            for way in self._ways(branch, starts[branch], dims, last, facing, gone):
                joins[way.channel.dst[0]].append(way)
        for found in joins.values():
            found.sort(key=lambda way: way.branch)
            longest = max(way.lag for way in found)
            shorts = [s for s in found if s.least + s.weight * self.depths[s.channel.id] < longest]
            for way in found:
                for short in shorts if way.lag > 1 else ():
                    if (
                        way.branch != short.branch
                        and way.channel.dst != short.channel.dst
                        and not way.passed & short.passed
                    ):
                        self._compare(stream, beats, way, short, starts[short.branch])

    def _furthest(self, starts: list[int], dims: Dims, lags: list[int]) -> int:
        """The last place before the joins that a path reaches which may hold less than another
        branch waits for; -1 where there are none.
        """
        most = max(lags)
        places = [self.place[start] for start in starts]
        end = self.meeting([at for at in places if at in self.joined])
        reached: dict[int, dict[Dims, Line]] = {}
        todo: list[int] = []
        last = -1

        def reach(channel: int, dims: Dims, least: float, weight: float) -> None:
            at = self.place[channel]
            if at < end and at in self.joined and least + weight * self.depths[channel] < most:
                if at not in reached:
                    heapq.heappush(todo, at)
                    reached[at] = {}
                other = reached[at].get(dims, (least, weight))
                reached[at][dims] = min(least, other[0]), min(weight, other[1])

        for branch, start in enumerate(starts):
            if self.depths[start] < max(lags[:branch] + lags[branch + 1 :]):
                reach(start, dims, 0, 1)
        while todo:
            at = heapq.heappop(todo)
            channel = self.order[at]
            if self._is_join(channel):
                last = max(last, self.entered[self.low.channels[channel].dst[0]])
            for dims, (least, weight) in reached.pop(at).items():
                for step, (room, share), on in self.onward(channel, dims):
                    further = least + weight * (self.depths[channel] + room)
                    reach(on, step.dims, further, weight * share)
        return last

    def _facing(self, starts: list[int], dims: Dims, last: int) -> dict[int, int]:
        """Longest wait, for a place, of another path where the paths through it meet such as have
        no channel in common with them since the fork.
        """
        longest = {self.place[start]: self._first(0, start, dims) for start in starts}
        parents = dict.fromkeys(longest, -1)  # immediate dominators; -1: the fork
        todo = list(longest)
        heapq.heapify(todo)
        passed = []
        while todo:
            at = heapq.heappop(todo)
            passed.append(at)
            way = longest[at]
            for step, line, on in self.onward(way.channel.id, way.dims):
                place = self.place[on]
                if place > last:
                    continue
                further = self._further(way, step, line, on)
                if place not in longest:
                    heapq.heappush(todo, place)
                    parents[place] = at
                else:
                    parents[place] = _common(parents, parents[place], at)
                if place not in longest or longest[place].lag < further.lag:
                    longest[place] = further
        entries = defaultdict(list)
        for at in passed:
            if self._is_join(self.order[at]):
                entries[longest[at].channel.dst[0]].append(at)
        facing = dict.fromkeys(passed, 0)
        for at in reversed(passed):
            way = longest[at]
            others = [
                longest[other].lag
                for other in entries[way.channel.dst[0]]
                if other != at and _common(parents, other, at) < 0
            ]
            onward = [self.place[on] for _, _, on in self.onward(way.channel.id, way.dims)]
            further = [facing[on] for on in onward if on in facing]
            facing[at] = max([*others, *further], default=0)
        return facing

    def _first(self, branch: int, start: int, dims: Dims) -> Way:
        return Way(branch, self.low.channels[start], dims, 1, 1 << self.place[start])

    def _further(self, way: Way, step: Step, line: Line, on: int) -> Way:
        """A path that goes on by a step to a channel."""
        room, share = line
        lag = way.needed(step.needs(1)) if step.needs else way.lag
        passed = way.passed | 1 << self.place[on]
        further = Way(way.branch, self.low.channels[on], step.dims, lag, passed, way, step)
        further.waits = further if step.needs else way.waits
        further.known[1] = lag
        further.least = way.least + way.weight * (self.depths[way.channel.id] + room)
        further.weight = way.weight * share
        return further

    def _ways(
        self,
        branch: int,
        start: int,
        dims: Dims,
        last: int,
        facing: dict[int, int],
        gone: dict[int, list[int]],
    ) -> Iterator[Way]:
        """Paths of a branch to joins at places up to ``last``; ``gone``: the longest of each branch
        before, by channel. One that is shorter than several of these, and holds all that it may
        face, is like them from there on.
        """
        todo = [self._first(branch, start, dims)]
        seen = defaultdict(list)
        while todo:
            way = todo.pop()
            at = way.channel.id
            lags = seen[at]
            if self.place[at] > last or way.lag <= max(lags, default=0) or len(lags) == VISITS:
                continue
            lags.append(way.lag)
            if self._is_join(at):
                yield way
            longer = sum(lag >= way.lag for lag in gone[at])
            held = way.least + way.weight * self.depths[at]
            if longer >= VISITS and held >= facing.get(self.place[at], 0):
                continue
            for step, line, on in self.onward(at, way.dims):
                further = self._further(way, step, line, on)
                if self.place[on] <= last and further.lag > max(seen[on], default=0):
                    todo.append(further)
        for at, lags in seen.items():
            if lags:
                gone[at] = sorted([*gone[at], max(lags)])[-VISITS:]

    def _compare(self, stream: Stream, beats: int, way: Way, short: Way, first: int) -> None:
        """See to it that one path holds what the other needs before its first."""
        held = short.holds(self.depths)
        if held >= way.lag:
            return
        low = self.low
        holds = sum(
            getattr(low.units[before.channel.dst[0]].kind, "hold", False)
            for _, before in way.back()
        )
        if way.lag <= beats + holds:
            self.depths[first] = way.lag + low.depth
            low.channels[first] = replace(low.channels[first], depth=self.depths[first])
            return
        units = [low.units[before.channel.dst[0]] for _, before in short.back()]
        plain = all(u.kind.name in PLAIN[low.timing] for u in units)
        pipelines = sum(step.takes is not None for step, _ in short.back())
        if plain and way.lag > held + pipelines + holds + 1:
            raise _too_short(low, stream, beats, way, short, held)


def _common(parents: dict[int, int], one: int, other: int) -> int:
    """The last place that all paths to both go through; -1 for none."""
    while one != other:
        if one > other:
            one = parents[one]
        else:
            other = parents[other]
    return one


def _line(step: Step) -> Line:
    """A line below the beats that a step takes while n have room: none of them is convex."""
    if step.takes is None:
        return 0, 1
    none = step.takes(0)
    return none - 1, (step.takes(UNBOUNDED) - none) / UNBOUNDED


def _too_short(low, stream: Stream, beats: int, way: Way, short: Way, held: int) -> LoweringError:
    join, port = short.channel.dst
    node = _node(low, join)
    unit = low.units[join]
    name = unit.kind.inputs()[port]
    need = ceil_div(way.lag, beats)
    passed = [
        (step.needs(1) if step.needs else 1, before.channel.dst[0]) for step, before in way.back()
    ]
    slowest = max(reversed(passed), key=lambda at: at[0])[1]
    return low.error(
        node,
        f"stream {stream.name} parts and joins again in {node.name}, which waits for the first "
        f"element that {_node(low, slowest).name} gives after {need}; the other way holds "
        f"{held // beats}",
        "the shorter way holds what the longer one needs before its first element",
        f"let it run ahead: Fifo({stream.name}, depth={need}) on the way to `{name}`, or "
        "Bufferize it",
    )


def _node(low: Lowering, unit: int) -> Operator:
    return next(n for n in low.graph.nodes if n.name == low.units[unit].node)


def _dims(low: Lowering, stream: Stream) -> tuple[Dims, int | None]:
    """Sizes of a stream's physical dimensions, innermost first, and beats of an element (None: it
    has no bound).
    """
    outer = tuple(d.value for d in reversed(stream.shape))
    element = stream.element
    if isinstance(element, TupleType):
        element = element.members[0]
    if low.timing == "stepsim" or not isinstance(element, TileType):
        return outer, 1
    cols, rows = (low.graph.most(dim(tiles_along(d, low.t))) for d in (element.cols, element.rows))
    return (cols, rows, *outer), None if cols is None or rows is None else cols * rows
