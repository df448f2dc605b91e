"""The expected outputs of a program, bit for bit: its NumPy meaning in the machine's arithmetic and
order of accumulation.
"""

from __future__ import annotations

import numpy as np

from ..frontend.graph import Graph
from ..frontend.meaning.evaluator import Evaluator
from ..frontend.meaning.races import contested
from ..machine import arith
from ..machine.image import DTYPES
from ..model.functions import lookup


def evaluator(
    tensors: dict[str, np.ndarray], t: int, sources: dict | None = None, order: dict | None = None
) -> Evaluator:
    """An evaluator in the stated arithmetic (docs/arithmetic.md) for tiles of t x t; ``order``:
    arrivals that a run recorded.
    """
    return Evaluator(
        tensors, t, arith.matmul, lambda name: lookup(name).reference, np.float32, sources, order
    )


def expected(
    graph: Graph,
    tensors: dict[str, np.ndarray],
    t: int,
    sources: dict | None = None,
    order: dict | None = None,
) -> tuple[dict[str, np.ndarray], Evaluator]:
    """Expected output tensors by name, each in its own dtype, and the evaluator: it has the sizes
    of symbols and the elements of sinks.
    """
    ev = evaluator(tensors, t, sources, order)
    ev.keeps_history = bool(contested(graph))
    outputs = ev.run(graph)
    return {name: a.astype(DTYPES[graph.tensors[name].dtype]) for name, a in outputs.items()}, ev


def evaluate(
    graph: Graph,
    tensors: dict[str, np.ndarray],
    t: int,
    sources: dict | None = None,
    order: dict | None = None,
) -> dict[str, np.ndarray]:
    """:func:`expected` without the evaluator."""
    return expected(graph, tensors, t, sources, order)[0]
