"""Arithmetic of one tile as the judge does it: arrays of the valid elements."""

from __future__ import annotations

import numpy as np

from ..frontend.types import TileType
from ..machine import arith
from ..machine.errors import RunError
from ..machine.functions import lookup


class UnjudgedError(RunError):
    """A program that the judge has no rule for: an operator or a function from outside the tree, or
    a load of which the order of several stores decides.
    """


def fit(a: np.ndarray, shape: tuple[int, int], fill: float = 0.0) -> np.ndarray:
    """An array cut or filled up to a shape."""
    out = np.full(shape, fill, np.float32)
    rows, cols = map(min, a.shape, shape)
    out[:rows, :cols] = a[:rows, :cols]
    return out


def apply(name: str, *operands: np.ndarray) -> np.ndarray:
    """An element-wise function in the machine's arithmetic."""
    reference = lookup(name).reference
    if reference is None:
        raise UnjudgedError(f"function {name} has no definition in NumPy", "judge")
    return reference(*operands).astype(np.float32)


def fold(name: str, acc: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One step of a reduction; invalid elements count as the identity."""
    rows, cols = map(max, acc.shape, x.shape)
    return apply(name, *(fit(v, (rows, cols), identity_of(name)) for v in (acc, x)))


def identity_of(name: str) -> float:
    identity = lookup(name).identity
    if identity is None:
        raise UnjudgedError(f"function {name} has no identity", "judge")
    return identity


def initial(name: str, t: TileType) -> np.ndarray:
    """The result of a reduction of nothing."""
    if t.static:
        return np.full(t.static_shape, identity_of(name), np.float32)
    return np.zeros((t.rows.value or 0, t.cols.value or 0), np.float32)


def by_rows(name: str, x: np.ndarray, t: int) -> np.ndarray:
    """Each row reduced: t columns at a time, as a balanced tree."""
    acc = None
    for c in range(0, x.shape[1], t):
        part = fit(x[:, c : c + t], (x.shape[0], t), identity_of(name))
        while part.shape[1] > 1:
            part = apply(name, part[:, 0::2], part[:, 1::2])
        acc = part if acc is None else apply(name, acc, part)
    return np.zeros((x.shape[0], 0), np.float32) if acc is None else acc


class Products:
    """A matrix product, t columns of A at a time."""

    def __init__(self, node, t: int):
        self.a, self.b = node.operands()
        self.transposed = node.args.fn.transposed
        self.t = t

    def add(self, acc, a: np.ndarray, b: np.ndarray):
        inner = self.b.cols if self.transposed else self.b.rows
        b = b.T if self.transposed else b
        k = next((d.value for d in (self.a.cols, inner) if d.value is not None), a.shape[1])
        k = -(-k // self.t) * self.t
        a = fit(a, (a.shape[0], k))
        b = fit(b, (k, b.shape[1]))
        for i in range(0, k, self.t):
            product = arith.matmul(a[:, i : i + self.t], b[i : i + self.t])
            acc = product if acc is None else fold("add", acc, product)
        return acc


def spread(a: np.ndarray, b: np.ndarray, types: tuple[TileType, TileType]) -> list[np.ndarray]:
    """Two operands, of which one row or one column stands for all of the other's."""
    sizes = [
        ((x.rows.value, y.rows.value), (x.cols.value, y.cols.value))
        for x, y in (types, types[::-1])
    ]
    one = [[mine == 1 != other for mine, other in axes] for axes in sizes]
    shape = tuple((b if one[0][k] else a).shape[k] for k in range(2))
    for axis in range(2):
        if a.size and one[0][axis]:
            a = np.repeat(np.take(a, [0], axis), shape[axis], axis)
        if b.size and one[1][axis]:
            b = np.repeat(np.take(b, [0], axis), shape[axis], axis)
    return [fit(a, shape), fit(b, shape)]
