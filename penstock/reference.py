"""The expected outputs of a program, bit for bit: its NumPy meaning in the machine's arithmetic and order of accumulation."""

from __future__ import annotations

import numpy as np

from penstock.frontend.graph import Graph
from penstock.frontend.reference import Evaluator
from penstock.machine.image import DTYPES
from penstock.machine import arith
from penstock.model.functions import lookup

__all__ = ["evaluate", "evaluator", "expected"]


def evaluator(tensors: dict[str, np.ndarray], t: int, sources: dict | None = None) -> Evaluator:
    """An evaluator in the stated arithmetic (docs/arithmetic.md) for tiles of t x t."""
    return Evaluator(tensors, t, arith.matmul, lambda name: lookup(name).reference, np.float32, sources)


def expected(graph: Graph, tensors: dict[str, np.ndarray], t: int) -> tuple[dict[str, np.ndarray], dict]:
    """What the machine stores (output tensors by name, each in its own dtype), and the sizes that the graph's symbols took."""
    ev = evaluator(tensors, t)
    outputs = ev.run(graph)
    return {name: a.astype(DTYPES[graph.tensors[name].dtype]) for name, a in outputs.items()}, ev.symbols


def evaluate(graph: Graph, tensors: dict[str, np.ndarray], t: int) -> dict[str, np.ndarray]:
    """:func:`expected` without the symbols."""
    return expected(graph, tensors, t)[0]
