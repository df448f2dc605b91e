"""An independent evaluator for small problems: every step lists the very elements it touches.

Written from the rules alone; shares nothing with the package but the problem's data.
"""

from __future__ import annotations

import itertools
from math import ceil

FAR = float("inf")


def subgraph(problem, ops, granularity, order=None, resident=(), retain=()):
    """(latency, working set) of one subgraph, element by element; None if a rule forbids it."""
    w, h, k = granularity
    made = {problem.ops[o].output: o for o in ops}
    used = {t for o in ops for t in problem.ops[o].inputs}
    outs = [t for t in made if t not in used]
    width = max(problem.tensors[t].width for t in outs)
    height = max(problem.tensors[t].height for t in outs)
    columns, rows = ceil(width / w), ceil(height / h)
    if any(k > problem.reduction(o) for o in ops if problem.ops[o].is_matmul):
        return None
    streaming = [o for o in ops if problem.ops[o].is_matmul and _makes_tiles(problem, made, outs, o)]
    steps = max([ceil(problem.reduction(o) / k) for o in streaming], default=1)
    total, peak, before = 0.0, 0.0, set()
    for index in order if order is not None else range(rows * columns):
        y, x = divmod(index, columns)
        for s in range(steps):
            try:
                held, work, carried = _demand(problem, made, outs, granularity, y, x, s, steps)
            except _Illegal:
                return None
            held = {b: e for b, e in held.items() if b[0] not in resident}
            whole = {b[0] for b, e in held.items() if len(e) == problem.tensors[b[0]].size}
            buffers = {((b[0], "all") if b[0] in whole else (*b[:2], *_sides(problem, b, e), e)): len(e) if b[0] not in whole
                       else problem.tensors[b[0]].size for b, e in held.items() if e}
            tiles = {t: len(_cells(problem, t, range(y * h, y * h + h), range(x * w, x * w + w))) for t in outs}
            size = sum(buffers.values()) + sum(problem.tensors[t].size for t in {*resident, *retain})
            size += sum(n for t, n in tiles.items() if t not in retain)
            size += sum(n for t, n in carried.items() if s > 0 and t[0] not in retain)
            if steps > 1:
                size += max(0, len(streaming) - len(outs)) * min(w, width) * min(h, height)
            peak = max(peak, size)
            moved = sum(n for b, n in buffers.items() if b not in before)
            if s == steps - 1:
                moved += sum(n for t, n in tiles.items() if t not in retain)
            total += max(work, moved / problem.bandwidth)
            before = set(buffers)
    return total, peak


def _sides(problem, use, cells):
    """A tile and a step that coincide by chance are not the same slice, unless they span the tensor."""
    shape = problem.tensors[use[0]]
    return ("all" if len({r for r, _ in cells}) == shape.height else use[2], "all" if len({c for _, c in cells}) == shape.width else use[3])


class _Illegal(Exception):
    pass


def _makes_tiles(problem, made, outs, op):
    """Whether the MatMul's product is asked for in output tiles: it is an output, or reaches one through pointwise operations."""
    out = problem.ops[op].output
    if out in outs:
        return True
    return any(not problem.ops[c].is_matmul and _makes_tiles(problem, made, outs, c)
               for c in problem.consumers[out] if c in made.values())


def _cells(problem, tensor, rows, cols):
    shape = problem.tensors[tensor]
    return frozenset(itertools.product((r for r in rows if r < shape.height), (c for c in cols if c < shape.width)))


def _demand(problem, made, outs, granularity, y, x, s, steps):
    """Elements needed from outside, and the compute time, of step s of tile (y, x)."""
    w, h, k = granularity
    held: dict = {}
    done: dict = {}
    carried: dict = {}
    tile_rows, tile_cols = range(y * h, y * h + h), range(x * w, x * w + w)

    def native(kind, count, size):
        return max(1, ceil(count / size)) if kind in "tc" else count / size

    def extent(kind, tile, length):
        return {"t": tile, "s": range(s * k, s * k + k), "f": range(length), "c": range(length)}[kind]

    def count(kind, tile, length):
        return len([i for i in extent(kind, tile, length) if i < length])

    def ask(tensor, role, rk, ck, outer):
        shape = problem.tensors[tensor]
        if tensor not in made:
            cells = _cells(problem, tensor, extent(rk, tile_rows, shape.height), extent(ck, tile_cols, shape.width))
            held[tensor, role, rk, ck] = cells
            return
        op = problem.ops[made[tensor]]
        if (tensor, rk, ck, outer) in done:
            return
        cost = op.cost * native(rk, count(rk, tile_rows, shape.height), problem.native[1])
        cost *= native(ck, count(ck, tile_cols, shape.width), problem.native[0])
        if op.is_matmul:
            depth = problem.reduction(made[tensor])
            if outer:
                if s * k >= depth:
                    return
                cost *= min(k, depth - s * k) / depth
            red = "s" if outer else "f"
            for side, operand in enumerate(op.inputs):
                kinds = [rk, red] if side == 0 else [red, ck]
                free = kinds[side]
                if operand in made and not problem.ops[made[operand]].is_matmul:
                    if free not in "tc" or (w, h)[side] < depth:
                        raise _Illegal
                    kinds[1 - side] = "c"
                    carried[operand, *kinds] = (count(kinds[0], tile_rows, problem.tensors[operand].height)
                                                * count(kinds[1], tile_cols, problem.tensors[operand].width))
                    if s > 0:
                        continue
                ask(operand, ("left", "right")[side], *kinds, False)
        else:
            for operand in set(op.inputs):
                below = operand in made and problem.ops[made[operand]].is_matmul and rk == ck == "t"
                ask(operand, "pointwise", rk, ck, below)
        done[tensor, rk, ck, outer] = cost

    def final(tensor):
        """Pointwise operations on tiles fire on the last step; the MatMuls above them in every step."""
        if problem.ops[made[tensor]].is_matmul:
            ask(tensor, "pointwise", "t", "t", True)
        elif s == steps - 1:
            ask(tensor, "pointwise", "t", "t", False)
        else:
            for operand in problem.ops[made[tensor]].inputs:
                if operand in made:
                    final(operand)

    for tensor in outs:
        final(tensor)
    return held, sum(done.values()), carried
