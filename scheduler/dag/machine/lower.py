"""One subgraph of a schedule as a STeP program.

Every stream is a sequence of logical tiles in the order of the
schedule's traversal: shape [1, N] for what happens once in each of the
N tiles, [1, N, A] for what happens in each of the A steps of a
reduction.

- A slice from slow memory is a `LinearOffChipLoad` in a listed order: only what was not there in
  the step before is listed. Where it stays for several steps, `Bufferize` keeps it and `Streamify`
  reads it as often as it is used.
- A tensor that the subgraph before retained is a `Source`, one that this subgraph retains a `Sink`:
  a scratchpad outside the program, one physical tile a cycle and no traffic.
- An outer MatMul is an `Accum` of products over the steps, an inner one a `Map` of whole products,
  a pointwise operation a `Map`: SiLU of one operand, the sum of several.
- Output tiles go to a `LinearOffChipStore` in the order of the traversal.

A MatMul whose operand a pointwise operation of the subgraph makes runs
over its whole reduction in one step (the operand exists only as a
whole); the other operand's slices then come together instead of one
after the other, with the same traffic.
"""

from __future__ import annotations

from collections.abc import Callable
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
    Streamify,
    add,
    ceil_div,
    matmul,
    silu,
)
from ..demand import Extent, Plan, Role, ScheduleError, make_plan
from ..meter import Meter
from ..problem import Problem
from ..readings import Readings
from ..solution import Subgraph

__all__ = ["Held", "Lowered", "Work", "lower_subgraph", "tensor_name"]

DTYPE = "fp32"
MOST_OPS = 250
"""Operations of a subgraph that become one program."""


@dataclass(frozen=True)
class Held:
    """A retained tensor at the edge of a program: element row and
    column of each logical tile of its stream, and the steps of a tile.

    `steps` is 0 for a stream [1, N] and A for [1, N, A]; `tile` is [rows, cols] in elements.
    """

    tensor: int
    tile: tuple[int, int]
    places: tuple[tuple[int, int], ...]
    steps: int = 0


@dataclass
class Work:
    """What the unit of one operation does in a whole subgraph.

    `cost` is its share of the predicted compute in units of time,
    `elements` the (rows, cols[, depth]) of one logical tile of work and
    `tiles` their number; `late` says that it runs on finished output
    tiles only, after a reduction over several steps.
    """

    op: int
    cost: float
    elements: tuple[int, ...]
    tiles: int
    late: bool = False

    def beats(self, t: int) -> int:
        """Physical tiles (of products, for a MatMul) in the whole subgraph."""
        count = self.tiles
        for n in self.elements:
            count *= ceil_div(n, t)
        return count


@dataclass(frozen=True)
class Lowered:
    """The program of one subgraph.

    `sources` and `sinks` are retained tensors by operator name; `work`
    by the name of the operator that does it; `buffers` the elements
    [rows, cols] of every logical tile that a scratchpad holds; `ahead`
    the elements that are loaded as a whole before the first work on
    them (right operands, and slices that stay for several steps);
    `meter` the subgraph's measure.
    """

    graph: Graph
    plan: Plan
    meter: Meter
    sources: dict[str, Held] = field(default_factory=dict)
    sinks: dict[str, Held] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    buffers: list[tuple[int, int]] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)


def tensor_name(tensor: int) -> str:
    """Name of a problem's tensor in the programs."""
    return f"t{tensor}"


def lower_subgraph(
    problem: Problem,
    entry: Subgraph,
    resident: frozenset[int] = frozenset(),
    name: str = "subgraph",
    interval: Callable[[str], int | None] = lambda _name: None,
) -> Lowered:
    """The STeP program of one subgraph.

    Parameters
    ----------
    problem
        The problem.
    entry
        An entry of a valid schedule of it (default readings).
    resident
        Tensors that the subgraph before retained.
    name
        What errors call the subgraph.
    interval
        Operator name -> sixteenths of a cycle from tile to tile, None for the unit's own
        (`rates.Fabric.intervals`).

    Raises
    ------
    ScheduleError
        The subgraph has more than `MOST_OPS` operations.

    """
    if len(entry.ops) > MOST_OPS:
        raise ScheduleError(
            f"{len(entry.ops):,} operations in one program",
            where=name,
            rule=f"a subgraph on the machine has at most {MOST_OPS}",
            remedy="a schedule of smaller subgraphs",
        )
    plan = make_plan(problem, entry.ops, Readings(), name)
    meter = Meter(problem, plan, Readings(), entry.granularity, resident, entry.retain)
    return _Builder(problem, entry, plan, meter, name, interval).build()


class _Builder:
    def __init__(
        self, problem: Problem, entry: Subgraph, plan: Plan, meter: Meter, name: str, interval
    ):
        self.problem = problem
        self.entry = entry
        self.plan = plan
        self.meter = meter
        self.interval = interval
        self.w, self.h, self.k = entry.granularity
        self.tiles = list(meter.tiles(entry.order))
        self.out = Lowered(Graph(name), plan, meter)
        self.inside = {problem.ops[op].output: op for op in entry.ops}
        self.made: dict[tuple, tuple] = {}
        self.refs: dict[int, object] = {}

    def build(self) -> Lowered:
        for tensor in self.plan.outputs:
            stream, _ = self.make(tensor, Role.POINTWISE, Extent.TILE, Extent.TILE, 0, True)
            if tensor in self.entry.retain:
                self.keep(tensor, stream, Extent.TILE, Extent.TILE, 0)
            else:
                shape = self.problem.tensors[tensor]
                ref = self.out.graph.output(tensor_name(tensor), (shape.height, shape.width), DTYPE)
                places = [
                    self.place(tensor, Extent.TILE, Extent.TILE, tile, 0) for tile in self.tiles
                ]
                LinearOffChipStore(stream, ref, order=places, name=f"store_{tensor_name(tensor)}")
        for tensor in self.entry.retain:  # those that are consumed here as well: as they are made
            if tensor not in self.plan.outputs:
                (_, rows, cols, depth, _), (stream, _) = next(
                    (key, made)
                    for key, made in self.made.items()
                    if key[0] == ("op", self.inside[tensor])
                )
                self.keep(tensor, stream, rows, cols, depth)
        return self.out

    def keep(self, tensor: int, stream, rows: Extent, cols: Extent, depth: int) -> None:
        """Retain a tensor from a stream of its slices."""
        sink = Sink(stream, name=f"keep_{tensor_name(tensor)}")
        places = [
            self.place(tensor, rows, cols, tile, step)
            for tile in self.tiles
            for step in range(self.steps(depth))
        ]
        self.out.sinks[sink.name] = Held(
            tensor,
            self.extent(tensor, rows, cols),
            tuple(places),
            self.steps(depth) if depth else 0,
        )

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
        """Where a slice begins; at the tensor's end if it lies beyond."""
        shape = self.problem.tensors[tensor]

        def side(extent: Extent, index: int, size: int, length: int) -> int:
            return min(
                {Extent.TILE: index * size, Extent.STEP: step * self.k}.get(extent, 0), length
            )

        return side(rows, tile[0], self.h, shape.height), side(cols, tile[1], self.w, shape.width)

    # -- demand ------------------------------------------------------------------------------------

    def make(self, tensor: int, role: Role, rows: Extent, cols: Extent, depth: int, last: bool):
        """The stream of a slice of a tensor, and whether it comes after
        a reduction over several steps.

        `depth` is the reduction that the slice follows step by step, 0
        if it is needed once a tile; `last`: on the tile's last step.
        """
        op = self.inside.get(tensor)
        if op is None:
            whole = self.extent(tensor, rows, cols) == (
                self.problem.tensors[tensor].height,
                self.problem.tensors[tensor].width,
            )
            key = (tensor, depth) if whole else (tensor, role, rows, cols, depth, last)
            if key not in self.made:
                self.made[key] = self.leaf(tensor, role, rows, cols, depth, last), False
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
        name = tensor_name(tensor)
        if tensor in self.meter.resident:
            shape = (1, len(self.tiles), steps) if depth else (1, len(self.tiles))
            source = Source(
                shape=shape, tile=tile, dtype=DTYPE, name=f"kept_{name}", graph=self.out.graph
            )
            self.out.sources[source.name] = Held(
                tensor, tile, tuple(place for _, place in uses), steps if depth else 0
            )
            return source.stream
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
        if tensor not in self.refs:
            shape = self.problem.tensors[tensor]
            self.refs[tensor] = self.out.graph.input(name, (shape.height, shape.width), DTYPE)
        stream = LinearOffChipLoad(
            self.refs[tensor], tile=tile, order=places, name=f"load_{name}"
        ).stream
        if not last and (max(turns) > 1 or role is Role.RIGHT):
            self.out.ahead.append(tile[0] * tile[1])
        if max(turns) > 1:
            self.out.buffers.append(tile)
            stream = Streamify(
                Bufferize(stream, rank=0, name=f"hold_{name}"), repeat=turns, name=f"use_{name}"
            ).stream
        return Reshape(stream, dim=0, chunk=steps, name=f"steps_{name}").stream if depth else stream

    def pointwise(self, op: int, rows: Extent, cols: Extent, depth: int, last: bool):
        inputs = [
            self.make(t, Role.POINTWISE, rows, cols, depth, last)
            for t in self.problem.ops[op].inputs
        ]
        late = any(x[1] for x in inputs)
        first, *rest = (x[0] for x in inputs)
        if not rest:
            return self.unit(op, Map, (first,), silu(), rows, cols, depth, late), late
        for other in rest:
            first = self.unit(op, Map, (first, other), add(), rows, cols, depth, late)
        return first, late

    def product(self, op: int, rows: Extent, cols: Extent, depth: int, last: bool):
        left, right = self.problem.ops[op].inputs
        reduction = self.problem.reduction(op)
        covered = [self.covers(t) for t in (left, right)]
        outer = rows is cols is Extent.TILE and last and not depth
        if outer and not any(covered):
            a, _ = self.make(left, Role.LEFT, rows, Extent.STEP, reduction, False)
            b, _ = self.make(right, Role.RIGHT, Extent.STEP, cols, reduction, False)
            late = self.steps(reduction) > 1
            return self.unit(
                op, Accum, (a, b), matmul(), rows, cols, reduction, False, rank=1
            ), late
        a = self.operand(
            left, Role.LEFT, rows, Extent.COVER if covered[0] else Extent.FULL, depth, covered[0]
        )
        b = self.operand(
            right, Role.RIGHT, Extent.COVER if covered[1] else Extent.FULL, cols, depth, covered[1]
        )
        return self.unit(op, Map, (a, b), matmul(), rows, cols, depth, False), False

    def covers(self, tensor: int) -> bool:
        op = self.inside.get(tensor)
        return op is not None and not self.problem.ops[op].is_matmul

    def operand(
        self, tensor: int, role: Role, rows: Extent, cols: Extent, depth: int, covered: bool
    ):
        """An operand over its whole reduction; one that a pointwise
        operation made once a tile is repeated for every step.
        """
        if not covered or not depth:
            return self.make(tensor, role, rows, cols, depth, False)[0]
        stream, _ = self.make(tensor, role, rows, cols, 0, False)
        self.out.buffers.append(self.extent(tensor, rows, cols))
        return Expand(stream, count=self.steps(depth), name=f"again_{tensor_name(tensor)}").stream

    def unit(
        self,
        op: int,
        operator,
        streams: tuple,
        fn,
        rows: Extent,
        cols: Extent,
        depth: int,
        late: bool,
        **more,
    ):
        """An operator that executes `op`, at its pace."""
        output = self.problem.ops[op].output
        base = f"op{op}"
        name = (
            base
            if base not in self.out.work
            else next(f"{base}_{i}" for i in range(2, 1000) if f"{base}_{i}" not in self.out.work)
        )
        node = operator(*streams, fn=fn, name=name, interval=self.interval(name), **more)
        elements = self.extent(output, rows, cols)
        if self.problem.ops[op].is_matmul:
            a, b = (s.element for s in node.inputs)
            elements = (a.rows.value, b.cols.value, a.cols.value)
            self.out.buffers.append((b.rows.value, b.cols.value))
        maker = next(
            (e for e in self.plan.executions if (e.op, e.rows, e.cols) == (op, rows, cols)), None
        )
        maker = maker or next(e for e in self.plan.executions if e.op == op)
        parts = max(1, len(self.problem.ops[op].inputs) - 1) if fn == add() else 1
        self.out.work[name] = Work(
            op,
            self.meter.work(maker, self.entry.order) / parts,
            elements,
            len(self.tiles) * self.steps(depth),
            late,
        )
        return node.stream
