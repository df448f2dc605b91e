"""Subgraphs of a schedule as STeP programs.

Every stream is a sequence of logical tiles in the order of the schedule's traversal: shape [1, N]
for what happens once in each of the N tiles, [1, N, A] for what happens in each of the A steps of a
reduction.

- A slice from slow memory is a `LinearOffChipLoad` in a listed order: only what was not there in
  the step before is listed. Where it stays for several steps, `Bufferize` keeps it and `Streamify`
  reads it as often as it is used.
- Subgraphs between which tensors are retained are one program. A retained tensor is one buffer of a
  `Bufferize`, from its first tile to its last; the next subgraph reads it as a matrix, in slices of
  its own, with a `Streamify`. It never leaves the fabric.
- An outer MatMul is an `Accum` of products over the steps, an inner one a `Map` of whole products,
  a pointwise operation a `Map`: SiLU of one operand, the sum of several. An operand that occurs n
  times is scaled by n: its stream need not part and join again.
- Output tiles go to a `LinearOffChipStore` in the order of the traversal.

A MatMul whose operand a pointwise operation of the subgraph makes runs over its whole reduction in
one step (the operand exists only as a whole); the other operand's slices then come together instead
of one after the other, with the same traffic.

Two programs take the place of one where the fabric cannot hold what is retained between them: its
slices have edges inside a physical tile, or the second reads from slow memory what the first writes
there. The tensor then leaves through a `Sink` and comes back through a `Source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....frontend import (
    Accum,
    Bufferize,
    Expand,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Reshape,
    Sink,
    Source,
    Stream,
    Streamify,
    TensorRef,
    add,
    ceil_div,
    matmul,
    scale,
    silu,
)
from ..demand import Extent, Plan, Role, ScheduleError, make_plan
from ..meter import Meter
from ..problem import Problem
from ..readings import Readings
from ..solution import Schedule, Subgraph
from .rates import made_of

DTYPE = "fp32"
MOST_OPS = 250
"""Operations of subgraphs that become one program."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Held:
    """A retained tensor at the edge of a program: element row and column of each logical tile of
    its stream, and the steps of a tile.

    `steps` is 0 for a stream [1, N] and A for [1, N, A]; `tile` is [rows, cols] in elements.
    """

    tensor: int
    tile: Place
    places: tuple[Place, ...]
    steps: int = 0


@dataclass(frozen=True)
class Lowered:
    """The program of one subgraph, or of several in a row.

    `entries`: their numbers in the schedule. `kept`: tensors retained between them, in scratchpads.
    `sources` and `sinks`: retained tensors that come from outside or leave, by operator name.
    `meters`: the subgraphs' measures.
    """

    graph: Graph
    entries: tuple[int, ...]
    meters: tuple[Meter, ...]
    kept: tuple[int, ...] = ()
    sources: dict[str, Held] = field(default_factory=dict)
    sinks: dict[str, Held] = field(default_factory=dict)


class _ApartError(Exception):
    """A subgraph cannot be in one program with the one before."""


def tensor_name(tensor: int) -> str:
    """Name of a problem's tensor in the programs."""
    return f"t{tensor}"


def lower_schedule(problem: Problem, schedule: Schedule, t: int) -> list[Lowered]:
    """The STeP programs of a schedule, in order.

    Parameters
    ----------
    problem
        The problem.
    schedule
        A valid schedule of it (default readings).
    t
        Edge of the machine's physical tiles.

    Raises
    ------
    ScheduleError
        A program has more than `MOST_OPS` operations.
    """
    entries = schedule.subgraphs
    joined = {i for i in range(1, len(entries)) if entries[i - 1].retain}
    programs: list[Lowered] = []
    first = 0
    while first < len(entries):
        last = first + 1
        while last in joined:
            last += 1
        builder = _Builder(problem, schedule, t)
        for i in range(first, last):
            try:
                builder.add(i, i > first, i + 1 < last)
            except _ApartError:
                joined.discard(i)
                break
        else:
            programs.append(builder.done())
            first = last
    return programs


class _Retained:
    """A retained tensor in the fabric: its tiles as they are made, and the buffer of all of them
    once somebody reads it.
    """

    def __init__(self, held: Held, stream):
        self.held = held
        self.stream = stream
        self.buffer = None

    def read(self, tile: Place, order: list[Place], t: int, name: str):
        """A stream of slices [1, slices]."""
        held = self.held
        if not self._aligned(held.places, held.tile, t) or not self._aligned(order, tile, t):
            raise _ApartError
        if self.buffer is None:
            rank = 2 if held.steps else 1
            self.buffer = Bufferize(self.stream, rank=rank, name=f"retain_{name}").stream
        return Streamify(
            self.buffer, stored=held.places, tile=tile, places=order, name=f"retained_{name}"
        ).stream

    def _aligned(self, places: Sequence[Place], tile: Place, t: int) -> bool:
        """True if slices begin and end between physical tiles, or where the last stored one ends,
        and take no physical tile beyond.
        """
        for axis in range(2):
            stored = self.held.tile[axis]
            starts = {place[axis] for place in self.held.places}
            end = max(starts) + stored
            bands = max(start // t + ceil_div(stored, t) for start in starts)
            for start in {place[axis] for place in places}:
                stop = start + tile[axis]
                if start % t or (stop % t and stop < end) or ceil_div(stop, t) > bands:
                    return False
        return True


@dataclass(frozen=True)
class _Streams:
    """Streams of a pointwise operation in a program; ``made``: the operands' streams."""

    name: str
    made: dict[int, Stream]

    def operand(self, tensor: int) -> Stream:
        return self.made[tensor]

    def silu(self, value: Stream) -> Stream:
        return Map(value, fn=silu(), name=self.name).stream

    def scaled(self, value: Stream, times: int) -> Stream:
        return Map(value, fn=scale(times), name=self.name).stream

    def sum(self, left: Stream, right: Stream) -> Stream:
        return Map(left, right, fn=add(), name=self.name).stream


class _Builder:
    """One program: subgraph after subgraph is added to it."""

    entry: Subgraph
    plan: Plan
    meter: Meter

    def __init__(self, problem: Problem, schedule: Schedule, t: int):
        self.problem = problem
        self.schedule = schedule
        self.t = t
        self.graph = Graph("program")
        self.entries: list[int] = []
        self.meters: list[Meter] = []
        self.sources: dict[str, Held] = {}
        self.sinks: dict[str, Held] = {}
        self.refs: dict[int, TensorRef] = {}
        self.written: set[int] = set()
        self.kept: dict[int, _Retained] = {}
        self.before: dict[int, _Retained] = {}
        self.made: dict[tuple, Stream] = {}

    def done(self) -> Lowered:
        """The program."""
        name = "_".join(map(str, self.entries))
        self.graph.name = f"subgraph{name}"
        kept = tuple(t for k, m in enumerate(self.entries[:-1]) for t in self._retain(m))
        return Lowered(
            self.graph, tuple(self.entries), tuple(self.meters), kept, self.sources, self.sinks
        )

    def _retain(self, index: int) -> tuple[int, ...]:
        return tuple(self.schedule.subgraphs[index].retain)

    def add(self, index: int, joined: bool, goes_on: bool) -> None:
        """Add a subgraph; `joined`: to the one before, `goes_on`: the next one will be."""
        self.entry = self.schedule.subgraphs[index]
        name = f"subgraph{index}"
        if sum(len(m.plan.ops) for m in self.meters) + len(self.entry.ops) > MOST_OPS:
            if joined:
                raise _ApartError
            raise ScheduleError(
                f"{len(self.entry.ops):,} operations in one program",
                where=name,
                rule=f"a subgraph on the machine has at most {MOST_OPS}",
                remedy="a schedule of smaller subgraphs",
            )
        resident = frozenset(self._retain(index - 1)) if index else frozenset[int]()
        self.plan = make_plan(self.problem, self.entry.ops, Readings(), name)
        self.meter = Meter(
            self.problem, self.plan, Readings(), self.entry.granularity, resident, self.entry.retain
        )
        self.w, self.h, self.k = self.entry.granularity
        self.tiles = list(self.meter.tiles(self.entry.order))
        self.inside = {self.problem.ops[op].output: op for op in self.entry.ops}
        self.made = {}
        self.before = self.kept if joined else {}
        self.kept = {}
        self.entries.append(index)
        self.meters.append(self.meter)
        self._outputs(goes_on)
        for kept in self.before.values():
            if kept.buffer is None:  # retained for nobody
                Sink(kept.stream, name=f"drop_{tensor_name(kept.held.tensor)}")

    def _outputs(self, goes_on: bool) -> None:
        """Outputs that the subgraph writes and those that it retains."""
        for tensor in self.plan.outputs:
            stream = self.make(tensor, Role.POINTWISE, Extent.TILE, Extent.TILE, 0, True)
            if tensor in self.entry.retain:
                self.keep(tensor, stream, Extent.TILE, Extent.TILE, 0, goes_on)
            else:
                self.write(tensor, stream)
        for tensor in self.entry.retain:  # those that are consumed here as well: as they are made
            if tensor not in self.plan.outputs:
                (_, rows, cols, depth, _), stream = next(
                    (key, made)
                    for key, made in self.made.items()
                    if key[0] == ("op", self.inside[tensor])
                )
                self.keep(tensor, stream, rows, cols, depth, goes_on)

    def write(self, tensor: int, stream) -> None:
        """Store a tensor's output tiles."""
        if tensor in self.written or tensor in self.refs:
            raise _ApartError
        self.written.add(tensor)
        shape = self.problem.tensors[tensor]
        name = tensor_name(tensor)
        ref = self.graph.output(name, (shape.height, shape.width), DTYPE)
        places = [self.place(tensor, Extent.TILE, Extent.TILE, tile, 0) for tile in self.tiles]
        LinearOffChipStore(stream, ref, order=places, name=f"store_{name}")

    def keep(
        self, tensor: int, stream, rows: Extent, cols: Extent, depth: int, goes_on: bool
    ) -> None:
        """Retain a tensor from a stream of its slices."""
        places = [
            self.place(tensor, rows, cols, tile, step)
            for tile in self.tiles
            for step in range(self.steps(depth))
        ]
        steps = self.steps(depth) if depth else 0
        held = Held(tensor, self.extent(tensor, rows, cols), tuple(places), steps)
        if goes_on:
            self.kept[tensor] = _Retained(held, stream)
        else:
            self.sinks[Sink(stream, name=f"keep_{tensor_name(tensor)}").name] = held

    # -- geometry ----------------------------------------------------------------------------------

    def steps(self, depth: int) -> int:
        """Steps of a tile in a stream that follows a reduction; 1 for what happens once."""
        return ceil_div(depth, self.k) if depth else 1

    def extent(self, tensor: int, rows: Extent, cols: Extent) -> tuple[int, int]:
        """[rows, cols] of the largest slice."""
        shape = self.problem.tensors[tensor]

        def side(extent: Extent, size: int, length: int) -> int:
            return min({Extent.TILE: size, Extent.STEP: self.k}.get(extent, length), length)

        return side(rows, self.h, shape.height), side(cols, self.w, shape.width)

    def place(
        self, tensor: int, rows: Extent, cols: Extent, tile: tuple[int, int], step: int
    ) -> tuple[int, int]:
        """Begin of a slice; the tensor's end if it lies beyond."""
        shape = self.problem.tensors[tensor]

        def side(extent: Extent, index: int, size: int, length: int) -> int:
            return min(
                {Extent.TILE: index * size, Extent.STEP: step * self.k}.get(extent, 0), length
            )

        return side(rows, tile[0], self.h, shape.height), side(cols, tile[1], self.w, shape.width)

    # -- demand ------------------------------------------------------------------------------------

    def make(self, tensor: int, role: Role, rows: Extent, cols: Extent, depth: int, last: bool):
        """The stream of a slice of a tensor.

        `depth` is the reduction that the slice follows step by step, 0 if it is needed once a tile;
        `last`: on the tile's last step.
        """
        op = self.inside.get(tensor)
        if op is None:
            whole = self.extent(tensor, rows, cols) == (
                self.problem.tensors[tensor].height,
                self.problem.tensors[tensor].width,
            )
            key = (tensor, depth) if whole else (tensor, role, rows, cols, depth, last)
            if key not in self.made:
                self.made[key] = self.leaf(tensor, role, rows, cols, depth, last)
        else:
            key = (("op", op), rows, cols, depth, last)
            if key not in self.made:
                execute = self.product if self.problem.ops[op].is_matmul else self.pointwise
                self.made[key] = execute(op, rows, cols, depth, last)
        return self.made[key]

    def leaf(self, tensor: int, role: Role, rows: Extent, cols: Extent, depth: int, last: bool):
        """A slice that comes from outside."""
        steps = self.steps(depth)
        tile = self.extent(tensor, rows, cols)
        uses = [
            (
                position * self.meter.steps_per_tile
                + (step if depth else (self.meter.steps_per_tile - 1) * last),
                self.place(tensor, rows, cols, at, step),
            )
            for position, at in enumerate(self.tiles)
            for step in range(steps)
        ]
        if tensor in self.meter.resident:
            return self.retained(tensor, tile, [place for _, place in uses], depth)
        name = tensor_name(tensor)
        places = []
        turns = []
        before = None
        for when, place in uses:
            if before is not None and when - before[0] == 1 and place == before[1]:
                turns[-1] += 1
            else:
                places.append(place)
                turns.append(1)
            before = when, place
        if tensor in self.written:
            raise _ApartError
        if tensor not in self.refs:
            shape = self.problem.tensors[tensor]
            self.refs[tensor] = self.graph.input(name, (shape.height, shape.width), DTYPE)
        stream = LinearOffChipLoad(
            self.refs[tensor], tile=tile, order=places, name=f"load_{name}"
        ).stream
        if max(turns) > 1:
            stream = Streamify(
                Bufferize(stream, rank=0, name=f"hold_{name}"), repeat=turns, name=f"use_{name}"
            ).stream
        return self.by_steps(stream, name, depth)

    def by_steps(self, stream, name: str, depth: int):
        """A stream [1, N * A] as [1, N, A], where it follows a reduction."""
        if not depth:
            return stream
        return Reshape(stream, dim=0, chunk=self.steps(depth), name=f"steps_{name}").stream

    def retained(self, tensor: int, tile: Place, order: list[Place], depth: int):
        """Slices of a tensor that the subgraph before retained."""
        name = tensor_name(tensor)
        if tensor in self.before:
            stream = self.before[tensor].read(tile, order, self.t, name)
            return self.by_steps(stream, name, depth)
        steps = self.steps(depth)
        n = len(self.tiles)
        shape = (1, n, steps) if depth else (1, n)
        source = Source(shape=shape, tile=tile, dtype=DTYPE, name=f"kept_{name}", graph=self.graph)
        self.sources[source.name] = Held(tensor, tile, tuple(order), steps if depth else 0)
        return source.stream

    def pointwise(self, op: int, rows: Extent, cols: Extent, depth: int, last: bool):
        inputs = self.problem.ops[op].inputs
        made = {t: self.make(t, Role.POINTWISE, rows, cols, depth, last) for t in inputs}
        return made_of(inputs, _Streams(f"op{op}", made))

    def product(self, op: int, rows: Extent, cols: Extent, depth: int, last: bool):
        left, right = self.problem.ops[op].inputs
        reduction = self.problem.reduction(op)
        covered = [self.covers(t) for t in (left, right)]
        outer = rows is cols is Extent.TILE and last and not depth
        if outer and not any(covered):
            a = self.make(left, Role.LEFT, rows, Extent.STEP, reduction, False)
            b = self.make(right, Role.RIGHT, Extent.STEP, cols, reduction, False)
            return Accum(a, b, fn=matmul(), rank=1, name=f"op{op}").stream
        a = self.operand(
            left, Role.LEFT, rows, Extent.COVER if covered[0] else Extent.FULL, depth, covered[0]
        )
        b = self.operand(
            right, Role.RIGHT, Extent.COVER if covered[1] else Extent.FULL, cols, depth, covered[1]
        )
        return Map(a, b, fn=matmul(), name=f"op{op}").stream

    def covers(self, tensor: int) -> bool:
        op = self.inside.get(tensor)
        return op is not None and not self.problem.ops[op].is_matmul

    def operand(
        self, tensor: int, role: Role, rows: Extent, cols: Extent, depth: int, covered: bool
    ):
        """An operand over its whole reduction; one that a pointwise operation made once a tile is
        repeated for every step.
        """
        if not covered or not depth:
            return self.make(tensor, role, rows, cols, depth, False)
        stream = self.make(tensor, role, rows, cols, 0, False)
        return Expand(stream, count=self.steps(depth), name=f"again_{tensor_name(tensor)}").stream
