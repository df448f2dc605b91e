"""Paths that part and join again, where one has to hold beats until the
other gives its first.

A stream with several readers goes on only when all of them take it.
Where two of the paths meet in an operator that takes a beat of each,
and one of them gives its first only after n beats, the other has to
hold these n: its channels and units, up to the operator. If they hold
fewer, nothing moves any more.

* Where one path waits within an element (for all physical tiles of a
  logical one: a reference, a buffer, a sum of a row), the other is given
  room for them: how many physical tiles an element has is this machine's
  matter and not the program's.
* A flatten that holds a beat back gives its first with its second, so the other way gets a slot
  more.
* Ways that have joined once are not compared: what parts them again is a fork of its own.
* Where it waits for several elements (an Accum of many), their place is memory that the program
  has to name. It is refused, with the Fifo that frees it, where this is certain.

Paths through operators whose first element depends on the data are left
to the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...machine.errors import LoweringError
from ...machine.unitgraph import Channel
from ..graph import Operator, Stream
from ..types import TileType, TupleType, ceil_div, dim, tiles_along
from .base import Lowering
from .steps import Dims, Step, steps

MERGES = ("merge", "reassemble", "eager_merge", "partition", "store", "random_store", "store_at")
"""Units of several inputs that do not take a beat of each, or that end what is looked at."""
VISITS = 4
"""Times that an input is looked at again, for a path that waits for more."""
PLAIN = {
    "machine": ("map", "flatten", "promote", "broadcast"),
    "stepsim": ("map", "flatten", "promote", "broadcast"),
}
"""Kinds whose room is known for certain: a path through them alone can be refused."""


@dataclass(frozen=True)
class Way:
    """A path from a fork to an input of a unit.

    Attributes
    ----------
    channels
        Those that it goes through, the one that leaves the fork first.
    steps
        What the units between them do, with their ids.
    lag
        Beats that leave the fork before the first reaches the input, at least.

    """

    channels: tuple[Channel, ...]
    steps: tuple[tuple[int, Step], ...]
    lag: int

    def needed(self, n: int) -> int:
        """Beats that leave the fork before the n-th reaches the input, at least."""
        for _, step in reversed(self.steps):
            n = step.needs(n) if step.needs else n
        return n

    def holds(self, depth: int) -> int:
        """Beats that leave the fork while none leaves the last channel;
        ``depth``: of channels that have none.
        """
        held = self.channels[-1].depth or depth
        for (_, step), channel in zip(
            reversed(self.steps), reversed(self.channels[:-1]), strict=True
        ):
            held = (step.takes(held) if step.takes else held) + (channel.depth or depth)
        return held


def settle(low: Lowering) -> None:
    """Give paths the room that they need within an element.

    Raises
    ------
    LoweringError
        Where one needs room for several elements, and has not got it.

    """
    leaving = {c.src: c for c in low.channels}
    for node in low.graph.nodes:
        for stream in node:
            readers = low.graph.consumers(stream)
            if len(readers) > 1:
                starts = [low.ready[stream.node.name, stream.port, r.name, i] for r, i in readers]
                _settle(low, leaving, stream, [leaving[p.unit, p.port] for p in starts])


def _settle(low: Lowering, leaving: dict, stream: Stream, starts: list[Channel]) -> None:
    dims, beats = _dims(low, stream)
    joins = defaultdict(list)
    for branch, start in enumerate(starts):
        for way in _ways(low, leaving, start, dims):
            joins[way.channels[-1].dst[0]].append((branch, way))
    for found in joins.values():
        for branch, way in found:
            for other, short in found:
                joined = {c.src for c in way.channels} & {c.src for c in short.channels}
                if (
                    branch != other
                    and way.lag > 1
                    and not joined
                    and way.channels[-1].dst != short.channels[-1].dst
                ):
                    _compare(low, leaving, stream, beats, way, short)


def _compare(low, leaving, stream: Stream, beats: int | None, way: Way, short: Way) -> None:
    """See to it that one way holds what the other needs before its first."""
    short = replace(short, channels=tuple(leaving[c.src] for c in short.channels))
    held = short.holds(low.config.stepsim.fifo_depth)
    if held >= way.lag or beats is None:
        return
    holds = sum(bool(low.units[u].params.get("hold")) for u, _ in way.steps)
    if way.lag <= beats + holds:
        first = short.channels[0]
        low.channels[first.id] = leaving[first.src] = replace(first, depth=way.lag + low.depth)
        return
    units = [low.units[u] for u, _ in short.steps]
    plain = all(u.kind in PLAIN[low.timing] for u in units)
    pipelines = sum(step.takes is not None for _, step in short.steps)
    if plain and way.lag > held + pipelines + holds + 1:
        raise _too_short(low, stream, beats, way, short, held)


def _too_short(low, stream: Stream, beats: int, way: Way, short: Way, held: int) -> LoweringError:
    join, port = short.channels[-1].dst
    node = _node(low, join)
    unit = low.units[join]
    name = low.kinds[unit.kind].of(unit.params).inputs()[port]
    need = ceil_div(way.lag, beats)
    slowest = max(way.steps, key=lambda at: at[1].needs(1) if at[1].needs else 1)[0]
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
    """Sizes of a stream's physical dimensions, innermost first, and
    beats of an element (None: it has no bound).
    """
    outer = tuple(d.value for d in reversed(stream.shape))
    element = stream.element
    if isinstance(element, TupleType):
        element = element.members[0]
    if low.timing == "stepsim" or not isinstance(element, TileType):
        return outer, 1
    cols, rows = (low.graph.most(dim(tiles_along(d, low.t))) for d in (element.cols, element.rows))
    return (cols, rows, *outer), None if cols is None or rows is None else cols * rows


def _ways(low: Lowering, leaving: dict, start: Channel, dims: Dims) -> Iterator[Way]:
    """Ways from a channel to units that take a beat of each of several inputs."""
    todo = [(Way((start,), (), 1), dims)]
    seen = defaultdict(list)
    while todo:
        way, dims = todo.pop()
        channel = way.channels[-1]
        unit = low.units[channel.dst[0]]
        port = channel.dst[1]
        lags = seen[channel.dst]
        if lags and (way.lag <= max(lags) or len(lags) == VISITS):
            continue
        lags.append(way.lag)
        if len(low.kinds[unit.kind].of(unit.params).inputs()) > 1 and unit.kind not in MERGES:
            yield way
        for step in steps(low, unit, port, dims):
            on = leaving.get((unit.id, step.out))
            if on is None or any(u == unit.id and s.out == step.out for u, s in way.steps):
                continue
            further = Way((*way.channels, on), (*way.steps, (unit.id, step)), way.lag)
            todo.append(
                (replace(further, lag=further.needed(1)) if step.needs else further, step.dims)
            )
