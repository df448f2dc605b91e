"""Legality and cost of a schedule, walked tile by tile and step by step.

Written from the rules (docs/dag_scheduler.md, sections 1 and 2) under every reading, and sharing
nothing with the package but the problem's and the schedule's data: no plan, no classes of tiles
that cost alike, no closed form.  Slow, and meant to be: it is what the evaluator is judged by.

A slice is (tensor, role, kind of rows, kind of columns); a kind is ``t`` (the tile's own), ``s``
(this step of the reduction), ``f`` (a whole reduction) or ``c`` (a whole reduction within a tile).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Rectangle = tuple[range, range]
ROLES = ("pointwise", "left", "right")


class IllegalError(Exception):
    """A rule is broken."""


@dataclass
class Step:
    """Demand of one step: outside slices, time of each execution, products carried over."""

    slices: dict[tuple, Rectangle] = field(default_factory=dict)
    work: dict[tuple, float] = field(default_factory=dict)
    carried: dict[tuple, int] = field(default_factory=dict)
    formed: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Stage:
    """One step: its time at the array, buffers, elements that stay besides them, of all, stored."""

    work: float
    buffers: dict[tuple, Rectangle]
    fixed: float
    working_set: float
    stored: int


class Walk:
    """One subgraph at one granularity."""

    def __init__(self, problem, readings, ops, granularity, resident=(), retain=()):
        self.problem = problem
        self.readings = readings
        self.ops = tuple(ops)
        self.granularity = granularity
        self.w, self.h, self.k = granularity
        self.resident = set(resident)
        self.retain = set(retain)
        self.made = {problem.ops[o].output: o for o in ops}
        used = {t for o in ops for t in problem.ops[o].inputs}
        self.inputs = [t for t in used if t not in self.made]
        self.outs = [t for t in self.made if t not in used or self._leaves(t)]
        self.width = max(problem.tensors[t].width for t in self.outs)
        self.height = max(problem.tensors[t].height for t in self.outs)
        self.columns = math.ceil(self.width / self.w)
        self.rows = math.ceil(self.height / self.h)
        self.streams = [o for o in ops if problem.ops[o].is_matmul and self._accumulates(o)]
        self.steps = max(
            (math.ceil(problem.reduction(o) / self.k) for o in self.streams), default=1
        )
        self._check_shape()
        self._stages: dict[tuple[int, int], list[Stage]] = {}
        self.formed = self._ask(0, 0, 0).formed | self._ask(0, 0, self.steps - 1).formed

    def _leaves(self, tensor):
        return self.readings.consumed_outside == "written" and any(
            user not in self.ops for user in self.problem.consumers[tensor]
        )

    def _accumulates(self, op):
        """True if a MatMul makes output tiles, itself or through pointwise operations."""
        tensor = self.problem.ops[op].output
        if tensor in self.outs:
            return True
        return any(
            not self.problem.ops[user].is_matmul and self._accumulates(user)
            for user in self.problem.consumers[tensor]
            if user in self.ops
        )

    def _check_shape(self):
        problem = self.problem
        readings = self.readings
        native = (*problem.native, problem.native[0])
        depths = [problem.reduction(o) for o in self.streams]
        lengths = [self.width, self.height]
        if depths:
            lengths.append(max(depths))
        for size, most, length in zip(self.granularity, native, lengths, strict=False):
            if readings.above_native == "refused" and size > most:
                raise IllegalError("above native")
            if readings.tiling == "divisors" and length % size:
                raise IllegalError("not a divisor")
            if readings.tiling == "powers-of-two" and bin(size).count("1") != 1:
                raise IllegalError("not a power of two")
        matmuls = [problem.reduction(o) for o in self.ops if problem.ops[o].is_matmul]
        if matmuls:
            limit = min(matmuls) if readings.depth_limit == "every-matmul" else max(depths)
            if self.k > limit:
                raise IllegalError("k above K")
        if readings.several_split_k == "forbidden" and len(depths) > 1 and self.k < max(depths):
            raise IllegalError("several split reductions")
        if readings.output_shapes == "same" and len({problem.tensors[t] for t in self.outs}) > 1:
            raise IllegalError("outputs of different shape")

    # -- what a step asks for ------------------------------------------------------------------

    def _range(self, kind, tile, size, step, length):
        if kind == "t":
            return range(min(tile * size, length), min(tile * size + size, length))
        if kind == "s":
            return range(min(step * self.k, length), min(step * self.k + self.k, length))
        return range(length)

    def _rectangle(self, tensor, rk, ck, row, column, step):
        shape = self.problem.tensors[tensor]
        return (
            self._range(rk, row, self.h, step, shape.height),
            self._range(ck, column, self.w, step, shape.width),
        )

    def _ask(self, row, column, step):
        """Everything step `step` of a tile needs."""
        asked = Step()
        last = step == self.steps - 1
        for tensor in self.outs:
            self._final(asked, tensor, row, column, step, last)
        return asked

    def _final(self, asked, tensor, row, column, step, last):
        """An output tile: its MatMuls run in every step, pointwise operations on the last."""
        op = self.problem.ops[self.made[tensor]]
        if op.is_matmul:
            if step * self.k < self.problem.reduction(self.made[tensor]):
                self._make(asked, tensor, "t", "t", True, row, column, step)
            return
        for operand in set(op.inputs):
            if operand in self.made:
                self._final(asked, operand, row, column, step, last)
            elif last:
                self._need(asked, operand, "pointwise", "t", "t", row, column, step)
        if last:
            asked.formed.add(tensor)
            self._charge(asked, tensor, "t", "t", False, row, column, step)

    def _need(self, asked, tensor, role, rk, ck, row, column, step):
        """A slice of an operand: from outside, or made here."""
        if tensor not in self.made:
            asked.slices[tensor, role, rk, ck] = self._rectangle(tensor, rk, ck, row, column, step)
        else:
            self._make(asked, tensor, rk, ck, False, row, column, step)

    def _make(self, asked, tensor, rk, ck, streams, row, column, step):
        if (tensor, rk, ck, streams) in asked.work:
            return
        self._charge(asked, tensor, rk, ck, streams, row, column, step)
        if rk in "tc" and ck in "tc":
            asked.formed.add(tensor)
        op = self.problem.ops[self.made[tensor]]
        if not op.is_matmul:
            for operand in set(op.inputs):
                self._need(asked, operand, "pointwise", rk, ck, row, column, step)
            return
        if not streams and self.readings.inner_matmul == "forbidden":
            raise IllegalError("MatMul feeds a MatMul")
        reduced = "s" if streams else "f"
        left = "f" if self.readings.split_k_lhs == "resident" else reduced
        self._operand(asked, op.inputs[0], 0, rk, left, row, column, step)
        self._operand(asked, op.inputs[1], 1, reduced, ck, row, column, step)

    def _operand(self, asked, tensor, side, rk, ck, row, column, step):
        """The left (0) or right (1) operand of a MatMul."""
        role = ROLES[1 + side]
        fires = tensor in self.made and not self.problem.ops[self.made[tensor]].is_matmul
        if not fires or self.readings.pointwise_into_matmul == "free":
            return self._need(asked, tensor, role, rk, ck, row, column, step)
        kept = (rk, ck)[side]
        size = self.granularity[side]
        shape = self.problem.tensors[tensor]
        if kept not in "tc" or size < (shape.width, shape.height)[side]:
            raise IllegalError("the tile does not cover K")
        rk, ck = (rk, "c") if side == 0 else ("c", ck)
        if self.readings.carried_products == "counted":
            rows, columns = self._rectangle(tensor, rk, ck, row, column, step)
            asked.carried[tensor, rk, ck] = len(rows) * len(columns)
        asked.formed.add(tensor)
        if step == 0:
            self._need(asked, tensor, role, rk, ck, row, column, step)

    def _charge(self, asked, tensor, rk, ck, streams, row, column, step):
        """The time of one execution."""
        problem = self.problem
        readings = self.readings
        index = self.made[tensor]
        op = problem.ops[index]
        rows, columns = self._rectangle(tensor, rk, ck, row, column, step)
        cost = op.cost
        for kind, length, native in (
            (rk, len(rows), problem.native[1]),
            (ck, len(columns), problem.native[0]),
        ):
            if kind in "tc" or readings.inner_matmul == "padded":
                cost *= max(1, math.ceil(length / native))
            else:
                cost *= length / native
        if op.is_matmul:
            depth = problem.reduction(index)
            streamed = min(self.k, depth - step * self.k) if streams else depth
            cost *= streamed / (depth if readings.matmul_cost == "full-k" else problem.native[0])
        asked.work[tensor, rk, ck, streams] = cost

    # -- what a step holds and moves -----------------------------------------------------------

    def _buffers(self, slices):
        """The buffers of the outside slices of a step."""
        buffers: dict[tuple, Rectangle] = {}
        tensors = self.problem.tensors
        for tensor in sorted({s[0] for s in slices}):
            if tensor in self.resident:
                continue
            uses = [(s, r) for s, r in slices.items() if s[0] == tensor and len(r[0]) and len(r[1])]
            whole = len(range(tensors[tensor].height)), len(range(tensors[tensor].width))
            if any((len(r[0]), len(r[1])) == whole for _, r in uses):
                buffers[tensor,] = (range(whole[0]), range(whole[1]))
            elif self.readings.sharing == "once-per-tensor":
                ranked = sorted(
                    uses,
                    key=lambda u: (
                        -len(u[1][0]) * len(u[1][1]),
                        ROLES.index(u[0][1]),
                        _corners(u[1]),
                    ),
                )
                if uses:
                    buffers[tensor, _corners(ranked[0][1])] = ranked[0][1]
            else:
                for (_, role, rk, ck), (rows, columns) in uses:
                    name = (
                        "all" if len(rows) == whole[0] else (rk, rows),
                        "all" if len(columns) == whole[1] else (ck, columns),
                    )
                    buffers[tensor, ROLES.index(role), name] = (rows, columns)
        return buffers

    def stages(self, row, column) -> list[Stage]:
        """The steps of one tile, whatever came before it."""
        if (row, column) in self._stages:
            return self._stages[row, column]
        problem = self.problem
        readings = self.readings
        tiles = {t: _count(self._rectangle(t, "t", "t", row, column, 0)) for t in self.outs}
        stays = {
            t for t in self.resident if readings.unused_residents == "counted" or t in self.inputs
        }
        kept = sum(problem.tensors[t].size for t in stays | self.retain)
        kept += sum(n for t, n in tiles.items() if t not in self.retain and t not in self.resident)
        if self.steps > 1 and len(self.streams) > len(self.outs):
            spare = len(self.streams) - len(self.outs)
            kept += spare * min(self.w, self.width) * min(self.h, self.height)
        found = []
        for step in range(self.steps):
            asked = self._ask(row, column, step)
            buffers = self._buffers(asked.slices)
            fixed = kept
            if step > 0:
                fixed += sum(n for (t, _, _), n in asked.carried.items() if t not in self.retain)
            last = step == self.steps - 1
            stored = sum(n for t, n in tiles.items() if t not in self.retain) if last else 0
            work = math.fsum(asked.work.values())
            found.append(Stage(work, buffers, fixed, fixed + _held(buffers, readings), stored))
        self._stages = (
            {(row, column): found}
            if len(self._stages) > 64
            else {**self._stages, (row, column): found}
        )
        return found

    def takes(self, stage: Stage, before: dict[tuple, Rectangle], recent=None) -> float:
        """Latency of a step after one with the buffers `before`.

        `recent` are the slices still in free memory (`reuse=lru`), least recently used first; it is
        changed in place.
        """
        moved = self._loaded(stage.buffers, before, recent, self.problem.capacity - stage.fixed)
        return max(stage.work, (moved + stage.stored) / self.problem.bandwidth)

    def _loaded(self, buffers, before, recent, room):
        readings = self.readings
        if readings.reuse == "lru":
            return _least_recently_used(buffers, recent, room)
        new = {name: r for name, r in buffers.items() if name not in before}
        total = 0
        for tensor in {name[0] for name in new}:
            mine = [r for name, r in new.items() if name[0] == tensor]
            old = (
                [r for name, r in before.items() if name[0] == tensor]
                if readings.reuse == "union"
                else []
            )
            if readings.sharing == "union":
                total += _covered(mine, old)
            else:
                total += sum(_covered([r], old) for r in mine)
        return total

    def run(self, order: Iterable[int] | None = None) -> tuple[float, float]:
        """(latency, largest working set) of the subgraph."""
        before = {}
        recent = {}
        total = []
        peak = 0.0
        for index in range(self.rows * self.columns) if order is None else order:
            for stage in self.stages(*divmod(index, self.columns)):
                total.append(self.takes(stage, before, recent))
                peak = max(peak, stage.working_set)
                before = stage.buffers
        return math.fsum(total), peak


def _count(rectangle: Rectangle) -> int:
    return len(rectangle[0]) * len(rectangle[1])


def _corners(rectangle: Rectangle) -> tuple[int, ...]:
    return (rectangle[0].start, rectangle[0].stop, rectangle[1].start, rectangle[1].stop)


def _held(buffers: dict[tuple, Rectangle], readings) -> int:
    if readings.sharing != "union":
        return sum(map(_count, buffers.values()))
    return sum(
        _covered([r for name, r in buffers.items() if name[0] == t], [])
        for t in {name[0] for name in buffers}
    )


def _covered(rectangles: list[Rectangle], without: list[Rectangle]) -> int:
    """Elements in any of the rectangles and in none of `without`."""
    if len(rectangles) == 1 and not without:
        return _count(rectangles[0])
    everything = rectangles + without
    rows = sorted({edge for r in everything for edge in (r[0].start, r[0].stop)})
    columns = sorted({edge for r in everything for edge in (r[1].start, r[1].stop)})
    total = 0
    for top, bottom in itertools.pairwise(rows):
        for left, right in itertools.pairwise(columns):
            inside = any(top in r[0] and left in r[1] for r in rectangles)
            if inside and not any(top in r[0] and left in r[1] for r in without):
                total += (bottom - top) * (right - left)
    return total


def _least_recently_used(
    buffers: dict[tuple, Rectangle], recent: dict[tuple, int], room: float
) -> int:
    loaded = 0
    for name, rectangle in sorted(
        buffers.items(), key=lambda b: (b[0][0], _corners(b[1]), b[0][1] if len(b[0]) == 3 else -1)
    ):
        if recent.pop(name, None) is None:
            loaded += _count(rectangle)
        recent[name] = _count(rectangle)
    for name in list(recent):
        if sum(recent.values()) <= room or len(recent) <= len(buffers):
            break
        del recent[name]
    return loaded


# -- whole schedules ---------------------------------------------------------------------------


def latencies(problem, schedule, readings) -> list[float]:
    """The latency of every subgraph; raises `IllegalError` where a rule is broken."""
    slow = {t for t in range(len(problem.tensors)) if problem.producer[t] is None}
    kept: set[int] = set()
    found = []
    for entry in schedule.subgraphs:
        _check_members(problem, entry.ops)
        walk = Walk(problem, readings, entry.ops, entry.granularity, kept, entry.retain)
        if any(t not in slow and t not in kept for t in walk.inputs):
            raise IllegalError("an input is in neither memory")
        _check_retained(walk, entry.retain)
        tiles = walk.rows * walk.columns
        if entry.order is not None and (
            len(entry.order) != tiles or set(entry.order) != set(range(tiles))
        ):
            raise IllegalError("not a permutation")
        latency, peak = walk.run(entry.order)
        if peak > problem.capacity:
            raise IllegalError("out of memory")
        found.append(latency)
        slow |= {t for t in walk.outs if t not in entry.retain}
        kept = set(entry.retain)
    if {o for entry in schedule.subgraphs for o in entry.ops} != set(range(len(problem.ops))):
        raise IllegalError("an operation never runs")
    if any(not problem.consumers[op.output] and op.output not in slow for op in problem.ops):
        raise IllegalError("a graph output is not in slow memory")
    return found


def _check_members(problem, ops) -> None:
    if not ops or len(set(ops)) != len(ops) or max(ops) >= len(problem.ops):
        raise IllegalError("operations")
    links = {
        frozenset((a, b))
        for a in ops
        for b in ops
        if problem.ops[a].output in problem.ops[b].inputs
    }
    for first, second in _ordered(problem, ops):
        if ops.index(first) > ops.index(second):
            raise IllegalError("order of operations")
    parts = [{o} for o in ops]
    for link in links:
        joined = [p for p in parts if p & link]
        parts = [p for p in parts if not p & link] + [set().union(*joined)]
    if len(parts) > 1:
        raise IllegalError("not connected")


def _ordered(problem, ops) -> Iterator[tuple[int, int]]:
    for a in ops:
        for b in ops:
            if problem.ops[a].output in problem.ops[b].inputs:
                yield a, b


def _check_retained(walk, retain) -> None:
    if len(set(retain)) != len(retain):
        raise IllegalError("retained twice")
    for tensor in retain:
        if tensor in walk.made:
            if walk.readings.inner_retention == "refused" and tensor not in walk.formed:
                raise IllegalError("retained but never formed")
        elif walk.readings.retainable != "loaded-too" or tensor not in walk.inputs:
            raise IllegalError("retained but not made here")
