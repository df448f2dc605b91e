"""Tensors of a schedule's programs: drawn, as beats of a source, from the beats of a sink, and
against the reference.
"""

from __future__ import annotations

import numpy as np

from ..machine.trace import SourceBeats
from ..machine.unitgraph import UnitGraph
from ..scheduler.dag import Problem
from ..scheduler.dag.machine import Held, Lowered


def exact(problem: Problem, seed: int) -> list[np.ndarray]:
    """Every tensor in float64, of inputs with a deviation of 1 (right operands: 1 / sqrt(K)),
    rounded to fp32.
    """
    rng = np.random.default_rng(seed)
    rights = {op.inputs[1] for op in problem.ops if op.is_matmul}
    tensors: dict[int, np.ndarray] = {}
    for index, shape in enumerate(problem.tensors):
        if problem.producer[index] is None:
            scale = shape.height**-0.5 if index in rights else 1.0
            tensors[index] = (
                (rng.standard_normal((shape.height, shape.width)) * scale)
                .astype(np.float32)
                .astype(np.float64)
            )
    for op in problem.topological:
        given = [tensors[t] for t in problem.ops[op].inputs]
        if problem.ops[op].is_matmul:
            made = given[0] @ given[1]
        elif len(given) == 1:
            made = given[0] / (1 + np.exp(-given[0]))
        else:
            made = np.sum(given, axis=0)
        tensors[problem.ops[op].output] = made
    return [tensors[t] for t in range(len(problem.tensors))]


def _logical(values: np.ndarray, held: Held) -> list[tuple[np.ndarray, int]]:
    """The elements of a `Source`: (tile, stop)."""
    (rows, cols), inner = held.tile, held.steps or 1
    last = len(held.places) - 1
    out = []
    for i, (r, c) in enumerate(held.places):
        stop = (
            (2 if held.steps else 1)
            if i == last
            else 1
            if held.steps and (i + 1) % inner == 0
            else 0
        )
        out.append((values[r : r + rows, c : c + cols], stop))
    return out


def _nested(values: np.ndarray, held: Held) -> list:
    """The elements of a `Source` as nested lists."""
    tiles = [tile for tile, _ in _logical(values, held)]
    return [
        [tiles[i : i + held.steps] for i in range(0, len(tiles), held.steps)]
        if held.steps
        else tiles
    ]


def beats(values: np.ndarray, held: Held, t: int) -> SourceBeats:
    """The physical beats of a retained tensor that comes from outside."""
    tile = held.tile
    tiles = _logical(values, held)
    bands = -(-tile[0] // t)
    across = -(-tile[1] // t)
    count_bits = t.bit_length()
    words = np.zeros((len(tiles) * bands * across + 1, t * t + 1), np.uint32)
    stops = np.zeros(len(words), np.uint8)
    at = 0
    for values, stop in tiles:
        padded = np.zeros((bands * t, across * t), np.float32)
        padded[: values.shape[0], : values.shape[1]] = values
        for b in range(bands):
            for a in range(across):
                words[at, :-1] = (
                    padded[b * t : b * t + t, a * t : a * t + t].ravel().view(np.uint32)
                )
                rows, cols = (
                    min(max(n - i * t, 0), t) for n, i in zip(values.shape, (b, a), strict=True)
                )
                words[at, -1] = rows | cols << count_bits
                stops[at] = 0 if a < across - 1 else 1 if b < bands - 1 else 2 + stop
                at += 1
    stops[at] = 15
    data = np.ones(len(words), np.uint8)
    data[at] = 0
    return SourceBeats(np.zeros(len(words), np.int64), stops, data, words)


def gather(elements: np.ndarray, held: Held, shape: tuple[int, int], t: int) -> np.ndarray:
    """A retained tensor from the elements [beats, t * t] that its sink took."""
    (rows, cols), (bands, across) = held.tile, (-(-held.tile[0] // t), -(-held.tile[1] // t))
    whole = (
        elements.reshape(len(held.places), bands, across, t, t)
        .transpose(0, 1, 3, 2, 4)
        .reshape(-1, bands * t, across * t)
    )
    out = np.zeros(shape, np.float32)
    for tile, (r, c) in zip(whole, held.places, strict=True):
        place = out[r : r + rows, c : c + cols]
        place[:] = tile[: place.shape[0], : place.shape[1]]
    return out


def check(
    program: Lowered,
    graph: UnitGraph,
    held: dict[int, np.ndarray],
    got: dict[int, np.ndarray],
    true: list[np.ndarray],
    t: int,
) -> tuple[bool, float]:
    """Bit-equality of tensors with those of the reference, and the largest error against float64,
    of the largest value.
    """
    from .expected import evaluator

    sources = {name: _nested(held[h.tensor], h) for name, h in program.sources.items()}
    ev = evaluator(
        {x.name: held[int(x.name[1:])] for x in graph.tensors if x.role == "input"}, t, sources
    )
    want = {int(name[1:]): a for name, a in ev.run(program.graph).items()}
    for name, h in program.sinks.items():
        out = np.zeros_like(got[h.tensor])
        for (tile, _), (r, c) in zip(ev.sinks[name], h.places, strict=True):
            out[r : r + tile.shape[0], c : c + tile.shape[1]] = tile
        want[h.tensor] = out
    ok = True
    worst = 0.0
    for tensor, a in got.items():
        ok &= a.astype(np.float32).tobytes() == want[tensor].astype(np.float32).tobytes()
        worst = max(
            worst, float(np.max(np.abs(a - true[tensor])) / (np.max(np.abs(true[tensor])) or 1.0))
        )
    return bool(ok), worst
