"""The sizes of a run without its values: an evaluator whose tiles have a shape and nothing in them.

Sizes follow from selectors, numbers and the sizes of sources, never from what tiles hold, so a
layer at full model size is measured in a second.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

import numpy as np

from ...machine.errors import RunError
from ..graph import Graph, TensorRef
from .evaluator import Evaluator


@lru_cache(maxsize=1 << 12)
def _tile(rows: int, cols: int) -> np.ndarray:
    """A tile without memory behind it; one for all of its size."""
    return np.broadcast_to(np.False_, (rows, cols))


def _no_value(*_: object) -> NoReturn:
    """The arithmetic of an evaluator that has only sizes."""
    raise RunError("a value is computed where only sizes are", "evaluation")


class _Sizes(Evaluator):
    def __init__(self, t: int, sources: dict):
        super().__init__({}, t, _no_value, _no_value, np.bool_, sources)
        self.found: dict[tuple, object] = {}

    def tensor(self, ref: TensorRef) -> np.ndarray:
        return _tile(ref.rows, ref.cols)

    def stored(self, ref: TensorRef) -> np.ndarray:
        return self.tensor(ref)

    def cut(self, a: np.ndarray, row: int, col: int, rows: int, cols: int) -> np.ndarray:
        height, width = a.shape
        return _tile(max(0, min(rows, height - row)), max(0, min(cols, width - col)))

    def latest(self, ref: TensorRef, row: int, col: int, rows: int, cols: int) -> np.ndarray:
        return self.cut(self.tensor(ref), row, col, rows, cols)

    def put(self, out: np.ndarray, row: int, col: int, tile: np.ndarray) -> None:
        pass

    def value(self, node, operands: tuple, values: tuple):
        """Extents of tiles alone: found once for those of equal sizes."""
        if not all(isinstance(v, np.ndarray) for v in values):
            return super().value(node, operands, values)
        at = node.name, *(v.shape for v in values)
        if at not in self.found:
            self.found[at] = super().value(node, operands, values)
        return self.found[at]

    def elementwise(self, name: str, *operands: np.ndarray) -> np.ndarray:
        return operands[0]

    def reduce(self, name: str, acc: np.ndarray, x: np.ndarray) -> np.ndarray:
        return acc if acc.shape == x.shape else _tile(*np.maximum(acc.shape, x.shape))

    def row_reduce(self, name: str, x: np.ndarray) -> np.ndarray:
        return _tile(x.shape[0], int(x.size > 0))

    def matmul(
        self, acc: np.ndarray | None, a: np.ndarray, b: np.ndarray, k: int, transposed: bool
    ) -> np.ndarray:
        product = _tile(a.shape[0], b.shape[0 if transposed else 1])
        return product if acc is None else self.reduce("add", acc, product)


def sizes(graph: Graph, t: int, sources: dict) -> Evaluator:
    """An evaluator that has run ``graph`` on elements of its sources (nested lists), without
    values: ``sizes`` and ``active`` are those of a run with them.

    Inputs that are merged take turns. Raises PenstockError where sizes disagree.
    """
    ev = _Sizes(t, sources)
    ev.run(graph)
    return ev
